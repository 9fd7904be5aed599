# test.mk: tests, demonstration and query benchmark.
#
#	test, test-quick	all tests; a few minutes of them (test/run-tests)
#	unit, unit-quick	unit tests, with and without sanitizers; no PostgreSQL server
#	check-style			the style checks among the unit tests
#	test-versions		tests on several versions of PostgreSQL (test/versions)
#	demo				demonstration (test/demo)
#	bench-queries		query benchmark (bench/queries)
#	indent, docs		layout of the sources; pictures of the documentation
#
# Tests run in a private cluster.  Only installcheck uses a running server.

# setup comes first: it creates the extension and functions that the other files call
REGRESS = setup plan plan_versions ordered_aggregates ints floats dates text types comparators nulls \
	multi_column keys_only key_runs pages row_bytes stability limit limit_bound limit_order limit_early \
	presorted_input incremental sort_only rescan cursor merge_join window_merge_join windows aggregates grouping \
	partial_groups distinct rows nested settings spill explain functions upgrade array route memory workers

# Unit tests: a target for each, which fails if the test fails.  unit-run-NAME
# makes target NAME and prints "ok NAME" or "not ok NAME".
STYLE_CHECKS = arrows-check columns-check words-check whitespace-check docs-check bench-check
UNIT_CHECKS = $(STYLE_CHECKS) version-check headers-check normkey-check normkey-check-asan \
	kernel-check kernel-check-asan delta-check delta-check-asan key-delta-check key-delta-check-asan
# unit tests that take seconds
UNIT_QUICK_CHECKS = $(STYLE_CHECKS) version-check headers-check normkey-check kernel-check delta-check key-delta-check

# programs that unit-arm64 builds and runs
UNIT_PROGRAMS = test/bin/normkey_test test/bin/route_test test/bin/kernel_test test/bin/delta_test \
	test/bin/key_delta_test

include test/unit/kernel.mk test/unit/arm64.mk test/emulation/emulation.mk test/module/module.mk \
	test/packaging/package.mk test/fuzz/fuzz.mk

NORMKEY_TEST_CFLAGS = -std=gnu99 -O2 -Wall -Wextra -Werror

test/bin/normkey_test: test/unit/normkey_test.c src/key/type/normkey.h src/key/type/bytes.h
	@mkdir -p $(@D)
	$(CC) $(NORMKEY_TEST_CFLAGS) -o $@ $<

test/bin/normkey_test_asan: test/unit/normkey_test.c src/key/type/normkey.h src/key/type/bytes.h
	@mkdir -p $(@D)
	$(CC) $(NORMKEY_TEST_CFLAGS) -g -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $<

.PHONY: test test-quick test-versions unit unit-quick demo bench-queries print-regress docs
.PHONY: check-style indent $(STYLE_CHECKS) headers-check normkey-check normkey-check-asan

# includes between the directories of src
arrows-check:
	test/arrows

# line lengths
columns-check:
	test/columns

# words that the glossary replaces
words-check:
	test/words

whitespace-check:
	test/whitespace

# the documentation against the sources
docs-check:
	test/docs-check

# the benchmarks' Perl, which no test runs
bench-check:
	! for f in bench/*.p[lm] $$(grep -ls '^#!/usr/bin/perl' bench/*); do perl -Ibench -c $$f 2>&1; done | \
		grep -v 'syntax OK$$'

# what make says without the server's headers
headers-check:
	test/no-headers

# normalized keys
normkey-check: test/bin/normkey_test
	test/bin/normkey_test
normkey-check-asan: test/bin/normkey_test_asan
	test/bin/normkey_test_asan

check-style: $(STYLE_CHECKS:%=unit-run-%)

# pgindent for C, clang-format for CUDA
indent:
	test/indent

demo:
	@test/demo

test:
	@test/run-tests

# not named check: PGXS has a target of that name
test-quick:
	@test/run-tests quick

# VERSIONS are the arguments of test/versions
test-versions:
	@test/versions $(VERSIONS)

unit: $(UNIT_CHECKS:%=unit-run-%)

unit-quick: $(UNIT_QUICK_CHECKS:%=unit-run-%)

unit-run-%:
	@if $(MAKE) -s $*; then echo "ok $*"; else echo "not ok $*"; exit 1; fi

# ROWS is the number of rows of a table: make bench-queries ROWS=1000000
bench-queries:
	@mkdir -p build/bench
	@rm -f build/bench/queries.csv
	@bench/queries --phases --csv=build/bench/queries.csv $(if $(ROWS),--rows=$(ROWS))
	@bench/draw queries build/bench/queries.csv >build/bench/queries.svg
	@echo 'figures and picture: build/bench/queries.csv, build/bench/queries.svg'

# pictures of the documentation, drawn from the text in docs/pictures
docs:
	docs/draw

# for test/run-tests
print-regress:
	@echo $(REGRESS)
