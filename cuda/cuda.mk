# cuda.mk: the GPU library, its tests and its bench.
#
# Included by the top Makefile, or used alone: make -f cuda/cuda.mk gpu-check
#
#	gpu			build/cuda/libgpusort_cuda.so; without nvcc prints that it is left out
#	gpu-check	runs the kernel tests on the device, or prints that there is none
#	gpu-bench	build/cuda/kernels: bench/kernels with the GPU algorithms; and
#				build/cuda/gpu_ranges and gpu_sweep, which make their inputs on the device
#
# Build time grows with each architecture; GPU_ARCHS=90 builds one.

NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
# The architectures from Turing to Blackwell that this nvcc supports
GPU_ARCHS ?= $(filter $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch)),75 80 86 89 90 100 120)
GPU_BUILD = build/cuda

# Machine code for each architecture, and PTX, from which the driver compiles code for later
# devices (src/service/process.c).  The PTX is that of 9.0: PTX of 12.0 does not run on 11.0.
gpu_ptx = $(or $(filter 90,$(GPU_ARCHS)),$(lastword $(GPU_ARCHS)))
gpu_gencode = $(foreach a,$(GPU_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(gpu_ptx),code=compute_$(gpu_ptx)

GPU_NVCCFLAGS = -O3 -std=c++17 $(gpu_gencode) -cudart static -Werror all-warnings \
	-Xcompiler -Wall,-Wextra,-Werror,-fPIC,-fvisibility=hidden \
	-Icuda -Isrc -I.

gpu_headers = $(wildcard cuda/*.h cuda/*.cuh cuda/*/*.h cuda/*/*.cuh)
gpu_objects = $(patsubst cuda/%.cu,$(GPU_BUILD)/%.o,$(wildcard cuda/*.cu cuda/*/*.cu))
gpu_tests = $(patsubst test/gpu/%.cu,$(GPU_BUILD)/%,$(wildcard test/gpu/gpu_*_test.cu))

.PHONY: gpu gpu-tests gpu-check gpu-bench gpu-clean

ifeq ($(NVCC),)

gpu gpu-tests gpu-check gpu-bench:
	@echo "gpu: left out, nvcc not found"

else

gpu: $(GPU_BUILD)/libgpusort_cuda.so

$(GPU_BUILD)/%.o: cuda/%.cu $(gpu_headers)
	@mkdir -p $(@D)
	$(NVCC) $(GPU_NVCCFLAGS) -Xcompiler -fno-exceptions -c $< -o $@

$(GPU_BUILD)/libgpusort_cuda.so: $(gpu_objects)
	$(NVCC) -shared -cudart static -Xlinker --exclude-libs,ALL $^ -o $@

$(GPU_BUILD)/gpu_%.o: test/gpu/gpu_%.cu $(gpu_headers) $(wildcard test/gpu/gpu_*.cuh)
	@mkdir -p $(GPU_BUILD)
	$(NVCC) $(GPU_NVCCFLAGS) -Itest/gpu -c $< -o $@

$(GPU_BUILD)/distributions.o: bench/cpu/distributions.c bench/cpu/distributions.h
	@mkdir -p $(GPU_BUILD)
	$(CC) -std=gnu99 -O2 -Wall -Wextra -Werror -Ibench/cpu -c $< -o $@

$(GPU_BUILD)/gpu_%_test: $(GPU_BUILD)/gpu_%_test.o $(GPU_BUILD)/distributions.o $(gpu_objects)
	$(NVCC) -cudart static $^ -o $@ -lm

$(GPU_BUILD)/bench_gpu_algorithms.o: bench/gpu/gpu_algorithms.cu bench/cpu/bench_algorithm.h bench/gpu/gpu_bench.cuh \
		cuda/gpusort_abi.h
	@mkdir -p $(GPU_BUILD)
	$(NVCC) $(GPU_NVCCFLAGS) --default-stream per-thread -c $< -o $@

# bench/bench.mk builds the same program without a GPU
gpu-bench: $(GPU_BUILD)/bench_gpu_algorithms.o $(gpu_objects) $(GPU_BUILD)/gpu_ranges $(GPU_BUILD)/gpu_sweep
	$(MAKE) -f bench/bench.mk bench-kernels \
		BENCH_GPU_OBJS="$(filter %.o,$^)" \
		BENCH_GPU_LIBS="-L$(patsubst %/bin/nvcc,%/lib64,$(NVCC)) -lcudart_static -lrt -ldl -lpthread"
	mv bench/kernels $(GPU_BUILD)/kernels

$(GPU_BUILD)/gpu_ranges $(GPU_BUILD)/gpu_sweep: $(GPU_BUILD)/%: bench/gpu/%.cu $(wildcard bench/gpu/gpu_*.cuh) \
		bench/gpu/gpu_keys.h $(gpu_objects)
	$(NVCC) $(GPU_NVCCFLAGS) $(filter-out %.cuh %.h,$^) -o $@

gpu-tests: $(gpu_tests)

gpu-check: gpu-tests
	@for t in $(gpu_tests); do ./$$t || exit 1; done

endif

gpu-clean:
	rm -rf $(GPU_BUILD)
