/*
 * exchange.c
 *	  What the participants of a parallel sort share, and how rows come to the leader.
 *
 * Rows could cross a Gather's tuple queue, one message each, as under Gather Merge;
 * but there a row costs the leader 100 ns and more.  A block of a thousand rows costs
 * as much as one such message.
 *
 * A worker that has found its ring full goes on when half of it is empty, so that it is
 * not woken for every block.
 *
 * Why nobody sleeps for ever.  Each counter and state has one writer, which changes
 * it and then signals; who sleeps has put itself on the condition variable's list
 * before it looks.  Both take the variable's lock, so that either the change is seen or the
 * sleeper is.  What is waited for comes: blocks go from a worker to another of its
 * group or to the leader and from there to the leader, never in a circle, and who reads
 * frees a block whenever it asks for the next.  A writer sleeps while more than half
 * of its ring is full; then its reader has a block, does not sleep for this ring, and
 * signals when half is reached.  All wait for the agreement of all participants, who
 * need nobody for it: they take rows, and arrive or fail.  The leader counts them as soon as it
 * has launched the workers, before it takes rows itself.
 *
 * Who may be gone: a worker that fails or is killed is told of by the Gather's error
 * queue, which wakes the leader, and ends the query; for one that never came the leader
 * looks now and then while it waits (gone()), and says so to all (exchange_absent()); a worker
 * that merges others' rings was told by the agreement who they are, and that they have come.  The leader
 * stops the exchange before it waits for workers' ends (feed.c), whatever it is that
 * ends the query early; a plan that is only explained has no exchange.
 *
 * Memory: the ring is all that there is of a worker's rows outside of its work_mem.
 *
 * On error: the leader's ends the query, workers are terminated, and wake; a worker's
 * is sent to the leader, which wakes as of any message.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "parallel/parallel.h"
#include "storage/latch.h"

/* How long the leader waits before it asks what has become of a worker. */
#define GONE_LOOK_MS	200

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = compat_wait_event("GpuSortExchange");
	return event;
}

static Size
head_size(int workers)
{
	return TYPEALIGN(PG_CACHE_LINE_SIZE, offsetof(Exchange, rings) + workers * sizeof(ExchangeRing));
}

static Size
blocks_size(int workers)
{
	return (Size) workers * EXCHANGE_RING_BLOCKS * ROW_BLOCK_SIZE;
}

Size
exchange_size(int workers)
{
	return PG_CACHE_LINE_SIZE + head_size(workers) + blocks_size(workers) +
		(workers + 1) * sizeof(ExchangeSlot);
}

void
exchange_init(Exchange *ex, int workers)
{
	/* blocks are aligned wherever the exchange lies */
	char	   *blocks = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, (char *) ex + head_size(workers));

	ex->nrings = workers;
	ex->blocks_at = blocks - (char *) ex;
	ex->slots_at = ex->blocks_at + blocks_size(workers);
	pg_atomic_init_u32(&ex->stopped, 0);
	pg_atomic_init_u32(&ex->device_lost, 0);
	pg_atomic_init_u64(&ex->first_bound, PG_UINT64_MAX);
	ConditionVariableInit(&ex->agreed_cv);
	SpinLockInit(&ex->lock);
	for (int r = 0; r < workers; r++)
	{
		pg_atomic_init_u32(&ex->rings[r].state, RING_UNUSED);
		pg_atomic_init_u32(&ex->rings[r].written, 0);
		pg_atomic_init_u32(&ex->rings[r].read, 0);
		ConditionVariableInit(&ex->rings[r].may_read);
		ConditionVariableInit(&ex->rings[r].may_write);
	}
}

void
exchange_reset(Exchange *ex, size_t bound, const DeviceProducer *device)
{
	ex->bound = bound;
	ex->device = *device;
	pg_atomic_write_u32(&ex->device_lost, 0);
	pg_atomic_write_u64(&ex->first_bound, PG_UINT64_MAX);
	ex->expected = -1;
	ex->presorted = 0;
	ex->closed = ex->agreed = false;
	pg_atomic_write_u32(&ex->stopped, 0);
	for (int r = 0; r < ex->nrings; r++)
	{
		pg_atomic_write_u32(&ex->rings[r].state, RING_UNUSED);
		pg_atomic_write_u32(&ex->rings[r].written, 0);
		pg_atomic_write_u32(&ex->rings[r].read, 0);
		ex->rings[r].reader = EXCHANGE_LEADER;
	}
	for (int p = 0; p <= ex->nrings; p++)
	{
		ExchangeSlot *slot = exchange_slot(ex, p);

		slot->presorted = slot->absent = slot->report.valid = false;
	}
}

ExchangeSlot *
exchange_slot(Exchange *ex, int participant)
{
	return (ExchangeSlot *) ((char *) ex + ex->slots_at) + participant;
}

/*
 * Of many workers that have arrived one half's rings are read by its first, the other's by
 * its first.
 */
static void
assign_readers(Exchange *ex)
{
	int			workers = 0;
	int			half;
	int			i = 0;
	int			first = 0;

	for (int r = 0; r < ex->nrings; r++)
		workers += exchange_slot(ex, r)->presorted;
	if (workers < EXCHANGE_MANY)
		return;
	half = (workers + 1) / 2;
	for (int r = 0; r < ex->nrings; r++)
	{
		if (!exchange_slot(ex, r)->presorted)
			continue;
		if (i % half == 0)
			first = r;
		else
			ex->rings[r].reader = first;
		i++;
	}
}

int
exchange_rings_of(Exchange *ex, int reader, int *rings)
{
	int			n = 0;

	for (int r = 0; r < ex->nrings; r++)
	{
		if (ex->rings[r].reader == reader)
			rings[n++] = r;
	}
	return n;
}

/*
 * Releases the lock, under which the caller has noted that one more has arrived, that one less
 * is expected, or how many are.  If nobody is missing any more all go on.
 */
static void
release_and_agree(Exchange *ex)
{
	bool		last = !ex->closed && ex->presorted == ex->expected;

	ex->closed = ex->closed || last;
	SpinLockRelease(&ex->lock);
	if (!last)
		return;

	if (!ex->device.on)
		assign_readers(ex);
	SpinLockAcquire(&ex->lock);
	ex->agreed = true;
	SpinLockRelease(&ex->lock);
	ConditionVariableBroadcast(&ex->agreed_cv);
	/* the leader may wait for a block that is not to come to it */
	for (int r = 0; r < ex->nrings; r++)
		ConditionVariableBroadcast(&ex->rings[r].may_read);
}

void
exchange_expect(Exchange *ex, int participants)
{
	SpinLockAcquire(&ex->lock);
	ex->expected = participants;
	release_and_agree(ex);
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
	release_and_agree(ex);
}

void
exchange_arrive(Exchange *ex, int participant)
{
	SpinLockAcquire(&ex->lock);
	exchange_slot(ex, participant)->presorted = true;
	ex->presorted++;
	release_and_agree(ex);
}

static bool
has_agreed(Exchange *ex)
{
	bool		agreed;

	SpinLockAcquire(&ex->lock);
	agreed = ex->agreed;
	SpinLockRelease(&ex->lock);
	return agreed;
}

bool
exchange_wait_agreed(Exchange *ex)
{
	bool		agreed;

	ConditionVariablePrepareToSleep(&ex->agreed_cv);
	while (!(agreed = has_agreed(ex)) && !exchange_stopped(ex))
		ConditionVariableSleep(&ex->agreed_cv, wait_event());
	ConditionVariableCancelSleep();
	return agreed && !exchange_stopped(ex);
}

bool
exchange_wait_sent(Exchange *ex, ExchangeServe serve, void *arg)
{
	bool		agreed;

	/* who is on the list has its latch set, as by all else that it waits for */
	ConditionVariablePrepareToSleep(&ex->agreed_cv);
	while (!(agreed = has_agreed(ex)) && pg_atomic_read_u32(&ex->device_lost) == 0 &&
		   !exchange_stopped(ex) && serve(arg))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, GONE_LOOK_MS,
						 wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	ConditionVariableCancelSleep();
	return agreed && pg_atomic_read_u32(&ex->device_lost) == 0;
}

void
exchange_sent(Exchange *ex, DeviceSent *sent_to_device)
{
	memset(sent_to_device, 0, sizeof(*sent_to_device));
	for (int p = 0; p <= ex->nrings; p++)
	{
		const ExchangeSlot *slot = exchange_slot(ex, p);

		if (!slot->presorted)
			continue;
		sent_to_device->rows += slot->sent_to_device.rows;
		sent_to_device->units += slot->sent_to_device.units;
		sent_to_device->sum += slot->sent_to_device.sum;
		sent_to_device->bytes += slot->sent_to_device.bytes;
	}
}

void
exchange_fail_device(Exchange *ex)
{
	pg_atomic_write_u32(&ex->device_lost, 1);
	pg_memory_barrier();
	ConditionVariableBroadcast(&ex->agreed_cv);
}

CommonKeyRange *
exchange_common_range(Exchange *ex, const KeyColumn *keys, int nkeys)
{
	CommonKeyRange   *common_range = palloc(sizeof(CommonKeyRange));
	KeyBuffer	   *keybuf = palloc0(sizeof(KeyBuffer));

	Assert(has_agreed(ex));
	/* nothing is staged: it says of what kinds the columns are */
	keybuf_init(keybuf, keys, nkeys, true);
	common_range_init(common_range);
	for (int p = 0; p <= ex->nrings; p++)
	{
		if (exchange_slot(ex, p)->presorted)
			common_range_unite(common_range, &exchange_slot(ex, p)->common_range, keybuf);
	}
	pfree(keybuf);
	return common_range;
}

void
exchange_open_ring(Exchange *ex, int ring)
{
	pg_atomic_write_u32(&ex->rings[ring].state, RING_OPEN);
}

static RowBlock *
ring_block(Exchange *ex, int ring, uint32 number)
{
	return (RowBlock *) ((char *) ex + ex->blocks_at +
						 ((Size) ring * EXCHANGE_RING_BLOCKS + number % EXCHANGE_RING_BLOCKS) *
						 ROW_BLOCK_SIZE);
}

/* Blocks that the leader has yet to read. */
static inline uint32
ring_full(ExchangeRing *ring)
{
	return pg_atomic_read_u32(&ring->written) - pg_atomic_read_u32(&ring->read);
}

RowBlock *
exchange_block_to_write(Exchange *ex, int ring)
{
	ExchangeRing *r = &ex->rings[ring];

	if (ring_full(r) == EXCHANGE_RING_BLOCKS)
	{
		ConditionVariablePrepareToSleep(&r->may_write);
		while (ring_full(r) > EXCHANGE_RING_BLOCKS / 2 && !exchange_stopped(ex))
			ConditionVariableSleep(&r->may_write, wait_event());
		ConditionVariableCancelSleep();
	}
	if (exchange_stopped(ex))
		return NULL;
	/* the leader has read it before it said so */
	pg_memory_barrier();
	return ring_block(ex, ring, pg_atomic_read_u32(&r->written));
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

/* There is nothing to wait for: a block has come, or will never come to this reader. */
static bool
ring_ready(Exchange *ex, int ring, int reader)
{
	ExchangeRing *r = &ex->rings[ring];

	if (ring_full(r) > 0 || pg_atomic_read_u32(&r->state) == RING_ENDED || exchange_stopped(ex))
		return true;
	return has_agreed(ex) && r->reader != reader;
}

static void
wait_ready(Exchange *ex, int ring, int reader, ExchangeGone gone, void *arg)
{
	ExchangeRing *r = &ex->rings[ring];

	ConditionVariablePrepareToSleep(&r->may_read);
	while (!ring_ready(ex, ring, reader))
	{
		if (gone == NULL)
			ConditionVariableSleep(&r->may_read, wait_event());
		else if (ConditionVariableTimedSleep(&r->may_read, GONE_LOOK_MS, wait_event()) &&
				 gone(arg, ring))
			break;
	}
	ConditionVariableCancelSleep();
}

RowBlock *
exchange_next_block(Exchange *ex, int ring, int reader, bool had_one, ExchangeGone gone, void *arg)
{
	ExchangeRing *r = &ex->rings[ring];

	if (had_one)
	{
		/* it has been read before this says so */
		pg_memory_barrier();
		pg_atomic_write_u32(&r->read, pg_atomic_read_u32(&r->read) + 1);
		if (ring_full(r) <= EXCHANGE_RING_BLOCKS / 2)
			ConditionVariableSignal(&r->may_write);
	}
	if (ring_full(r) == 0 && !ring_ready(ex, ring, reader))
		wait_ready(ex, ring, reader, gone, arg);
	/* its last block was written before it ended */
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
	ConditionVariableBroadcast(&ex->agreed_cv);
	for (int r = 0; r < ex->nrings; r++)
	{
		ConditionVariableBroadcast(&ex->rings[r].may_read);
		ConditionVariableBroadcast(&ex->rings[r].may_write);
	}
}
