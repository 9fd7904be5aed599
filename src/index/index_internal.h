/*
 * index_internal.h
 *	  Interfaces inside the index builds: reading the heap, writing pages.
 */
#ifndef GPUSORT_INDEX_INDEX_INTERNAL_H
#define GPUSORT_INDEX_INDEX_INTERNAL_H

#include "postgres.h"

#include "access/itup.h"
#include "nodes/execnodes.h"
#include "sort/sort.h"
#include "utils/rel.h"

/* ------------------------------------------------------------------------
 * Reading the heap (scan.c)
 * ------------------------------------------------------------------------
 */

/* What was read. */
typedef struct HeapRead
{
	double		live;			/* live heap tuples, for pg_class.reltuples */
	double		rows;			/* rows that were put to the sorter */
	bool		by_page;		/* pages were read directly */
} HeapRead;

/*
 * Reads the heap and puts a row for each index tuple to the sorter, which has begun.  A
 * row is a MinimalTuple of the index's columns with its TID (row.h).  Rows come in TID
 * order.
 */
extern void heap_read(Relation heap, Relation index, IndexInfo *info, Sorter *sorter, HeapRead *read);

/* ------------------------------------------------------------------------
 * Writing pages (pages.c)
 * ------------------------------------------------------------------------
 */

typedef struct PageWriter PageWriter;

/* Begins an index in the current memory context.  Nothing is written before the first tuple. */
extern PageWriter *page_writer_begin(Relation heap, Relation index);

/* Do equal values of the key columns have equal bytes?  Then equal keys can be deduplicated. */
extern bool page_writer_bytes_decide(const PageWriter *writer);

/* Have two index tuples equal key columns, by their bytes? */
extern bool page_writer_same_bytes(const PageWriter *writer, IndexTuple a, IndexTuple b);

/*
 * Adds the next tuple in the order of (keys, TID).  Does not keep a reference to it.  The
 * size in the tuple is MAXALIGN'ed.
 */
extern void page_writer_add(PageWriter *writer, IndexTuple itup);

/* Space for the next tuple: PAGE_WRITER_TUPLE bytes. */
#define PAGE_WRITER_TUPLE	BLCKSZ
extern char *page_writer_space(PageWriter *writer);

/* Adds the tuple in page_writer_space() to an index that is deduplicated. */
extern void page_writer_add_deduplicated(PageWriter *writer);

/* Writes the remaining pages and the metapage.  Returns the number of pages of the index. */
extern BlockNumber page_writer_finish(PageWriter *writer);

/* Gives the build up: the index is empty again. */
extern void page_writer_abandon(PageWriter *writer);

#endif							/* GPUSORT_INDEX_INDEX_INTERNAL_H */
