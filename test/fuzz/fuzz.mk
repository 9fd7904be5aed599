# fuzz.mk: fuzzing of normalized keys.
#
#	fuzz-normkeys		libFuzzer: keys against comparisons in test/fuzz/fuzz_normkeys.c; needs clang and compiler-rt
#	fuzz-server			mutated values in a server: keys against the comparators of the types, in all collations
#	fuzz				both
#
# Each runs for FUZZ_SECONDS (60) and prints "ok NAME", or the input whose key is wrong.

FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang
FUZZ_OBJS = numerics scalars strings
FUZZ_CFLAGS = -std=gnu99 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-sanitize=alignment \
	-fwrapv -Wall -Wno-ignored-attributes -D_GNU_SOURCE -Isrc -I$(shell $(PG_CONFIG) --includedir-server)

test/bin/fuzz_normkeys: test/fuzz/fuzz_normkeys.c $(FUZZ_OBJS:%=src/key/type/%.c) \
		$(wildcard src/key/*.h src/key/type/*.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_CFLAGS) -o $@ $(filter %.c,$^)

.PHONY: fuzz fuzz-normkeys fuzz-server
fuzz: fuzz-normkeys fuzz-server

fuzz-normkeys: test/bin/fuzz_normkeys
	@mkdir -p build/fuzz
	test/bin/fuzz_normkeys -max_total_time=$(FUZZ_SECONDS) -max_len=256 -timeout=10 -print_final_stats=1 \
		-artifact_prefix=build/fuzz/ build/fuzz
	@echo "ok fuzz-normkeys"

fuzz-server:
	GPUSORT_FUZZ_SECONDS=$(FUZZ_SECONDS) test/run-tests normalized_keys.pl
	@echo "ok fuzz-server"
