/*
 * parallel.h
 *	  Parallel sorts: the exchange between processes, and the cost of sorts.
 */
#ifndef GPUSORT_PARALLEL_PARALLEL_H
#define GPUSORT_PARALLEL_PARALLEL_H

#include "postgres.h"

#include "block/block.h"
#include "cost/cost.h"
#include "gpu/gpu.h"
#include "key/key.h"
#include "port/atomics.h"
#include "sort/sort.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "store/store.h"

/*
 * What EXPLAIN shows of one participant's sort.  Plain data without pointers:
 * it passes between processes.
 */
typedef struct ParticipantReport
{
	bool		valid;			/* the other fields are set */
	bool		spilled;		/* runs were written to disk */
	uint64		rows;
	uint64		page_rows;		/* rows taken directly from heap pages */
	bool		distinct;		/* duplicates were dropped; the next fields count them */
	uint64		dropped_in_batches;
	uint64		dropped_in_merges;
	uint64		dropped_on_device;
	int64		space_kb;		/* disk space if spilled, otherwise memory */
	int64		peak_kb;		/* peak memory */
	double		ingest_ms;
	double		sort_ms;
	char		method[64];
	char		route[ROUTE_REASON_SIZE + 128];
} ParticipantReport;

/* ------------------------------------------------------------------------
 * Exchange: shared memory of a parallel sort's participants
 *
 * An exchange lies in the Gather's shared memory.  Participants are the
 * launched workers, and the leader if it takes rows.
 *
 * The participants meet at one barrier.  Each arrives when it has taken all its
 * rows and has written the range of its keys to its slot.  The last arrival
 * releases all: then the common key range of all rows is known, and keys made
 * by one participant compare with the keys of every other.  The barrier waits
 * for a participant that begins late, because it may still find rows, even if
 * all others have arrived: a join whose inner side is empty in one process ends
 * there without reading the shared rows.  The leader sets the number of
 * participants after it has launched the workers, and subtracts those that
 * never begin.
 *
 * Each worker has a ring of blocks, which it fills and one reader empties: the
 * leader or, if there are many workers, a worker that merges several rings into
 * its own.  The leader may stop the exchange at any time; then no process waits
 * for the exchange any more.
 * ------------------------------------------------------------------------
 */

#define EXCHANGE_RING_BLOCKS	4	/* blocks of a ring */

/* Reader of a ring that no worker reads. */
#define EXCHANGE_LEADER			(-1)

/*
 * From this number of workers on the merge has two levels: two workers merge
 * the rings of one half of the workers each, and the leader merges these two.
 * The leader takes no rows then, because its work is the longest.
 */
#define EXCHANGE_TWO_LEVEL_WORKERS	4

/* With a LIMIT of at most this number of rows the leader has little to merge, and takes rows. */
#define EXCHANGE_FEW_ROWS	10000

typedef enum RingState
{
	RING_UNUSED,				/* the worker has not begun */
	RING_OPEN,
	RING_ENDED					/* no more blocks will be written */
} RingState;

/* Blocks of one worker; blocks [read, written) are full. */
typedef struct ExchangeRing
{
	pg_atomic_uint32 state;		/* a RingState */
	pg_atomic_uint32 written;
	pg_atomic_uint32 read;

	/* Number of the worker that reads this ring, or EXCHANGE_LEADER; final after the barrier. */
	int			reader;
	ConditionVariable may_read;
	ConditionVariable may_write;
	char		pad[PG_CACHE_LINE_SIZE];
} ExchangeRing;

/* State of one participant: a worker has the slot of its ring, the leader the last. */
typedef struct ExchangeSlot
{
	bool		arrived;		/* common_range or sent_to_device is set */
	bool		absent;			/* the worker never began; set by the leader */
	CommonKeyRange common_range;	/* range of this participant's keys */
	DeviceSent	sent_to_device; /* rows sent to the leader's device job */
	ParticipantReport report;
} ExchangeSlot;

typedef struct Exchange
{
	int			nrings;
	size_t		bound;			/* rows wanted; 0: all */
	bool		all_rows;		/* duplicates are kept */
	bool		keys_only;		/* SortSpec.keys_only of all participants */
	bool		leader_participation;	/* the leader's setting */
	DeviceProducer producer;	/* the leader's device job, if there is one */
	pg_atomic_uint32 device_failed; /* the rows sent to that job are lost */
	pg_atomic_uint64 first_bound;	/* SortBegin.shared_cutoff */
	pg_atomic_uint32 stopped;
	ConditionVariable released_cv;

	slock_t		lock;			/* protects expected to released */
	int			expected;		/* participants; -1: not counted yet */
	int			narrived;		/* participants that have arrived */
	bool		all_arrived;
	bool		released;		/* all have arrived, and rings have readers */

	Size		blocks_at;		/* offset of the first ring's blocks */
	Size		slots_at;		/* offset of the slots */
	ExchangeRing rings[FLEXIBLE_ARRAY_MEMBER];
} Exchange;

/*
 * Number of participants that sort rows: the workers, and the leader if it may take rows and has
 * little to merge.  The leader counts as a whole participant, because it reads no tuple queues
 * meanwhile.  sort_abreast() has how many participants run at once.  bound: rows of a LIMIT; 0:
 * there is no LIMIT; infinite: not known.
 */
extern int	exchange_participants(int workers, double bound);

/* Bytes of an exchange for this number of workers. */
extern Size exchange_size(int workers);

/* Leader, before workers are launched: initializes an exchange in this memory. */
extern void exchange_init(Exchange *ex, int workers);

/* Leader, before each execution: no process uses the exchange. */
extern void exchange_reset(Exchange *ex, size_t bound, const DeviceProducer *producer);

/* The slot of a worker, by its number, or of the leader (ex->nrings). */
extern ExchangeSlot *exchange_slot(Exchange *ex, int participant);

/* Leader, after workers were launched: sets the number of participants. */
extern void exchange_expect(Exchange *ex, int participants);

/* Leader: a launched worker has ended without beginning; it is not waited for. */
extern void exchange_absent(Exchange *ex, int worker);

/* A participant has all its rows, and its slot is filled. */
extern void exchange_arrive(Exchange *ex, int participant);

/*
 * Waits until all participants have arrived.  Meanwhile calls serve(), unless it is NULL,
 * regularly and when the latch is set.  False if serve() returned false, the device failed
 * or the exchange was stopped.
 */
typedef bool (*ExchangeServe) (void *arg);
extern bool exchange_wait_all(Exchange *ex, ExchangeServe serve, void *arg);

/* Adds up what all participants have sent to the device. */
extern void exchange_sent(Exchange *ex, DeviceSent *sent_to_device);

/* A worker noticed that the leader's device job failed. */
extern void exchange_fail_device(Exchange *ex);

/* After the barrier: the common key range of all rows, in the current memory context. */
extern CommonKeyRange *exchange_common_range(Exchange *ex, const KeyColumn *keys, int nkeys);

/* The writer of a ring opens it when it begins and ends it after its last block. */
extern void exchange_open_ring(Exchange *ex, int ring);
extern void exchange_end_ring(Exchange *ex, int ring);

/*
 * Waits for an empty block; NULL if the exchange was stopped.  serve() is other work that
 * the writer does before and while it waits; it returns false if there was no such work.
 * NULL: none.
 */
extern RowBlock *exchange_block_to_write(Exchange *ex, int ring, ExchangeServe serve, void *arg);

/* Wakes the ring's writer, because serve() may have work. */
extern void exchange_wake_writer(Exchange *ex, int ring);

/* A worker that has ended its ring: does other work until the exchange is stopped. */
extern void exchange_serve_until_stopped(Exchange *ex, int ring, ExchangeServe serve, void *arg);

/* Hands the block of the last exchange_block_to_write() to the reader. */
extern void exchange_block_written(Exchange *ex, int ring);

/* Has the worker of this ring ended, so that no block will come? */
typedef bool (*ExchangeWorkerGone) (void *arg, int ring);

/*
 * Frees the block that the reader has of this ring, if had_one, and waits for
 * the next one.  NULL at the end, if another process reads the ring, or if the
 * exchange was stopped.  The leader passes gone(), which is called regularly
 * while it waits; workers pass NULL.
 */
extern RowBlock *exchange_next_block(Exchange *ex, int ring, int reader, bool had_one,
									 ExchangeWorkerGone gone, void *arg);

/* Stops the exchange: wakes all waiting processes, and none waits afterwards. */
extern void exchange_stop(Exchange *ex);

static inline bool
exchange_stopped(Exchange *ex)
{
	return pg_atomic_read_u32(&ex->stopped) != 0;
}

/* ------------------------------------------------------------------------
 * Streams: both ends of the rings
 * ------------------------------------------------------------------------
 */

/*
 * A worker that has arrived: waits for all participants, writes its ring and ends it.  own
 * is the result of its sort; NULL: it has no rows.  Merges these rows with those of the
 * rings that the worker reads.  Returns the number of duplicates that this merge dropped.
 * serve as in exchange_block_to_write().
 */
extern uint64 exchange_write_ring(Exchange *ex, int ring, const SortSpec *spec, SortResult *own,
								  ExchangeServe serve, void *arg);

/*
 * Leader: opens the streams of rings [0, rings) that have rows for it, in the current
 * memory context; returns their number.  sources has room for one stream of each ring.
 */
extern int	exchange_open_streams(Exchange *ex, int rings, ExchangeWorkerGone gone, void *arg,
								  BlockSource **sources);

/* ------------------------------------------------------------------------
 * Cost model of sorts, for the planner
 * ------------------------------------------------------------------------
 */

/* The sort whose cost is asked for. */
typedef struct SortCostFacts
{
	double		rows;			/* rows of all participants */
	double		row_bytes;		/* average size of a stored row */
	double		bound;			/* rows wanted; 0: all */
	double		groups;			/* expected rows without duplicates, if these are
								 * dropped; otherwise 0 */
	bool		in_order;		/* the input is in order or in reverse order */
	bool		keys_only;		/* a serial sort makes the rows of their keys */
	bool		compares;		/* a node above compares rows by the merge's keys, if
								 * there is a merge */
	const KeyColumn *keys;
	int			nkeys;
} SortCostFacts;

/* Times in microseconds, without the input's own cost. */
typedef struct SortCost
{
	double		sort_us;		/* time until the first row */
	double		rows_us;		/* time to return all rows */
	bool		spills;			/* rows are written to runs */
	bool		needs_disk;		/* runs of this size may wait for a disk */

	/*
	 * of both times: not needed if runs stay in the system's cache; 0 if they are too large for it.  Comparisons
	 * with hash tables count on it, the choice between one process and workers does not.
	 */
	double		cached_us;
	double		group_us;		/* further time if the rows are those of groups, because many keys are equal */
} SortCost;

/* A serial sort, with a GPU if that is quicker. */
extern void sort_cost_serial(const SortCostFacts *facts, SortCost *cost);

/* One participant's sort on its CPU, while all participants sort. */
extern void sort_cost_participant(const SortCostFacts *facts, int participants, SortCost *cost);

/*
 * A parallel sort by the faster of two ways: the workers sort and the leader merges;
 * or, if there is a GPU, all participants send their rows to it.
 */
extern void sort_cost_parallel(const SortCostFacts *facts, int workers, SortCost *cost);

/*
 * Time of all processes of a shared sort besides their sorts: to write, merge and read this number of rows.
 * row_bytes: average size of a stored row; 0: the rows are their keys.  divided: among the processes.
 */
extern double sort_cost_share_us(double rows, double row_bytes, int processes, bool divided);

/*
 * Should the participants send their rows to a device?  forced: yes if that is
 * possible, even if it takes longer.  Without workers: should a serial sort send rows, whose
 * columns are all sort keys, instead of keys?
 */
extern bool sort_cost_prefers_device(const SortCostFacts *facts, int workers, bool forced);

#endif							/* GPUSORT_PARALLEL_PARALLEL_H */
