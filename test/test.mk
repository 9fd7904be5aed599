# Tests, demonstration and query benchmark.  Every target works in a private
# cluster; only installcheck uses a running server.

# the order matters: setup makes the extension and the functions of the tests
REGRESS = setup plan plan_versions presorted ints floats dates text types comparators nulls multi_column \
	keys_only pages row_bytes stability limit limit_bound limit_order arrival rescan cursor \
	window_merge_join rows nested settings spill explain functions upgrade array route memory workers

# C unit tests that need no more than a compiler: targets that run one each.
# Others add themselves as prerequisites of unit and print "ok NAME" likewise.
STYLE_CHECKS = arrows-check columns-check words-check whitespace-check docs-check
UNIT_CHECKS = $(STYLE_CHECKS) version-check image-check image-check-asan kernel-check kernel-check-asan
# those that take seconds
UNIT_QUICK_CHECKS = $(STYLE_CHECKS) version-check image-check kernel-check

include test/unit/kernel.mk test/emulation/emulation.mk test/module/module.mk test/packaging/package.mk \
	test/fuzz/fuzz.mk

IMAGE_TEST_CFLAGS = -std=gnu99 -O2 -Wall -Wextra -Werror

test/bin/image_test: test/unit/image_test.c src/key/type/normkey.h src/key/type/bytes.h
	@mkdir -p $(@D)
	$(CC) $(IMAGE_TEST_CFLAGS) -o $@ $<

test/bin/image_test_asan: test/unit/image_test.c src/key/type/normkey.h src/key/type/bytes.h
	@mkdir -p $(@D)
	$(CC) $(IMAGE_TEST_CFLAGS) -g -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $<

.PHONY: test test-quick test-versions unit unit-quick demo bench-queries print-regress docs
.PHONY: check-style indent $(STYLE_CHECKS) image-check image-check-asan
# which room includes which
arrows-check:
	test/arrows

# lines that are too long
columns-check:
	test/columns

# old words, and files that are still to be rewritten
words-check:
	test/words

whitespace-check:
	test/whitespace

# what the documentation names exists, and the other way round
docs-check:
	test/docs-check

image-check: test/bin/image_test
	test/bin/image_test
image-check-asan: test/bin/image_test_asan
	test/bin/image_test_asan

# what can be said of style without running anything
check-style: $(STYLE_CHECKS:%=unit-run-%)

# pgindent and clang-format
indent:
	test/indent

# what is missing is installed from Debian's packages
demo:
	@test/demo

test:
	@test/run-tests

# a few minutes; check is PGXS's
test-quick:
	@test/run-tests quick

# on the PostgreSQL versions that Debian's suites have, each in a root of its own
test-versions:
	@test/versions $(VERSIONS)

unit: $(UNIT_CHECKS:%=unit-run-%)

unit-quick: $(UNIT_QUICK_CHECKS:%=unit-run-%)

unit-run-%:
	@if $(MAKE) -s $*; then echo "ok $*"; else echo "not ok $*"; exit 1; fi

# rows per table: make bench-queries ROWS=1000000; its figures and their picture stay in build/bench
bench-queries:
	@mkdir -p build/bench
	@rm -f build/bench/queries.csv
	@bench/queries --phases --csv=build/bench/queries.csv $(if $(ROWS),--rows=$(ROWS))
	@bench/draw queries build/bench/queries.csv >build/bench/queries.svg
	@echo 'figures and picture: build/bench/queries.csv, build/bench/queries.svg'

# the pictures of the documentation, from text
docs:
	docs/draw

print-regress:
	@echo $(REGRESS)
