# arm64, by a cross compiler and under emulation; not part of make test.
#
#	unit-arm64		the C unit tests and the CPU kernels, and that the module builds
#	test-arm64		sql/ on an emulated server

.PHONY: unit-arm64 test-arm64 unit-programs print-unit-programs

unit-programs: $(UNIT_PROGRAMS)

print-unit-programs:
	@echo $(UNIT_PROGRAMS)

unit-arm64:
	@test/cross-arm64 unit module

test-arm64:
	@test/cross-arm64 regress
