/*
 * collation.c
 *	  Does a collation compare strings by their bytes?
 *
 * PostgreSQL knows of "C" and "POSIX", and of its own provider's.  C.UTF-8 of the C
 * library it takes for a language like any other, and asks strcoll() for every pair,
 * although its order is that of code points, which in UTF-8 is that of bytes.  The C
 * library tells: glibc's locales with no rules of collation compare as strcmp() does,
 * and only those have none.  (Where C.UTF-8 has rules, as before glibc 2.35, it is
 * left to the comparator.)  PostgreSQL settles what strcoll() finds equal by bytes.
 */
#include "postgres.h"

#include <langinfo.h>
#include <locale.h>

#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "compat.h"
#include "key/collation.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

/* Has the C library's locale of this name no rules of collation? */
static bool
locale_has_no_rules(const char *name)
{
#ifdef __GLIBC__
	locale_t	locale = newlocale(LC_COLLATE_MASK, name, (locale_t) 0);
	bool		none;

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

/* The name of a locale of the C library's in a catalog's column; NULL if there is none. */
static char *
locale_name(int cache, Oid oid, AttrNumber provider_att, AttrNumber name_att, char libc)
{
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(oid));
	char	   *name = NULL;
	Datum		value;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	value = SysCacheGetAttr(cache, tuple, provider_att, &isnull);
	if (!isnull && DatumGetChar(value) == libc)
	{
		value = SysCacheGetAttr(cache, tuple, name_att, &isnull);
		if (!isnull)
			name = TextDatumGetCString(value);
	}
	ReleaseSysCache(tuple);
	return name;
}

bool
collation_by_bytes(Oid collation)
{
	char	   *name;
	bool		by_bytes;

	if (compat_collate_is_c(collation))
		return true;
	name = collation == DEFAULT_COLLATION_OID ?
		locale_name(DATABASEOID, MyDatabaseId, Anum_pg_database_datlocprovider,
					Anum_pg_database_datcollate, COLLPROVIDER_LIBC) :
		locale_name(COLLOID, collation, Anum_pg_collation_collprovider,
					Anum_pg_collation_collcollate, COLLPROVIDER_LIBC);
	if (name == NULL)
		return false;
	by_bytes = locale_has_no_rules(name);
	pfree(name);
	return by_bytes;
}
