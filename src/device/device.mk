# device.mk: the library that drives GPUs beside the server's module, and its
# stand-in on the CPU for tests.
#
#	install					installs build/cuda/libgpusort_cuda.so too, if make gpu has built it
#	install-device-test		installs the stand-in build/libgpusort_cpu_abi.so, for t/

DEVICE_CPU_ABI = build/libgpusort_cpu_abi.so

$(DEVICE_CPU_ABI): cuda/cpu_abi.c cuda/gpusort_abi.h
	@mkdir -p $(@D)
	$(CC) -std=gnu99 -O2 -Wall -Wextra -Werror -fPIC -shared -Icuda -o $@ $<

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
