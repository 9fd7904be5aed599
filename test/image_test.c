/*
 * image_test.c
 *	  Unit test of the key images: their byte order is the SQL order.
 *
 * Every pair of edge values and of random ones is compared twice, by the image
 * and by a plain statement of PostgreSQL's btree order of the type.
 */
#include "../src/key/image.h"

#include <stdbool.h>
#include <stdio.h>

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

/* float8_cmp_internal's order: NaN equals NaN and is larger than all else. */
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
			uint32_t	a = image_int32(v[i]);
			uint32_t	b = image_int32(v[j]);

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
	/* the ends are also the infinite dates and timestamps */
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
			uint64_t	a = image_int64(v[i]);
			uint64_t	b = image_int64(v[j]);

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
	/* zeros, denormals, the normal range's ends, infinities, NaNs of all kinds */
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
			uint32_t	a = image_float4(float4_of(v[i]));
			uint32_t	b = image_float4(float4_of(v[j]));

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
			uint64_t	a = image_float8(float8_of(v[i]));
			uint64_t	b = image_float8(float8_of(v[j]));

			check("float8", order_float(float8_of(v[i]), float8_of(v[j])),
				  sign_of(a < b, a > b), v[i], v[j]);
		}
}

int
main(void)
{
	test_int32();
	test_int64();
	test_float4();
	test_float8();
	printf("images: %lu pairs, %lu failures\n", npairs, nfailures);
	return nfailures == 0 ? 0 : 1;
}
