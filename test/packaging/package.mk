# package.mk: release archives and Debian packages.
#
#	dist			build/gpusort-VERSION.zip (for PGXN) and .tar.gz, of the last commit
#	version-check	all files that name gpusort's version name the same version
#	test-package	builds, installs, upgrades and removes the Debian packages in a new Debian system
#					(test/packaging/package); needs root, takes minutes

DIST_VERSION = $(shell sed -n 's/^  *"version": "\(.*\)",/\1/p' META.json | head -n 1)

.PHONY: dist test-package version-check

version-check:
	@test/packaging/same-version

dist: version-check
	@mkdir -p build
	git archive --format=zip --prefix=gpusort-$(DIST_VERSION)/ -o build/gpusort-$(DIST_VERSION).zip HEAD
	git archive --format=tar.gz --prefix=gpusort-$(DIST_VERSION)/ -o build/gpusort-$(DIST_VERSION).tar.gz HEAD

test-package: version-check
	@test/packaging/package
