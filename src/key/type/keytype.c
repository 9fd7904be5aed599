/*
 * keytype.c
 *	  Which SQL types can be sort keys, and how a column of each is encoded.
 *
 * The table goes by the ordering operator's family and input type, not by the
 * column's type: a domain, or a type that merely sorts through another one's
 * operators (regclass through oid's), then works by itself, and a column sorted
 * by somebody else's operator class is never mistaken for the default order.  What is
 * not in the table sorts by the operator class's own abbreviation or comparator.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "key/type/abbreviated.h"
#include "key/type/collation.h"
#include "key/type/keytype.h"

/* OIDs of pg_opfamily.dat, not all of which the headers name. */
#define FAMILY_ARRAY			397
#define FAMILY_BIT				423
#define FAMILY_BOOL				424
#define FAMILY_BPCHAR			426
#define FAMILY_BYTEA			428
#define FAMILY_CHAR				429
#define FAMILY_DATETIME			434
#define FAMILY_FLOAT			1970
#define FAMILY_NETWORK			1974
#define FAMILY_INTEGER			1976
#define FAMILY_INTERVAL			1982
#define FAMILY_MACADDR			1984
#define FAMILY_NUMERIC			1988
#define FAMILY_OID				1989
#define FAMILY_TEXT				1994
#define FAMILY_TIME				1996
#define FAMILY_TIMETZ			2000
#define FAMILY_VARBIT			2002
#define FAMILY_TEXT_PATTERN		2095
#define FAMILY_BPCHAR_PATTERN	2097
#define FAMILY_MONEY			2099
#define FAMILY_TID				2789
#define FAMILY_UUID				2968
#define FAMILY_RECORD			2994
#define FAMILY_PG_LSN			3253
#define FAMILY_MACADDR8			3371
#define FAMILY_ENUM				3522
#define FAMILY_RANGE			3901
#define FAMILY_MULTIRANGE		4199
#define FAMILY_XID8				5067

typedef struct KeyType
{
	Oid			opfamily;
	Oid			type;
	KeyKind		kind;
} KeyType;

static const KeyType key_types[] = {
	{FAMILY_INTEGER, INT4OID, KEY_INT4},
	{FAMILY_INTEGER, INT8OID, KEY_INT8},
	{FAMILY_INTEGER, INT2OID, KEY_INT2},
	{FAMILY_FLOAT, FLOAT8OID, KEY_FLOAT8},
	{FAMILY_FLOAT, FLOAT4OID, KEY_FLOAT4},
	{FAMILY_DATETIME, TIMESTAMPTZOID, KEY_INT8},
	{FAMILY_DATETIME, TIMESTAMPOID, KEY_INT8},
	{FAMILY_DATETIME, DATEOID, KEY_INT4},
	{FAMILY_TIME, TIMEOID, KEY_INT8},
	{FAMILY_MONEY, MONEYOID, KEY_INT8},
	{FAMILY_OID, OIDOID, KEY_UINT4},
	{FAMILY_BOOL, BOOLOID, KEY_UINT8},
	{FAMILY_CHAR, CHAROID, KEY_UINT8},
	{FAMILY_TEXT, TEXTOID, KEY_TEXT},
	{FAMILY_TEXT, NAMEOID, KEY_NAME},
	{FAMILY_BPCHAR, BPCHAROID, KEY_BPCHAR},
	{FAMILY_BYTEA, BYTEAOID, KEY_BYTEA},
	{FAMILY_NUMERIC, NUMERICOID, KEY_NUMERIC},
	{FAMILY_UUID, UUIDOID, KEY_UUID},
	{FAMILY_INTERVAL, INTERVALOID, KEY_INTERVAL},
	{FAMILY_ENUM, ANYENUMOID, KEY_ENUM},
	{FAMILY_NETWORK, INETOID, KEY_INET},
	{FAMILY_TIMETZ, TIMETZOID, KEY_TIMETZ},
	{FAMILY_MACADDR, MACADDROID, KEY_MACADDR},
	{FAMILY_MACADDR8, MACADDR8OID, KEY_MACADDR8},
	{FAMILY_BIT, BITOID, KEY_BITS},
	{FAMILY_VARBIT, VARBITOID, KEY_BITS},
	{FAMILY_TID, TIDOID, KEY_TID},
	{FAMILY_XID8, XID8OID, KEY_UINT64},
	{FAMILY_PG_LSN, PG_LSNOID, KEY_UINT64},
	{FAMILY_ARRAY, ANYARRAYOID, KEY_ARRAY},
	{FAMILY_RANGE, ANYRANGEOID, KEY_RANGE},
	{FAMILY_MULTIRANGE, ANYMULTIRANGEOID, KEY_MULTIRANGE},
	{FAMILY_RECORD, RECORDOID, KEY_RECORD},
	{FAMILY_TEXT_PATTERN, TEXTOID, KEY_TEXT},
	{FAMILY_BPCHAR_PATTERN, BPCHAROID, KEY_BPCHAR},
};

/* The order of strings is their collation's. */
static bool
choose_string_kind(KeyColumn *key, Oid opfamily, const char **why)
{
	if (opfamily != FAMILY_TEXT && opfamily != FAMILY_BPCHAR)
		return true;
	if (!OidIsValid(key->collation))
	{
		*why = "its collation is not known";
		return false;
	}
	/* to abbreviate strings takes ICU longer than to compare each once (tie_hints.c) */
	if (!collation_by_bytes(key->collation))
		key->kind = collation_by_letters(key->collation) ? KEY_COMPARED : abbreviated_kind(key);
	return true;
}

static const KeyType *
find_type(Oid opfamily, Oid type)
{
	for (int i = 0; i < (int) lengthof(key_types); i++)
	{
		if (key_types[i].opfamily == opfamily && key_types[i].type == type)
			return &key_types[i];
	}
	return NULL;
}

bool
key_type_lookup(KeyColumn *key, Oid type, const char **why)
{
	Oid			opfamily;
	Oid			opcintype;
	const KeyType *found;

	if (!compat_ordering_op(key->sortop, &opfamily, &opcintype, &key->descending))
	{
		*why = "the operator is not a btree ordering operator";
		return false;
	}
	found = find_type(opfamily, opcintype);
	if (found != NULL)
	{
		key->kind = found->kind;
		return choose_string_kind(key, opfamily, why);
	}
	/* such a class fails only where a value is compared, which an EXPLAIN never does */
	if (!OidIsValid(get_opfamily_proc(opfamily, opcintype, opcintype, BTORDER_PROC)) &&
		!OidIsValid(get_opfamily_proc(opfamily, opcintype, opcintype, BTSORTSUPPORT_PROC)))
	{
		*why = "the operator class has no comparison function";
		return false;
	}
	key->kind = abbreviated_kind(key);
	return true;
}

bool
key_sorts_strings(const KeyColumn *key, KeyKind *kind)
{
	Oid			opfamily;
	Oid			opcintype;
	bool		descending;
	const KeyType *found;

	if (!OidIsValid(key->collation) ||
		!compat_ordering_op(key->sortop, &opfamily, &opcintype, &descending) ||
		(opfamily != FAMILY_TEXT && opfamily != FAMILY_BPCHAR))
		return false;
	found = find_type(opfamily, opcintype);
	if (found != NULL)
		*kind = found->kind;
	return found != NULL;
}
