/*
 * key_filter.h
 *	  KeyFilter: the integers by which rows of one side of a merge join are sorted.
 *
 * The sort of one side adds the keys of its rows while it takes the rows.  Then the sort of the other side
 * drops rows whose key was not added: they have no match.  See key_filter.c.
 */
#ifndef GPUSORT_SCAN_KEY_FILTER_H
#define GPUSORT_SCAN_KEY_FILTER_H

#include "postgres.h"

#include "sort/sort.h"
#include "storage/off.h"

typedef struct KeyFilter KeyFilter;

/* Which part a sort has in a filter. */
typedef enum KeyFilterRole
{
	KEY_FILTER_NONE,
	KEY_FILTER_ADDS,			/* the values of its rows are added */
	KEY_FILTER_DROPS			/* its rows without an added value are dropped */
} KeyFilterRole;

/* The use of a filter by the rows of a sort.  Their first key is an integer. */
typedef struct KeyFilterUse
{
	KeyFilterRole role;
	KeyFilter  *filter;
	AttrNumber	attno;			/* the key's column, from 1 */
	int			bytes;			/* its size: 2, 4 or 8 */
	uint64		tested;			/* rows of this run of the sort */
	uint64		dropped;
} KeyFilterUse;

/* Does a filter for this number of values fit in this memory (bytes)? */
extern bool key_filter_possible(double values, Size memory);

/* Creates a filter in the current memory context.  key_filter_possible() has allowed it. */
extern KeyFilter *key_filter_create(double values);

/* Size of a filter's words. */
extern Size key_filter_bytes(const KeyFilter *filter);

/* Adds a filter's values to words in shared memory, to which other processes add theirs. */
extern void key_filter_publish(const KeyFilter *filter, uint64 *shared);

/* From now on the filter has the values that all processes have added to the words.  NULL: it is given up. */
extern void key_filter_adopt(KeyFilter *filter, uint64 *shared);

/* Called before the sort takes its first row.  A sort that is repeated takes the same rows again. */
extern void key_filter_begin(KeyFilterUse *use);

/* Called after the sort has taken all rows. */
extern void key_filter_end(KeyFilterUse *use);

/*
 * Adds the keys of the page's rows, or drops rows from the page, as the use's role says.  offsets has the line
 * pointer of each row, and loses those of dropped rows; NULL: the rows have none.
 */
extern void key_filter_page(KeyFilterUse *use, RowPage *page, OffsetNumber *offsets);

/* The same for the row of a slot.  False: the caller drops the row. */
extern bool key_filter_slot(KeyFilterUse *use, TupleTableSlot *slot);

#endif							/* GPUSORT_SCAN_KEY_FILTER_H */
