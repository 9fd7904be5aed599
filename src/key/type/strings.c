/*
 * strings.c
 *	  Normalized keys of strings; which collations compare by bytes.
 *
 * Strings are text, varchar, char(n), name and bytea.  If the collation compares by
 * bytes, the normalized key is made of the bytes behind the common prefix of the
 * sort's strings (bytes.h).  The first string of a sort is the first prefix.  Each
 * string that has less in common with the prefix shortens it, which shifts all existing
 * normalized keys.  From SHORTEN_LATE rows on the prefix is halved at least, so this
 * happens at most six times.  A toasted value is fetched only as far as its normalized
 * key reaches, but a char(n) completely, because trailing blanks do not count.
 *
 * "C", "POSIX" and the collations of PostgreSQL's builtin provider compare by bytes.
 * PostgreSQL calls strcoll() for the C library's C.UTF-8, whose order is nevertheless
 * that of code points, in UTF-8 that of bytes.  glibc compares as strcmp() does in
 * locales without collation rules, and the number of rules can be queried.  Before
 * glibc 2.35 C.UTF-8 has rules and needs the comparator.  PostgreSQL orders strings
 * that strcoll() finds equal by their bytes.
 *
 * Properties of collations are read from the catalogs.  pg_locale.h would provide some
 * of them, but includes ICU's headers, which server packages do not install.
 *
 * With other collations, and for types that keytype.c does not list, the normalized key
 * is the abbreviated key of the type's sort support, if abbreviated keys compare as
 * unsigned numbers.  It is never exact.  Text has abbreviated keys for collations whose
 * strxfrm() PostgreSQL trusts.  Without an abbreviated key there is no normalized key,
 * and the comparator orders the rows.
 */
#include "postgres.h"

#include <langinfo.h>
#include <locale.h>

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "fmgr.h"
#include "key/key_internal.h"
#include "key/key_string.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"
#include "utils/syscache.h"

/* Does the C library's locale of this name have no collation rules? */
static bool
locale_has_no_rules(const char *name)
{
	bool		none = strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0;
#ifdef __GLIBC__
	locale_t	locale = none ? (locale_t) 0 : newlocale(LC_COLLATE_MASK, name, (locale_t) 0);

	if (locale != (locale_t) 0)
	{
		/* glibc returns the number in place of the pointer */
		none = (uint32) (uintptr_t) nl_langinfo_l(_NL_COLLATE_NRULES, locale) == 0;
		freelocale(locale);
	}
#endif
	return none;
}

/*
 * The collation's provider; '\0' if there is no such collation.  *name is the locale's
 * name for provider libc (palloc'd), otherwise NULL.
 */
static char
provider_of(Oid collation, char **name)
{
	bool		by_database = collation == DEFAULT_COLLATION_OID;
	int			cache = by_database ? DATABASEOID : COLLOID;
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(by_database ? MyDatabaseId : collation));
	bool		isnull;
	char		provider;
	Datum		value;

	*name = NULL;
	if (!HeapTupleIsValid(tuple))
		return '\0';
	provider = DatumGetChar(SysCacheGetAttr(cache, tuple, by_database ? Anum_pg_database_datlocprovider :
											Anum_pg_collation_collprovider, &isnull));
	if (provider == COLLPROVIDER_LIBC)
	{
		value = SysCacheGetAttr(cache, tuple, by_database ? Anum_pg_database_datcollate :
								Anum_pg_collation_collcollate, &isnull);
		if (!isnull)
			*name = TextDatumGetCString(value);
	}
	ReleaseSysCache(tuple);
	return provider;
}

bool
collation_by_bytes(Oid collation)
{
	/* of the last collation; PostgreSQL, too, keeps what it knows of a collation until the process ends */
	static Oid	known = InvalidOid;
	static bool by_bytes;
	char	   *name;
	char		provider;

	if (collation == known)
		return by_bytes;
	provider = provider_of(collation, &name);
	known = InvalidOid;
	by_bytes = provider == COMPAT_COLLPROVIDER_BUILTIN;
	if (name != NULL)
	{
		by_bytes = locale_has_no_rules(name);
		pfree(name);
	}
	known = collation;
	return by_bytes;
}

char *
collation_libc_locale(Oid collation)
{
	char	   *name;

	(void) provider_of(collation, &name);
	return name;
}

/* ------------------------------------------------------------------------
 * Strings that compare by bytes
 * ------------------------------------------------------------------------
 */

#define SHORTEN_LATE	4096	/* rows */

/* The bytes of a value that matter behind a prefix.  *copy is to be freed, or NULL. */
static KeyString
string_open(KeyKind kind, Datum value, int prefix_len, void **copy)
{
	struct varlena *whole = (struct varlena *) DatumGetPointer(value);

	*copy = NULL;
	if (unlikely(string_is_toasted(kind, value)))
	{
		CHECK_FOR_INTERRUPTS();
		*copy = kind == KEY_BPCHAR ? detoast_attr(whole) :
			detoast_attr_slice(whole, 0, Max(prefix_len, BYTES_PREFIX_MAX) + BYTES_WORD + 1);
		value = PointerGetDatum(*copy);
	}
	return string_of(kind, value);
}

uint64
string_normkey(const KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	void	   *copy;
	KeyString	s = string_open(col->kind, value, col->prefix.len, &copy);
	uint64		normkey = string_normkey_behind(col->kind, &col->prefix, s, inexact);

	varlena_close(copy);
	return normkey;
}

bool
string_has_prefix(const KeyBufferColumn *col, Datum value)
{
	const BytesPrefix *prefix = &col->prefix;
	size_t		len = Max(prefix->len, 0);
	void	   *copy;
	KeyString	s = string_open(col->kind, value, prefix->len, &copy);
	bool		has = s.len >= len && memcmp(s.p, prefix->bytes, len) == 0;

	varlena_close(copy);
	return has;
}

/* A DESC column has complemented normalized keys, so its bytes are complemented, too. */
static inline uint64
shift_normkey(const KeyBufferColumn *col, int from, int to, uint64 normkey)
{
	return bytes_shift(&col->prefix, from, to, normkey ^ col->flip) ^ col->flip;
}

void
string_shift_range(const KeyBufferColumn *col, int from, int to, KeyRange *range)
{
	if (from == to || range->min > range->max)
		return;

	/*
	 * each bit of a shifted normalized key is a bit of the old one or of the
	 * prefix
	 */
	range->inexact |= bytes_shift_loses(from, to, col->flip != 0 ? ~range->common : range->set);
	range->min = shift_normkey(col, from, to, range->min);
	range->max = shift_normkey(col, from, to, range->max);
	range->set = shift_normkey(col, from, to, range->set);
	range->common = shift_normkey(col, from, to, range->common);
}

void
string_give_up_prefix(const KeyBufferColumn *col, KeyRange *range, BytesPrefix *prefix)
{
	bool		before = range->min == 0;
	bool		behind = range->max == PG_UINT64_MAX;

	if (!prefix->frozen || prefix->len == 0 || !(before || behind))
		return;
	string_shift_range(col, prefix->len, 0, range);
	range->min = before ? 0 : range->min;
	range->max = behind ? PG_UINT64_MAX : range->max;
	range->inexact = true;
	range->set = PG_UINT64_MAX;
	range->common = 0;
	prefix->len = 0;
}

static void
shorten_prefix(KeyBufferColumn *col, size_t rows, int len)
{
	uint64	   *normkeys = col->normkeys;
	int			from = col->prefix.len;

	if (rows > SHORTEN_LATE)
		len = Min(len, from / 2);
	for (size_t i = 0; i < rows; i++)
		normkeys[i] = shift_normkey(col, from, len, normkeys[i]);
	string_shift_range(col, from, len, &col->range);
	col->prefix.len = len;
}

uint64
string_key_begin(KeyBuffer *keybuf, KeyBufferColumn *col, size_t i, Datum value, bool *inexact)
{
	BytesPrefix *prefix = &col->prefix;
	void	   *copy;
	KeyString	s = string_open(col->kind, value, prefix->len, &copy);
	uint64		normkey;

	if (prefix->len < 0)
	{
		prefix->len = Min(s.len, BYTES_PREFIX_MAX);
		memcpy(prefix->bytes, s.p, prefix->len);
	}
	else if (!prefix->frozen)
	{
		int			common = bytes_common(s.p, s.len, (const char *) prefix->bytes, prefix->len);

		if (common < prefix->len)
			shorten_prefix(col, i, common);
	}
	*inexact = false;
	normkey = string_normkey_behind(col->kind, &col->prefix, s, inexact);
	varlena_close(copy);
	return normkey ^ col->flip;
}

/* ------------------------------------------------------------------------
 * Abbreviated keys
 * ------------------------------------------------------------------------
 */

SortSupport
abbreviated_support(MemoryContext cxt, const KeyColumn *key, bool abbreviate)
{
	SortSupport ssup = MemoryContextAllocZero(cxt, sizeof(SortSupportData));
	MemoryContext old = MemoryContextSwitchTo(cxt);

	ssup->ssup_cxt = cxt;
	ssup->ssup_collation = key->collation;
	ssup->ssup_nulls_first = key->nulls_first;
	ssup->ssup_attno = key->attno;
	ssup->abbreviate = abbreviate;
	PrepareSortSupportFromOrderingOp(key->sortop, ssup);
	MemoryContextSwitchTo(old);
	return ssup;
}

static bool
abbreviates(const SortSupportData *ssup)
{
	return ssup->abbrev_converter != NULL && ssup->comparator == ssup_datum_unsigned_cmp;
}

KeyKind
abbreviated_kind(const KeyColumn *key)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort key type",
											  ALLOCSET_SMALL_SIZES);
	KeyKind		kind = abbreviates(abbreviated_support(cxt, key, true)) ?
		KEY_ABBREVIATED : KEY_COMPARED;

	MemoryContextDelete(cxt);
	return kind;
}

uint64
abbreviated_normkey(const KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	*inexact = true;
	/* the converter may transform a long string */
	CHECK_FOR_INTERRUPTS();
	/* the plan may be older than the type's current sort support */
	if (unlikely(!abbreviates(maker.ssup)))
		return 0;
	return DatumGetUInt64(maker.ssup->abbrev_converter(value, maker.ssup));
}
