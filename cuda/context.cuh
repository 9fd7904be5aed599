/*
 * context.cuh
 *	  The structs behind the handles of gpusort_abi.h, and the functions that
 *	  api.cu puts into its table.  gpusort_abi.h documents the functions.
 */
#ifndef GPUSORT_CONTEXT_CUH
#define GPUSORT_CONTEXT_CUH

#include "sort_internal.cuh"

/*
 * The least compute capability, 10 * major + minor; CUDA 13 builds for no less.
 */
#define GPUSORT_MIN_ARCH	75

/* A piece of memory that a context owns.  Element of a doubly linked list. */
struct Owned
{
	void	   *p;
	uint64_t	bytes;
	Owned	   *prev;
	Owned	   *next;
};

/* A context: a device in use, with all that was made with it. */
struct GpusortContext
{
	DeviceTraits traits;
	uint64_t	limit;			/* bytes that the caller allows; 0: no limit but
								 * the device's free memory */
	uint64_t	budget;			/* bytes, computed by the last memory query */
	uint64_t	held;			/* bytes of all blocks in used and kept */
	Owned	   *used;			/* device blocks that device_alloc returned */
	Owned	   *kept;			/* freed device blocks, for later allocations */
	Owned	   *host;			/* pinned memory that host_alloc returned */
	Owned	   *registered;		/* the caller's memory, pinned by
								 * host_register */
	GpusortStream *streams;
	GpusortEvent *events;
};

/* An event; next links the context's list of events. */
struct GpusortEvent
{
	GpusortContext *ctx;
	cudaEvent_t cuda;
	GpusortEvent *next;
};

/* Makes the context's device the current device of this thread. */
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
extern GpusortStatus gpusort_groups_scratch(GpusortContext *ctx, const GpusortGroups *problem,
											uint64_t *bytes, GpusortError *err);
extern GpusortStatus gpusort_groups_run(GpusortStream *stream, const GpusortGroups *problem,
										uint64_t *groups, GpusortError *err);
extern GpusortStatus gpusort_gather_scratch(GpusortContext *ctx, const GpusortGather *gather,
											uint64_t *bytes, GpusortError *err);
extern GpusortStatus gpusort_gather_plan(GpusortStream *stream, const GpusortGather *gather,
										 uint32_t *chunks, GpusortError *err);
extern GpusortStatus gpusort_gather_rows(GpusortStream *stream, const GpusortGather *gather,
										 uint64_t first, uint64_t last, void *dst,
										 GpusortError *err);

#endif							/* GPUSORT_CONTEXT_CUH */
