/*
 * collation.c
 *	  How a collation compares strings: by their bytes?
 *
 * "C" and "POSIX" do, and what PostgreSQL's own provider has.  C.UTF-8 of the C
 * library PostgreSQL takes for a language like any other, and asks strcoll() for every
 * pair, although its order is that of code points, which in UTF-8 is that of bytes.  The
 * C library tells: glibc's locales with no rules of collation compare as strcmp() does,
 * and only those have none.  (Where C.UTF-8 has rules, as before glibc 2.35, it is
 * left to the comparator.)  PostgreSQL settles what strcoll() finds equal by bytes.
 *
 * All of it stands in the catalogs.  PostgreSQL's pg_locale.h would say the same of a
 * part, but includes ICU's headers, which server packages do not bring along.
 */
#include "postgres.h"

#include <langinfo.h>
#include <locale.h>

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "compat.h"
#include "key/type/collation.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

/* Has the C library's locale of this name no rules of collation? */
static bool
locale_has_no_rules(const char *name)
{
#ifdef __GLIBC__
	locale_t	locale;
	bool		none;
#endif

	if (strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0)
		return true;
#ifdef __GLIBC__
	locale = newlocale(LC_COLLATE_MASK, name, (locale_t) 0);
	if (locale == (locale_t) 0)
		return false;
	/* a number in a pointer's place */
	none = (uint32) (uintptr_t) nl_langinfo_l(_NL_COLLATE_NRULES, locale) == 0;
	freelocale(locale);
	return none;
#else
	return false;
#endif
}

/* Who compares, by a row of a catalog, and for the C library by which locale, palloc'd. */
static char
read_provider(int cache, Oid oid, AttrNumber provider_att, AttrNumber name_att, char **name)
{
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(oid));
	bool		isnull;
	char		provider;
	Datum		value;

	*name = NULL;
	if (!HeapTupleIsValid(tuple))
		return '\0';
	provider = DatumGetChar(SysCacheGetAttr(cache, tuple, provider_att, &isnull));
	if (provider == COLLPROVIDER_LIBC)
	{
		value = SysCacheGetAttr(cache, tuple, name_att, &isnull);
		if (!isnull)
			*name = TextDatumGetCString(value);
	}
	ReleaseSysCache(tuple);
	return provider;
}

static char
provider_of(Oid collation, char **name)
{
	if (collation == DEFAULT_COLLATION_OID)
		return read_provider(DATABASEOID, MyDatabaseId, Anum_pg_database_datlocprovider,
							 Anum_pg_database_datcollate, name);
	return read_provider(COLLOID, collation, Anum_pg_collation_collprovider,
						 Anum_pg_collation_collcollate, name);
}

bool
collation_by_bytes(Oid collation)
{
	char	   *name;
	char		provider = provider_of(collation, &name);
	bool		by_bytes = provider == COMPAT_COLLPROVIDER_BUILTIN;

	if (name != NULL)
	{
		by_bytes = locale_has_no_rules(name);
		pfree(name);
	}
	return by_bytes;
}

static bool
is_deterministic(Oid collation)
{
	HeapTuple	tuple;
	bool		deterministic;

	if (collation == DEFAULT_COLLATION_OID)
		return true;
	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		return false;
	deterministic = ((Form_pg_collation) GETSTRUCT(tuple))->collisdeterministic;
	ReleaseSysCache(tuple);
	return deterministic;
}

bool
collation_by_letters(Oid collation)
{
	char	   *name;
	char		provider = provider_of(collation, &name);

	if (name != NULL)
		pfree(name);
	return provider == COLLPROVIDER_ICU && GetDatabaseEncoding() == PG_UTF8 &&
		is_deterministic(collation);
}

char *
collation_libc_locale(Oid collation)
{
	char	   *name;

	(void) provider_of(collation, &name);
	return name;
}
