/*
 * dictionary.c
 *	  For t/: strings that all have the same place in a dictionary's table (src/tiebreak/collated.c).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "tiebreak/tie_hash.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#define LETTERS		15			/* of a string; a byte before them is its header */

/*
 * seed_random(seed bigint): what the session draws next is known.  Called for each row that is
 * sorted, it is the last to draw before the sort does.  Always true.
 */
PG_FUNCTION_INFO_V1(seed_random);
Datum
seed_random(PG_FUNCTION_ARGS)
{
	pg_prng_seed(&pg_global_prng_state, (uint64) PG_GETARG_INT64(0));
	PG_RETURN_BOOL(true);
}

/*
 * colliding_strings(n int, seed bigint, entries int): n strings with one place in a table of so
 * many entries, a power of two, if the dictionary draws its key right after seed_random(seed).
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
