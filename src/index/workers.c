/*
 * workers.c
 *	  Index builds by several processes: workers scan and sort, the leader merges.
 *
 * PostgreSQL plans the number of workers.  Each participant takes chunks of the table's
 * blocks, sorts its rows with its share of maintenance_work_mem, and passes them in blocks
 * through the rings of an exchange (parallel.h), as in a parallel query.  So rows that fit
 * memory are not written to a file between processes.  The leader merges the streams by
 * (keys, TID) and lays out the pages.  From EXCHANGE_TWO_LEVEL_WORKERS workers on the leader
 * scans no blocks, because its merge takes longest.
 *
 * Only the leader lays out pages.  The position of a tuple depends on the sizes of all
 * tuples before it.  Workers that wrote ranges of keys would not know their page numbers,
 * and the file would differ from PostgreSQL's.  Workers log and write the pages that the
 * leader has laid out (page_handover.c).
 *
 * If there is too little shared memory for the workers that are planned, fewer are launched.
 * If no worker can be launched, the caller builds the index alone.
 *
 * A participant whose rows would exceed temp_file_limit stops the others, and PostgreSQL
 * builds the index.
 *
 * Memory policy: each participant sorts with an equal share of maintenance_work_mem; the
 * rings have a fixed size.
 *
 * Errors: a worker's error is raised in the leader and ends the statement.  After an error
 * in the leader the end of its transaction ends the workers (AtEOXact_Parallel()).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "executor/instrument.h"
#include "index/index_internal.h"
#include "library.h"
#include "miscadmin.h"
#include "parallel/parallel.h"
#include "pgstat.h"
#include "storage/dsm_impl.h"
#include "tcop/tcopprot.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Keys of the shared memory's table of contents. */
#define KEY_SHARED		UINT64CONST(0x6770750000000001)
#define KEY_EXCHANGE	UINT64CONST(0x6770750000000002)
#define KEY_SNAPSHOT	UINT64CONST(0x6770750000000003)
#define KEY_QUERY		UINT64CONST(0x6770750000000004)
#define KEY_PAGES		UINT64CONST(0x6770750000000005)

/*
 * What a parallel context has beside the chunks of a build: settings, snapshots, libraries,
 * and the session's area, whose first own segment has 1 MB; and for each worker a queue of
 * errors.
 */
#define SERVER_CHUNKS			((Size) 1792 * 1024)
#define SERVER_WORKER_CHUNKS	((Size) 16 * 1024)

/* Counters of a participant.  Those of the scan are set when it arrives at the exchange. */
typedef struct ParticipantWork
{
	bool		broken_hot_chain;
	IndexBuildCounters counters;
	BufferUsage buffers;		/* of a worker */
	WalUsage	wal;
} ParticipantWork;

/* Shared memory of a build. */
typedef struct SharedBuild
{
	Oid			heap;
	Oid			index;
	bool		concurrent;
	int			participants;
	Size		memory;			/* of each participant */
	double		rows_expected;	/* of each participant */
	HeapBlocks	blocks;
	pg_atomic_uint32 failed;	/* a participant's sort has failed */

	/* as the slots of the exchange */
	ParticipantWork work[FLEXIBLE_ARRAY_MEMBER];
} SharedBuild;

struct IndexWorkers
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	SortSpec	spec;			/* of this participant */
	ParallelContext *pcxt;
	SharedBuild *shared;
	Exchange   *ex;
	Snapshot	snapshot;		/* of a concurrent build; NULL: none */
	PageHandoverShared *pages;
	PageHandover *handover;		/* of this process */
	Sorter	   *sorter;			/* the leader's rows; NULL: it takes none */
};

PGDLLEXPORT void gpusort_index_worker(dsm_segment *seg, shm_toc *toc);

/* ------------------------------------------------------------------------
 * A participant's share
 * ------------------------------------------------------------------------
 */

/* This participant's sort has failed: no other reads or sends more rows. */
static void
stop_build(IndexWorkers *build)
{
	if (!build->sorter->report->over_limit)
		elog(ERROR, "sort of index tuples has failed");
	pg_atomic_write_u32(&build->shared->failed, 1);
	pg_atomic_write_u64(&build->shared->blocks.next, build->shared->blocks.nblocks);
	exchange_stop(build->ex);
}

/*
 * Scans and sorts a share of the table, and arrives at the exchange in between.  NULL: the
 * sort has failed, and the exchange is stopped.
 */
static SortResult *
sort_share(IndexWorkers *build, int me)
{
	ParticipantWork *work = &build->shared->work[me];
	IndexBuildCounters *counters = &work->counters;
	SortResult *result = NULL;
	instr_time	clock;

	INSTR_TIME_SET_CURRENT(clock);
	build->spec.memory = build->shared->memory;
	build->spec.participants = build->shared->participants;
	build->sorter = sorter_create(&build->spec);
	sorter_begin(build->sorter, &(SortBegin) {.rows_expected = build->shared->rows_expected});
	heap_read(build->heap, build->index, build->info, &build->shared->blocks, build->snapshot,
			  build->sorter, counters);
	index_count_scan(counters, build->sorter, &clock);
	work->broken_hot_chain = build->info->ii_BrokenHotChain;
	if (!sorter_failed(build->sorter))
	{
		sorter_common_range(build->sorter, &exchange_slot(build->ex, me)->common_range);
		exchange_arrive(build->ex, me);
		result = sorter_perform(build->sorter, false);
	}
	if (result == NULL)
		stop_build(build);
	index_count_sort(counters, build->sorter, &clock);
	return result;
}

/* ------------------------------------------------------------------------
 * Worker
 * ------------------------------------------------------------------------
 */

void
gpusort_index_worker(dsm_segment *seg, shm_toc *toc)
{
	IndexWorkers build = {0};
	SharedBuild *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	char	   *snapshot = shm_toc_lookup(toc, KEY_SNAPSHOT, true);
	int			me = ParallelWorkerNumber;
	const char *reason;
	SortResult *result;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);

	build.shared = shared;
	build.ex = shm_toc_lookup(toc, KEY_EXCHANGE, false);
	if (snapshot != NULL)
		build.snapshot = RestoreSnapshot(snapshot);
	/* the locks that the leader has */
	build.heap = table_open(shared->heap, shared->concurrent ? ShareUpdateExclusiveLock : ShareLock);
	build.index = index_open(shared->index, shared->concurrent ? RowExclusiveLock : AccessExclusiveLock);
	build.info = BuildIndexInfo(build.index);
	build.info->ii_Concurrent = shared->concurrent;
	build.handover = page_handover_attach(shm_toc_lookup(toc, KEY_PAGES, false), build.ex, build.index, 0);
	if (!index_sort_spec(build.index, &build.spec, &reason))
		elog(ERROR, "a worker cannot sort the index: %s", reason);
	index_check_unique(&build.spec, build.heap, build.index, build.info);

	InstrStartParallelQuery();
	exchange_open_ring(build.ex, me);
	result = sort_share(&build, me);
	(void) exchange_write_ring(build.ex, me, &build.spec, shared->work[me].counters.rows > 0 ? result : NULL,
							   page_handover_serve, build.handover);
	sorter_destroy(build.sorter);
	exchange_serve_until_stopped(build.ex, me, page_handover_serve, build.handover);
	InstrEndParallelQuery(&shared->work[me].buffers, &shared->work[me].wal);

	index_close(build.index, NoLock);
	table_close(build.heap, NoLock);
}

/* ------------------------------------------------------------------------
 * Leader
 * ------------------------------------------------------------------------
 */

/* Does the leader scan and sort beside this number of workers? */
static bool
leader_sorts(int workers)
{
	return workers < EXCHANGE_TWO_LEVEL_WORKERS;
}

static void
estimate_chunk(ParallelContext *pcxt, Size size)
{
	shm_toc_estimate_chunk(&pcxt->estimator, size);
	shm_toc_estimate_keys(&pcxt->estimator, 1);
}

static void *
allocate_chunk(ParallelContext *pcxt, uint64 key, Size size)
{
	void	   *chunk = shm_toc_allocate(pcxt->toc, size);

	shm_toc_insert(pcxt->toc, key, chunk);
	return chunk;
}

static Size
shared_build_size(int workers)
{
	return offsetof(SharedBuild, work) + (workers + 1) * sizeof(ParticipantWork);
}

/* Bytes that a build's chunks take, with those of the server. */
static Size
shared_bytes(int workers)
{
	return shared_build_size(workers) + exchange_size(workers) + page_handover_size(workers) +
		workers * SERVER_WORKER_CHUNKS + SERVER_CHUNKS;
}

/*
 * Is there room for a segment of shared memory of this size?  PostgreSQL raises an ERROR
 * for a segment for which there is none, so one is created here and removed.
 */
static bool
shared_memory_fits(Size size)
{
	/* even handles are those of segments outside the main shared memory */
	dsm_handle	handle = pg_prng_uint32(&pg_global_prng_state) & ~1;
	void	   *segment = NULL;
	void	   *address = NULL;
	Size		mapped = 0;

	if (!dsm_impl_op(DSM_OP_CREATE, handle, size, &segment, &address, &mapped, DEBUG1))
		return false;
	(void) dsm_impl_op(DSM_OP_DESTROY, handle, 0, &segment, &address, &mapped, WARNING);
	return true;
}

/* Fills the shared memory before workers are launched. */
static void
fill_shared(IndexWorkers *workers, double rows_expected)
{
	static const DeviceProducer no_device;
	ParallelContext *pcxt = workers->pcxt;
	int			planned = pcxt->nworkers;
	SharedBuild *shared = allocate_chunk(pcxt, KEY_SHARED, shared_build_size(planned));

	memset(shared, 0, shared_build_size(planned));
	shared->heap = RelationGetRelid(workers->heap);
	shared->index = RelationGetRelid(workers->index);
	shared->concurrent = workers->info->ii_Concurrent;
	shared->participants = planned + (leader_sorts(planned) ? 1 : 0);
	shared->memory = (Size) maintenance_work_mem * 1024 / shared->participants;
	shared->rows_expected = rows_expected / shared->participants;
	heap_blocks_init(&shared->blocks, workers->heap, shared->participants);
	pg_atomic_init_u32(&shared->failed, 0);
	workers->shared = shared;

	workers->ex = allocate_chunk(pcxt, KEY_EXCHANGE, exchange_size(planned));
	exchange_init(workers->ex, planned);
	exchange_reset(workers->ex, 0, &no_device);
	workers->pages = allocate_chunk(pcxt, KEY_PAGES, page_handover_size(planned));
	page_handover_init(workers->pages, planned);
	if (workers->snapshot != NULL)
		SerializeSnapshot(workers->snapshot,
						  allocate_chunk(pcxt, KEY_SNAPSHOT, EstimateSnapshotSpace(workers->snapshot)));
	if (debug_query_string != NULL)
		strcpy(allocate_chunk(pcxt, KEY_QUERY, strlen(debug_query_string) + 1), debug_query_string);
}

/* Releases what the leader holds; the workers have ended or were not launched. */
static void
release(IndexWorkers *workers)
{
	if (workers->snapshot != NULL)
		UnregisterSnapshot(workers->snapshot);
	DestroyParallelContext(workers->pcxt);
	ExitParallelMode();
}

IndexWorkers *
index_workers_launch(Relation heap, Relation index, IndexInfo *info, const SortSpec *spec, double rows_expected)
{
	IndexWorkers *workers;
	int			planned = info->ii_ParallelWorkers;
	ParallelContext *pcxt;

	while (planned > 0 && !shared_memory_fits(shared_bytes(planned)))
		planned--;
	if (planned == 0)
		return NULL;
	workers = palloc0(sizeof(IndexWorkers));
	workers->heap = heap;
	workers->index = index;
	workers->info = info;
	workers->spec = *spec;
	EnterParallelMode();
	pcxt = workers->pcxt = CreateParallelContext(gpusort_library_name(MAXPGPATH), "gpusort_index_worker", planned);
	if (info->ii_Concurrent)
		workers->snapshot = RegisterSnapshot(GetTransactionSnapshot());
	estimate_chunk(pcxt, shared_build_size(planned));
	estimate_chunk(pcxt, exchange_size(planned));
	estimate_chunk(pcxt, page_handover_size(planned));
	if (workers->snapshot != NULL)
		estimate_chunk(pcxt, EstimateSnapshotSpace(workers->snapshot));
	if (debug_query_string != NULL)
		estimate_chunk(pcxt, strlen(debug_query_string) + 1);
	InitializeParallelDSM(pcxt);
	/* without shared memory the context has no workers */
	if (pcxt->seg != NULL)
	{
		fill_shared(workers, rows_expected);
		LaunchParallelWorkers(pcxt);
	}
	if (pcxt->nworkers_launched == 0)
	{
		release(workers);
		pfree(workers);
		return NULL;
	}
	workers->handover = page_handover_attach(workers->pages, workers->ex, index, pcxt->nworkers_launched);
	exchange_expect(workers->ex, pcxt->nworkers_launched + (leader_sorts(pcxt->nworkers_launched) ? 1 : 0));
	return workers;
}

/* ExchangeServe callback: reports the progress of the scan. */
static bool
report_scan(void *arg)
{
	heap_blocks_report(arg);
	return true;
}

MergeTree *
index_workers_sort(IndexWorkers *workers, IndexBuildCounters *counters)
{
	int			launched = workers->pcxt->nworkers_launched;
	SharedBuild *shared = workers->shared;
	const CommonKeyRange *common_range;
	BlockSource **sources = palloc((launched + 1) * sizeof(BlockSource *));
	int			nsources;
	int			me = workers->ex->nrings;
	SortResult *own = NULL;
	instr_time	clock;

	INSTR_TIME_SET_CURRENT(clock);
	counters->workers = launched;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, shared->blocks.nblocks);
	if (leader_sorts(launched))
		own = sort_share(workers, me);
	/* a worker that was launched and cannot begin is an error */
	WaitForParallelWorkersToAttach(workers->pcxt);
	if (!exchange_wait_all(workers->ex, report_scan, &shared->blocks))
	{
		if (pg_atomic_read_u32(&shared->failed) == 0)
			elog(ERROR, "a parallel index build has stopped");
		return NULL;
	}
	heap_blocks_report(&shared->blocks);
	for (int p = 0; p <= me; p++)
	{
		const ParticipantWork *work = &shared->work[p];

		counters->heap_rows += work->counters.heap_rows;
		counters->rows += work->counters.rows;
		counters->page_scan |= work->counters.page_scan;
		workers->info->ii_BrokenHotChain |= work->broken_hot_chain;
	}
	counters->scan_ms = index_elapsed_ms(&clock);
	if (own != NULL)
	{
		counters->sort_ms = shared->work[me].counters.sort_ms;
		counters->scan_ms = Max(0, counters->scan_ms - counters->sort_ms);
	}
	heap_read_report(counters->rows);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PROGRESS_BTREE_PHASE_PERFORMSORT_1);
	/* waits for the first rows of each */
	nsources = exchange_open_streams(workers->ex, launched, NULL, NULL, sources);
	common_range = exchange_common_range(workers->ex, workers->spec.keys, workers->spec.nkeys);
	if (own != NULL && shared->work[me].counters.rows > 0)
		sources[nsources++] = block_source_own(&workers->spec, common_range, own);
	counters->sort_ms += index_elapsed_ms(&clock);
	/* all have sent their first rows, so no sort fails later */
	if (pg_atomic_read_u32(&shared->failed) != 0)
		return NULL;
	return block_merge_create(&workers->spec, common_range, sources, nsources);
}

PageHandover *
index_workers_handover(IndexWorkers *workers)
{
	return workers->handover;
}

void
index_workers_end(IndexWorkers *workers, IndexBuildCounters *counters)
{
	int			launched = workers->pcxt->nworkers_launched;

	/* workers that have rows left end as well */
	exchange_stop(workers->ex);
	WaitForParallelWorkersToFinish(workers->pcxt);
	for (int w = 0; w < launched; w++)
		InstrAccumParallelQuery(&workers->shared->work[w].buffers, &workers->shared->work[w].wal);
	for (int p = 0; p <= workers->ex->nrings; p++)
	{
		const IndexBuildCounters *work = &workers->shared->work[p].counters;

		counters->runs += work->runs;
		counters->spilled_bytes += work->spilled_bytes;
		counters->memory += work->memory;
		if (work->sorted)
		{
			counters->sorted = true;
			counters->algorithm = work->algorithm;
		}
		counters->device_batches += work->device_batches;
		counters->device_failed |= work->device_failed;
	}
	if (workers->sorter != NULL)
		sorter_destroy(workers->sorter);
	release(workers);
}
