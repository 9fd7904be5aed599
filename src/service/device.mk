# device.mk: the library that drives GPUs, and the fake device for tests, which is the
# same library on the CPU.
#
#	install					installs build/cuda/libgpusort_cuda.so too, if make gpu has built it
#	gpu-installcheck		pg_regress's files and the oracle test, every sort on the GPU
#	device-installcheck		the same on the fake device
#	install-device-test		installs the fake device build/libgpusort_cpu_abi.so, for t/

DEVICE_CPU_ABI = build/libgpusort_cpu_abi.so

$(DEVICE_CPU_ABI): test/fake_gpu/cpu_abi.c test/fake_gpu/cpu_abi_sort.c test/fake_gpu/cpu_abi_stream.c \
		test/fake_gpu/cpu_abi_stale.c build/fake_gpu_faults.o test/fake_gpu/cpu_abi.h cuda/gpusort_abi.h \
		cuda/costs_h200.h cuda/value/value_limits.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -pthread -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -Icuda \
		-o $@ $(filter %.c %.o,$^) -lm

# its other half, a module of the server
build/fake_gpu_faults.o: test/fake_gpu/faults.c test/fake_gpu/faults.h $(wildcard src/*.h src/*/*.h) cuda/gpusort_abi.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CFLAGS_SL) $(CPPFLAGS) -Icuda -c -o $@ $<

.PHONY: device-cpu-abi
device-cpu-abi: $(DEVICE_CPU_ABI)

# Beside the module: the library that was built for GPUs, if any (make gpu).
install: install-device

.PHONY: install-device install-device-test uninstall-device
install-device: all
	@if [ -f build/cuda/libgpusort_cuda.so ]; then \
		$(MKDIR_P) '$(DESTDIR)$(pkglibdir)' && \
		$(INSTALL_SHLIB) build/cuda/libgpusort_cuda.so '$(DESTDIR)$(pkglibdir)/'; \
	fi

install-device-test: $(DEVICE_CPU_ABI)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $(DEVICE_CPU_ABI) '$(DESTDIR)$(pkglibdir)/'

uninstall: uninstall-device
uninstall-device:
	rm -f '$(DESTDIR)$(pkglibdir)/libgpusort_cuda.so'

# Every sort is forced to the device and its result verified.  Left out are the
# files that print what only the CPU's route says.
define DEVICE_TEST_CONF
gpusort.device_library = '$$libdir/$(1)'
gpusort.staging_memory = 32MB
gpusort.algorithm = gpu_radix
gpusort.verify = on
endef

DEVICE_REGRESS_SKIP = explain|settings|functions|route|array|spill|presorted|limit_order|grouping|distinct|floats|memory

.PHONY: gpu-installcheck device-installcheck
gpu-installcheck: export GPUSORT_CONF := $(call DEVICE_TEST_CONF,libgpusort_cuda)
device-installcheck: export GPUSORT_CONF := $(call DEVICE_TEST_CONF,libgpusort_cpu_abi)
gpu-installcheck device-installcheck: export REGRESS_SKIP := $(DEVICE_REGRESS_SKIP)
gpu-installcheck device-installcheck:
	test/run-tests regress oracle.pl
