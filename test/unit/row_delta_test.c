/*
 * row_delta_test.c
 *	  Unit test of the delta coding of rows (kernel/row_delta.h).
 *
 * Random rows are coded by every implementation that the processor supports.  The records
 * must be the same, and decode to the rows, whatever the sizes of the pieces of input and
 * output.  Damaged and truncated records must not lead outside the buffers.
 * GPUSORT_SEED repeats the random rows, GPUSORT_CASES sets the number of cases.
 */
#include "kernel/row_delta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/isa.h"

#define ROWS_MAX		300
#define ROW_MAX			1200
#define PADDING			((((DeltaIgnored) 1 << 6) - 1) << 4)

static uint64_t state;

static unsigned
pick(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned) ((state >> 11) % n);
}

static void
fail(const char *what, int number)
{
	printf("not ok: %s (case %d)\n", what, number);
	exit(1);
}

/* The rows of a case. */
typedef struct Rows
{
	size_t		n;
	size_t		longest;		/* padded */
	char	   *row[ROWS_MAX];
} Rows;

/* Makes rows that share bytes with the row before. */
static void
make_rows(Rows *rows)
{
	static const unsigned lengths[] = {16, 17, 24, 32, 63, 64, 65, 72, 98, 104, 127, 128, 129, 136, 192, 193, 255,
	256, 257, 264, 512};
	unsigned	nlengths = sizeof(lengths) / sizeof(lengths[0]);
	unsigned	usual = pick(4) > 0 ? lengths[pick(nlengths)] : DELTA_ROW_MIN + pick(400);
	unsigned	vary = pick(3);
	unsigned	differing = pick(9);	/* of 8 bytes */

	rows->n = 1 + pick(ROWS_MAX);
	rows->longest = 0;
	for (size_t i = 0; i < rows->n; i++)
	{
		uint32_t	len = usual;
		size_t		size;

		if (vary == 1 && pick(10) == 0)
			len = DELTA_ROW_MIN + pick(ROW_MAX - DELTA_ROW_MIN);
		else if (vary == 2)
			len = DELTA_ROW_MIN + pick(usual);
		size = delta_padded(len);
		/* of the exact size, so that reading behind a row is noticed */
		rows->row[i] = malloc(size);
		for (size_t at = 0; at < size; at++)
		{
			bool		same = i > 0 && at < delta_padded(delta_length(rows->row[i - 1])) && pick(8) >= differing;

			rows->row[i][at] = same ? rows->row[i - 1][at] : (char) pick(256);
		}
		memcpy(rows->row[i], &len, sizeof(len));
		rows->longest = size > rows->longest ? size : rows->longest;
	}
}

static void
free_rows(Rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->row[i]);
}

/* Codes the rows, some at a time; returns the number of bytes. */
static size_t
encode_rows(const DeltaOps *ops, const Rows *rows, DeltaIgnored ignored, char *out)
{
	char	   *head = calloc(1, DELTA_HEAD);
	char	   *to = out;
	size_t		done = 0;

	while (done < rows->n)
	{
		size_t		n = 1 + pick((unsigned) (rows->n - done));
		size_t		coded = ops->encode(head, (const char *const *) rows->row + done, n, ignored, to, &to);
		const char *last = rows->row[done + coded - 1];
		size_t		size = delta_padded(delta_length(last));

		if (size > DELTA_HEAD)
		{
			memcpy(to, last + DELTA_HEAD, size - DELTA_HEAD);
			to += size - DELTA_HEAD;
		}
		done += coded;
	}
	free(head);
	return (size_t) (to - out);
}

/* Rows decoded so far, and the input. */
typedef struct Decoding
{
	const DeltaOps *ops;
	DeltaDecoder decoder;
	const char *bytes;			/* of all records */
	size_t		nbytes;
	size_t		taken;			/* bytes of it that were added to input */
	char	   *input;
	char	   *out;
	size_t		nout;
	bool		corrupt;
} Decoding;

/* Adds some bytes behind those that were not decoded; false if there are none. */
static bool
more_input(Decoding *d)
{
	size_t		left = (size_t) (d->decoder.in_end - d->decoder.in);
	size_t		more = 1 + pick(600);
	char	   *input;

	if (d->taken == d->nbytes)
		return false;
	if (more > d->nbytes - d->taken)
		more = d->nbytes - d->taken;
	input = malloc(left + more + DELTA_SLACK);
	memcpy(input, d->decoder.in, left);
	memcpy(input + left, d->bytes + d->taken, more);
	memset(input + left + more, 0x55, DELTA_SLACK);
	free(d->input);
	d->input = input;
	d->taken += more;
	d->decoder.in = input;
	d->decoder.in_end = input + left + more;
	return true;
}

/* Copies the bytes of a row after its head.  False if there are fewer. */
static bool
take_row_end(Decoding *d, size_t size)
{
	while (size > 0)
	{
		size_t		part = (size_t) (d->decoder.in_end - d->decoder.in);

		part = part < size ? part : size;
		memcpy(d->out + d->nout, d->decoder.in, part);
		d->decoder.in += part;
		d->nout += part;
		size -= part;
		if (size > 0 && !more_input(d))
			return false;
	}
	return true;
}

/* Decodes all rows that the bytes have, to out, which has room for them and DELTA_SLACK. */
static void
decode_rows(Decoding *d, size_t longest, size_t room)
{
	size_t		head = longest > DELTA_HEAD ? DELTA_HEAD : longest < DELTA_HEAD_MIN ? DELTA_HEAD_MIN :
		(longest + 63) / 64 * 64;
	size_t		step = 1 + pick(2000);

	memset(&d->decoder, 0, sizeof(d->decoder));
	d->decoder.head = calloc(1, head);
	d->decoder.longest = longest;
	d->taken = d->nout = 0;
	d->input = NULL;
	d->corrupt = false;
	d->decoder.in = d->decoder.in_end = d->bytes;
	for (;;)
	{
		DeltaStop	stop;
		size_t		from = d->nout;

		d->decoder.out = d->out + d->nout;
		d->decoder.out_end = d->out + (room - d->nout < step ? room : d->nout + step);
		stop = d->ops->decode(&d->decoder);
		d->nout = (size_t) (d->decoder.out - d->out);
		if (stop == DELTA_CORRUPT || (stop == DELTA_INPUT && !more_input(d)))
		{
			d->corrupt = stop == DELTA_CORRUPT;
			break;
		}
		if (stop == DELTA_LONG &&
			!take_row_end(d, delta_padded(delta_length(d->out + d->nout - DELTA_HEAD)) - DELTA_HEAD))
			break;
		if (stop == DELTA_ROOM)
		{
			if (d->decoder.need > room - d->nout)
				break;
			if (from == d->nout && d->decoder.need > step)
				step = d->decoder.need;
		}
	}
	d->corrupt = d->corrupt || d->decoder.in != d->decoder.in_end || d->taken < d->nbytes;
	free(d->decoder.head);
	free(d->input);
}

static void
check_rows(const Rows *rows, DeltaIgnored ignored, const Decoding *d, int number)
{
	const char *at = d->out;

	for (size_t i = 0; i < rows->n; i++)
	{
		size_t		size = delta_padded(delta_length(rows->row[i]));

		if ((size_t) (d->out + d->nout - at) < size)
			fail("a row is missing", number);
		for (size_t b = 0; b < size; b++)
		{
			if (at[b] != rows->row[i][b] && (b >= 64 || (ignored >> b & 1) == 0))
				fail("a row differs", number);
		}
		at += size;
	}
	if (at != d->out + d->nout)
		fail("a row too many", number);
}

/* Damaged records: whatever is decoded lies in the buffers. */
static void
test_damage(const DeltaOps *ops, const char *bytes, size_t nbytes, size_t longest, size_t room)
{
	char	   *damaged = malloc(nbytes);
	Decoding	d = {.ops = ops, .bytes = damaged, .nbytes = nbytes};

	memcpy(damaged, bytes, nbytes);
	for (unsigned i = 1 + pick(8); i > 0; i--)
		damaged[pick((unsigned) nbytes)] = (char) pick(256);
	if (pick(3) == 0)
		d.nbytes = pick((unsigned) nbytes);
	d.out = malloc(room + DELTA_SLACK);
	decode_rows(&d, longest, room);
	free(d.out);
	free(damaged);
}

static void
test_case(const DeltaOps *const *ops, int nops, int number)
{
	Rows		rows;
	DeltaIgnored ignored = pick(2) == 0 ? 0 : PADDING;
	size_t		room = 0;
	size_t		nbytes = 0;
	char	   *bytes[2];
	size_t		sizes[2];

	make_rows(&rows);
	for (size_t i = 0; i < rows.n; i++)
		room += delta_padded(delta_length(rows.row[i]));
	for (int o = 0; o < nops; o++)
	{
		bytes[o] = malloc(room + rows.n * (DELTA_RECORD_MAX - DELTA_HEAD) + DELTA_RECORD_MAX + DELTA_SLACK);
		sizes[o] = nbytes = encode_rows(ops[o], &rows, ignored, bytes[o]);
		if (nbytes != sizes[0] || memcmp(bytes[o], bytes[0], nbytes) != 0)
			fail("implementations write different records", number);
	}
	for (int o = 0; o < nops; o++)
	{
		Decoding	d = {.ops = ops[o], .bytes = bytes[0], .nbytes = nbytes};

		d.out = malloc(room + DELTA_SLACK);
		decode_rows(&d, rows.longest, room);
		if (d.corrupt)
			fail("good records are not decoded", number);
		check_rows(&rows, ignored, &d, number);
		free(d.out);
		test_damage(ops[o], bytes[0], nbytes, rows.longest, room);
	}
	for (int o = 0; o < nops; o++)
		free(bytes[o]);
	free_rows(&rows);
}

/* Equal rows take their masks, and rows that differ in one byte a byte more. */
static void
test_sizes(const DeltaOps *ops)
{
	Rows		rows = {.n = 3, .longest = 104};
	char		out[4 * DELTA_RECORD_MAX + DELTA_SLACK];
	uint32_t	len = 98;
	size_t		first;

	for (size_t i = 0; i < rows.n; i++)
	{
		rows.row[i] = malloc(104);
		memset(rows.row[i], 'x', 104);
		memcpy(rows.row[i], &len, sizeof(len));
	}
	rows.n = 1;
	first = encode_rows(ops, &rows, 0, out);
	if (first != sizeof(len) + 104 / 8 + 100)
		fail("size of a first row", 0);
	rows.n = 3;
	rows.row[2][70] = 'y';
	if (encode_rows(ops, &rows, 0, out) != first + 2 * 104 / 8 + 1)
		fail("size of equal bytes", 0);
	free_rows(&rows);
}

int
main(void)
{
	const char *seed = getenv("GPUSORT_SEED");
	const char *cases = getenv("GPUSORT_CASES");
	int			ncases = cases && *cases ? atoi(cases) : 3000;
	const DeltaOps *ops[2] = {&delta_ops_portable, delta_ops()};
	int			nops = delta_is_fast() ? 2 : 1;

	state = seed && *seed ? strtoull(seed, NULL, 10) : (uint64_t) time(NULL);
	printf("row_delta: %d implementations, seed %llu\n", nops, (unsigned long long) state);
	state = state * 2 + 1;
	for (int o = 0; o < nops; o++)
		test_sizes(ops[o]);
	for (int number = 1; number <= ncases; number++)
		test_case(ops, nops, number);
	sort_isa_force(SORT_ISA_PORTABLE);
	if (delta_ops() != &delta_ops_portable)
		fail("the level is not forced", 0);
	printf("ok: %d cases\n", ncases);
	return 0;
}
