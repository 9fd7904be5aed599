# device.mk: the library that drives GPUs beside the server's module, and its
# stand-in on the CPU for tests.
#
#	build/libgpusort_cpu_abi.so		always built, installed by install-device-test only

DEVICE_CPU_ABI = build/libgpusort_cpu_abi.so

$(DEVICE_CPU_ABI): cuda/cpu_abi.c cuda/gpusort_abi.h
	@mkdir -p $(@D)
	$(CC) -std=gnu99 -O2 -Wall -Wextra -Werror -fPIC -shared -Icuda -o $@ $<

.PHONY: device-cpu-abi
device-cpu-abi: $(DEVICE_CPU_ABI)
