/*
 * cpu_abi_stream.c
 *	  The fake device's streams, events and copies: see cpu_abi.c.
 *
 * Operations are queued and run late: after the caller has polled the stream,
 * or a later event, a few times.  So a caller that reuses memory before a copy
 * has ended, or reads a result too early, gets wrong rows every time; with a
 * GPU it gets them sometimes.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "costs_h200.h"
#include "cpu_abi.h"

typedef enum OpKind
{
	OP_COPY,
	OP_EVENT,
	OP_SORT,
	OP_GATHER
} OpKind;

struct StreamOp
{
	StreamOp   *next;
	OpKind		kind;
	void	   *dst;
	const void *src;
	uint64_t	bytes;
	GpusortEvent *event;
	uint64_t	record;			/* number of this record of the event */
	int32_t		algorithm;
	GpusortProblem sort;
	const GpusortGather *gather;
	uint64_t	first;
	uint64_t	last;
};

struct GpusortEvent
{
	GpusortStream *stream;
	uint64_t	recorded;		/* how often the event was recorded */
	uint64_t	reached;		/* the last record that the stream has reached */
	int			late;			/* polls until the stream runs */
	double		time_us;
};

/* ------------------------------------------------------------------------
 * The queue
 * ------------------------------------------------------------------------
 */
/* Time of a copy by the device clock, in microseconds. */
static double
copy_us(uint64_t bytes)
{
	return (double) bytes * gpusort_costs_h200.copy_ns / 1000 *
		(double) cpu_abi_setting("GPUSORT_CPU_ABI_COPY_TIMES", 1);
}

static StreamOp *
add_op(GpusortStream *stream, OpKind kind)
{
	StreamOp   *op = calloc(1, sizeof(*op));
	StreamOp  **link = &stream->ops;

	if (!op)
		return NULL;
	op->kind = kind;
	while (*link)
		link = &(*link)->next;
	*link = op;
	return op;
}

static void
drop_ops(GpusortStream *stream)
{
	while (stream->ops)
	{
		StreamOp   *op = stream->ops;

		stream->ops = op->next;
		free(op);
	}
}

/*
 * Runs the first operation of the queue.  If it fails (as a cancelled sort
 * does), the operations behind it are dropped: the caller regards the stream
 * as idle and frees its memory.
 */
static GpusortStatus
run_op(GpusortStream *stream, GpusortError *err)
{
	StreamOp   *op = stream->ops;
	GpusortStatus status = GPUSORT_OK;

	stream->ops = op->next;
	switch (op->kind)
	{
		case OP_COPY:
			memcpy(op->dst, op->src, op->bytes);
			stream->clock_us += copy_us(op->bytes);
			break;
		case OP_EVENT:
			op->event->time_us = stream->clock_us;
			op->event->reached = op->record;
			break;
		case OP_SORT:
			status = cpu_abi_sort_run(stream, op->algorithm, &op->sort, NULL, err);
			stream->clock_us += cpu_abi_sort_us(op->algorithm, &op->sort) *
				(double) cpu_abi_setting("GPUSORT_CPU_ABI_SORT_TIMES", 1);
			break;
		case OP_GATHER:
			status = cpu_abi_gather_rows(stream, op->gather, op->first, op->last, op->dst, err);
			break;
	}
	free(op);
	if (status != GPUSORT_OK)
		drop_ops(stream);
	return status;
}

GpusortStatus
cpu_abi_stream_wait(GpusortStream *stream, GpusortError *err)
{
	while (stream->ops)
	{
		GpusortStatus status = run_op(stream, err);

		if (status != GPUSORT_OK)
			return status;
	}
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Streams
 * ------------------------------------------------------------------------
 */
GpusortStatus
cpu_abi_stream_create(GpusortContext *ctx, GpusortStream **out, GpusortError *err)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	(*out)->ctx = ctx;
	return GPUSORT_OK;
}

void
cpu_abi_stream_destroy(GpusortStream *stream)
{
	drop_ops(stream);
	free(stream);
}

/* Each poll runs one operation. */
GpusortStatus
cpu_abi_stream_poll(GpusortStream *stream, GpusortError *err)
{
	GpusortStatus status;

	if (!stream->ops)
		return GPUSORT_OK;
	status = run_op(stream, err);
	return status == GPUSORT_OK ? GPUSORT_NOT_READY : status;
}

/* ------------------------------------------------------------------------
 * Events
 * ------------------------------------------------------------------------
 */
GpusortStatus
cpu_abi_event_create(GpusortContext *ctx, GpusortEvent **out, GpusortError *err)
{
	(void) ctx;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	return GPUSORT_OK;
}

void
cpu_abi_event_destroy(GpusortEvent *event)
{
	free(event);
}

GpusortStatus
cpu_abi_event_record(GpusortEvent *event, GpusortStream *stream, GpusortError *err)
{
	static _Atomic unsigned records = 0;
	StreamOp   *op = add_op(stream, OP_EVENT);

	if (!op)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	op->event = event;
	op->record = ++event->recorded;
	event->stream = stream;
	event->late = 1 + (int) (records++ % 4);
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_event_wait(GpusortEvent *event, GpusortError *err)
{
	while (event->reached != event->recorded)
	{
		GpusortStatus status;

		if (!event->stream->ops)
			FAIL(GPUSORT_CUDA_ERROR, "work before the event has failed");
		status = run_op(event->stream, err);
		if (status != GPUSORT_OK)
			return status;
	}
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_event_poll(GpusortEvent *event, GpusortError *err)
{
	if (event->reached != event->recorded && event->late-- > 0)
		return GPUSORT_NOT_READY;
	return cpu_abi_event_wait(event, err);
}

GpusortStatus
cpu_abi_stream_after(GpusortStream *stream, GpusortEvent *event, GpusortError *err)
{
	(void) stream;
	return cpu_abi_event_wait(event, err);
}

GpusortStatus
cpu_abi_event_elapsed(GpusortEvent *from, GpusortEvent *to, double *us, GpusortError *err)
{
	if (from->reached != from->recorded || to->reached != to->recorded)
		FAIL(GPUSORT_CUDA_ERROR, "an event is not reached yet");
	*us = to->time_us - from->time_us;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Work
 * ------------------------------------------------------------------------
 */
static GpusortStatus
queue_copy(GpusortStream *stream, void *dst, const void *src, const void *device, uint64_t bytes,
		   GpusortError *err)
{
	StreamOp   *op;

	if (!cpu_abi_in_block(stream->ctx, device, bytes))
		FAIL(GPUSORT_CUDA_ERROR, "copy outside of device memory");
	op = add_op(stream, OP_COPY);
	if (!op)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	op->dst = dst;
	op->src = src;
	op->bytes = bytes;
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_copy_in(GpusortStream *stream, void *device_dst, const void *host_src, uint64_t bytes,
				GpusortError *err)
{
	return queue_copy(stream, device_dst, host_src, device_dst, bytes, err);
}

GpusortStatus
cpu_abi_copy_out(GpusortStream *stream, void *host_dst, const void *device_src, uint64_t bytes,
				 GpusortError *err)
{
	return queue_copy(stream, host_dst, device_src, device_src, bytes, err);
}

GpusortStatus
cpu_abi_copy_within(GpusortStream *stream, void *device_dst, const void *device_src,
					uint64_t bytes, GpusortError *err)
{
	if (!cpu_abi_in_block(stream->ctx, device_dst, bytes))
		FAIL(GPUSORT_CUDA_ERROR, "copy outside of device memory");
	return queue_copy(stream, device_dst, device_src, device_src, bytes, err);
}

GpusortStatus
cpu_abi_queue_sort(GpusortStream *stream, int32_t algorithm, const GpusortProblem *problem,
				   GpusortResult *result, GpusortError *err)
{
	GpusortStatus status;
	StreamOp   *op;

	cpu_abi_crash("GPUSORT_CPU_ABI_CRASH_SORT", stream->ctx->device);
	if (cpu_abi_setting("GPUSORT_CPU_ABI_ABORT_SORT", UINT64_MAX) == (uint64_t) stream->ctx->device)
		abort();
	while (problem->n >= cpu_abi_setting("GPUSORT_CPU_ABI_STUCK_ROWS", UINT64_MAX) &&
		   !(problem->cancel && *problem->cancel))
		usleep(1000);
	if (result)
	{
		status = cpu_abi_stream_wait(stream, err);
		return status != GPUSORT_OK ? status :
			cpu_abi_sort_run(stream, algorithm, problem, result, err);
	}
	op = add_op(stream, OP_SORT);
	if (!op)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	op->algorithm = algorithm;
	op->sort = *problem;
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_wait_groups(GpusortStream *stream, const GpusortGroups *problem, uint64_t *groups,
					GpusortError *err)
{
	GpusortStatus status = cpu_abi_stream_wait(stream, err);

	return status != GPUSORT_OK ? status : cpu_abi_groups_run(stream, problem, groups, err);
}

GpusortStatus
cpu_abi_wait_gather_plan(GpusortStream *stream, const GpusortGather *gather, uint32_t *chunks,
						 GpusortError *err)
{
	GpusortStatus status = cpu_abi_stream_wait(stream, err);

	return status != GPUSORT_OK ? status : cpu_abi_gather_plan(stream, gather, chunks, err);
}

GpusortStatus
cpu_abi_queue_gather(GpusortStream *stream, const GpusortGather *gather, uint64_t first,
					 uint64_t last, void *dst, GpusortError *err)
{
	StreamOp   *op = add_op(stream, OP_GATHER);

	cpu_abi_crash("GPUSORT_CPU_ABI_CRASH_GATHER", stream->ctx->device);
	if (!op)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	op->gather = gather;
	op->first = first;
	op->last = last;
	op->dst = dst;
	return GPUSORT_OK;
}
