# Unit tests of the sort kernels: make -f test/kernel.mk kernel-check
# (and kernel-check-asan for the same under the address and UB sanitizers).

include $(dir $(lastword $(MAKEFILE_LIST)))../src/kernel/kernel.mk

KERNEL_TEST_SRCS = test/kernel_test.c test/kernel_case.c bench/cases.c bench/distributions.c
KERNEL_TEST_HDRS = test/kernel_case.h bench/cases.h bench/distributions.h

test/bin/kernel_test: $(KERNEL_TEST_SRCS) $(KERNEL_TEST_HDRS) $(KERNEL_SRCS) $(KERNEL_HDRS)
	@mkdir -p $(@D)
	$(CC) $(KERNEL_CFLAGS) -o $@ $(KERNEL_TEST_SRCS) $(KERNEL_SRCS) $(KERNEL_LIBS)

test/bin/kernel_test_asan: $(KERNEL_TEST_SRCS) $(KERNEL_TEST_HDRS) $(KERNEL_SRCS) $(KERNEL_HDRS)
	@mkdir -p $(@D)
	$(CC) $(KERNEL_CFLAGS) -g -fsanitize=address,undefined -fno-sanitize-recover=all \
		-o $@ $(KERNEL_TEST_SRCS) $(KERNEL_SRCS) $(KERNEL_LIBS)

.PHONY: kernel-check kernel-check-asan
kernel-check: test/bin/kernel_test
	test/bin/kernel_test
kernel-check-asan: test/bin/kernel_test_asan
	GPUSORT_QUICK=1 test/bin/kernel_test_asan
