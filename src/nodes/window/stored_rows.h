/*
 * stored_rows.h
 *	  The rows of a partition, or of a peer group, stored until the next one begins.
 */
#ifndef GPUSORT_NODES_WINDOW_STORED_ROWS_H
#define GPUSORT_NODES_WINDOW_STORED_ROWS_H

#include "postgres.h"

#include "nodes/base/group_column.h"
#include "nodes/execnodes.h"

typedef struct StoredRows StoredRows;

/* Reads rows behind the current one. */
typedef struct StoredReader StoredReader;

/* Rows of this child that are equal in the columns are stored together. */
extern StoredRows *stored_rows_create(PlanState *child, GroupColumns *columns);
extern void stored_rows_end(StoredRows *rows);

/* Adds a reader, before there are rows. */
extern StoredReader *stored_rows_add_reader(StoredRows *rows);

/* Begins with this row of the child, or, after a rescan of the child, with none. */
extern void stored_rows_begin(StoredRows *rows, TupleTableSlot *row);

/* The next row.  skip: the remaining rows that are stored together are skipped.  NULL: there are no more. */
extern TupleTableSlot *stored_rows_next(StoredRows *rows, bool skip);

/* Number of the rows that are stored together, the current one among them. */
extern int64 stored_rows_count(const StoredRows *rows);

/* Lets the reader begin this many rows behind the current one, with 1 for the next row. */
extern void stored_reader_begin(StoredReader *reader, int64 distance);

/* The reader's next row; NULL: there are no more.  It stays until the reader's next one. */
extern TupleTableSlot *stored_reader_next(StoredReader *reader);

/*
 * Ends reading for now.  The reader goes on where it is, or begins again.  Until then no other reader is used, and no
 * stored_rows_next().
 */
extern void stored_reader_rest(StoredReader *reader);

#endif							/* GPUSORT_NODES_WINDOW_STORED_ROWS_H */
