/*
 * fuzz_normkeys.c
 *	  Fuzzes normalized keys with libFuzzer: make fuzz-normkeys.
 *
 * The first byte of an input selects a type and ASC or DESC.  The other bytes
 * become two values of the type and, for strings, a common prefix.  Keys that
 * differ must order as the values do; equal keys that are exact must belong to
 * equal values.  The fuzzer aborts otherwise.
 *
 * The comparisons in this file follow the definitions of the types and share no
 * code with the keys or the server.  t/cpu/normalized_keys.pl compares keys with
 * the server's comparators.
 *
 * Links three files of src/key/type without a server.  Functions of the server
 * that they name, and no input reaches, are defined here and abort.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/socket.h>

#include "key/key.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/catcache.h"
#include "utils/inet.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"
#include "utils/syscache.h"

#define DIGITS_MAX	24
#define VALUE_MAX	(4 * DIGITS_MAX + 64)
#define UNDECIDED	2

/* The bytes of the input that are not used yet; followed by zeros. */
typedef struct Input
{
	const uint8 *p;
	size_t		left;
} Input;

/* A value: u is its Datum, the other members what the comparisons here read. */
typedef struct Value
{
	union
	{
		char		bytes[VALUE_MAX];
		int64		align;
		TimeTzADT	timetz;
		Interval	interval;
	}			u;
	/* numeric */
	int			special;		/* -1 and 1: infinities, 2: NaN, 0: a number */
	bool		negative;
	int			weight;
	int			ndigits;
	int			digits[DIGITS_MAX];
	/* strings, bit strings */
	int			len;			/* in bytes or bits */
	const uint8 *data;
} Value;

/* A type: how a value is made of the input, and how two values compare. */
typedef struct Target
{
	KeyKind		kind;
	void		(*make) (Input *in, Value *v);
	int			(*compare) (const Value *a, const Value *b);
} Target;

/* Functions and variables of the server, which the linked files name. */
extern void *detoast_attr(struct varlena *attr);
extern void *detoast_attr_slice(struct varlena *attr, int32 offset, int32 length);
extern char *text_to_cstring(const text * t);
#define UNUSED(type, decl)	type decl { abort(); }
UNUSED(void *, detoast_attr(struct varlena *attr))
UNUSED(void *, detoast_attr_slice(struct varlena *attr, int32 offset, int32 length))
UNUSED(void, pfree(void *pointer))
volatile sig_atomic_t InterruptPending = false;

UNUSED(void, ProcessInterrupts(void))
MemoryContext CurrentMemoryContext = NULL;
Oid			MyDatabaseId = InvalidOid;

UNUSED(void *, MemoryContextAlloc(MemoryContext context, Size size))
UNUSED(void *, MemoryContextAllocZero(MemoryContext context, Size size))
UNUSED(void, MemoryContextDelete(MemoryContext context))
UNUSED(MemoryContext, AllocSetContextCreateInternal(MemoryContext parent, const char *name, Size least, Size first,
													Size most))
UNUSED(void, pg_qsort(void *base, size_t n, size_t size, int (*cmp) (const void *, const void *)))
UNUSED(HeapTuple, SearchSysCache1(int cache, Datum key))
UNUSED(void, ReleaseSysCache(HeapTuple tuple))
UNUSED(Datum, SysCacheGetAttr(int cache, HeapTuple tuple, AttrNumber att, bool *isnull))
UNUSED(struct catclist *, SearchSysCacheList(int cache, int nkeys, Datum key1, Datum key2, Datum key3))
UNUSED(void, ReleaseCatCacheList(struct catclist *list))
UNUSED(char *, text_to_cstring(const text * t))
UNUSED(int, GetDatabaseEncoding(void))
UNUSED(void, PrepareSortSupportFromOrderingOp(Oid op, SortSupport ssup))
UNUSED(int, ssup_datum_unsigned_cmp(Datum x, Datum y, SortSupport ssup))
UNUSED(uint64, array_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact))
UNUSED(uint64, range_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact))
UNUSED(uint64, multirange_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact))
UNUSED(uint64, record_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact))

static uint8
take(Input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static int
take16(Input *in)
{
	int			high = take(in);

	return high << 8 | take(in);
}

static void
take_bytes(Input *in, void *to, int n)
{
	for (int i = 0; i < n; i++)
		((uint8 *) to)[i] = take(in);
}

static int
sign(int64 v)
{
	return (v > 0) - (v < 0);
}

/* ------------------------------------------------------------------------
 * numeric
 * ------------------------------------------------------------------------
 */
static void
put16(char **p, int v)
{
	uint16		word = (uint16) v;

	memcpy(*p, &word, sizeof(word));
	*p += sizeof(word);
}

static void
make_numeric(Input *in, Value *v)
{
	int			form = take(in);
	char	   *p = VARDATA(v->u.bytes);
	int			first = 0;

	if ((form & 0x70) == 0x70)
	{
		v->special = form % 3 == 0 ? -1 : form % 3;
		put16(&p, v->special == 2 ? 0xC000 : v->special == 1 ? 0xD000 : 0xF000);
		SET_VARSIZE(v->u.bytes, p - v->u.bytes);
		return;
	}
	v->negative = (form & 1) != 0;
	v->weight = (form & 2) != 0 ? (int8) take(in) % 8 : (int16) take16(in);
	v->ndigits = take(in) % (DIGITS_MAX + 1);
	for (int i = 0; i < v->ndigits; i++)
	{
		int			digit = take(in);

		/* zeros and 9999 are frequent */
		v->digits[i] = digit < 64 ? 0 : digit < 96 ? 9999 : (digit << 8 | take(in)) % 10000;
	}
	/* as the server stores numerics: no leading or trailing zero digits */
	while (first < v->ndigits && v->digits[first] == 0)
		first++;
	v->ndigits -= first;
	v->weight -= first;
	memmove(v->digits, v->digits + first, v->ndigits * sizeof(int));
	while (v->ndigits > 0 && v->digits[v->ndigits - 1] == 0)
		v->ndigits--;
	v->weight = Max(-32768, v->weight);
	if (v->ndigits == 0)
	{
		v->weight = 0;
		v->negative = false;
	}
	if (v->weight >= -64 && v->weight <= 63 && (form & 4) == 0)
		put16(&p, 0x8000 | (v->negative ? 0x2000 : 0) | (form & 8 ? 5 << 7 : 0) |
			  (v->weight < 0 ? 0x40 : 0) | (v->weight & 0x3F));
	else
	{
		put16(&p, (v->negative ? 0x4000 : 0) | (form & 8 ? 77 : 0));
		put16(&p, v->weight);
	}
	for (int i = 0; i < v->ndigits; i++)
		put16(&p, v->digits[i]);
	SET_VARSIZE(v->u.bytes, p - v->u.bytes);
}

static int
compare_magnitudes(const Value *a, const Value *b)
{
	if (a->ndigits == 0 || b->ndigits == 0)
		return sign(a->ndigits - b->ndigits);
	if (a->weight != b->weight)
		return sign(a->weight - b->weight);
	for (int i = 0; i < DIGITS_MAX; i++)
	{
		int			x = i < a->ndigits ? a->digits[i] : 0;
		int			y = i < b->ndigits ? b->digits[i] : 0;

		if (x != y)
			return sign(x - y);
	}
	return 0;
}

static int
compare_numerics(const Value *a, const Value *b)
{
	if (a->special != 0 || b->special != 0)
		return sign(a->special - b->special);
	if (a->negative != b->negative)
		return a->negative ? -1 : 1;
	return a->negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

/* ------------------------------------------------------------------------
 * inet and cidr, bit and varbit
 * ------------------------------------------------------------------------
 */
static void
make_inet(Input *in, Value *v)
{
	inet_struct *a = (inet_struct *) VARDATA(v->u.bytes);
	int			bytes;

	a->family = take(in) % 2 == 0 ? PGSQL_AF_INET : PGSQL_AF_INET6;
	bytes = a->family == PGSQL_AF_INET ? 4 : 16;
	a->bits = take(in) % (8 * bytes + 1);
	take_bytes(in, a->ipaddr, bytes);
	SET_VARSIZE(v->u.bytes, VARHDRSZ + offsetof(inet_struct, ipaddr) + bytes);
}

static int
compare_bits(const uint8 *a, const uint8 *b, int bits)
{
	for (int i = 0; i < bits; i++)
	{
		int			x = a[i / 8] >> (7 - i % 8) & 1;
		int			y = b[i / 8] >> (7 - i % 8) & 1;

		if (x != y)
			return x - y;
	}
	return 0;
}

static int
compare_inets(const Value *x, const Value *y)
{
	const inet_struct *a = (const inet_struct *) VARDATA(x->u.bytes);
	const inet_struct *b = (const inet_struct *) VARDATA(y->u.bytes);
	int			cmp;

	if (a->family != b->family)
		return sign(a->family - b->family);
	cmp = compare_bits(a->ipaddr, b->ipaddr, Min(a->bits, b->bits));
	if (cmp == 0)
		cmp = sign(a->bits - b->bits);
	return cmp != 0 ? cmp : compare_bits(a->ipaddr, b->ipaddr, a->family == PGSQL_AF_INET ? 32 : 128);
}

static void
make_bits(Input *in, Value *v)
{
	uint8	   *data = (uint8 *) VARDATA(v->u.bytes) + sizeof(int32);
	int			bytes;

	v->len = take(in) % 100;
	bytes = (v->len + 7) / 8;
	memcpy(VARDATA(v->u.bytes), &v->len, sizeof(int32));
	take_bytes(in, data, bytes);
	if (v->len % 8 != 0)
		data[bytes - 1] &= 0xFF << (8 - v->len % 8);
	v->data = data;
	SET_VARSIZE(v->u.bytes, VARHDRSZ + sizeof(int32) + bytes);
}

static int
compare_bitstrings(const Value *a, const Value *b)
{
	int			cmp = memcmp(a->data, b->data, (Min(a->len, b->len) + 7) / 8);

	return cmp != 0 ? sign(cmp) : sign(a->len - b->len);
}

/* ------------------------------------------------------------------------
 * Fixed widths
 * ------------------------------------------------------------------------
 */
static void
make_16_bytes(Input *in, Value *v)
{
	take_bytes(in, v->u.bytes, 16);
	v->data = (uint8 *) v->u.bytes;
}

static int
compare_uuids(const Value *a, const Value *b)
{
	return sign(memcmp(a->data, b->data, 16));
}

static int
compare_macaddrs(const Value *a, const Value *b)
{
	return sign(memcmp(a->data, b->data, 6));
}

static int
compare_macaddr8s(const Value *a, const Value *b)
{
	return sign(memcmp(a->data, b->data, 8));
}

static void
make_timetz(Input *in, Value *v)
{
	uint64		time;

	take_bytes(in, &time, sizeof(time));
	v->u.timetz.time = time % (USECS_PER_DAY + 1);
	v->u.timetz.zone = take16(in) - 32768;
}

static int
compare_timetzs(const Value *a, const Value *b)
{
	int64		x = a->u.timetz.time + a->u.timetz.zone * INT64CONST(1000000);
	int64		y = b->u.timetz.time + b->u.timetz.zone * INT64CONST(1000000);

	return x != y ? (x < y ? -1 : 1) : sign((int64) a->u.timetz.zone - b->u.timetz.zone);
}

static void
make_interval(Input *in, Value *v)
{
	int			few = take(in);

	take_bytes(in, &v->u.interval.time, sizeof(int64));
	take_bytes(in, &v->u.interval.day, sizeof(int32));
	take_bytes(in, &v->u.interval.month, sizeof(int32));
	if ((few & 1) != 0)
		v->u.interval.month %= 3;
	if ((few & 2) != 0)
		v->u.interval.day %= 91;
	if ((few & 4) != 0)
		v->u.interval.time %= 3;
}

static int
compare_intervals(const Value *a, const Value *b)
{
	int128		x = a->u.interval.time;
	int128		y = b->u.interval.time;

	x += ((int128) a->u.interval.month * 30 + a->u.interval.day) * 24 * 3600 * 1000000;
	y += ((int128) b->u.interval.month * 30 + b->u.interval.day) * 24 * 3600 * 1000000;
	return (x > y) - (x < y);
}

static void
make_float8(Input *in, Value *v)
{
	take_bytes(in, v->u.bytes, sizeof(float8));
}

static int
compare_float8s(const Value *a, const Value *b)
{
	float8		x;
	float8		y;

	memcpy(&x, a->u.bytes, sizeof(x));
	memcpy(&y, b->u.bytes, sizeof(y));
	if (x != x || y != y)
		return (x != x) - (y != y);
	return (x > y) - (x < y);
}

/* ------------------------------------------------------------------------
 * Strings
 * ------------------------------------------------------------------------
 */
static void
make_string(Input *in, Value *v, bool zeros, bool blanks)
{
	uint8	   *data = (uint8 *) VARDATA(v->u.bytes);
	int			len = take(in) % 40;

	take_bytes(in, data, len);
	for (int i = 0; i < len && !zeros; i++)
	{
		if (data[i] == 0)
			data[i] = 1;
	}
	SET_VARSIZE(v->u.bytes, VARHDRSZ + len);
	while (blanks && len > 0 && data[len - 1] == ' ')
		len--;
	v->data = data;
	v->len = len;
}

static void
make_text(Input *in, Value *v)
{
	make_string(in, v, false, false);
}

static void
make_bpchar(Input *in, Value *v)
{
	make_string(in, v, false, true);
}

static void
make_bytea(Input *in, Value *v)
{
	make_string(in, v, true, false);
}

static int
compare_strings(const Value *a, const Value *b)
{
	int			cmp = memcmp(a->data, b->data, Min(a->len, b->len));

	return cmp != 0 ? sign(cmp) : sign(a->len - b->len);
}

static const Target targets[] = {
	{KEY_NUMERIC, make_numeric, compare_numerics},
	{KEY_INET, make_inet, compare_inets},
	{KEY_BITS, make_bits, compare_bitstrings},
	{KEY_UUID, make_16_bytes, compare_uuids},
	{KEY_MACADDR, make_16_bytes, compare_macaddrs},
	{KEY_MACADDR8, make_16_bytes, compare_macaddr8s},
	{KEY_TIMETZ, make_timetz, compare_timetzs},
	{KEY_INTERVAL, make_interval, compare_intervals},
	{KEY_FLOAT8, make_float8, compare_float8s},
	{KEY_TEXT, make_text, compare_strings},
	{KEY_BPCHAR, make_bpchar, compare_strings},
	{KEY_BYTEA, make_bytea, compare_strings},
};

static Datum
datum_of(KeyKind kind, const Value *v)
{
	float8		f;

	if (kind != KEY_FLOAT8)
		return PointerGetDatum(v);
	memcpy(&f, v->u.bytes, sizeof(f));
	return Float8GetDatum(f);
}

/* -1, 0 or 1; UNDECIDED if the keys are equal but inexact. */
static int
compare_normkeys(KeyKind kind, const Value *a, const Value *b, const BytesPrefix *prefix, uint64 flip)
{
	for (int word = 0; word < key_traits[kind].words; word++)
	{
		KeyBufferColumn col = {.kind = kind + word,.flip = flip,.prefix = *prefix};
		bool		ainexact = false;
		bool		binexact = false;
		uint64		x = normkey_of_value(&col, NO_KEY_MAKER, datum_of(kind, a), &ainexact);
		uint64		y = normkey_of_value(&col, NO_KEY_MAKER, datum_of(kind, b), &binexact);

		if (x != y)
			return x < y ? -1 : 1;
		if (ainexact || binexact)
			return UNDECIDED;
	}
	return 0;
}

extern int	LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	Input		in = {data, size};
	int			choice = take(&in);
	const Target *target = &targets[choice / 2 % lengthof(targets)];
	uint64		flip = choice % 2 == 0 ? 0 : ~UINT64CONST(0);
	Value		a = {0};
	Value		b = {0};
	BytesPrefix prefix = {0};
	int			got;
	int			want;

	if (key_traits[target->kind].by_bytes)
	{
		prefix.len = take(&in) % 12;
		take_bytes(&in, prefix.bytes, prefix.len);
	}
	target->make(&in, &a);

	/*
	 * half of the inputs: b is made of the first bytes of a, so that it is
	 * often similar
	 */
	if (take(&in) % 2 == 0)
	{
		size_t		most = take(&in);
		Input		again = {data + 1, size > 0 ? size - 1 : 0};

		again.left = Min(again.left, most);
		target->make(&again, &b);
	}
	else
		target->make(&in, &b);
	got = compare_normkeys(target->kind, &a, &b, &prefix, flip);
	want = target->compare(&a, &b);
	if (flip != 0)
		want = -want;
	if (got != UNDECIDED && got != want)
		abort();
	return 0;
}
