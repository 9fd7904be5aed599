# The router's unit test and its bench; neither needs PostgreSQL.
#
#	make -f test/route.mk unit-route		the table test
#	make -f test/route.mk bench-route		choice against measurement: see
#											bench/route_grid.c; ROUTE_GRID=options

include src/kernel/kernel.mk

ROUTE_SRCS = src/route/router.c src/route/model.c src/route/model_builtin.c \
	src/route/machine.c src/route/sample.c src/route/calibrate.c
ROUTE_HDRS = $(wildcard src/route/*.h)
ROUTE_GRID ?= --calibrate --format worst

.PHONY: unit-route bench-route

unit: unit-route

unit-route: test/bin/route_test
	@if test/bin/route_test; then echo "ok route_test"; \
		else echo "not ok route_test"; exit 1; fi

bench-route: bench/route_grid
	bench/route_grid $(ROUTE_GRID)

test/bin/route_test: test/route_test.c $(ROUTE_SRCS) $(KERNEL_SRCS) $(ROUTE_HDRS) $(KERNEL_HDRS)
	@mkdir -p test/bin
	$(CC) $(KERNEL_CFLAGS) $(UNIT_CFLAGS) -Isrc -o $@ $(filter %.c,$^) $(KERNEL_LIBS)

bench/route_grid: bench/route_grid.c $(ROUTE_SRCS) $(KERNEL_SRCS) $(ROUTE_HDRS) $(KERNEL_HDRS)
	$(CC) $(KERNEL_CFLAGS) -Isrc -o $@ $(filter %.c,$^) $(KERNEL_LIBS)
