/*
 * cpu_abi.h
 *	  Types and functions shared by the files of the fake device.
 */
#ifndef GPUSORT_CPU_ABI_H
#define GPUSORT_CPU_ABI_H

#include <pthread.h>

#include "gpusort_abi.h"

typedef struct Block
{
	struct Block *next;
	char	   *p;
	uint64_t	bytes;
	uint64_t	taken;			/* bytes of the budget */
} Block;

struct GpusortContext
{
	pthread_mutex_t lock;		/* protects the lists: sorts run in threads */
	int32_t		device;
	uint64_t	limit;			/* budget in bytes; 0: all free memory */
	uint64_t	used;
	uint64_t	kept;			/* bytes freed since the last device_trim */
	uint64_t	waste;			/* percent that a block takes beyond its size */
	Block	   *blocks;
	Block	   *freed;			/* reused without being cleared */
	Block	   *host;
};

typedef struct StreamOp StreamOp;

struct GpusortStream
{
	GpusortContext *ctx;
	StreamOp   *ops;			/* queued operations, in order */
	double		clock_us;		/* device clock: time of finished work */
};

/* Fills *err and returns the status. */
extern GpusortStatus cpu_abi_fail(GpusortError *err, GpusortStatus status, const char *file,
								  int line, const char *format,...)
			__attribute__((format(printf, 5, 6)));

#define FAIL(status, ...) return cpu_abi_fail(err, (status), __FILE__, __LINE__, __VA_ARGS__)

/* A number of the environment or of the settings' file; see cpu_abi.c. */
extern uint64_t cpu_abi_setting(const char *name, uint64_t otherwise);

/* Crashes if the setting names the device. */
extern void cpu_abi_crash(const char *where, int32_t device);

/* Do these bytes lie in one block of device memory? */
extern int	cpu_abi_in_block(const GpusortContext *ctx, const void *p, uint64_t bytes);

/* cpu_abi_sort.c; described in gpusort_abi.h */
extern const GpusortAlgorithm *cpu_abi_algorithm(int32_t index);
extern GpusortStatus cpu_abi_sort_scratch(GpusortContext *ctx, int32_t algorithm,
										  const GpusortProblem *problem, uint64_t *bytes,
										  const char **why, GpusortError *err);
extern GpusortStatus cpu_abi_sort_run(GpusortStream *stream, int32_t algorithm,
									  const GpusortProblem *problem, GpusortResult *result,
									  GpusortError *err);
extern GpusortStatus cpu_abi_groups_scratch(GpusortContext *ctx, const GpusortGroups *problem,
											uint64_t *bytes, GpusortError *err);
extern GpusortStatus cpu_abi_groups_run(GpusortStream *stream, const GpusortGroups *problem,
										uint64_t *groups, GpusortError *err);
extern GpusortStatus cpu_abi_gather_scratch(GpusortContext *ctx, const GpusortGather *gather,
											uint64_t *bytes, GpusortError *err);
extern GpusortStatus cpu_abi_gather_plan(GpusortStream *stream, const GpusortGather *gather,
										 uint32_t *chunks, GpusortError *err);
extern GpusortStatus cpu_abi_gather_rows(GpusortStream *stream, const GpusortGather *gather,
										 uint64_t first, uint64_t last, void *dst,
										 GpusortError *err);

/*
 * cpu_abi_stale.c: whether a step writes nothing; and the functions that
 * replace a step's output by that of an earlier job.
 */
extern int	cpu_abi_writes_nothing(void);
extern void cpu_abi_sorted(const GpusortProblem *problem);
extern void cpu_abi_gathered(const GpusortGather *gather, uint64_t first, uint64_t last, void *dst);

/* Microseconds that the cost model predicts for a sort. */
extern double cpu_abi_sort_us(int32_t algorithm, const GpusortProblem *problem);

/* cpu_abi_stream.c; described in gpusort_abi.h */
extern GpusortStatus cpu_abi_stream_create(GpusortContext *ctx, GpusortStream **out,
										   GpusortError *err);
extern void cpu_abi_stream_destroy(GpusortStream *stream);
extern GpusortStatus cpu_abi_stream_poll(GpusortStream *stream, GpusortError *err);
extern GpusortStatus cpu_abi_stream_wait(GpusortStream *stream, GpusortError *err);
extern GpusortStatus cpu_abi_event_create(GpusortContext *ctx, GpusortEvent **out,
										  GpusortError *err);
extern void cpu_abi_event_destroy(GpusortEvent *event);
extern GpusortStatus cpu_abi_event_record(GpusortEvent *event, GpusortStream *stream,
										  GpusortError *err);
extern GpusortStatus cpu_abi_event_poll(GpusortEvent *event, GpusortError *err);
extern GpusortStatus cpu_abi_event_wait(GpusortEvent *event, GpusortError *err);
extern GpusortStatus cpu_abi_stream_after(GpusortStream *stream, GpusortEvent *event,
										  GpusortError *err);
extern GpusortStatus cpu_abi_event_elapsed(GpusortEvent *from, GpusortEvent *to, double *us,
										   GpusortError *err);
extern GpusortStatus cpu_abi_copy_in(GpusortStream *stream, void *device_dst,
									 const void *host_src, uint64_t bytes, GpusortError *err);
extern GpusortStatus cpu_abi_copy_out(GpusortStream *stream, void *host_dst,
									  const void *device_src, uint64_t bytes,
									  GpusortError *err);
extern GpusortStatus cpu_abi_copy_within(GpusortStream *stream, void *device_dst,
										 const void *device_src, uint64_t bytes,
										 GpusortError *err);
extern GpusortStatus cpu_abi_queue_sort(GpusortStream *stream, int32_t algorithm,
										const GpusortProblem *problem, GpusortResult *result,
										GpusortError *err);
extern GpusortStatus cpu_abi_wait_groups(GpusortStream *stream, const GpusortGroups *problem,
										 uint64_t *groups, GpusortError *err);
extern GpusortStatus cpu_abi_wait_gather_plan(GpusortStream *stream, const GpusortGather *gather,
											  uint32_t *chunks, GpusortError *err);
extern GpusortStatus cpu_abi_queue_gather(GpusortStream *stream, const GpusortGather *gather,
										  uint64_t first, uint64_t last, void *dst,
										  GpusortError *err);

#endif							/* GPUSORT_CPU_ABI_H */
