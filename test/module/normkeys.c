/*
 * normkeys.c
 *	  Compares normalized keys with the comparators of their types, for
 *	  t/cpu/normalized_keys.pl.
 */
#include "postgres.h"

#include "fmgr.h"
#include "key/key.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/sortsupport.h"

#define WORDS_MAX	2

#define UNDECIDED	2

/* The words of a value's normalized key. */
typedef struct NormKeys
{
	uint64		word[WORDS_MAX];
	bool		inexact[WORDS_MAX];
} NormKeys;

/* -1, 0 or 1; UNDECIDED if the keys are equal but inexact. */
static int
compare_normkeys(const NormKeys *a, const NormKeys *b, int words)
{
	for (int w = 0; w < words; w++)
	{
		if (a->word[w] != b->word[w])
			return a->word[w] < b->word[w] ? -1 : 1;
		if (a->inexact[w] || b->inexact[w])
			return UNDECIDED;
	}
	return 0;
}

static void
set_up_column(KeyBufferColumn *col, const KeyColumn *key, int word)
{
	memset(col, 0, sizeof(*col));
	col->kind = key->kind + word;
	col->flip = key->descending ? ~UINT64CONST(0) : 0;
	col->prefix.len = -1;
}

/*
 * check_normkeys(values anyarray, op regoperator): compares each pair of values
 * by key and by op's comparator.  Returns the first difference, or 'N pairs, N
 * undecided'.
 */
PG_FUNCTION_INFO_V1(check_normkeys);
Datum
check_normkeys(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	KeyColumn	key = {.attno = 1,.sortop = PG_GETARG_OID(1),.collation = PG_GET_COLLATION()};
	const char *why;
	SortSupport ssup;
	KeyBufferColumn cols[WORDS_MAX];
	KeyMaker	makers[WORDS_MAX];
	Datum	   *values;
	bool	   *nulls;
	NormKeys   *normkeys;
	int			n;
	int			words;
	int64		pairs = 0;
	int64		undecided = 0;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	if (!key_type_lookup(&key, ARR_ELEMTYPE(array), &why))
		elog(ERROR, "%s", why);
	/* no key has more; the compiler does not know it */
	words = Min(key_traits[key.kind].words, WORDS_MAX);
	for (int w = 0; w < words; w++)
	{
		set_up_column(&cols[w], &key, w);
		makers[w] = key_maker_create(CurrentMemoryContext, &key, cols[w].kind);
	}
	ssup = abbreviated_support(CurrentMemoryContext, &key, false);

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign, &values, &nulls, &n);
	normkeys = palloc0(n * sizeof(NormKeys));
	for (int i = 0; i < n; i++)
	{
		for (int w = 0; w < words; w++)
			normkeys[i].word[w] = normkey_of_value(&cols[w], makers[w], values[i], &normkeys[i].inexact[w]);
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j <= i; j++)
		{
			int			got = compare_normkeys(&normkeys[i], &normkeys[j], words);
			int			want = ApplySortComparator(values[i], false, values[j], false, ssup);

			pairs++;
			if (got == UNDECIDED)
				undecided++;
			else if (got != (want > 0) - (want < 0))
				PG_RETURN_TEXT_P(cstring_to_text(psprintf("values %d and %d: keys compare %d, values %d",
														  i + 1, j + 1, got, want)));
		}
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%lld pairs, %lld undecided",
											  (long long) pairs, (long long) undecided)));
}
