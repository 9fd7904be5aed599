/*
 * parallel.h
 *	  Parallel sorts: the exchange between processes, its blocks and their merge.
 *
 * Plain data without pointers, for it passes between processes.
 */
#ifndef GPUSORT_PARALLEL_PARALLEL_H
#define GPUSORT_PARALLEL_PARALLEL_H

#include "postgres.h"

#include "cost/cost.h"
#include "gpu/gpu.h"
#include "key/key.h"
#include "port/atomics.h"
#include "sort/sort.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "store/row.h"

typedef struct ParticipantReport
{
	bool		valid;			/* the rest is set */
	bool		spilled;
	uint64		rows;
	uint64		page_rows;
	int64		space_kb;		/* on disk if spilled, otherwise in memory */
	int64		peak_kb;		/* of memory */
	double		ingest_ms;
	double		sort_ms;
	char		method[64];
	char		route[ROUTE_REASON_SIZE + 128];
} ParticipantReport;

/* ------------------------------------------------------------------------
 * What the participants of a parallel sort share, and how rows come to the leader.
 *
 * An exchange lies in the Gather's shared memory, one for all participants.  They
 * meet once: when each has all its rows it tells where its keys lie, and when all
 * have, the common key range is made of that (key/key_frame.h), so that keys made by one
 * compare with any other's.
 *
 * All are the workers that were launched, and the leader if it takes rows.  A participant that
 * begins late is waited for: the others may have ended without having read the rows that
 * all share, as a join does whose inner side is empty in one process.  The leader counts
 * the participants when it has launched the workers, and takes back those that never come.
 *
 * Each worker has a ring of blocks (store/row_block.h), which it fills and its reader
 * empties: the leader, or, where there are many, a worker that merges several into its
 * own ring.  The leader may stop the exchange at any time; nobody waits any more then.
 * ------------------------------------------------------------------------
 */

#define EXCHANGE_RING_BLOCKS	4

/* Who reads what workers do not. */
#define EXCHANGE_LEADER			(-1)

/*
 * So many workers take all rows among them, and merge in two groups: the leader's time
 * is then the longest, and it is spared whatever others can do.
 */
#define EXCHANGE_MANY			4

/* How far a worker is. */
typedef enum RingState
{
	RING_UNUSED,				/* its worker has not come */
	RING_OPEN,
	RING_ENDED					/* no more blocks will come */
} RingState;

/* One worker's blocks: [read, written) are full. */
typedef struct ExchangeRing
{
	pg_atomic_uint32 state;		/* a RingState */
	pg_atomic_uint32 written;
	pg_atomic_uint32 read;
	int			reader;			/* the ring whose worker merges this; or EXCHANGE_LEADER */
	ConditionVariable may_read;
	ConditionVariable may_write;
	char		pad[PG_CACHE_LINE_SIZE];
} ExchangeRing;

/* What a participant tells: a worker's by its ring, the leader's behind them. */
typedef struct ExchangeSlot
{
	bool		presorted;		/* it has all its rows; the rest is set */
	bool		absent;			/* it will never come; the leader's to set */
	CommonKeyRange	common_range;
	DeviceSent	sent_to_device;			/* instead, where rows go to the leader's job */
	ParticipantReport report;
} ExchangeSlot;

typedef struct Exchange
{
	int			nrings;
	size_t		bound;			/* rows wanted; 0: all */
	bool		participation;	/* parallel_leader_participation, as the session has it */
	DeviceProducer	device;			/* the leader's job that rows go to, if there is one */
	pg_atomic_uint32 device_lost;	/* they, or some of them, are lost */
	pg_atomic_uint64 first_bound;	/* sorter_share_bound() */
	pg_atomic_uint32 stopped;
	ConditionVariable agreed_cv;

	slock_t		lock;			/* of what follows */
	int			expected;		/* participants that come; -1: not counted yet */
	int			presorted;		/* of them, those that have all their rows */
	bool		closed;			/* all have */
	bool		agreed;			/* ... and each ring has its reader */
	Size		blocks_at;		/* of the first ring, from here */
	Size		slots_at;
	ExchangeRing rings[FLEXIBLE_ARRAY_MEMBER];
} Exchange;

extern Size exchange_size(int workers);

/* Sets up an exchange in this memory; for the leader, before there are workers. */
extern void exchange_init(Exchange *ex, int workers);

/* The same for another execution; nobody uses it. */
extern void exchange_reset(Exchange *ex, size_t bound, const DeviceProducer *device);

extern ExchangeSlot *exchange_slot(Exchange *ex, int participant);

/* The leader has launched the workers: so many participants come. */
extern void exchange_expect(Exchange *ex, int participants);

/* A worker that was launched has ended without ever beginning: nobody waits for it. */
extern void exchange_absent(Exchange *ex, int worker);

/* A participant has all its rows, and has noted where their keys lie in its slot; */
extern void exchange_arrive(Exchange *ex, int participant);

/* and waits for the others: false if the exchange was stopped. */
extern bool exchange_wait_agreed(Exchange *ex);

/*
 * The leader, whose job workers feed, waits likewise, but does something now and then, as its
 * latch is set: true when all participants have sent their rows, false if attend() says so,
 * rows are lost or the exchange was stopped.
 */
typedef bool (*ExchangeServe) (void *arg);
extern bool exchange_wait_sent(Exchange *ex, ExchangeServe serve, void *arg);

/* What they have sent, in all. */
extern void exchange_sent(Exchange *ex, DeviceSent *sent_to_device);

/* A worker's rows are lost with the leader's job. */
extern void exchange_fail_device(Exchange *ex);

/* The common key range of all rows, once all have arrived; a copy in the current memory context. */
extern CommonKeyRange *exchange_common_range(Exchange *ex, const KeyColumn *keys, int nkeys);

/* A worker opens its ring, */
extern void exchange_open_ring(Exchange *ex, int ring);

/* has a block to fill; NULL if the exchange was stopped; */
extern RowBlock *exchange_block_to_write(Exchange *ex, int ring);

/* hands it over; */
extern void exchange_block_written(Exchange *ex, int ring);

/* and says that there are no more. */
extern void exchange_end_ring(Exchange *ex, int ring);

/* The rings, of others, that this worker is to read, once that is agreed; returns how many. */
extern int	exchange_rings_of(Exchange *ex, int reader, int *rings);

/* Will nothing come any more from this ring, whose worker is gone? */
typedef bool (*ExchangeGone) (void *arg, int ring);

/*
 * The reader gives the ring's block back that it had, if it had one, and gets the
 * next: NULL at the end, if the ring is not its to read, or if the exchange was stopped.
 * The leader, while it waits, asks now and then whether a worker is gone; others have NULL.
 */
extern RowBlock *exchange_next_block(Exchange *ex, int ring, int reader, bool had_one,
									 ExchangeGone gone, void *arg);

/* Nobody is to wait any more. */
extern void exchange_stop(Exchange *ex);

static inline bool
exchange_stopped(Exchange *ex)
{
	return pg_atomic_read_u32(&ex->stopped) != 0;
}

/* ------------------------------------------------------------------------
 * A sort's rows into blocks, with keys that mean the same in every process.
 * ------------------------------------------------------------------------
 */

typedef struct BlockWriter BlockWriter;

/* The keys' width in blocks of this layout. */
static inline int
block_key_bits(const KeyLayout *layout)
{
	return layout->total_bits <= 64 ? 64 : 128;
}

/*
 * Of sorted rows of this spec, in the current memory context.  The frame is that of
 * all rows that will be merged.
 */
extern BlockWriter *block_writer_create(const SortSpec *spec, const CommonKeyRange *common_range);

/* Fills a block with the result's next rows; false if there are none left. */
extern bool block_writer_fill(BlockWriter *writer, SortResult *result, RowBlock *block);

/* ------------------------------------------------------------------------
 * Merge of sorted streams of rows that come in blocks with their keys.
 * ------------------------------------------------------------------------
 */

/* Where a stream's blocks come from. */
typedef struct BlockSource
{
	/*
	 * The next; the one before it is not needed any more.  NULL at the end, or, with
	 * stopped, because nobody wants the rest.
	 */
	RowBlock   *(*next) (struct BlockSource *source);
	bool		stopped;
} BlockSource;

/* Rows that are merged ahead of those that are asked for. */
#define MERGE_BATCH		128

/*
 * What is merged: a row's place, and behind it its key, uint64 or uint128, in one piece, so that who has
 * chosen one of two copies it at once.
 */
#define MERGE_KEY_AT	sizeof(MinimalTuple)

typedef struct BlockMerge
{
	const char *next;			/* the row that is asked for next, its place and key, */
	const char *end;			/* and where those that are merged end */
	uint32		item_bytes;		/* of such a pair */
	uint64		total;			/* rows that were merged, these included */

	bool		wide;			/* keys of 128 bits, not 64 */
	bool		exact;			/* equal keys are equal rows */
	struct TieBreak *tiebreak;
	MemoryContext cxt;
	struct MergeNode *root;		/* NULL: no streams */
} BlockMerge;

/*
 * Of n streams of rows of this spec, in the current memory context; the frame is
 * the one that the blocks' writers were given.
 */
extern BlockMerge *block_merge_create(const SortSpec *spec, const CommonKeyRange *common_range,
									  BlockSource **sources, int n);

/* Merges more; false if there are none left. */
extern bool block_merge_more(BlockMerge *merge);

/* Are there rows that take no more work? */
static inline bool
block_merge_ready(const BlockMerge *merge)
{
	return merge->next != merge->end;
}

/* The next of them. */
static inline MinimalTuple
block_merge_take(BlockMerge *merge)
{
	MinimalTuple row = *(const MinimalTuple *) merge->next;

	merge->next += merge->item_bytes;
	return row;
}

/* The next row, or NULL; the one before is not valid any more. */
static inline MinimalTuple
block_merge_next(BlockMerge *merge)
{
	if (unlikely(!block_merge_ready(merge)) && !block_merge_more(merge))
		return NULL;
	return block_merge_take(merge);
}

/* The key of the row that was given last, uint64 or uint128. */
static inline const char *
block_merge_key(const BlockMerge *merge)
{
	return merge->next - merge->item_bytes + MERGE_KEY_AT;
}

/* ------------------------------------------------------------------------
 * Where the blocks of a merge come from: other participants' rings, and one's own sort.
 * ------------------------------------------------------------------------
 */

/* A worker's ring, which reader (exchange.h) reads; gone as in exchange_next_block(). */
extern BlockSource *block_source_ring(Exchange *ex, int ring, int reader, ExchangeGone gone,
									  void *gone_arg);

/* This process's own sort, in blocks of its own memory. */
extern BlockSource *block_source_own(const SortSpec *spec, const CommonKeyRange *common_range,
									 SortResult *result);

/* ------------------------------------------------------------------------
 * A merge's rows into blocks again.
 * ------------------------------------------------------------------------
 */

typedef struct BlockRefill BlockRefill;

/* Of this merge, of which no row has been taken, in the current memory context. */
extern BlockRefill *block_refill_create(BlockMerge *merge);

/* Fills a block with the next rows and their keys; false if there are none left. */
extern bool block_refill_fill(BlockRefill *refill, RowBlock *block);

#endif							/* GPUSORT_PARALLEL_PARALLEL_H */
