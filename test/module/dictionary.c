/*
 * dictionary.c
 *	  Strings that collide in the hash table of a value dictionary
 *	  (src/tiebreak/collated.c), for t/cpu/value_dictionary.pl.
 *
 * The dictionary draws a random hash key from the session's generator.  The test
 * seeds that generator, so that this module can draw the same key and search
 * for strings that collide under it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "tiebreak/tie_hash.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#define LETTERS		15			/* letters of a string */

/*
 * seed_random(seed bigint): seeds the session's random generator; returns true.
 * A query calls it for each of its rows, so that the sort above draws the first
 * number after the seed.
 */
PG_FUNCTION_INFO_V1(seed_random);
Datum
seed_random(PG_FUNCTION_ARGS)
{
	pg_prng_seed(&pg_global_prng_state, (uint64) PG_GETARG_INT64(0));
	PG_RETURN_BOOL(true);
}

/*
 * colliding_strings(n int, seed bigint, entries int): n random strings that hash
 * to entry 0 of a table of entries (a power of two) entries, if the dictionary
 * draws its key directly after seed_random(seed).
 */
PG_FUNCTION_INFO_V1(colliding_strings);
Datum
colliding_strings(PG_FUNCTION_ARGS)
{
	int			n = PG_GETARG_INT32(0);
	uint32		mask = PG_GETARG_INT32(2) - 1;
	Datum	   *strings = palloc(n * sizeof(Datum));
	pg_prng_state state;
	TieHashKey	key;

	pg_prng_seed(&state, (uint64) PG_GETARG_INT64(1));
	key = tie_hash_key(&state);
	for (int i = 0; i < n;)
	{
		char		value[1 + LETTERS];

		CHECK_FOR_INTERRUPTS();
		SET_VARSIZE_1B(value, sizeof(value));
		for (int j = 0; j < LETTERS; j++)
			value[1 + j] = (char) pg_prng_uint64_range(&state, 'a', 'z');
		if (tie_hash_place(tie_hash(&key, value, sizeof(value)), mask) == 0)
			strings[i++] = PointerGetDatum(cstring_to_text_with_len(value + 1, LETTERS));
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(strings, n, TEXTOID, -1, false, TYPALIGN_INT));
}
