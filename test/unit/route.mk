# route.mk: unit test and benchmarks of the router and its cost models.
#
#	unit-route			the unit test (test/unit/route*_test.c), also under the address and undefined
#						behaviour sanitizers
#	bench-route			the CPU algorithm that the router chooses, against measured times
#						(bench/cpu/route_grid.c); ROUTE_GRID has its options
#	bench-gpu-choices	the GPU algorithm that the model chooses, against recorded times
#						(bench/gpu/gpu_choices.c)
#
# Needs a C compiler only.  Used alone: make -f test/unit/route.mk unit-route

ifndef SANITIZED
include test/unit/kernel.mk
endif

ROUTE_SRCS = src/cost/router.c src/cost/cpu_model.c src/cost/gpu_model.c src/cost/key_sample.c \
	src/cost/factor.c bench/cpu/route_inputs.c
ROUTE_HDRS = $(wildcard src/cost/*.h src/service/*.h) bench/cpu/route_inputs.h
ROUTE_GRID ?= --format worst

.PHONY: unit-route bench-route bench-gpu-choices

unit: unit-route

unit-route: test/bin/route_test test/bin/route_test_asan
	@for t in route_test route_test_asan; do \
		if test/bin/$$t; then echo "ok $$t"; else echo "not ok $$t"; exit 1; fi; \
	done

bench-route: bench/route_grid
	bench/route_grid $(ROUTE_GRID)

bench-gpu-choices: bench/gpu_choices
	bench/gpu_choices

ROUTE_TEST_SRCS = $(wildcard test/unit/route_*test.c)
ROUTE_DEPS = $(ROUTE_SRCS) $(KERNEL_SRCS) $(ROUTE_HDRS) $(KERNEL_HDRS)

route_test_objects = $(patsubst %.c,test/bin/$(1)/%.o,$(ROUTE_TEST_SRCS) $(ROUTE_SRCS) $(KERNEL_SRCS))

# compiling these with -O3 takes longer than running them
test/bin/asan/src/cost/%.o test/bin/asan/test/unit/route_%.o: SANITIZED_OPT = -O1

test/bin/route_test: $(call route_test_objects,plain)
	$(CC) $(KERNEL_CFLAGS) -o $@ $^ $(KERNEL_LIBS)

test/bin/route_test_asan: $(call route_test_objects,asan)
	$(CC) $(KERNEL_CFLAGS) $(SANITIZED) -o $@ $^ $(KERNEL_LIBS)

bench/route_grid: bench/cpu/route_grid.c $(ROUTE_DEPS)
	$(CC) $(KERNEL_CFLAGS) -o $@ $(filter %.c,$^) $(KERNEL_LIBS)

bench/gpu_choices: bench/gpu/gpu_choices.c bench/cpu/distributions.c bench/gpu/gpu_keys.h bench/cpu/distributions.h \
		$(ROUTE_DEPS)
	$(CC) $(KERNEL_CFLAGS) -o $@ $(filter %.c,$^) $(KERNEL_LIBS)
