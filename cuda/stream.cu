/*
 * stream.cu
 *	  Streams, events and copies; gpusort_abi.h documents the functions.
 *
 * Ownership: streams and events are in lists of their context, which destroys
 * those that still exist with itself.
 *
 * Threads: CUDA's current device is a state of the thread, device 0 at first.
 * A function that could initialise device 0 by accident therefore sets the
 * context's device before it calls CUDA.
 */
#include <stdlib.h>
#include <string.h>

#include "context.cuh"

/* ------------------------------------------------------------------------
 * Streams and events
 * ------------------------------------------------------------------------
 */
GpusortStatus
gpusort_stream_create(GpusortContext *ctx, GpusortStream **out, GpusortError *err)
{
	GpusortStream *stream;
	cudaError_t error;

	*out = NULL;
	TRY(gpusort_enter(ctx, err));
	stream = (GpusortStream *) calloc(1, sizeof(*stream));
	if (!stream)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	error = cudaMallocHost((void **) &stream->readback,
						   GPUSORT_READBACK_WORDS * sizeof(uint32_t));
	if (error == cudaSuccess)
	{
		/* sequence numbers start at 1, so that 0 means "none written" */
		memset(stream->readback, 0, GPUSORT_READBACK_WORDS * sizeof(uint32_t));
		error = cudaStreamCreateWithFlags(&stream->cuda, cudaStreamNonBlocking);
		if (error != cudaSuccess)
			(void) cudaFreeHost(stream->readback);
	}
	if (error != cudaSuccess)
	{
		free(stream);
		CUDA_TRY(error);
	}
	stream->ctx = ctx;
	stream->next = ctx->streams;
	ctx->streams = stream;
	*out = stream;
	return GPUSORT_OK;
}

void
gpusort_stream_destroy(GpusortStream *stream)
{
	GpusortStream **link;

	if (!stream)
		return;
	for (link = &stream->ctx->streams; *link != stream; link = &(*link)->next)
		;
	*link = stream->next;
	(void) cudaStreamSynchronize(stream->cuda);
	(void) cudaStreamDestroy(stream->cuda);
	(void) cudaFreeHost(stream->readback);
	free(stream);
}

/* The status for the result of a query of a stream or an event. */
static GpusortStatus
polled(cudaError_t error, const char *call, GpusortError *err)
{
	if (error == cudaSuccess)
		return GPUSORT_OK;
	if (error != cudaErrorNotReady)
		return gpusort_fail_cuda(err, error, call, __FILE__, __LINE__);
	(void) cudaGetLastError();	/* CUB would report "not ready" as an error */
	return GPUSORT_NOT_READY;
}

/* gpusort_abi.h documents the functions whose names start with gpusort_. */
GpusortStatus
gpusort_stream_poll(GpusortStream *stream, GpusortError *err)
{
	return polled(cudaStreamQuery(stream->cuda), "cudaStreamQuery", err);
}

GpusortStatus
gpusort_stream_wait(GpusortStream *stream, GpusortError *err)
{
	TRY(gpusort_enter(stream->ctx, err));
	CUDA_TRY(cudaStreamSynchronize(stream->cuda));
	return GPUSORT_OK;
}

GpusortStatus
gpusort_event_create(GpusortContext *ctx, GpusortEvent **out, GpusortError *err)
{
	GpusortEvent *event;
	cudaError_t error;

	*out = NULL;
	TRY(gpusort_enter(ctx, err));
	event = (GpusortEvent *) calloc(1, sizeof(*event));
	if (!event)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	error = cudaEventCreate(&event->cuda);
	if (error != cudaSuccess)
	{
		free(event);
		CUDA_TRY(error);
	}
	event->ctx = ctx;
	event->next = ctx->events;
	ctx->events = event;
	*out = event;
	return GPUSORT_OK;
}

void
gpusort_event_destroy(GpusortEvent *event)
{
	GpusortEvent **link;

	if (!event)
		return;
	for (link = &event->ctx->events; *link != event; link = &(*link)->next)
		;
	*link = event->next;
	(void) cudaEventDestroy(event->cuda);
	free(event);
}

GpusortStatus
gpusort_event_record(GpusortEvent *event, GpusortStream *stream, GpusortError *err)
{
	TRY(gpusort_enter(stream->ctx, err));
	CUDA_TRY(cudaEventRecord(event->cuda, stream->cuda));
	return GPUSORT_OK;
}

GpusortStatus
gpusort_event_poll(GpusortEvent *event, GpusortError *err)
{
	return polled(cudaEventQuery(event->cuda), "cudaEventQuery", err);
}

GpusortStatus
gpusort_event_wait(GpusortEvent *event, GpusortError *err)
{
	CUDA_TRY(cudaEventSynchronize(event->cuda));
	return GPUSORT_OK;
}

GpusortStatus
gpusort_stream_after(GpusortStream *stream, GpusortEvent *event, GpusortError *err)
{
	CUDA_TRY(cudaStreamWaitEvent(stream->cuda, event->cuda, 0));
	return GPUSORT_OK;
}

GpusortStatus
gpusort_event_elapsed(GpusortEvent *from, GpusortEvent *to, double *us,
					  GpusortError *err)
{
	float		ms = 0;

	CUDA_TRY(cudaEventElapsedTime(&ms, from->cuda, to->cuda));
	*us = ms * 1000.0;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Copies
 * ------------------------------------------------------------------------
 */
GpusortStatus
gpusort_copy_in(GpusortStream *stream, void *device_dst, const void *host_src,
				uint64_t bytes, GpusortError *err)
{
	TRY(gpusort_enter(stream->ctx, err));
	CUDA_TRY(cudaMemcpyAsync(device_dst, host_src, bytes, cudaMemcpyHostToDevice,
							 stream->cuda));
	return GPUSORT_OK;
}

GpusortStatus
gpusort_copy_out(GpusortStream *stream, void *host_dst, const void *device_src,
				 uint64_t bytes, GpusortError *err)
{
	TRY(gpusort_enter(stream->ctx, err));
	CUDA_TRY(cudaMemcpyAsync(host_dst, device_src, bytes, cudaMemcpyDeviceToHost,
							 stream->cuda));
	return GPUSORT_OK;
}

GpusortStatus
gpusort_copy_within(GpusortStream *stream, void *device_dst, const void *device_src,
					uint64_t bytes, GpusortError *err)
{
	TRY(gpusort_enter(stream->ctx, err));
	CUDA_TRY(cudaMemcpyAsync(device_dst, device_src, bytes, cudaMemcpyDeviceToDevice,
							 stream->cuda));
	return GPUSORT_OK;
}
