# package.mk: what others get.
#
#	dist			build/gpusort-VERSION.zip (PGXN's) and .tar.gz, of the last commit
#	version-check	the files that name a version name the same one
#	test-package	builds the Debian packages and tries them in a fresh system: minutes, as root

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
