# The router's unit test and its bench; neither needs PostgreSQL.
#
#	make -f test/route.mk unit-route		the table test
#	make -f test/route.mk bench-route		choice against measurement: see
#											bench/route_grid.c; ROUTE_GRID=options
#	make -f test/route.mk bench-gpu-choices	its choice among a GPU's algorithms against
#											what they took: bench/gpu_choices.c

ifndef SANITIZED
include test/kernel.mk
endif

ROUTE_SRCS = src/route/router.c src/route/model.c src/route/model_builtin.c \
	src/route/gpu_model.c src/route/gpu_sample.c src/route/factor.c src/route/gpu_learn.c src/route/gpu_parts.c \
	src/route/cpu_learn.c \
	src/route/distinct.c src/route/scattered.c src/route/machine.c src/route/sample.c src/route/calibrate.c
ROUTE_HDRS = $(wildcard src/route/*.h)
ROUTE_GRID ?= --calibrate --format worst

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

ROUTE_TEST_SRCS = test/route_test.c test/route_gpu_test.c test/route_spread_test.c test/route_model_test.c \
	test/route_learn_test.c test/route_learn_of_test.c test/route_learn_cpu_test.c
ROUTE_DEPS = $(ROUTE_SRCS) $(KERNEL_SRCS) $(ROUTE_HDRS) $(KERNEL_HDRS)

route_test_objects = $(patsubst %.c,test/bin/$(1)/%.o,$(ROUTE_TEST_SRCS) $(ROUTE_SRCS) $(KERNEL_SRCS))

# what takes longer to compile than to run
test/bin/asan/src/route/%.o test/bin/asan/test/route_%.o: SANITIZED_OPT = -O1

test/bin/route_test: $(call route_test_objects,plain)
	$(CC) $(KERNEL_CFLAGS) -o $@ $^ $(KERNEL_LIBS)

test/bin/route_test_asan: $(call route_test_objects,asan)
	$(CC) $(KERNEL_CFLAGS) $(SANITIZED) -o $@ $^ $(KERNEL_LIBS)

bench/route_grid: bench/route_grid.c $(ROUTE_DEPS)
	$(CC) $(KERNEL_CFLAGS) -o $@ $(filter %.c,$^) $(KERNEL_LIBS)

bench/gpu_choices: bench/gpu_choices.c bench/distributions.c bench/gpu_keys.h bench/distributions.h $(ROUTE_DEPS)
	$(CC) $(KERNEL_CFLAGS) -o $@ $(filter %.c,$^) $(KERNEL_LIBS)
