/*
 * build.c
 *	  Builds a btree index: scan, sort, load.
 *
 * The rows of the sort are MinimalTuples of the index's columns, with the TID in their
 * padding (row.h).  So an index build uses the sort engine without changes: keys, kernels,
 * ties, runs and merges.  The columns of a row have the bytes of the index tuple; only the
 * header is replaced.  The sort is stable and rows arrive in TID order, so the index tuples
 * are ordered by (keys, TID).
 *
 * Uniqueness: a group of rows with equal keys violates it if more than one of them is live.
 * Each sorted batch is searched for violations, before it becomes a run or pages.  Those of
 * rows in different batches, or sorted by a GPU, come when rows are loaded; the pages written
 * so far are dropped.  PostgreSQL's sort of index tuples then sorts the two rows alone, and so
 * raises PostgreSQL's error.  An operator
 * class's support function "equalimage" is not trusted: keys are compared by their bytes
 * only where gpusort knows that other bytes are another value.
 *
 * Memory policy: the sort uses maintenance_work_mem.  All memory is in one memory context,
 * which is deleted at the end.
 *
 * The compact route: if all columns of an index can be decoded from their normalized keys
 * (integers, dates, timestamps, ...), no rows are stored.  Keys are sorted with row ids that
 * are TIDs, and the tuples are made of the decoded columns.  Nothing is fetched in key order.
 *
 * Errors: memory belongs to the caller's context, files to the resource owner.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/nbtree.h"
#include "commands/progress.h"
#include "compat.h"
#include "index/index_build.h"
#include "index/index_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "sort/sort.h"
#include "tiebreak/tiebreak.h"
#include "utils/memutils.h"

/* Tuples between two reports of progress. */
#define TUPLES_PER_REPORT	8192

/* Rows in memory are prefetched this number of rows ahead. */
#define LOAD_PREFETCH		64

/* ------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------
 */

#define OVER_LIMIT	"temporary files would exceed temp_file_limit"

typedef enum LoadKind
{
	LOAD_PLAIN,
	LOAD_DEDUPLICATED,
	LOAD_UNIQUE
} LoadKind;

typedef struct Loader
{
	PageWriter *writer;
	TupleDesc	desc;
	int			natts;
	int			nkeys;			/* key columns, for uniqueness */
	int64		tuples;

	/* uniqueness */
	bool		nulls_distinct;
	TieBreak   *tiebreak;		/* NULL: equal keys have equal bytes */
	bool		live;			/* the group of equal keys has a live tuple */
	IndexTuple	last;			/* NULL: none */
	IndexTuple	violation;		/* copy of a live tuple with the keys of last; or NULL */

	/* tuples that are not made in place: this one and one that must stay */
	char	   *tuples_space[2];
	int			current;

	/* tuples of decoded columns without NULLs */
	int			offsets[KEY_MAX_COLUMNS];	/* of columns, from the tuple's
											 * begin */
	int			lens[KEY_MAX_COLUMNS];	/* of columns, passed by value */
	Size		size;			/* of a tuple */

	bool		last_null;		/* the last tuple has a NULL among its keys */
	char	   *last_row;		/* the last row, for tiebreak */
	Size		last_row_size;
} Loader;

/*
 * The header of a row's index tuple: its TID, and this t_info.  The header is composed in
 * a register and stored at once: if a tuple is copied right after its header was stored in
 * parts, the load stalls.
 */
static inline uint64
index_tuple_header(MinimalTuple row, uint16 info)
{
	uint64		header;

	StaticAssertStmt(sizeof(IndexTupleData) == sizeof(uint64) &&
					 offsetof(IndexTupleData, t_info) == sizeof(ItemPointerData), "an index tuple has another header");
	/* reads t_infomask2 behind the TID */
	memcpy(&header, row->mt_padding, sizeof(header));
	return (header & UINT64CONST(0xFFFFFFFFFFFF)) | (uint64) info << 48;
}

/* Makes the index tuple of a row, in space. */
static inline IndexTuple
row_to_index_tuple(MinimalTuple row, int natts, char *space)
{
	bool		has_null = (row->t_infomask & HEAP_HASNULL) != 0;
	const char *data = (const char *) row + row->t_hoff - MINIMAL_TUPLE_OFFSET;
	Size		len = (const char *) row + row->t_len - data;
	Size		at = MAXALIGN(sizeof(IndexTupleData) + (has_null ? sizeof(IndexAttributeBitMapData) : 0));
	Size		size = MAXALIGN(at + len);
	uint64		header = index_tuple_header(row, size | (has_null ? INDEX_NULL_MASK : 0) |
											((row->t_infomask & HEAP_HASVARWIDTH) != 0 ? INDEX_VAR_MASK : 0));

	memcpy(space, &header, sizeof(header));
	if (unlikely(has_null))
	{
		memset(space + sizeof(IndexTupleData), 0, at - sizeof(IndexTupleData));
		memcpy(space + sizeof(IndexTupleData), row->t_bits, BITMAPLEN(natts));
	}
	/* the end is padded with zeroes; the row's own padding need not be */
	if (len % MAXIMUM_ALIGNOF != 0)
		memset(space + size - MAXIMUM_ALIGNOF, 0, MAXIMUM_ALIGNOF);
	copy_bytes(space + at, data, len);
	return (IndexTuple) space;
}

/*
 * Makes the index tuple of a row without NULLs in the row's memory, behind which the next row
 * may begin.  The row is then no row any more.
 */
static inline IndexTuple
row_becomes_index_tuple(MinimalTuple row)
{
	char	   *tuple = (char *) row + MAXALIGN(SizeofMinimalTupleHeader) - sizeof(IndexTupleData);
	Size		len = (char *) row + row->t_len - tuple;
	Size		size = MAXALIGN(len);
	uint64		header = index_tuple_header(row, size |
											((row->t_infomask & HEAP_HASVARWIDTH) != 0 ? INDEX_VAR_MASK : 0));

	StaticAssertStmt(sizeof(IndexTupleData) <= MAXALIGN(SizeofMinimalTupleHeader) &&
					 sizeof(IndexTupleData) == MAXALIGN(sizeof(IndexTupleData)), "an index tuple does not fit its row");
	/* the end is padded with zeroes; the row's own padding need not be */
	if (size != len)
	{
		uint64		end;

		memcpy(&end, tuple + size - sizeof(end), sizeof(end));
		end &= PG_UINT64_MAX >> 8 * (size - len);
		memcpy(tuple + size - sizeof(end), &end, sizeof(end));
	}
	memcpy(tuple, &header, sizeof(header));
	return (IndexTuple) tuple;
}

/* Has this row, with its tuple, the same keys as the last row? */
static inline bool
equals_last(const Loader *loader, MinimalTuple row, IndexTuple itup)
{
	if (loader->tiebreak == NULL)
		return page_writer_same_bytes(loader->writer, loader->last, itup);
	return tiebreak_compare(loader->tiebreak, (MinimalTuple) loader->last_row, row) == 0;
}

/* A tuple must stay: if it is in the current space, the next one gets the other space. */
static inline void
keep_tuple(Loader *loader, IndexTuple itup)
{
	if ((char *) itup == loader->tuples_space[loader->current])
		loader->current = 1 - loader->current;
}

/*
 * Adds a tuple to a unique index; false on a violation.  null: it has a NULL among its
 * keys.  equal: its keys are those of the last tuple.
 */
static inline bool
add_unique(Loader *loader, IndexTuple itup, bool null, bool live, bool equal)
{
	if (equal && !(loader->nulls_distinct && (null || loader->last_null)))
	{
		if (live && loader->live)
		{
			loader->last = CopyIndexTuple(loader->last);
			loader->violation = CopyIndexTuple(itup);
			return false;
		}
		loader->live |= live;
	}
	else
		loader->live = live;
	page_writer_add(loader->writer, itup);
	keep_tuple(loader, itup);
	loader->last = itup;
	loader->last_null = null;
	return true;
}

/* Adds a tuple to an index that is not unique.  load is a constant. */
static pg_attribute_always_inline void
load_tuple(Loader *loader, LoadKind load, IndexTuple itup)
{
	if (load == LOAD_PLAIN)
		page_writer_add(loader->writer, itup);
	else if (page_writer_add_deduplicated(loader->writer, itup))
		keep_tuple(loader, itup);
}

/*
 * Loads a row; false on a violation of uniqueness.  load and in_place are constants.
 * in_place: the row stays until the end, and may be changed.
 */
static pg_attribute_always_inline bool
load_row(Loader *loader, LoadKind load, MinimalTuple row, bool in_place)
{
	bool		live = (row->t_infomask2 & ROW_DEAD) == 0;
	bool		null = load == LOAD_UNIQUE && index_row_has_null_key(row, loader->nkeys);
	IndexTuple	itup;

	if (in_place && likely((row->t_infomask & HEAP_HASNULL) == 0) &&
		(load != LOAD_UNIQUE || loader->tiebreak == NULL))
		itup = row_becomes_index_tuple(row);
	else
		itup = row_to_index_tuple(row, loader->natts, loader->tuples_space[loader->current]);
	if (load != LOAD_UNIQUE)
		load_tuple(loader, load, itup);
	else if (!add_unique(loader, itup, null, live, loader->last != NULL && equals_last(loader, row, itup)))
		return false;
	else if (loader->tiebreak != NULL)
	{
		if (row->t_len > loader->last_row_size)
		{
			loader->last_row_size = 2 * row->t_len;
			loader->last_row = repalloc(loader->last_row, loader->last_row_size);
		}
		memcpy(loader->last_row, row, row->t_len);
	}
	if (unlikely(++loader->tuples % TUPLES_PER_REPORT == 0))
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, loader->tuples);
	return true;
}

/*
 * Loads rows in memory.  They are read in key order from random places in the arena, so
 * the cache lines of a row's first and last byte are prefetched.  The second-level cache
 * can have more loads in flight than the first.  No row is read twice, so rows become index
 * tuples in place.
 */
static pg_attribute_always_inline bool
load_memory(Loader *loader, LoadKind load, const MemoryResult *memory)
{
	const Arena arena = memory->arena;
	const uint32 *rids = memory->rids;
	const size_t n = memory->array.n;
	const int	bytes = memory->row_bytes;

	for (size_t i = 0; i < n; i++)
	{
		if (likely(i + LOAD_PREFETCH < n))
		{
			const char *ahead = arena_at(&arena, rids[i + LOAD_PREFETCH]);

			for (int at = 0; at < bytes - 1; at += 64)
				__builtin_prefetch(ahead + at, 0, 2);
			__builtin_prefetch(ahead + bytes - 1, 0, 2);
		}
		if (!load_row(loader, load, (MinimalTuple) arena_at(&arena, rids[i]), true))
			return false;
	}
	return true;
}

/* Prepares to make tuples of decoded columns. */
static void
prepare_decoded(Loader *loader)
{
	Size		at = MAXALIGN(sizeof(IndexTupleData));

	for (int c = 0; c < loader->natts; c++)
	{
		Form_pg_attribute attr = TupleDescAttr(loader->desc, c);

		at = att_align_nominal(at, attr->attalign);
		loader->offsets[c] = (int) at;
		loader->lens[c] = attr->attlen;
		at += attr->attlen;
	}
	loader->size = MAXALIGN(at);
}

/* Makes the index tuple of row k of the decoded block, in space.  Returns whether it has a NULL. */
static inline bool
decoded_to_index_tuple(const Loader *loader, const DecodedKeys *decoded, int k, char *space)
{
	uint64		header;
	bool		has_null = false;
	ItemPointerData tid;
	char	   *at = space + MAXALIGN(sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData));

	for (int c = 0; c < loader->natts; c++)
		has_null |= decoded->isnull[c][k];
	tid_of_rid(decoded->rids[k], &tid);
	if (likely(!has_null))
	{
		header = (uint64) loader->size << 48 | (uint64) tid.ip_posid << 32 |
			(uint64) tid.ip_blkid.bi_lo << 16 | tid.ip_blkid.bi_hi;
		memcpy(space, &header, sizeof(header));
		/* columns are aligned, and the end padded, with zeroes */
		for (Size word = sizeof(IndexTupleData); word < loader->size; word += sizeof(uint64))
			memset(space + word, 0, sizeof(uint64));
		for (int c = 0; c < loader->natts; c++)
			store_att_byval(space + loader->offsets[c], decoded->values[c][k], loader->lens[c]);
		return false;
	}
	memset(space, 0, loader->size + sizeof(uint64));
	for (int c = 0; c < loader->natts; c++)
	{
		if (decoded->isnull[c][k])
			continue;
		space[sizeof(IndexTupleData) + c / 8] |= (char) (1 << c % 8);
		at = space + att_align_nominal(at - space, TupleDescAttr(loader->desc, c)->attalign);
		store_att_byval(at, decoded->values[c][k], loader->lens[c]);
		at += loader->lens[c];
	}
	((IndexTuple) space)->t_tid = tid;
	((IndexTuple) space)->t_info = MAXALIGN(at - space) | INDEX_NULL_MASK;
	return true;
}

/* Loads sorted keys with TIDs. */
static pg_attribute_always_inline bool
load_keys(Loader *loader, LoadKind load, KeysResult *keys)
{
	KeyReader  *reader = &keys->reader;
	const DecodedKeys *decoded = reader->decoded;

	for (size_t start = 0; start < keys->array.n; start += reader->count)
	{
		CHECK_FOR_INTERRUPTS();
		key_reader_decode(reader, start, keys->array.n);
		for (int k = 0; k < (int) reader->count; k++)
		{
			IndexTuple	itup = (IndexTuple) loader->tuples_space[loader->current];
			bool		null = decoded_to_index_tuple(loader, decoded, k, (char *) itup);

			if (load != LOAD_UNIQUE)
				load_tuple(loader, load, itup);
			else if (!add_unique(loader, itup, null, (decoded->rids[k] & TID_RID_DEAD) == 0,
								 loader->last != NULL &&
								 page_writer_same_bytes(loader->writer, loader->last, itup)))
				return false;
		}
		loader->tuples += reader->count;
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, loader->tuples);
	}
	return true;
}

/* Loads rows from any result. */
static pg_attribute_always_inline bool
load_slots(Loader *loader, LoadKind load, SortResult *result, TupleTableSlot *slot)
{
	while (result_next(result, RESULT_PLAIN, true, slot))
	{
		if (!load_row(loader, load, slot_minimal_tuple(slot), false))
			return false;
	}
	return true;
}

/* Loads the rows of several participants. */
static pg_attribute_always_inline bool
load_merge(Loader *loader, LoadKind load, MergeTree *merge)
{
	MinimalTuple row;

	while ((row = merge_tree_next(merge)) != NULL)
	{
		if (!load_row(loader, load, row, false))
			return false;
	}
	return true;
}

/*
 * Loads all rows of a result, or of a merge if that is not NULL; false on a violation of
 * uniqueness.  load is a constant.
 */
static pg_attribute_always_inline bool
load_all(Loader *loader, LoadKind load, SortResult *result, MergeTree *merge, TupleTableSlot *slot)
{
	if (merge != NULL)
		return load_merge(loader, load, merge);
	switch (result->methods->kind)
	{
		case RESULT_ROWS:
			return load_memory(loader, load, (MemoryResult *) result);
		case RESULT_KEYS:
			return load_keys(loader, load, (KeysResult *) result);
		default:
			return load_slots(loader, load, result, slot);
	}
}

static bool
load_by_kind(Loader *loader, LoadKind load, SortResult *result, MergeTree *merge, TupleTableSlot *slot)
{
	switch (load)
	{
		case LOAD_PLAIN:
			return load_all(loader, LOAD_PLAIN, result, merge, slot);
		case LOAD_DEDUPLICATED:
			return load_all(loader, LOAD_DEDUPLICATED, result, merge, slot);
		case LOAD_UNIQUE:
			return load_all(loader, LOAD_UNIQUE, result, merge, slot);
	}
	pg_unreachable();
}

/*
 * Writes the index from sorted rows, of one process or merged.  On a violation of uniqueness
 * nothing is written, and PostgreSQL's error is raised.  Returns NULL, or the reason for
 * which PostgreSQL is to build the index.
 */
static const char *
load(Relation heap, Relation index, IndexInfo *info, const SortSpec *spec, SortResult *result, MergeTree *merge,
	 IndexWorkers *workers, IndexBuildCounters *counters)
{
	Loader		loader = {0};
	TupleDesc	desc = RelationGetDescr(index);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	LoadKind	kind;
	bool		loaded;

	loader.writer = page_writer_begin(heap, index, workers != NULL ? index_workers_handover(workers) : NULL);
	loader.desc = desc;
	loader.natts = desc->natts;
	loader.nkeys = spec->nkeys;
	loader.nulls_distinct = !info->ii_NullsNotDistinct;
	loader.tuples_space[0] = palloc(PAGE_WRITER_TUPLE);
	loader.tuples_space[1] = palloc(PAGE_WRITER_TUPLE);
	kind = info->ii_Unique ? LOAD_UNIQUE :
		page_writer_bytes_decide(loader.writer) && BTGetDeduplicateItems(index) ? LOAD_DEDUPLICATED : LOAD_PLAIN;
	if (kind == LOAD_UNIQUE && !index_bytes_decide(spec))
	{
		loader.tiebreak = tiebreak_create(CurrentMemoryContext, NULL, desc, spec->keys, spec->nkeys);
		loader.last_row_size = BLCKSZ;
		loader.last_row = palloc(loader.last_row_size);
	}
	if (merge == NULL && result->methods->kind == RESULT_KEYS)
		prepare_decoded(&loader);
	loaded = load_by_kind(&loader, kind, result, merge, slot);
	ExecDropSingleTupleTableSlot(slot);
	if (loaded)
		counters->pages = page_writer_finish(loader.writer);
	/* before the pages of workers are removed */
	if (workers != NULL)
		index_workers_end(workers, counters);
	if (!loaded)
	{
		page_writer_abandon(loader.writer);
		index_raise_violation(heap, index, info, loader.last, loader.violation);
	}
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, loader.tuples);
	return loaded ? NULL : "the keys are not unique";
}

/* ------------------------------------------------------------------------
 * The build
 * ------------------------------------------------------------------------
 */

/* Scans, sorts and loads in this process; returns as load(). */
static const char *
build_alone(Relation heap, Relation index, IndexInfo *info, SortSpec *spec, IndexBuildCounters *counters)
{
	Sorter	   *sorter;
	SortResult *result;
	instr_time	clock;
	const char *failed = OVER_LIMIT;

	/* the scan may see pages that are added before it begins */
	spec->keys_only = spec->rids_are_tids = RelationGetNumberOfBlocks(heap) < TID_RID_BLOCKS - RELSEG_SIZE &&
		keys_only_possible(spec->desc, spec->keys, spec->nkeys);
	INSTR_TIME_SET_CURRENT(clock);
	spec->memory = (Size) maintenance_work_mem * 1024;
	sorter = sorter_create(spec);
	sorter_begin(sorter, &(SortBegin) {.rows_expected = heap_rows_expected(heap)});
	heap_read(heap, index, info, NULL, NULL, sorter, counters);
	heap_read_report(counters->rows);
	index_count_scan(counters, sorter, &clock);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PROGRESS_BTREE_PHASE_PERFORMSORT_1);
	result = sorter_perform(sorter, false);
	if (result == NULL && !sorter->report->over_limit)
		elog(ERROR, "sort of index tuples has failed");
	index_count_sort(counters, sorter, &clock);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PROGRESS_BTREE_PHASE_LEAF_LOAD);
	if (result != NULL)
		failed = load(heap, index, info, spec, result, NULL, NULL, counters);
	counters->load_ms = index_elapsed_ms(&clock);
	sorter_destroy(sorter);
	return failed;
}

/* The same with workers. */
static const char *
build_with_workers(Relation heap, Relation index, IndexInfo *info, const SortSpec *spec, IndexWorkers *workers,
				   IndexBuildCounters *counters)
{
	MergeTree  *merge = index_workers_sort(workers, counters);
	instr_time	clock;
	const char *failed;

	if (merge == NULL)
	{
		index_workers_end(workers, counters);
		return OVER_LIMIT;
	}
	INSTR_TIME_SET_CURRENT(clock);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PROGRESS_BTREE_PHASE_LEAF_LOAD);
	failed = load(heap, index, info, spec, NULL, merge, workers, counters);
	counters->load_ms = index_elapsed_ms(&clock);
	return failed;
}

/* Builds the index; returns as load(). */
static const char *
build(Relation heap, Relation index, IndexInfo *info, SortSpec *spec, IndexBuildCounters *counters)
{
	IndexWorkers *workers = NULL;

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN);
	if (info->ii_ParallelWorkers > 0)
		workers = index_workers_launch(heap, index, info, spec, heap_rows_expected(heap));
	return workers != NULL ? build_with_workers(heap, index, info, spec, workers, counters) :
		build_alone(heap, index, info, spec, counters);
}

IndexBuildResult *
index_build_sorted(Relation heap, Relation index, IndexInfo *info, IndexBuildCounters *counters, const char **reason)
{
	MemoryContext cxt;
	MemoryContext old;
	SortSpec	spec;
	IndexBuildResult *result = NULL;
	bool		built = false;

	memset(counters, 0, sizeof(*counters));
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
	{
		*reason = "the table is no heap";
		return NULL;
	}
	/* btbuild() raises the error */
	if (RelationGetNumberOfBlocks(index) != 0)
	{
		*reason = "the index is not empty";
		return NULL;
	}

	cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort index build", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	if (!index_file_is_plain(index))
		*reason = "the server does not write pages as they are";
	else if (index_sort_spec(index, &spec, reason))
	{
		index_check_unique(&spec, heap, index, info);
		*reason = build(heap, index, info, &spec, counters);
		built = *reason == NULL;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);

	if (built)
	{
		counters->compact = spec.rids_are_tids;
		result = palloc(sizeof(IndexBuildResult));
		result->heap_tuples = counters->heap_rows;
		result->index_tuples = counters->rows;
	}
	return result;
}
