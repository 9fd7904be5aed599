# fuzz.mk: fuzzing of the images of keys, in two ways, each for so long:
#
#	make fuzz FUZZ_SECONDS=300		both; each ends with "ok", or with the input that was wrong
#	make fuzz-images				libFuzzer, against comparisons of its own: needs clang and its compiler-rt
#	make fuzz-server				mutated values in a server, against its comparators, in all its collations

FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang
FUZZ_OBJS = numerics scalars strings
FUZZ_CFLAGS = -std=gnu99 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-sanitize=alignment \
	-fwrapv -Wall -Wno-ignored-attributes -D_GNU_SOURCE -Isrc -I$(shell $(PG_CONFIG) --includedir-server)

test/bin/fuzz_images: test/fuzz/fuzz_images.c $(FUZZ_OBJS:%=src/key/type/%.c) $(wildcard src/key/*.h src/key/type/*.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_CFLAGS) -o $@ $(filter %.c,$^)

.PHONY: fuzz fuzz-images fuzz-server
fuzz: fuzz-images fuzz-server

fuzz-images: test/bin/fuzz_images
	@mkdir -p build/fuzz
	test/bin/fuzz_images -max_total_time=$(FUZZ_SECONDS) -max_len=256 -timeout=10 -print_final_stats=1 \
		-artifact_prefix=build/fuzz/ build/fuzz
	@echo "ok fuzz-images"

fuzz-server:
	GPUSORT_FUZZ_SECONDS=$(FUZZ_SECONDS) test/run-tests normalized_keys.pl
	@echo "ok fuzz-server"
