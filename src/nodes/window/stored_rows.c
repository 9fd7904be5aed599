/*
 * stored_rows.c
 *	  The rows of a partition, or of a peer group, stored until the next one begins.
 *
 * The end of a partition or peer group is known when the child has returned the first row of the
 * next one.  Until then the rows are copied to a tuplestore, which has a read pointer for the
 * current row and one for each reader.  Most peer groups have one row: this is copied to a slot,
 * and not to the tuplestore.  On disk, another read pointer may mean another block of the file.  So a
 * reader keeps the tuplestore until it rests.
 *
 * Memory policy: a tuplestore of work_mem in the query's memory context, beyond that on disk.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/group_compare.h"
#include "nodes/window/stored_rows.h"
#include "utils/tuplestore.h"

struct StoredReader
{
	StoredRows *rows;
	int			pointer;		/* read pointer of the tuplestore */
	TupleTableSlot *row;
};

struct StoredRows
{
	PlanState  *child;
	GroupColumns *columns;		/* with the values of the first row */
	Tuplestorestate *store;		/* the rows, if there are several; NULL until needed */
	int64		n;				/* rows */
	TupleTableSlot *current;
	TupleTableSlot *pending;	/* the child's row that begins the next ones; NULL: there are no more */
	List	   *readers;
};

static TupleTableSlot *
make_slot(const StoredRows *rows)
{
	return ExecInitExtraTupleSlot(rows->child->state, ExecGetResultType(rows->child), &TTSOpsMinimalTuple);
}

StoredRows *
stored_rows_create(PlanState *child, GroupColumns *columns)
{
	StoredRows *rows = palloc0(sizeof(StoredRows));

	rows->child = child;
	rows->columns = columns;
	rows->current = make_slot(rows);
	return rows;
}

StoredReader *
stored_rows_add_reader(StoredRows *rows)
{
	StoredReader *reader = palloc0(sizeof(StoredReader));

	Assert(rows->store == NULL);
	reader->rows = rows;
	reader->row = make_slot(rows);
	rows->readers = lappend(rows->readers, reader);
	/* pointer 0 reads the current row */
	reader->pointer = list_length(rows->readers);
	return reader;
}

void
stored_rows_end(StoredRows *rows)
{
	if (rows->store != NULL)
		tuplestore_end(rows->store);
}

static void
create_store(StoredRows *rows)
{
	MemoryContext old = MemoryContextSwitchTo(rows->child->state->es_query_cxt);

	rows->store = tuplestore_begin_heap(false, false, work_mem);
	for (int i = 0; i < list_length(rows->readers); i++)
		(void) tuplestore_alloc_read_pointer(rows->store, 0);
	MemoryContextSwitchTo(old);
}

/* Drops all rows. */
static void
clear(StoredRows *rows)
{
	ListCell   *lc;

	/* slots may refer to the tuplestore's memory */
	ExecClearTuple(rows->current);
	foreach(lc, rows->readers)
		ExecClearTuple(((StoredReader *) lfirst(lc))->row);
	if (rows->store != NULL)
		tuplestore_clear(rows->store);
	rows->n = 0;
}

void
stored_rows_begin(StoredRows *rows, TupleTableSlot *row)
{
	clear(rows);
	rows->pending = row;
}

/* Takes the pending row, which becomes the current one, and the other rows of its partition or peer group. */
static void
take_rows_together(StoredRows *rows)
{
	GroupColumns *columns = rows->columns;
	TupleTableSlot *row = rows->pending;

	clear(rows);
	slot_getsomeattrs(row, columns->last_attno);
	group_columns_keep(columns, row, 0);
	ExecCopySlot(rows->current, row);
	rows->n = 1;
	row = ExecProcNode(rows->child);
	if (!TupIsNull(row) && group_columns_same(columns, columns->n, row))
	{
		if (rows->store == NULL)
			create_store(rows);
		tuplestore_puttupleslot(rows->store, rows->current);
		do
		{
			CHECK_FOR_INTERRUPTS();
			tuplestore_puttupleslot(rows->store, row);
			rows->n++;
			row = ExecProcNode(rows->child);
		} while (!TupIsNull(row) && group_columns_same(columns, columns->n, row));
		(void) tuplestore_gettupleslot(rows->store, true, false, rows->current);
	}
	rows->pending = TupIsNull(row) ? NULL : row;
}

TupleTableSlot *
stored_rows_next(StoredRows *rows, bool skip)
{
	if (!skip && rows->n > 1 && tuplestore_gettupleslot(rows->store, true, false, rows->current))
		return rows->current;
	if (rows->pending == NULL)
		return NULL;
	take_rows_together(rows);
	return rows->current;
}

int64
stored_rows_count(const StoredRows *rows)
{
	return rows->n;
}

void
stored_reader_begin(StoredReader *reader, int64 distance)
{
	Tuplestorestate *store = reader->rows->store;

	if (reader->rows->n == 1)
		return;
	/* the current row's pointer stands behind it */
	tuplestore_copy_read_pointer(store, 0, reader->pointer);
	tuplestore_select_read_pointer(store, reader->pointer);
	(void) tuplestore_skiptuples(store, distance - 1, true);
}

TupleTableSlot *
stored_reader_next(StoredReader *reader)
{
	Tuplestorestate *store = reader->rows->store;

	if (reader->rows->n == 1)
		return NULL;
	/* without effect if it is selected */
	tuplestore_select_read_pointer(store, reader->pointer);
	return tuplestore_gettupleslot(store, true, false, reader->row) ? reader->row : NULL;
}

void
stored_reader_rest(StoredReader *reader)
{
	if (reader->rows->n > 1)
		tuplestore_select_read_pointer(reader->rows->store, 0);
}
