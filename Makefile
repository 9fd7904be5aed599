# gpusort: a PostgreSQL extension.  Targets:
#
#   make, make install, make installcheck    as with any PGXS extension
#   make demo                                installs what is missing, shows sorts with and without gpusort
#   make test                                every test, in a private cluster
#
# Files of tests and benches that need more than this are included at the end.

EXTENSION = gpusort
DATA = gpusort--1.0.sql
MODULE_big = gpusort
PGFILEDESC = "gpusort - sorts in place of Sort"

OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/plan/*.c src/node/*.c src/key/*.c \
	src/store/*.c src/route/*.c src/kernel/*.c src/sqlapi/*.c)))

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
REGRESS_OPTS = --load-extension=gpusort

PG_CPPFLAGS = -I$(CURDIR)/src
# PostgreSQL's own headers are not clean of these three
PG_CFLAGS = -O3 -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
	-Wno-declaration-after-statement -Wno-suggest-attribute=format
SHLIB_LINK += -lpthread

# bitcode serves functions that queries inline; there are none here
override with_llvm := no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

-include test/test.mk test/route.mk bench/bench.mk cuda/cuda.mk

# every header is small and near everything; finer dependencies are not worth it
$(OBJS): $(wildcard src/*.h src/*/*.h)
