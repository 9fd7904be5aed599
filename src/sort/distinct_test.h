/*
 * distinct_test.h
 *	  How keys tell which columns of two rows are equal.
 */
#ifndef GPUSORT_SORT_DISTINCT_TEST_H
#define GPUSORT_SORT_DISTINCT_TEST_H

#include "postgres.h"

/*
 * A batch of this size is sorted in the cache to drop its duplicates.  Later ones have
 * DISTINCT_GROWTH times the size of the remaining rows, if that is more.
 */
#define DISTINCT_EARLY_BYTES	((Size) 4 * 1024 * 1024)
#define DISTINCT_GROWTH			4

/* How packed keys tell whether rows are equal in the distinct columns. */
typedef struct DistinctTest
{
	int			cut;			/* lowest bits of the key that do not count */
	bool		exact;			/* equal other bits mean equal rows */
} DistinctTest;

/*
 * How many leading columns two neighbours in sort order have in common.  The next column differs; with
 * EQUAL_COLUMNS_LEAST it is not known whether it does.
 */
typedef uint8 EqualColumns;

#define EQUAL_COLUMNS_LEAST	0x80

/* These, by the highest bit in which the rows' keys differ, counted from 1; [0]: of rows with equal keys. */
typedef EqualColumns EqualColumnsTable[128 + 1];

/* A copy of a row. */
typedef struct KeptRow
{
	char	   *row;			/* NULL: no row was kept */
	Size		size;			/* allocated bytes */
} KeptRow;

#endif							/* GPUSORT_SORT_DISTINCT_TEST_H */
