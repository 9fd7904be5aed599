/*
 * exchange.c
 *	  Exchange of a parallel sort: a barrier, and rings of row blocks.
 *
 * Under Gather Merge each row crosses a tuple queue as one message.  Here a block
 * of a thousand rows costs about as much as one such message.
 *
 * A worker whose ring was full continues when half of the ring is empty, so that
 * it is not woken for every block.
 *
 * No wakeup is lost: each counter and state has one writer, which changes it and
 * then signals.  A waiting process enters the condition variable's list before it
 * looks.  Both take the condition variable's lock, so either the waiting process
 * sees the change or the signal reaches it.
 *
 * There is no deadlock: blocks go from workers to a worker of their group or to
 * the leader, and from the merging workers to the leader, never in a circle.  A
 * reader frees a block whenever it asks for the next.  A writer sleeps only while
 * more than half of its ring is full; then its reader has a block, does not sleep
 * for this ring, and signals when half is reached.  All processes wait for the
 * barrier, which no participant needs before it arrives.  The leader sets the
 * number of participants as soon as workers are launched, before it takes rows.
 *
 * Missing processes: the Gather's error queue tells the leader of a worker that
 * fails, and the query ends.  A worker that never begins is found by the leader,
 * which checks its workers while it waits (ExchangeWorkerGone) and calls
 * exchange_absent().  Merging workers know after the barrier that the writers of
 * their rings exist.  When a query ends, the leader stops the exchange before it
 * waits for the ends of its workers (nodes/feed/exec.c).  A plan that is only
 * explained has no exchange.
 *
 * Memory: a ring is the only memory of a worker's rows besides its work_mem.
 *
 * On error: an error in the leader ends the query, and terminated workers wake
 * up.  An error in a worker is sent to the leader, which wakes up for the message.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "storage/latch.h"

/* Time between two checks by the leader of whether a worker has ended. */
#define WORKER_CHECK_MS	200

int
exchange_participants(int workers, double bound)
{
	bool		few = workers < EXCHANGE_TWO_LEVEL_WORKERS || (bound > 0 && bound <= EXCHANGE_FEW_ROWS);

	return workers + (few && parallel_leader_participation ? 1 : 0);
}

/* Bytes before the blocks of the rings. */
static Size
head_size(int workers)
{
	return TYPEALIGN(PG_CACHE_LINE_SIZE, offsetof(Exchange, rings) + workers * sizeof(ExchangeRing));
}

static Size
ring_blocks_size(int workers)
{
	return (Size) workers * EXCHANGE_RING_BLOCKS * ROW_BLOCK_SIZE;
}

Size
exchange_size(int workers)
{
	return PG_CACHE_LINE_SIZE + head_size(workers) + ring_blocks_size(workers) +
		(workers + 1) * sizeof(ExchangeSlot);
}

void
exchange_init(Exchange *ex, int workers)
{
	/* shared memory of a Gather is aligned to less than a cache line */
	char	   *blocks = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, (char *) ex + head_size(workers));

	ex->nrings = workers;
	ex->blocks_at = blocks - (char *) ex;
	ex->slots_at = ex->blocks_at + ring_blocks_size(workers);
	ConditionVariableInit(&ex->released_cv);
	SpinLockInit(&ex->lock);
	for (int r = 0; r < workers; r++)
	{
		ConditionVariableInit(&ex->rings[r].may_read);
		ConditionVariableInit(&ex->rings[r].may_write);
	}
}

void
exchange_reset(Exchange *ex, size_t bound, const DeviceProducer *producer)
{
	ex->bound = bound;
	ex->producer = *producer;
	pg_atomic_init_u32(&ex->device_failed, 0);
	pg_atomic_init_u64(&ex->first_bound, PG_UINT64_MAX);
	ex->expected = -1;
	ex->narrived = 0;
	ex->all_arrived = ex->released = false;
	pg_atomic_init_u32(&ex->stopped, 0);
	for (int r = 0; r < ex->nrings; r++)
	{
		pg_atomic_init_u32(&ex->rings[r].state, RING_UNUSED);
		pg_atomic_init_u32(&ex->rings[r].written, 0);
		pg_atomic_init_u32(&ex->rings[r].read, 0);
		ex->rings[r].reader = EXCHANGE_LEADER;
	}
	for (int p = 0; p <= ex->nrings; p++)
	{
		ExchangeSlot *slot = exchange_slot(ex, p);

		slot->arrived = slot->absent = slot->report.valid = false;
	}
}

ExchangeSlot *
exchange_slot(Exchange *ex, int participant)
{
	return (ExchangeSlot *) ((char *) ex + ex->slots_at) + participant;
}

/*
 * Two-level merge, if many workers have arrived and the leader has no rows: divides
 * the workers into two halves.  The first worker of each half reads the rings of the
 * other workers of its half.
 */
static void
assign_readers(Exchange *ex)
{
	int			workers = 0;
	int			half;
	int			i = 0;
	int			first = 0;

	for (int r = 0; r < ex->nrings; r++)
		workers += exchange_slot(ex, r)->arrived;
	if (workers < EXCHANGE_TWO_LEVEL_WORKERS || exchange_slot(ex, ex->nrings)->arrived)
		return;
	half = (workers + 1) / 2;
	for (int r = 0; r < ex->nrings; r++)
	{
		if (!exchange_slot(ex, r)->arrived)
			continue;
		if (i % half == 0)
			first = r;
		else
			ex->rings[r].reader = first;
		i++;
	}
}

/*
 * Releases the spinlock, under which the caller has changed narrived or expected.
 * If all participants have arrived, releases the barrier.
 */
static void
unlock_and_release(Exchange *ex)
{
	bool		last = !ex->all_arrived && ex->narrived == ex->expected;

	ex->all_arrived = ex->all_arrived || last;
	SpinLockRelease(&ex->lock);
	if (!last)
		return;

	if (!ex->producer.on)
		assign_readers(ex);
	SpinLockAcquire(&ex->lock);
	ex->released = true;
	SpinLockRelease(&ex->lock);
	ConditionVariableBroadcast(&ex->released_cv);
	/* the leader may wait for a ring that has got another reader */
	for (int r = 0; r < ex->nrings; r++)
		ConditionVariableBroadcast(&ex->rings[r].may_read);
}

void
exchange_expect(Exchange *ex, int participants)
{
	SpinLockAcquire(&ex->lock);
	ex->expected = participants;
	unlock_and_release(ex);
}

void
exchange_absent(Exchange *ex, int worker)
{
	ExchangeSlot *slot = exchange_slot(ex, worker);

	if (slot->absent)
		return;
	slot->absent = true;
	SpinLockAcquire(&ex->lock);
	ex->expected--;
	unlock_and_release(ex);
}

void
exchange_arrive(Exchange *ex, int participant)
{
	SpinLockAcquire(&ex->lock);
	exchange_slot(ex, participant)->arrived = true;
	ex->narrived++;
	unlock_and_release(ex);
}

static bool
barrier_released(Exchange *ex)
{
	bool		released;

	SpinLockAcquire(&ex->lock);
	released = ex->released;
	SpinLockRelease(&ex->lock);
	return released;
}

bool
exchange_wait_all(Exchange *ex, ExchangeServe serve, void *arg)
{
	bool		released;

	/* signals of the condition variable set the latch; each of them ends the wait */
	ConditionVariablePrepareToSleep(&ex->released_cv);
	while (!(released = barrier_released(ex)) && pg_atomic_read_u32(&ex->device_failed) == 0 &&
		   !exchange_stopped(ex) && (serve == NULL || serve(arg)))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, WORKER_CHECK_MS,
						 compat_wait_event("GpuSortExchange"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	ConditionVariableCancelSleep();
	return released && pg_atomic_read_u32(&ex->device_failed) == 0 && !exchange_stopped(ex);
}

void
exchange_sent(Exchange *ex, DeviceSent *sent_to_device)
{
	memset(sent_to_device, 0, sizeof(*sent_to_device));
	for (int p = 0; p <= ex->nrings; p++)
	{
		const ExchangeSlot *slot = exchange_slot(ex, p);

		if (!slot->arrived)
			continue;
		sent_to_device->rows += slot->sent_to_device.rows;
		sent_to_device->units += slot->sent_to_device.units;
		sent_to_device->sum += slot->sent_to_device.sum;
		sent_to_device->key_sum += slot->sent_to_device.key_sum;
		sent_to_device->bytes += slot->sent_to_device.bytes;
		sent_to_device->inexact |= slot->sent_to_device.inexact;
	}
}

void
exchange_fail_device(Exchange *ex)
{
	pg_atomic_write_u32(&ex->device_failed, 1);
	pg_memory_barrier();
	ConditionVariableBroadcast(&ex->released_cv);
}

CommonKeyRange *
exchange_common_range(Exchange *ex, const KeyColumn *keys, int nkeys)
{
	const CommonKeyRange **ranges = palloc((ex->nrings + 1) * sizeof(CommonKeyRange *));
	int			n = 0;

	Assert(barrier_released(ex));
	for (int p = 0; p <= ex->nrings; p++)
	{
		if (exchange_slot(ex, p)->arrived)
			ranges[n++] = &exchange_slot(ex, p)->common_range;
	}
	return common_key_range(ranges, n, keys, nkeys);
}

void
exchange_open_ring(Exchange *ex, int ring)
{
	pg_atomic_write_u32(&ex->rings[ring].state, RING_OPEN);
}

/* The ring's block for a value of its counters. */
static RowBlock *
ring_block(Exchange *ex, int ring, uint32 number)
{
	return (RowBlock *) ((char *) ex + ex->blocks_at +
						 ((Size) ring * EXCHANGE_RING_BLOCKS + number % EXCHANGE_RING_BLOCKS) *
						 ROW_BLOCK_SIZE);
}

/* Number of blocks that the reader has not freed. */
static inline uint32
ring_full(ExchangeRing *ring)
{
	return pg_atomic_read_u32(&ring->written) - pg_atomic_read_u32(&ring->read);
}

/* Sleeps until less than this number of blocks are full, or the exchange is stopped; does other work meanwhile. */
static void
wait_until_below(Exchange *ex, ExchangeRing *r, uint32 full, ExchangeServe serve, void *arg)
{
	ConditionVariablePrepareToSleep(&r->may_write);
	while (ring_full(r) >= full && !exchange_stopped(ex))
	{
		if (serve == NULL || !serve(arg))
			ConditionVariableSleep(&r->may_write, compat_wait_event("GpuSortExchange"));
		else
			ConditionVariablePrepareToSleep(&r->may_write);
	}
	ConditionVariableCancelSleep();
}

RowBlock *
exchange_block_to_write(Exchange *ex, int ring, ExchangeServe serve, void *arg)
{
	ExchangeRing *r = &ex->rings[ring];

	if (serve != NULL)
		(void) serve(arg);
	if (ring_full(r) == EXCHANGE_RING_BLOCKS)
		wait_until_below(ex, r, EXCHANGE_RING_BLOCKS / 2 + 1, serve, arg);
	if (exchange_stopped(ex))
		return NULL;
	/* pairs with the barrier before read is advanced */
	pg_memory_barrier();
	return ring_block(ex, ring, pg_atomic_read_u32(&r->written));
}

void
exchange_wake_writer(Exchange *ex, int ring)
{
	ConditionVariableSignal(&ex->rings[ring].may_write);
}

void
exchange_serve_until_stopped(Exchange *ex, int ring, ExchangeServe serve, void *arg)
{
	/* the ring is never below zero */
	wait_until_below(ex, &ex->rings[ring], 0, serve, arg);
}

void
exchange_block_written(Exchange *ex, int ring)
{
	ExchangeRing *r = &ex->rings[ring];

	pg_memory_barrier();
	pg_atomic_write_u32(&r->written, pg_atomic_read_u32(&r->written) + 1);
	ConditionVariableSignal(&r->may_read);
}

void
exchange_end_ring(Exchange *ex, int ring)
{
	pg_memory_barrier();
	pg_atomic_write_u32(&ex->rings[ring].state, RING_ENDED);
	ConditionVariableSignal(&ex->rings[ring].may_read);
}

/* Is a block ready, or is it certain that no block will come to this reader? */
static bool
ring_ready(Exchange *ex, int ring, int reader)
{
	ExchangeRing *r = &ex->rings[ring];

	if (ring_full(r) > 0 || pg_atomic_read_u32(&r->state) == RING_ENDED || exchange_stopped(ex))
		return true;
	return barrier_released(ex) && r->reader != reader;
}

/* Waits until ring_ready(), or until the ring's worker is gone. */
static void
wait_ready(Exchange *ex, int ring, int reader, ExchangeWorkerGone gone, void *arg)
{
	ExchangeRing *r = &ex->rings[ring];

	ConditionVariablePrepareToSleep(&r->may_read);
	while (!ring_ready(ex, ring, reader))
	{
		if (gone == NULL)
			ConditionVariableSleep(&r->may_read, compat_wait_event("GpuSortExchange"));
		else if (ConditionVariableTimedSleep(&r->may_read, WORKER_CHECK_MS,
											 compat_wait_event("GpuSortExchange")) &&
				 gone(arg, ring))
			break;
	}
	ConditionVariableCancelSleep();
}

RowBlock *
exchange_next_block(Exchange *ex, int ring, int reader, bool had_one, ExchangeWorkerGone gone, void *arg)
{
	ExchangeRing *r = &ex->rings[ring];

	if (had_one)
	{
		/* reads of the block must not be delayed behind this */
		pg_memory_barrier();
		pg_atomic_write_u32(&r->read, pg_atomic_read_u32(&r->read) + 1);
		if (ring_full(r) <= EXCHANGE_RING_BLOCKS / 2)
			ConditionVariableSignal(&r->may_write);
	}
	if (ring_full(r) == 0 && !ring_ready(ex, ring, reader))
		wait_ready(ex, ring, reader, gone, arg);

	/*
	 * pairs with the barriers of exchange_block_written() and
	 * exchange_end_ring()
	 */
	pg_memory_barrier();
	if (ring_full(r) == 0 || r->reader != reader || exchange_stopped(ex))
		return NULL;
	return ring_block(ex, ring, pg_atomic_read_u32(&r->read));
}

void
exchange_stop(Exchange *ex)
{
	pg_atomic_write_u32(&ex->stopped, 1);
	pg_memory_barrier();
	ConditionVariableBroadcast(&ex->released_cv);
	for (int r = 0; r < ex->nrings; r++)
	{
		ConditionVariableBroadcast(&ex->rings[r].may_read);
		ConditionVariableBroadcast(&ex->rings[r].may_write);
	}
}
