# The router's unit test and its bench; neither needs PostgreSQL.
#
#	make -f test/route.mk unit-route		the table test
#	make -f test/route.mk bench-route		choice against measurement: see
#											bench/route_grid.c; ROUTE_GRID=options

include src/kernel/kernel.mk

ROUTE_SRCS = src/route/router.c src/route/model.c src/route/model_builtin.c \
	src/route/gpu_model.c src/route/gpu_learn.c src/route/gpu_parts.c \
	src/route/distinct.c src/route/scattered.c src/route/machine.c src/route/sample.c src/route/calibrate.c
ROUTE_HDRS = $(wildcard src/route/*.h)
ROUTE_GRID ?= --calibrate --format worst

.PHONY: unit-route bench-route

unit: unit-route

unit-route: test/bin/route_test test/bin/route_test_asan
	@for t in route_test route_test_asan; do \
		if test/bin/$$t; then echo "ok $$t"; else echo "not ok $$t"; exit 1; fi; \
	done

bench-route: bench/route_grid
	bench/route_grid $(ROUTE_GRID)

ROUTE_TEST_SRCS = test/route_test.c test/route_gpu_test.c test/route_model_test.c \
	test/route_learn_test.c
ROUTE_DEPS = $(ROUTE_SRCS) $(KERNEL_SRCS) $(ROUTE_HDRS) $(KERNEL_HDRS)

test/bin/route_test: $(ROUTE_TEST_SRCS) test/route_test.h $(ROUTE_DEPS)
	@mkdir -p test/bin
	$(CC) $(KERNEL_CFLAGS) -Itest -o $@ $(filter %.c,$^) $(KERNEL_LIBS)

test/bin/route_test_asan: $(ROUTE_TEST_SRCS) test/route_test.h $(ROUTE_DEPS)
	@mkdir -p test/bin
	$(CC) $(KERNEL_CFLAGS) -g -fsanitize=address,undefined -fno-sanitize-recover=all \
		-Itest -o $@ $(filter %.c,$^) $(KERNEL_LIBS)

bench/route_grid: bench/route_grid.c $(ROUTE_DEPS)
	$(CC) $(KERNEL_CFLAGS) -o $@ $(filter %.c,$^) $(KERNEL_LIBS)
