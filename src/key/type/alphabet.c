/*
 * alphabet.c
 *	  Images of strings by the ranks of their bytes.
 */
#include "postgres.h"

#include "key/type/alphabet.h"

/* So many images tell whether it is worth looking at all. */
#define SAMPLE_SIZE		1024

typedef struct Seen
{
	bool		byte[BYTES_WORD][256];
} Seen;

static void
look(Seen *seen, const StageColumn *col, size_t n, size_t step)
{
	const uint64 *images = col->images;
	const uint8 *nulls = col->range.has_null ? col->nulls : NULL;

	memset(seen, 0, sizeof(*seen));
	for (size_t i = 0; i < n; i += step)
	{
		uint64		image = images[i];

		if (nulls != NULL && nulls[i])
			continue;
		for (int b = 0; b < BYTES_WORD; b++)
			seen->byte[b][(image >> (8 * b)) & 0xff] = true;
	}
}

/* How many numbers there are, less one; PG_UINT64_MAX if they are too many. */
static uint64
largest_number(const Seen *seen)
{
	uint64		numbers = 1;

	for (int b = 0; b < BYTES_WORD; b++)
	{
		int			count = 0;

		for (int i = 0; i < 256; i++)
			count += seen->byte[b][i];
		if (numbers > PG_UINT64_MAX / Max(count, 1))
			return PG_UINT64_MAX;
		numbers *= Max(count, 1);
	}
	return numbers - 1;
}

bool
alphabets_make(Alphabets *alphabets, const StageColumn *col, size_t n, int bits)
{
	uint64		limit = bits > 64 ? PG_UINT64_MAX : UINT64CONST(1) << (bits - 1);
	uint64		weight = 1;
	Seen		seen;

	Assert(bits > 0 && col->wide);
	if (n > 16 * SAMPLE_SIZE)
	{
		look(&seen, col, n, n / SAMPLE_SIZE);
		if (largest_number(&seen) >= limit)
			return false;
	}
	look(&seen, col, n, 1);
	if (largest_number(&seen) >= limit)
		return false;
	for (int b = 0; b < BYTES_WORD; b++)
	{
		uint64		rank = 0;

		for (int i = 0; i < 256; i++)
		{
			alphabets->digit[b][i] = rank * weight;
			rank += seen.byte[b][i];
		}
		weight *= Max(rank, 1);
	}
	return true;
}
