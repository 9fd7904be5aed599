/*
 * abbreviated.h
 *	  Keys that a type abbreviates itself, or only compares.
 */
#ifndef GPUSORT_ABBREVIATED_H
#define GPUSORT_ABBREVIATED_H

#include "postgres.h"

#include "key/type/keytype.h"
#include "utils/sortsupport.h"

/* KEY_ABBREVIATED if the type abbreviates such a column's values, otherwise KEY_COMPARED. */
extern KeyKind abbreviated_kind(const KeyColumn *key);

/* The comparator of a column, with its abbreviation if wanted, in memory of cxt. */
extern SortSupport abbreviated_support(MemoryContext cxt, const KeyColumn *key, bool abbreviate);

#endif							/* GPUSORT_ABBREVIATED_H */
