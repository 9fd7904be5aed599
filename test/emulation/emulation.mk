# emulation.mk: the GPU library and its tests (test/gpu), compiled for the CPU on an emulated
# CUDA device (test/emulation).
#
#	gpu-emulation-check		all tests of the GPU kernels with small sizes, under the address
#							and undefined behaviour sanitizers
#
# Needs a C++ compiler; neither nvcc nor a GPU.
#
# Two things differ from the library for GPUs.  An extern __shared__ array, whose size is a
# parameter of the launch, is no C++: sed replaces its declaration in a copy of the source.
# LEAD_MIN_SIZE=0: gpu_radix tries leading digits (radix_lead.cuh) in small sorts, too.

UNIT_CHECKS += gpu-emulation-check

EMULATED = test/bin/emulated
EMULATION_FLAGS = -std=c++17 -O1 -g1 -Wall -Wextra -Wno-unused-function -Wno-unknown-pragmas -Wno-attributes \
	-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	-DLEAD_MIN_SIZE=0 \
	-include test/emulation/cuda_runtime.h -Itest/emulation -I$(EMULATED)/cuda -Itest/gpu -Itest -Isrc -I.

emulated_headers = $(patsubst %,$(EMULATED)/%,$(wildcard cuda/*.cuh cuda/*/*.cuh cuda/*/*.h)) \
	$(patsubst %,$(EMULATED)/%,$(wildcard cuda/*.h)) $(wildcard test/emulation/*.h test/emulation/*/*/*)
emulated_library = $(patsubst %.cu,$(EMULATED)/%.o,$(wildcard cuda/*.cu cuda/*/*.cu)) \
	$(EMULATED)/emulation.o $(EMULATED)/emulation_runtime.o

$(EMULATED)/cuda/%: cuda/%
	@mkdir -p $(@D)
	sed -e 's/extern __shared__ __align__(16) \(.*\) \(.*\)\[\];/\1 *\2 = SHARED(\1);/' \
		-e 's/SHARED(\(.*\));/static_cast<\1 *>(emulation_dynamic_shared());/' $< >$@

$(EMULATED)/cuda/%.o: $(EMULATED)/cuda/%.cu $(emulated_headers)
	$(CXX) $(EMULATION_FLAGS) -x c++ -c $< -o $@

$(EMULATED)/%.o: test/emulation/%.cc $(emulated_headers)
	$(CXX) $(EMULATION_FLAGS) -O2 -c $< -o $@

$(EMULATED)/%_test.o: test/gpu/%_test.cu test/gpu/gpu_test.cuh $(emulated_headers)
	$(CXX) $(EMULATION_FLAGS) -x c++ -c $< -o $@

$(EMULATED)/distributions.o: bench/cpu/distributions.c bench/cpu/distributions.h
	$(CC) -std=gnu99 -O2 -Wall -Wextra -Werror -Ibench/cpu -c $< -o $@

$(EMULATED)/gpu_%_test: $(EMULATED)/gpu_%_test.o $(EMULATED)/distributions.o $(emulated_library)
	$(CXX) $(EMULATION_FLAGS) $^ -o $@ -lm

$(EMULATED)/%: test/gpu/%.cc test/gpu/gpu_test.cuh $(emulated_library)
	$(CXX) $(EMULATION_FLAGS) $(filter-out %.cuh,$^) -o $@

.PHONY: gpu-emulation-check emulated-tests
emulated-tests: $(EMULATED)/gpu_emulation_test $(EMULATED)/gpu_random_test $(EMULATED)/gpu_sample_sort_test \
	$(EMULATED)/gpu_lead_test $(EMULATED)/gpu_kernel_test $(EMULATED)/gpu_counting_test $(EMULATED)/gpu_gather_test \
	$(EMULATED)/gpu_groups_test

gpu-emulation-check:
	@$(MAKE) -s -f test/emulation/emulation.mk emulated-tests
	$(EMULATED)/gpu_emulation_test
	$(EMULATED)/gpu_random_test
	$(EMULATED)/gpu_sample_sort_test
	$(EMULATED)/gpu_lead_test
	$(EMULATED)/gpu_kernel_test quick
	$(EMULATED)/gpu_counting_test quick
	$(EMULATED)/gpu_gather_test
	$(EMULATED)/gpu_groups_test
