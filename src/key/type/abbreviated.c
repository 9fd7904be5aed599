/*
 * abbreviated.c
 *	  Keys that a type abbreviates itself, or only compares.
 *
 * A type's sort support may make a word of a value whose order is the values' as
 * far as it goes: text does so for collations whose transformed strings PostgreSQL
 * trusts (ICU's always, the C library's where it was built to).  Where such words
 * compare as unsigned numbers they are images like any other, and always inexact.
 * Where there are none, a column has no image at all, and comparators order the rows.
 */
#include "postgres.h"

#include "key/type/abbreviated.h"
#include "key/stage.h"
#include "miscadmin.h"
#include "utils/memutils.h"

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
abbreviated_image(const StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	*inexact = true;
	/* the type may transform a long value */
	CHECK_FOR_INTERRUPTS();
	/* the plan may be older than what the type does today */
	if (unlikely(!abbreviates(maker.ssup)))
		return 0;
	return DatumGetUInt64(maker.ssup->abbrev_converter(value, maker.ssup));
}
