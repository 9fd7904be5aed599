/*
 * numerics.c
 *	  Normalized keys of numerics.
 *
 * A numeric takes two words of 64 bits.  Below a magnitude of 4 * 10^14 the decimal
 * point is fixed: the first word counts ten-thousandths, the second word holds the
 * next 16 decimals.  Amounts of money then have 0 in the second word, and the first
 * word spans only their range.  A larger magnitude has its weight and its three
 * leading digits of base 10000 in the first word, and the next four digits in the
 * second word.  Numbers with more digits are cut, and their key is inexact.
 *
 * The key of a negative number is the negated key of its magnitude, as a number of
 * two words.  NaN sorts above infinity.  The display scale does not matter, because
 * trailing zeros are removed.
 *
 * This file reads the on-disk format, which has not changed since PostgreSQL 9.1
 * (infinities: 14).  A header of 16 bits is followed, in the long form, by a weight of
 * 16 bits, and then by digits of base 10000.  The first digit counts 10000^weight.
 */
#include "postgres.h"

#include "compat.h"
#include "key/key_internal.h"

/* Bits of the header, as in PostgreSQL's numeric.c. */
#define HEADER_FORM			0xC000
#define FORM_LONG_NEGATIVE	0x4000
#define FORM_SHORT			0x8000
#define FORM_SPECIAL		0xC000
#define SPECIAL_NAN			0xC000
#define SPECIAL_INFINITY	0xD000	/* -infinity: 0xF000 */
#define SHORT_NEGATIVE		0x2000
#define SHORT_WEIGHT_SIGN	0x0040
#define SHORT_WEIGHT		0x003F

/*
 * First words, in ascending order: numbers with a fixed point, numbers with a weight
 * (from FLOATING on), special values (from SPECIAL_FIRST on).
 */
#define DIGIT_BASE			10000
#define LOW_DIGITS			4	/* digits in a second word */

/* DIGIT_BASE ^ LOW_DIGITS */
#define LOW_BASE			INT64CONST(10000000000000000)
#define FIXED_WEIGHT		3	/* largest weight with a fixed point */

/*
 * First digits at this weight are smaller, so that the word stays below
 * FLOATING.
 */
#define FIXED_TOP			400
#define FLOATING			(INT64CONST(1) << 62)
#define FLOATING_DIGITS		3	/* digits in a first word behind the weight */
#define FLOATING_SHIFT		40	/* bits for these digits */
#define SPECIAL_FIRST		(FLOATING + (INT64CONST(1) << 61))

/* A numeric, opened for reading. */
typedef struct Numeral
{
	const char *digits;			/* array of uint16, not aligned */
	int			ndigits;		/* without leading and trailing zeros */
	int			weight;			/* of the first digit */
	bool		negative;

	/* first word of a NaN or infinity, otherwise 0 */
	int64		special;
	void	   *copy;			/* for varlena_close() */
} Numeral;

static inline uint16
load16(const char *p)
{
	uint16		v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Digit i, from 0; 0 beyond the last digit. */
static inline uint64
digit_at(const Numeral *n, int i)
{
	return (unsigned) i < (unsigned) n->ndigits ? load16(n->digits + 2 * i) : 0;
}

static inline uint64
digits_from(const Numeral *n, int first, int count)
{
	uint64		v = 0;

	for (int i = first; i < first + count; i++)
		v = v * DIGIT_BASE + digit_at(n, i);
	return v;
}

static inline void
numeral_open(Datum value, Numeral *n)
{
	const char *p = varlena_open(value, &n->copy);
	const char *end = p + VARSIZE_ANY(p);
	uint16		header;

	n->special = 0;
	p = VARDATA_ANY(p);
	header = load16(p);
	p += sizeof(uint16);
	if ((header & HEADER_FORM) == FORM_SHORT)
	{
		n->negative = (header & SHORT_NEGATIVE) != 0;
		n->weight = (header & SHORT_WEIGHT) - (header & SHORT_WEIGHT_SIGN);
	}
	else if (unlikely((header & HEADER_FORM) == FORM_SPECIAL))
	{
		n->ndigits = 0;
		n->weight = 0;
		n->negative = header != SPECIAL_NAN && header != SPECIAL_INFINITY;
		n->special = header == SPECIAL_NAN ? SPECIAL_FIRST + 1 : SPECIAL_FIRST;
		return;
	}
	else
	{
		n->negative = (header & HEADER_FORM) == FORM_LONG_NEGATIVE;
		n->weight = (int16) load16(p);
		p += sizeof(uint16);
	}
	n->digits = p;
	n->ndigits = (end - p) / 2;
	/* the server strips zero digits; zero digits do not change the value */
	while (n->ndigits > 0 && unlikely(digit_at(n, 0) == 0))
	{
		n->digits += 2;
		n->ndigits--;
		n->weight--;
	}
	while (n->ndigits > 0 && unlikely(digit_at(n, n->ndigits - 1) == 0))
		n->ndigits--;
}

static inline bool
point_is_fixed(const Numeral *n)
{
	return n->ndigits == 0 || n->weight < FIXED_WEIGHT ||
		(n->weight == FIXED_WEIGHT && digit_at(n, 0) < FIXED_TOP);
}

/* Index of the first digit of the second word. */
static inline int
low_begin(const Numeral *n)
{
	return point_is_fixed(n) ? n->weight + 2 : FLOATING_DIGITS;
}

/* The first word of a number with a fixed point; missing digits are zeros. */
static inline uint64
fixed_high(const Numeral *n)
{
	static const uint32 zeros[] = {1, DIGIT_BASE, DIGIT_BASE * DIGIT_BASE};
	int			count = Min(n->ndigits, n->weight + 2);
	int			left = n->weight + 2 - count;
	uint64		v = 0;

	for (int i = 0; i < count; i++)
		v = v * DIGIT_BASE + load16(n->digits + 2 * i);
	for (; unlikely(left > 2); left -= 2)
		v *= zeros[2];
	return left > 0 ? v * zeros[left] : v;
}

static inline int64
high_of(const Numeral *n)
{
	if (unlikely(n->special != 0))
		return n->special;
	if (likely(point_is_fixed(n)))
		return (int64) fixed_high(n);
	return FLOATING + ((int64) n->weight << FLOATING_SHIFT) + (int64) digits_from(n, 0, FLOATING_DIGITS);
}

static inline int64
low_of(const Numeral *n)
{
	int			begin = low_begin(n);

	return begin >= n->ndigits ? 0 : (int64) digits_from(n, begin, LOW_DIGITS);
}

uint64
numeric_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	Numeral		n;
	int64		high;

	numeral_open(value, &n);
	high = high_of(&n);
	if (n.negative)
		high = low_of(&n) > 0 ? -high - 1 : -high;
	varlena_close(n.copy);
	return normkey_int64(high);
}

/* Does the header alone tell that the second word is 0? */
static inline bool
has_no_low(Datum value)
{
	const char *p = (const char *) DatumGetPointer(value);
	uint16		header;
	int			weight;

	if (!VARATT_IS_SHORT(p) || VARATT_IS_EXTERNAL(p))
		return false;
	header = load16(VARDATA_SHORT(p));
	weight = (header & SHORT_WEIGHT) - (header & SHORT_WEIGHT_SIGN);
	return (header & HEADER_FORM) == FORM_SHORT && weight < FIXED_WEIGHT &&
		(int) (VARSIZE_SHORT(p) - VARHDRSZ_SHORT - sizeof(header)) / 2 <= weight + 2;
}

uint64
numeric_low_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	Numeral		n;
	int64		low;

	if (likely(has_no_low(value)))
		return 0;
	numeral_open(value, &n);
	low = low_of(&n);
	if (n.negative && low > 0)
		low = LOW_BASE - low;
	if (n.ndigits > low_begin(&n) + LOW_DIGITS)
		*inexact = true;
	varlena_close(n.copy);
	return (uint64) low;
}
