# gpusort: a PostgreSQL extension.
#
#   make, make install, make installcheck    as with any PGXS extension
#   make install-plugin                      lets every user load it, also who is no superuser
#   make demo                                installs what is missing, shows sorts with and without gpusort
#   make test                                every test, in a private cluster
#   make bench-queries, make bench-kernels   the benchmarks
#   make check-style, make indent            the style's checks; pgindent
#   make docs                                the documentation's pictures
#   make dist, make test-package             archives of a release; the Debian packages, tried in a fresh system
#
# Targets of tests and benches come from fragments beside them.

EXTENSION = gpusort
DATA = gpusort--1.0.sql gpusort--1.0--1.1.sql gpusort--1.1--1.2.sql
MODULE_big = gpusort
PGFILEDESC = "gpusort - sorts in place of Sort"

OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c src/*/*/*/*.c)))

# PGDLLEXPORT marks what the server finds by name; PostgreSQL 15 defines it as nothing
PG_CPPFLAGS = -I$(CURDIR)/src -DPGDLLEXPORT='__attribute__((visibility("default")))'
# what PostgreSQL's own headers are not clean of
PG_CFLAGS = -O3 -fvisibility=hidden -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-declaration-after-statement -Wno-suggest-attribute=format
SHLIB_LINK += -lpthread
EXTRA_CLEAN = results regression.diffs regression.out tmp_check

# bitcode serves functions that queries inline; there are none here
override with_llvm := no

.DEFAULT_GOAL := all

-include test/test.mk test/unit/route.mk bench/bench.mk cuda/cuda.mk src/service/device.mk

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
# Debian's client package has pgxs without the server's headers
SERVER_HEADER := $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h
ifneq ($(and $(wildcard $(PGXS)),$(wildcard $(SERVER_HEADER))),)
include $(PGXS)

# the GPU library comes along where nvcc is; GPU=no leaves it out
ifneq ($(GPU),no)
all: gpu
endif

# one server's objects are no other's: they are made anew when PG_CONFIG names another, or flags change
$(shell mkdir -p build; echo '$(VERSION) $(includedir_server) $(PG_CFLAGS)' >build/server.now; \
	cmp -s build/server.now build/server || mv build/server.now build/server; rm -f build/server.now)
$(OBJS): build/server
else
all install installcheck:
	@echo 'gpusort needs the server headers of PostgreSQL 15 or later (Debian: postgresql-server-dev-15)' >&2
	@echo 'and its pg_config, in the PATH or as make PG_CONFIG=...' >&2
	@exit 1
endif

# What lies in plugins may be loaded by anyone: the same module under a second name.
.PHONY: install-plugin uninstall-plugin
install-plugin: install
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)/plugins'
	ln -sf ../gpusort$(DLSUFFIX) '$(DESTDIR)$(pkglibdir)/plugins/gpusort$(DLSUFFIX)'

uninstall: uninstall-plugin
uninstall-plugin:
	rm -f '$(DESTDIR)$(pkglibdir)/plugins/gpusort$(DLSUFFIX)'

# every header is small and near everything; finer dependencies are not worth it
$(OBJS): $(wildcard src/*.h src/*/*.h src/*/*/*.h src/*/*/*/*.h cuda/*.h)
