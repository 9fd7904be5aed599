/*
 * normkey_test.c
 *	  Unit test of normalized keys: keys order as the SQL values do.
 *
 * For integers, floats and strings: each pair of edge values and random values
 * is compared by key, and by a comparison that is written here after
 * PostgreSQL's btree order of the type.  Bit compaction is compared with a loop
 * over bits.  Includes two headers of src/key/type; needs no server.
 */
#include "../../src/key/type/bytes.h"
#include "../../src/key/type/normkey.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define NRANDOM		2000
#define NMAX		(NRANDOM + 64)

static unsigned long npairs;
static unsigned long nfailures;

static uint64_t
random64(void)
{
	static uint64_t state = UINT64_C(0x9E3779B97F4A7C15);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int
sign_of(bool less, bool greater)
{
	return (int) greater - (int) less;
}

static void
check(const char *type, int want, int got, uint64_t a, uint64_t b)
{
	npairs++;
	if (want == got)
		return;
	nfailures++;
	if (nfailures <= 20)
		fprintf(stderr, "FAILED %s: bits %016llx and %016llx compare %d, want %d\n", type,
				(unsigned long long) a, (unsigned long long) b, got, want);
}

/* PostgreSQL's order of floats: NaN equals NaN and is larger than any number. */
static int
order_float(double a, double b)
{
	bool		a_nan = a != a;
	bool		b_nan = b != b;

	if (a_nan || b_nan)
		return (int) a_nan - (int) b_nan;
	return sign_of(a < b, a > b);
}

static float
float4_of(uint32_t bits)
{
	float		v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static double
float8_of(uint64_t bits)
{
	double		v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void
test_int32(void)
{
	static const int32_t edges[] = {INT32_MIN, INT32_MIN + 1, -65537, -65536, -257, -256, -255,
	-1, 0, 1, 255, 256, 257, 65535, 65536, INT32_MAX - 1, INT32_MAX};
	int32_t		v[NMAX];
	int			n = 0;

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		v[n++] = edges[i];
	for (int i = 0; i < NRANDOM; i++)
		v[n++] = (int32_t) (random64() >> (random64() % 32));
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
		{
			uint32_t	a = normkey_int32(v[i]);
			uint32_t	b = normkey_int32(v[j]);

			check("int4", sign_of(v[i] < v[j], v[i] > v[j]), sign_of(a < b, a > b),
				  (uint32_t) v[i], (uint32_t) v[j]);
			/* the complement reverses the order */
			a = ~a;
			b = ~b;
			check("int4 DESC", sign_of(v[i] > v[j], v[i] < v[j]), sign_of(a < b, a > b),
				  (uint32_t) v[i], (uint32_t) v[j]);
		}
}

static void
test_int64(void)
{
	/* INT64_MIN and INT64_MAX are also the infinite timestamps */
	static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, -4294967297, -256, -1, 0, 1,
	255, 256, INT32_MAX, 4294967295, 4294967296, INT64_MAX - 1, INT64_MAX};
	int64_t		v[NMAX];
	int			n = 0;

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		v[n++] = edges[i];
	for (int i = 0; i < NRANDOM; i++)
		v[n++] = (int64_t) random64() >> (random64() % 64);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
		{
			uint64_t	a = normkey_int64(v[i]);
			uint64_t	b = normkey_int64(v[j]);

			check("int8", sign_of(v[i] < v[j], v[i] > v[j]), sign_of(a < b, a > b),
				  (uint64_t) v[i], (uint64_t) v[j]);
			a = ~a;
			b = ~b;
			check("int8 DESC", sign_of(v[i] > v[j], v[i] < v[j]), sign_of(a < b, a > b),
				  (uint64_t) v[i], (uint64_t) v[j]);
		}
}

static void
test_float4(void)
{
	/*
	 * zeros, smallest and largest denormals and normal numbers, one,
	 * infinities, quiet and signalling NaNs
	 */
	static const uint32_t edges[] = {0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x807FFFFF,
		0x00800000, 0x80800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
	0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC12345, 0xFFC12345};
	uint32_t	v[NMAX];
	int			n = 0;

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		v[n++] = edges[i];
	for (int i = 0; i < NRANDOM; i++)
		v[n++] = (uint32_t) random64();
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
		{
			uint32_t	a = normkey_float4(float4_of(v[i]));
			uint32_t	b = normkey_float4(float4_of(v[j]));

			check("float4", order_float(float4_of(v[i]), float4_of(v[j])),
				  sign_of(a < b, a > b), v[i], v[j]);
		}
}

static void
test_float8(void)
{
	static const uint64_t edges[] = {0, UINT64_C(0x8000000000000000), 1, UINT64_C(0x8000000000000001),
		UINT64_C(0x000FFFFFFFFFFFFF), UINT64_C(0x800FFFFFFFFFFFFF),
		UINT64_C(0x0010000000000000), UINT64_C(0x8010000000000000),
		UINT64_C(0x3FF0000000000000), UINT64_C(0xBFF0000000000000),
		UINT64_C(0x3FF0000000000001), UINT64_C(0xBFF0000000000001),
		UINT64_C(0x7FEFFFFFFFFFFFFF), UINT64_C(0xFFEFFFFFFFFFFFFF),
		UINT64_C(0x7FF0000000000000), UINT64_C(0xFFF0000000000000),
		UINT64_C(0x7FF8000000000000), UINT64_C(0xFFF8000000000000),
		UINT64_C(0x7FF0000000000001), UINT64_C(0xFFF0000000000001),
		UINT64_C(0x7FFFFFFFFFFFFFFF), UINT64_C(0xFFFFFFFFFFFFFFFF),
	UINT64_C(0x7FF8000000012345), UINT64_C(0xFFF8000000012345)};
	uint64_t	v[NMAX];
	int			n = 0;

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		v[n++] = edges[i];
	for (int i = 0; i < NRANDOM; i++)
		v[n++] = random64();
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
		{
			uint64_t	a = normkey_float8(float8_of(v[i]));
			uint64_t	b = normkey_float8(float8_of(v[j]));

			check("float8", order_float(float8_of(v[i]), float8_of(v[j])),
				  sign_of(a < b, a > b), v[i], v[j]);
		}
}

/* ------------------------------------------------------------------------
 * Strings of bytes
 * ------------------------------------------------------------------------
 */
#define STRING_MAX	80

typedef struct String
{
	size_t		len;
	char		bytes[STRING_MAX];
} String;

/* memcmp's order; of a string and its prefix the prefix is first */
static int
order_strings(const String *a, const String *b)
{
	int			cmp = memcmp(a->bytes, b->bytes, a->len < b->len ? a->len : b->len);

	return cmp != 0 ? sign_of(cmp < 0, cmp > 0) : sign_of(a->len < b->len, a->len > b->len);
}

/*
 * A random string of six different bytes, which are not zero.  It begins with
 * prefix with a probability of at least 7/8.
 */
static void
random_string(String *s, const String *prefix)
{
	static const uint8_t bytes[] = {1, 'a', 'b', 0x7f, 0x80, 0xff};
	size_t		common = random64() % 8 > 0 ? prefix->len : random64() % (prefix->len + 1);

	memcpy(s->bytes, prefix->bytes, common);
	s->len = common + random64() % (random64() % 2 ? 3 : 20);
	for (size_t i = common; i < s->len; i++)
		s->bytes[i] = (char) bytes[random64() % sizeof(bytes)];
}

/*
 * The key of s, copied to the end of an allocated chunk: the address sanitizer
 * reports a read behind the string.
 */
static uint64_t
normkey_at_end(const BytesPrefix *prefix, const String *s, bool *inexact)
{
	char	   *copy = malloc(s->len + 1);
	uint64_t	normkey;

	memcpy(copy + 1, s->bytes, s->len);
	normkey = bytes_normkey(prefix, copy + 1, s->len, inexact);
	free(copy);
	return normkey;
}

/*
 * Keys x and y of a and b: if they differ they must order as the strings, and
 * if they are equal and exact the strings must be equal.
 */
static void
check_normkey(const char *what, const String *a, const String *b, uint64_t x, uint64_t y, bool exact)
{
	int			want = order_strings(a, b);
	int			got = sign_of(x < y, x > y);

	if (got == 0 && !exact)
		want = 0;
	check(what, want, got, x, y);
}

/*
 * Keys of strings relative to a common prefix.  Strings without the prefix have
 * keys, too.  Then the prefix becomes shorter: bytes_shift() must change keys of
 * strings that begin with the prefix to those that bytes_normkey() makes with
 * the shorter prefix, and bytes_shift_loses() must report that a key which was
 * exact no longer is.
 */
static void
test_bytes(void)
{
	enum
	{
		N = 300
	};
	static String v[N];
	uint64_t	x[N];
	bool		inexact[N];

	for (int round = 0; round < 200; round++)
	{
		String		front;
		BytesPrefix prefix = {0};
		uint64_t	any = 0;
		bool		failed = false;
		bool		must_lose = false;
		int			from = (int) (random64() % 30);
		int			to = (int) (random64() % (from + 1));

		front.len = (size_t) from;
		for (int i = 0; i < from; i++)
			front.bytes[i] = prefix.bytes[i] = (char) (1 + random64() % 3);
		prefix.len = from;
		for (int i = 0; i < N; i++)
		{
			inexact[i] = false;
			random_string(&v[i], &front);
			x[i] = normkey_at_end(&prefix, &v[i], &inexact[i]);
		}
		for (int i = 0; i < N; i++)
			for (int j = 0; j < N; j++)
				check_normkey("bytes", &v[i], &v[j], x[i], x[j], !inexact[i] && !inexact[j]);

		for (int i = 0; i < N; i++)
		{
			bool		anew = false;
			uint64_t	normkey;

			if (v[i].len < front.len || memcmp(v[i].bytes, front.bytes, front.len) != 0)
				continue;
			any |= x[i];
			prefix.len = to;
			normkey = normkey_at_end(&prefix, &v[i], &anew);
			prefix.len = from;
			check("bytes, shorter prefix", 0, normkey != bytes_shift(&prefix, from, to, x[i]), x[i], normkey);
			must_lose |= anew && !inexact[i];
		}
		failed = bytes_shift_loses(from, to, any);
		check("bytes, shift reports lost bytes", 0, must_lose && !failed, any, 0);
	}
}

/*
 * Bit compaction removes the bits outside the mask, as a loop over bits does,
 * and keeps the order of numbers that agree outside the mask.
 */
static void
test_bit_compaction(void)
{
	for (int round = 0; round < 2000; round++)
	{
		BitCompaction compaction;
		uint64_t	mask = random64() | (random64() & random64() & random64());
		uint64_t	common = random64() & ~mask;
		uint64_t	prev = 0;
		uint64_t	prev_got = 0;

		mask &= round % 3 == 0 ? random64() & random64() : UINT64_MAX;
		bit_compaction_init(&compaction, mask);
		for (int i = 0; i < 200; i++)
		{
			uint64_t	v = (random64() & mask) | common;
			uint64_t	want = 0;
			uint64_t	got = bit_compact(&compaction, v);

			for (int bit = 63; bit >= 0; bit--)
			{
				if ((mask >> bit & 1) != 0)
					want = want << 1 | (v >> bit & 1);
			}
			check("bit compaction", 0, want != got, v, got);
			if (i > 0)
				check("bit compaction, order", sign_of(v < prev, v > prev),
					  sign_of(got < prev_got, got > prev_got), v, prev);
			prev = v;
			prev_got = got;
		}
	}
}

int
main(void)
{
	test_bytes();
	test_bit_compaction();
	test_int32();
	test_int64();
	test_float4();
	test_float8();
	printf("normalized keys: %lu checks, %lu failures\n", npairs, nfailures);
	return nfailures == 0 ? 0 : 1;
}
