/*
 * context.cuh
 *	  The things behind the ABI's handles, and the functions that api.cu puts into
 *	  its table.  Each is described in gpusort_abi.h.
 */
#ifndef GPUSORT_CONTEXT_CUH
#define GPUSORT_CONTEXT_CUH

#include "sort_internal.cuh"

#define GPUSORT_MIN_ARCH	75		/* the oldest that CUDA 13 builds for */

/* A piece of memory that a context owns, in a doubly linked list. */
struct Owned
{
	void	   *p;
	uint64_t	bytes;
	Owned	   *prev;
	Owned	   *next;
};

struct GpusortContext
{
	DeviceTraits traits;
	uint64_t	limit;			/* bytes that the caller allows; 0: all that is free */
	uint64_t	budget;			/* bytes, as of the last look */
	uint64_t	held;			/* bytes of used and kept blocks */
	Owned	   *used;			/* device blocks handed out */
	Owned	   *kept;			/* device blocks for the next allocation */
	Owned	   *host;			/* pinned memory allocated here */
	Owned	   *registered;		/* the caller's memory */
	GpusortStream *streams;
	GpusortEvent *events;
};

struct GpusortEvent
{
	GpusortContext *ctx;
	cudaEvent_t cuda;
	GpusortEvent *next;
};

/* Makes the context's device the thread's current one. */
extern GpusortStatus gpusort_enter(const GpusortContext *ctx, GpusortError *err);

extern GpusortStatus gpusort_devices(GpusortDeviceInfo *out, int32_t max,
									 int32_t *count, GpusortError *err);
extern GpusortStatus gpusort_context_create(int32_t device, uint64_t memory_budget,
											GpusortContext **out, GpusortError *err);
extern void gpusort_context_destroy(GpusortContext *ctx);
extern GpusortStatus gpusort_device_alloc(GpusortContext *ctx, uint64_t bytes,
										  void **out, GpusortError *err);
extern void gpusort_device_free(GpusortContext *ctx, void *p);
extern void gpusort_device_trim(GpusortContext *ctx);
extern void gpusort_device_memory(GpusortContext *ctx, int32_t look, GpusortMemory *out);
extern GpusortStatus gpusort_host_alloc(GpusortContext *ctx, uint64_t bytes,
										void **out, GpusortError *err);
extern void gpusort_host_free(GpusortContext *ctx, void *p);
extern GpusortStatus gpusort_host_register(GpusortContext *ctx, void *p,
										   uint64_t bytes, GpusortError *err);
extern void gpusort_host_unregister(GpusortContext *ctx, void *p);
extern GpusortStatus gpusort_stream_create(GpusortContext *ctx, GpusortStream **out,
										   GpusortError *err);
extern void gpusort_stream_destroy(GpusortStream *stream);
extern GpusortStatus gpusort_stream_poll(GpusortStream *stream, GpusortError *err);
extern GpusortStatus gpusort_stream_wait(GpusortStream *stream, GpusortError *err);
extern GpusortStatus gpusort_event_create(GpusortContext *ctx, GpusortEvent **out,
										  GpusortError *err);
extern void gpusort_event_destroy(GpusortEvent *event);
extern GpusortStatus gpusort_event_record(GpusortEvent *event, GpusortStream *stream,
										  GpusortError *err);
extern GpusortStatus gpusort_event_poll(GpusortEvent *event, GpusortError *err);
extern GpusortStatus gpusort_event_wait(GpusortEvent *event, GpusortError *err);
extern GpusortStatus gpusort_stream_after(GpusortStream *stream, GpusortEvent *event,
										  GpusortError *err);
extern GpusortStatus gpusort_event_elapsed(GpusortEvent *from, GpusortEvent *to,
										   double *us, GpusortError *err);
extern GpusortStatus gpusort_copy_in(GpusortStream *stream, void *device_dst,
									 const void *host_src, uint64_t bytes,
									 GpusortError *err);
extern GpusortStatus gpusort_copy_out(GpusortStream *stream, void *host_dst,
									  const void *device_src, uint64_t bytes,
									  GpusortError *err);
extern GpusortStatus gpusort_copy_within(GpusortStream *stream, void *device_dst,
										 const void *device_src, uint64_t bytes,
										 GpusortError *err);

#endif							/* GPUSORT_CONTEXT_CUH */
