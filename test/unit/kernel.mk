# kernel.mk: the unit tests of the CPU kernels (test/unit/kernel_test.c), of the coding of rows (row_delta_test.c), and
# of the coding of keys (key_delta_test.c).
#
#	kernel-check		compiled as for the server
#	kernel-check-asan	under the address and undefined behaviour sanitizers, fewer cases
#	delta-check, delta-check-asan	the same for the coding of rows
#	key-delta-check, key-delta-check-asan	the same for the coding of keys
#
# Needs a C compiler only.  Used alone: make -f test/unit/kernel.mk kernel-check

include $(dir $(lastword $(MAKEFILE_LIST)))../../src/kernel/kernel.mk

# -g1: the sanitizers' reports name source lines
SANITIZED = -g1 -fsanitize=address,undefined -fno-sanitize-recover=all

kernel_test_objects = $(patsubst %.c,test/bin/$(1)/%.o,test/unit/kernel_test.c test/unit/kernel_case.c \
	bench/cpu/cases.c bench/cpu/distributions.c $(KERNEL_SRCS))

test/bin/plain/%.o: %.c $(KERNEL_HDRS) $(wildcard bench/cpu/*.h cuda/*.h src/service/*.h src/cost/*.h test/unit/*.h)
	@mkdir -p $(@D)
	$(CC) $(KERNEL_CFLAGS) -Itest/unit -c -o $@ $<

test/bin/asan/%.o: %.c $(KERNEL_HDRS) $(wildcard bench/cpu/*.h cuda/*.h src/service/*.h src/cost/*.h test/unit/*.h)
	@mkdir -p $(@D)
	$(CC) $(KERNEL_CFLAGS) $(SANITIZED) $(SANITIZED_OPT) -Itest/unit -c -o $@ $<

test/bin/kernel_test: $(call kernel_test_objects,plain)
	$(CC) $(KERNEL_CFLAGS) -o $@ $^ $(KERNEL_LIBS)

test/bin/kernel_test_asan: $(call kernel_test_objects,asan)
	$(CC) $(KERNEL_CFLAGS) $(SANITIZED) -o $@ $^ $(KERNEL_LIBS)

delta_test_objects = $(patsubst %.c,test/bin/$(1)/%.o,test/unit/row_delta_test.c src/kernel/isa.c \
	$(wildcard src/kernel/delta/*.c))

test/bin/delta_test: $(call delta_test_objects,plain)
	$(CC) $(KERNEL_CFLAGS) -o $@ $^

test/bin/delta_test_asan: $(call delta_test_objects,asan)
	$(CC) $(KERNEL_CFLAGS) $(SANITIZED) -o $@ $^

test/bin/key_delta_test: test/bin/plain/test/unit/key_delta_test.o test/bin/plain/src/kernel/delta/key_delta.o
	$(CC) $(KERNEL_CFLAGS) -o $@ $^

test/bin/key_delta_test_asan: test/bin/asan/test/unit/key_delta_test.o test/bin/asan/src/kernel/delta/key_delta.o
	$(CC) $(KERNEL_CFLAGS) $(SANITIZED) -o $@ $^

# Built by this make, not by the one that unit-run-% starts: route.mk links the same
# objects, and two makes would write them at the same time.
unit-run-kernel-check: test/bin/kernel_test
unit-run-kernel-check-asan: test/bin/kernel_test_asan
unit-run-delta-check: test/bin/delta_test
unit-run-delta-check-asan: test/bin/delta_test_asan
unit-run-key-delta-check: test/bin/key_delta_test
unit-run-key-delta-check-asan: test/bin/key_delta_test_asan

.PHONY: kernel-check kernel-check-asan delta-check delta-check-asan key-delta-check key-delta-check-asan
key-delta-check: test/bin/key_delta_test
	test/bin/key_delta_test
key-delta-check-asan: test/bin/key_delta_test_asan
	test/bin/key_delta_test_asan
delta-check: test/bin/delta_test
	test/bin/delta_test
delta-check-asan: test/bin/delta_test_asan
	test/bin/delta_test_asan
kernel-check: test/bin/kernel_test
	test/bin/kernel_test
kernel-check-asan: test/bin/kernel_test_asan
	GPUSORT_QUICK=1 GPUSORT_CASES=$${GPUSORT_CASES:-100} test/bin/kernel_test_asan
