/*
 * cluster.c
 *	  CLUSTER's sort of a table: scans the heap, sorts its tuples, and writes them to the new heap.
 *
 * cluster_copy_sorted() does what the heap access method's relation_copy_for_cluster()
 * does if the planner has chosen a sort: it copies live and recently dead tuples in the
 * order of an index, and lets the rewrite module (rewriteheap.c) insert and log them, follow
 * update chains, and freeze.
 *
 * A row of the sort is the heap tuple as a MinimalTuple.  A MinimalTuple has no
 * transaction ids, so these follow the tuple's data, with the TID (RowTail).  The tuples
 * of a heap page are copied together and put as a RowPage.  Their keys are columns, so a
 * sort by an index with expressions is left to PostgreSQL.
 *
 * The scan begins with the first block and the sort is stable.  So equal rows keep the
 * order of their TIDs; PostgreSQL leaves their order open.
 *
 * Memory policy: the sort uses maintenance_work_mem.  All memory is in one memory context,
 * which is deleted at the end.
 *
 * Errors: memory belongs to the caller's context, files to the resource owner.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/rewriteheap.h"
#include "catalog/pg_am.h"
#include "commands/progress.h"
#include "compat.h"
#include "index/index_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "scan/heap_page.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Rows between two reports of progress. */
#define ROWS_PER_REPORT		64

/* Bytes of a heap tuple's header up to its infomask. */
#define TUPLE_HEAD	(offsetof(HeapTupleHeaderData, t_infomask) + sizeof(uint16))

/* What follows the data of a row. */
typedef struct RowTail
{
	char		head[TUPLE_HEAD];
	ItemPointerData tid;
} RowTail;

/* Space for a page's tuples with their tails. */
#define PAGE_SPACE	(BLCKSZ + MaxHeapTuplesPerPage * MAXALIGN(sizeof(RowTail) + MAXIMUM_ALIGNOF))

typedef struct ClusterSort
{
	const ClusterCopy *copy;
	IndexBuildCounters *counters;
	RewriteState rewrite;
	SortSpec	spec;			/* desc: that of the rows */
	Sorter	   *sorter;
	TupleTableSlot *row_slot;	/* a row of the sort */
	Datum	   *values;			/* of a row */
	bool	   *isnull;

	/* tuples of the current page */
	RowPage		page;
	char	   *space;			/* PAGE_SPACE bytes */
	Size		used;
} ClusterSort;

/* ------------------------------------------------------------------------
 * What is sorted
 * ------------------------------------------------------------------------
 */

/* As index_sort_spec(), but rows and keys have the columns of the heap. */
static bool
cluster_sort_spec(Relation heap, Relation index, SortSpec *spec, const char **reason)
{
	TupleDesc	desc = RelationGetDescr(heap);
	KeyColumn  *keys;

	if (!index_sort_spec(index, spec, reason))
		return false;
	keys = unconstify(KeyColumn *, spec->keys);
	for (int k = 0; k < spec->nkeys; k++)
	{
		keys[k].attno = index->rd_index->indkey.values[k];
		if (keys[k].attno == 0)
		{
			*reason = "the index has an expression";
			return false;
		}
	}
	/* a base type may have internallength = -2: a page of rows cannot have such a column before a key */
	for (int att = 0; att < desc->natts; att++)
	{
		if (TupleDescAttr(desc, att)->attlen < -1)
		{
			*reason = "the table has a column of strings that end with a zero byte";
			return false;
		}
	}
	/* a copy without reference count */
	spec->desc = CreateTupleDescCopyConstr(desc);
	spec->ties_by_tid = false;
	return true;
}

/* ------------------------------------------------------------------------
 * Scan
 * ------------------------------------------------------------------------
 */

/* Adds a tuple to the page's rows. */
static void
add_page_row(ClusterSort *sort, const HeapTupleData *tuple)
{
	char	   *to = sort->space + sort->used;
	RowTail		tail;

	memcpy(tail.head, tuple->t_data, TUPLE_HEAD);
	tail.tid = tuple->t_self;
	memcpy(to, tuple->t_data, tuple->t_len);
	memcpy(to + tuple->t_len, &tail, sizeof(RowTail));
	((MinimalTuple) (to + MINIMAL_TUPLE_OFFSET))->t_len = tuple->t_len + sizeof(RowTail) - MINIMAL_TUPLE_OFFSET;
	sort->page.tuples[sort->page.n] = (HeapTupleHeader) to;
	sort->page.lens[sort->page.n] = tuple->t_len + sizeof(RowTail);
	sort->page.bytes += row_page_room(&sort->page, sort->page.n);
	sort->page.n++;
	sort->used += MAXALIGN(tuple->t_len + sizeof(RowTail));
}

/* Counts a tuple, and copies it unless it is dead. */
static void
take_tuple(ClusterSort *sort, HeapTuple tuple, HTSV_Result status)
{
	const ClusterCopy *copy = sort->copy;

	/*
	 * the table is locked, so that only this transaction can have made
	 * changes that are in progress
	 */
	if (status == HEAPTUPLE_INSERT_IN_PROGRESS &&
		!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
		elog(WARNING, "concurrent insert in progress within table \"%s\"", RelationGetRelationName(copy->old_heap));
	if (status == HEAPTUPLE_DELETE_IN_PROGRESS &&
		!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(tuple->t_data)))
		elog(WARNING, "concurrent delete in progress within table \"%s\"", RelationGetRelationName(copy->old_heap));
	if (status == HEAPTUPLE_DEAD)
	{
		*copy->tups_vacuumed += 1;
		if (rewrite_heap_dead_tuple(sort->rewrite, tuple))
		{
			/* the tuple before it in its chain is dead, too */
			*copy->tups_vacuumed += 1;
			*copy->tups_recently_dead -= 1;
		}
		return;
	}
	if (status == HEAPTUPLE_RECENTLY_DEAD || status == HEAPTUPLE_DELETE_IN_PROGRESS)
		*copy->tups_recently_dead += 1;
	*copy->num_tuples += 1;
	add_page_row(sort, tuple);
}

/* The tuples of a page, with what their transactions say of them. */
typedef struct PageTuples
{
	const ClusterCopy *copy;
	int			n;
	HTSV_Result statuses[MaxHeapTuplesPerPage];
	HeapTupleData tuples[MaxHeapTuplesPerPage];
} PageTuples;

/* HeapTupleTaker: takes each tuple. */
static bool
take_with_status(void *reader, HeapTuple tuple, Buffer buffer)
{
	PageTuples *taken = reader;
	int			i = taken->n++;

	taken->tuples[i] = *tuple;
	taken->statuses[i] = heap_tuple_known_live(tuple->t_data) ? HEAPTUPLE_LIVE :
		HeapTupleSatisfiesVacuum(&taken->tuples[i], taken->copy->oldest_xmin, buffer);
	return true;
}

/* Reads a page and adds its tuples to the page's rows. */
static void
scan_page(ClusterSort *sort, Buffer buffer)
{
	Relation	heap = sort->copy->old_heap;
	PageTuples	taken;

	taken.copy = sort->copy;
	taken.n = 0;
	(void) heap_page_read(heap, buffer, true, take_with_status, &taken);
	compat_count_heap_rows(heap, taken.n);

	/* the table's lock keeps the tuples, and the pin keeps the page */
	sort->page.n = 0;
	sort->page.bytes = sort->used = 0;
	for (int i = 0; i < taken.n; i++)
		take_tuple(sort, &taken.tuples[i], taken.statuses[i]);
}

/* Reads the whole table. */
static void
scan_heap(ClusterSort *sort)
{
	Relation	heap = sort->copy->old_heap;
	BlockNumber nblocks = RelationGetNumberOfBlocks(heap);
	BufferAccessStrategy strategy = heap_bulk_strategy(heap);

	pgstat_count_heap_scan(heap);
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, nblocks);
	for (BlockNumber block = 0; block < nblocks; block++)
	{
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBufferExtended(heap, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		scan_page(sort, buffer);
		if (sort->page.n > 0)
		{
			heap_look_ahead(&sort->page.ahead, heap, block + 1, nblocks, sort->page.n);
			if (!sorter_put_page(sort->sorter, &sort->page))
				elog(ERROR, "sort of a table has failed");
		}
		ReleaseBuffer(buffer);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, block + 1);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, (int64) *sort->copy->num_tuples);
	}
	FreeAccessStrategy(strategy);
}

/* ------------------------------------------------------------------------
 * Writing
 * ------------------------------------------------------------------------
 */

/*
 * Writes a row to the new heap.  reform: the new heap has dropped columns, which become
 * NULL.
 */
static void
write_new_tuple(ClusterSort *sort, MinimalTuple row, char *space, bool reform)
{
	TupleDesc	desc = RelationGetDescr(sort->copy->new_heap);
	Size		len = row->t_len - sizeof(RowTail);
	union
	{
		HeapTupleHeaderData header;
		char		head[TUPLE_HEAD];
	}			old_header = {0};
	HeapTupleData old;
	HeapTupleData data;
	HeapTuple	new;
	RowTail		tail;

	memcpy(&tail, (char *) row + len, sizeof(RowTail));
	memcpy(old_header.head, tail.head, TUPLE_HEAD);
	old.t_data = &old_header.header;
	old.t_len = data.t_len = len + MINIMAL_TUPLE_OFFSET;
	old.t_tableOid = data.t_tableOid = InvalidOid;
	old.t_self = tail.tid;
	if (reform || (row->t_infomask2 & HEAP_NATTS_MASK) != desc->natts)
	{
		data.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
		heap_deform_tuple(&data, sort->spec.desc, sort->values, sort->isnull);
		for (int att = 0; att < desc->natts; att++)
			sort->isnull[att] |= TupleDescAttr(desc, att)->attisdropped;
		new = heap_form_tuple(desc, sort->values, sort->isnull);
		rewrite_heap_tuple(sort->rewrite, &old, new);
		heap_freetuple(new);
		return;
	}
	/* the rewrite module changes the header of the new tuple */
	memcpy(space, tail.head, TUPLE_HEAD);
	memcpy(space + TUPLE_HEAD, (char *) row + TUPLE_HEAD - MINIMAL_TUPLE_OFFSET,
		   len - (TUPLE_HEAD - MINIMAL_TUPLE_OFFSET));
	data.t_data = (HeapTupleHeader) space;
	ItemPointerSetInvalid(&data.t_self);
	rewrite_heap_tuple(sort->rewrite, &old, &data);
}

static void
write_heap(ClusterSort *sort, SortResult *result)
{
	TupleDesc	desc = RelationGetDescr(sort->copy->new_heap);
	char	   *space = palloc(BLCKSZ);
	bool		in_memory = result->methods->kind == RESULT_ROWS;
	bool		reform = false;
	uint64		written = 0;

	for (int att = 0; att < desc->natts; att++)
		reform |= TupleDescAttr(desc, att)->attisdropped;
	while (in_memory ? result_next(result, RESULT_ROWS, true, sort->row_slot) :
		   result_next(result, RESULT_PLAIN, true, sort->row_slot))
	{
		CHECK_FOR_INTERRUPTS();
		write_new_tuple(sort, slot_minimal_tuple(sort->row_slot), space, reform);
		if (++written % ROWS_PER_REPORT == 0)
			pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, written);
	}
	pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, written);
	if ((double) written != *sort->copy->num_tuples)
		elog(ERROR, "sort of a table returned " UINT64_FORMAT " of %.0f rows", written, *sort->copy->num_tuples);
	ExecClearTuple(sort->row_slot);
}

/* ------------------------------------------------------------------------
 * The planner's choice
 * ------------------------------------------------------------------------
 */

/* Space of a row beside the bytes that it has in the heap: its tail, key and row id. */
#define ROW_MORE_BYTES	64

/*
 * A sort in memory is faster than an index scan, whatever the order of the rows, if it
 * needs no comparator.
 */
bool
cluster_prefers_sort(Relation heap)
{
	double		bytes = (double) RelationGetNumberOfBlocks(heap) * BLCKSZ + heap_rows_expected(heap) * ROW_MORE_BYTES;
	List	   *indexes;
	ListCell   *lc;
	bool		found = false;
	bool		prefers = true;

	if (bytes > maintenance_work_mem * 1024.0)
		return false;
	indexes = RelationGetIndexList(heap);
	foreach(lc, indexes)
	{
		Relation	index = RelationIdGetRelation(lfirst_oid(lc));
		SortSpec	spec;
		const char *reason;

		if (!RelationIsValid(index))
			continue;
		/* one reference is that of this function; the statement has its index open */
		if (index->rd_refcnt > 1)
		{
			found = true;
			prefers &= index->rd_rel->relam == BTREE_AM_OID && cluster_sort_spec(heap, index, &spec, &reason);
			for (int k = 0; prefers && k < spec.nkeys; k++)
				prefers &= !key_traits[spec.keys[k].kind].needs_comparator &&
					!key_traits[spec.keys[k].kind].nested;
		}
		RelationClose(index);
	}
	list_free(indexes);
	return found && prefers;
}

/* ------------------------------------------------------------------------
 * The copy
 * ------------------------------------------------------------------------
 */

/* Scans, sorts and writes.  Nothing has been written before. */
static void
copy_sorted(ClusterSort *sort)
{
	const ClusterCopy *copy = sort->copy;
	IndexBuildCounters *counters = sort->counters;
	SortResult *result;
	instr_time	clock;

	INSTR_TIME_SET_CURRENT(clock);
	sort->space = palloc(PAGE_SPACE);
	sort->row_slot = MakeSingleTupleTableSlot(sort->spec.desc, &TTSOpsMinimalTuple);
	sort->values = palloc(sort->spec.desc->natts * sizeof(Datum));
	sort->isnull = palloc(sort->spec.desc->natts * sizeof(bool));
	sort->rewrite = begin_heap_rewrite(copy->old_heap, copy->new_heap, copy->oldest_xmin, copy->xid_cutoff,
									   copy->multi_cutoff);
	sort->sorter = sorter_create(&sort->spec);
	sorter_begin(sort->sorter, &(SortBegin) {.rows_expected = heap_rows_expected(copy->old_heap)});
	row_page_init_stored(&sort->page, sort->spec.desc, sort->sorter->keybuf);
	sort->page.stored_slot = sort->row_slot;
	scan_heap(sort);
	counters->heap_rows = counters->rows = *copy->num_tuples;
	index_count_scan(counters, sort->sorter, &clock);

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SORT_TUPLES);
	result = sorter_perform(sort->sorter, false);
	if (result == NULL)
		elog(ERROR, "sort of a table has failed");
	index_count_sort(counters, sort->sorter, &clock);

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);
	write_heap(sort, result);
	sorter_destroy(sort->sorter);
	end_heap_rewrite(sort->rewrite);
	counters->pages = RelationGetNumberOfBlocks(copy->new_heap);
	counters->load_ms = index_elapsed_ms(&clock);
	ExecDropSingleTupleTableSlot(sort->row_slot);
}

bool
cluster_copy_sorted(const ClusterCopy *copy, IndexBuildCounters *counters, const char **reason)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort cluster", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	ClusterSort *sort = palloc0(sizeof(ClusterSort));
	bool		supported;

	memset(counters, 0, sizeof(*counters));
	sort->copy = copy;
	sort->counters = counters;
	supported = cluster_sort_spec(copy->old_heap, copy->index, &sort->spec, reason);
	if (supported)
	{
		sort->spec.memory = (Size) maintenance_work_mem * 1024;
		copy_sorted(sort);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return supported;
}
