# Builds the benchmarks that need no server: make -f bench/bench.mk TARGET
#
# bench-kernels			CPU kernels and other sort implementations
# bench-kernels-draw	runs them and draws the figures
# bench-devices			one GPU against several
# bench/duckdb_times	runs statements in DuckDB, for bench/duckdb
#
# bench/kernels prints which peers are not installed.  It has GPU algorithms if
# BENCH_GPU_OBJS names their objects and BENCH_GPU_LIBS the libraries that these
# need; otherwise it is linked with gpu_absent.c, whose list is empty.

include $(dir $(lastword $(MAKEFILE_LIST)))../src/kernel/kernel.mk

BENCH_CXX ?= c++
BENCH_VQSORT := $(shell echo '\#include <hwy/contrib/sort/vqsort.h>' | \
	$(BENCH_CXX) -std=c++17 -E -x c++ - >/dev/null 2>&1 && echo yes)
ifeq ($(BENCH_VQSORT),yes)
BENCH_PEER_FLAGS = -DGPUSORT_HAVE_VQSORT
BENCH_PEER_LIBS = -lhwy_contrib -lhwy
endif
BENCH_GPU_OBJS ?= bench/gpu_absent.o

BENCH_SRCS = bench/cpu/kernels.c bench/cpu/cases.c bench/cpu/distributions.c
BENCH_HDRS = bench/cpu/bench_algorithm.h bench/cpu/cases.h bench/cpu/distributions.h

.PHONY: bench-kernels bench-kernels-draw
bench-kernels: bench/kernels

# Takes some minutes; writes figures and pictures to build/bench.
BENCH_DRAWN = cpu_radix,cpu_merge,vqsort,std_sort
BENCH_DRAWN_N = 1024,4096,16384,65536,262144,1048576,4194304
bench-kernels-draw: bench/kernels
	@mkdir -p build/bench
	bench/kernels --least --cpu-time --algorithms $(BENCH_DRAWN) --key-bits 32,64,128 --distributions uniform \
		--n $(BENCH_DRAWN_N) --format csv >build/bench/kernels.csv
	@for bits in 32 64 128; do \
		bench/draw kernels build/bench/kernels.csv $$bits >build/bench/kernels-$$bits.svg || exit 1; done
	@echo 'figures and pictures: build/bench/kernels.csv, build/bench/kernels-*.svg'

bench/gpu_absent.o: bench/cpu/gpu_absent.c $(BENCH_HDRS) $(KERNEL_HDRS)
	$(CC) $(KERNEL_CFLAGS) -c -o $@ $<

bench/peers.o: bench/cpu/peers.cc $(BENCH_HDRS) $(KERNEL_HDRS)
	$(BENCH_CXX) -std=c++17 -O3 -Wall -Wextra -Werror $(BENCH_PEER_FLAGS) -c -o $@ $<

.PHONY: bench-devices
bench-devices: bench/gpu_devices

bench/gpu_devices: bench/gpu/gpu_devices.c cuda/gpusort_abi.h
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -pthread -Icuda -o $@ $< -ldl

bench/duckdb_times: bench/cpu/duckdb_times.c
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -o $@ $< -ldl

bench/kernels: $(BENCH_SRCS) $(BENCH_HDRS) $(KERNEL_SRCS) $(KERNEL_HDRS) bench/peers.o $(BENCH_GPU_OBJS)
	$(CC) $(KERNEL_CFLAGS) -o $@ $(BENCH_SRCS) $(KERNEL_SRCS) bench/peers.o $(BENCH_GPU_OBJS) \
		$(BENCH_GPU_LIBS) $(BENCH_PEER_LIBS) -lstdc++ $(KERNEL_LIBS)
