/*
 * gpusort_abi.h
 *	  The contract between the GPU library and the process that loads it.
 *
 * The library (libgpusort_cuda.so, built by nvcc) exports one function,
 * gpusort_cuda_api(), which returns a table of function pointers.  The device
 * process loads the library with dlopen(), so that one package works with and
 * without a GPU.  The fake device (test/fake_gpu) implements the same table on
 * the CPU: tests of the caller then need no GPU.  This header is plain C and
 * C++, and the only header that both sides include.
 *
 * Rules for every function of the table:
 *
 *	* Errors.  No exception and no exit leaves the library.  A function that can
 *	  fail returns a GpusortStatus and describes a failure in *err, which may be
 *	  NULL.  gpusort_use_cpu() tells a sort that belongs on the CPU from a
 *	  fault, gpusort_is_broken().
 *	* Units.  Sizes and offsets are bytes unless a comment says otherwise.
 *	* Arguments.  Pointers must not be NULL unless a comment allows it.
 *	* Processes.  A context belongs to one process and one device.  It does not
 *	  survive fork().
 *	* Threads.  One thread at a time may create or destroy what belongs to a
 *	  context (memory, streams, events) or ask for its memory figures.  One
 *	  thread at a time may use a stream.  Different threads may run sorts,
 *	  gathers and copies on different streams concurrently, also while another
 *	  thread creates or destroys something in the context.
 *	* Order.  Work on one stream runs in the order of the calls.  Only events
 *	  order work on different streams.
 *	* Memory.  "Device memory" comes from device_alloc.  The caller must not
 *	  read or write it directly, although the fake device's is host memory.
 *	* Ownership.  The caller owns every array that it passes, and keeps it
 *	  unchanged until the stream's work is done.  Sorts and gathers allocate
 *	  nothing: they use the scratch memory that the caller passes, whose size
 *	  sort_scratch or gather_scratch tells.
 */
#ifndef GPUSORT_ABI_H
#define GPUSORT_ABI_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

/* Raised with every incompatible change of this header. */
#define GPUSORT_ABI_VERSION		8

/* ------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------
 */
typedef enum GpusortStatus
{
	GPUSORT_OK = 0,
	GPUSORT_NOT_READY = 1,		/* stream_poll, event_poll: the work still
								 * runs */
	GPUSORT_STOPPED = 2,		/* the cancel flag was set; outputs are
								 * undefined, the context remains usable */

	/* 16 to 31: no fault, but the caller must sort on the CPU */
	GPUSORT_NO_DEVICE = 16,		/* no driver, no device, or an unusable one */
	GPUSORT_NO_MEMORY = 17,		/* over the budget, or the device is full */
	GPUSORT_UNSUPPORTED = 18,	/* the algorithm cannot sort this problem */

	/* from 32 on: a fault; outputs are undefined */
	GPUSORT_CUDA_ERROR = 32,	/* a CUDA call or a kernel failed: cuda_error
								 * is set; the context may be unusable, so the
								 * caller must destroy it */
	GPUSORT_BAD_CALL = 33,		/* the caller's arguments contradict each
								 * other */
	GPUSORT_INTERNAL = 34		/* a kernel found its own invariant violated */
} GpusortStatus;

/* Does the status mean that the CPU must sort? */
static inline int
gpusort_use_cpu(GpusortStatus s)
{
	return s >= GPUSORT_NO_DEVICE && s < GPUSORT_CUDA_ERROR;
}

/* Does the status mean a fault of the device, the caller or the library? */
static inline int
gpusort_is_broken(GpusortStatus s)
{
	return s >= GPUSORT_CUDA_ERROR;
}

/* Describes a failure.  The function that fails fills all fields. */
typedef struct GpusortError
{
	int32_t		status;			/* the GpusortStatus that was returned */
	int32_t		cuda_error;		/* cudaError_t; 0: no CUDA call failed */
	int32_t		line;			/* line of the library's source */
	char		file[60];		/* name of that source file, without directory */
	char		message[184];	/* for people; not empty unless GPUSORT_OK */
} GpusortError;

/* ------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------
 */

/* One GPU of the host. */
typedef struct GpusortDeviceInfo
{
	int32_t		index;			/* the device's number for context_create */
	int32_t		usable;			/* 1: contexts can be made; 0: see why_not */
	char		name[64];		/* product name */
	char		pci_bus_id[32]; /* domain:bus:device.function, hexadecimal */
	char		why_not[96];	/* reason why the device is unusable, or empty */
	uint64_t	memory_total;	/* bytes of device memory */
	uint64_t	memory_free;	/* free bytes of it; 0: not known without
								 * making a context */
	uint64_t	l2_bytes;		/* bytes of the level 2 cache */
	int32_t		compute_major;	/* compute capability, as in 9.0 */
	int32_t		compute_minor;
	int32_t		multiprocessors;	/* number of streaming multiprocessors */
	int32_t		copy_engines;	/* 2: copies in both directions overlap */
	int32_t		driver_version; /* 1000 * major + 10 * minor of the CUDA
								 * version that the driver supports; 0: fake
								 * device */
	int32_t		runtime_version;	/* the same of the CUDA runtime in the
									 * library */
} GpusortDeviceInfo;

/* Device memory of a context, in bytes. */
typedef struct GpusortMemory
{
	uint64_t	budget;			/* upper bound of used + kept: the limit given
								 * to context_create, or less if other
								 * programs leave less; changes with each
								 * query */
	uint64_t	used;			/* blocks that device_alloc returned */
	uint64_t	kept;			/* freed blocks kept for later allocations;
								 * device_trim returns them to the device */
} GpusortMemory;

/* ------------------------------------------------------------------------
 * Sorts
 * ------------------------------------------------------------------------
 */

/* A 128-bit key, hi * 2^64 + lo.  Arrays of GpusortKey128 are 16-byte aligned. */
typedef struct GpusortKey128
{
	uint64_t	lo;				/* bits 0 to 63 */
	uint64_t	hi;				/* bits 64 to 127 */
} GpusortKey128;

/*
 * Facts about the input of a problem.  The library trusts them.
 *
 * KEY_RANGE		key_min and key_max are bounds of the keys.  Keys outside of
 *					them make the result wrong, but cause no invalid access.
 *					Bounds that contradict each other, or exceed the ordering
 *					bits, are a GPUSORT_BAD_CALL.
 * RIDS_ASCENDING	rids[] is strictly ascending, its last below 2^32 - 1.
 * DISTINCT_KEYS	no two keys are equal.
 */
#define GPUSORT_FACT_KEY_RANGE			0x01
#define GPUSORT_FACT_RIDS_ASCENDING		0x02
#define GPUSORT_FACT_DISTINCT_KEYS		0x04

/* The sort may overwrite keys[] and rids[].  It then needs less scratch. */
#define GPUSORT_MAY_CLOBBER_INPUT		0x08

/* Arrays that a sort writes. */
#define GPUSORT_OUT_KEYS				0x01	/* keys_out */
#define GPUSORT_OUT_RIDS				0x02	/* rids_out */

/*
 * A problem: what one call of sort_run sorts.
 *
 * Keys are ordered by their bits [begin_bit, end_bit) as an unsigned number,
 * ascending.  Bits outside [begin_bit, end_bit) are arbitrary and are copied
 * with the key.  A stable algorithm keeps equal keys in input order.
 *
 * All arrays are device memory, 256-byte aligned, without overlap.  The caller
 * owns them; they must stay valid until the stream's work is done.
 */
typedef struct GpusortProblem
{
	uint64_t	n;				/* number of keys; at most 2^32 with
								 * GPUSORT_OUT_RIDS */
	int32_t		key_width;		/* bits of a key: 32 (uint32_t), 64 (uint64_t)
								 * or 128 (GpusortKey128) */
	int32_t		begin_bit;		/* lowest bit that orders; 0 <= begin_bit <
								 * end_bit <= key_width */
	int32_t		end_bit;		/* one above the highest bit that orders */
	uint32_t	facts;			/* GPUSORT_FACT_* and GPUSORT_MAY_* */
	uint32_t	output;			/* GPUSORT_OUT_*, at least one of them */
	uint32_t	reserved;		/* 0 */
	GpusortKey128 key_min;		/* least and greatest of the ordering bits, */
	GpusortKey128 key_max;		/* shifted right by begin_bit, both inclusive;
								 * valid with GPUSORT_FACT_KEY_RANGE */

	const void *keys;			/* n keys */
	const uint32_t *rids;		/* n row ids; NULL: a key's index is its row
								 * id */
	void	   *keys_out;		/* n sorted keys, with GPUSORT_OUT_KEYS */
	uint32_t   *rids_out;		/* their n row ids, with GPUSORT_OUT_RIDS */
	void	   *scratch;		/* working memory; undefined afterwards */
	uint64_t	scratch_bytes;	/* size of scratch, at least that from
								 * sort_scratch */

	/*
	 * Cancel flag in host memory, or NULL.  Another thread or process sets it
	 * to nonzero to stop the sort.  The library reads it before each kernel
	 * launch; launched kernels still run to their end.
	 */
	const volatile int32_t *cancel;
} GpusortProblem;

/* Reported by sort_run, for EXPLAIN and the statistics. */
typedef struct GpusortResult
{
	int32_t		stable;			/* 1: equal keys kept their input order */
	int32_t		passes;			/* number of times that all keys were moved */
	int32_t		launches;		/* number of kernels launched */
	int32_t		shortcut;		/* GPUSORT_SHORTCUT_* */
} GpusortResult;

/* Properties of the input that saved the sort. */
#define GPUSORT_SHORTCUT_NONE		0
#define GPUSORT_SHORTCUT_SORTED		1	/* the input was in order */
#define GPUSORT_SHORTCUT_REVERSED	2	/* the input was in descending order */
#define GPUSORT_SHORTCUT_FLAT		3	/* all keys were equal */

/* Key widths that an algorithm takes. */
#define GPUSORT_KEYS_32		0x01
#define GPUSORT_KEYS_64		0x02
#define GPUSORT_KEYS_128	0x04

/* An algorithm.  Static data of the library, valid while it is loaded. */
typedef struct GpusortAlgorithm
{
	const char *name;			/* value of the setting gpusort.algorithm;
								 * src/kernel/algorithms.c describes it */
	uint32_t	key_widths;		/* GPUSORT_KEYS_*, the widths that it takes */
	int32_t		stable;			/* 1: equal keys keep their input order */
	int32_t		rids;			/* 1: sorts row ids with keys; 0: keys only */
} GpusortAlgorithm;

/* ------------------------------------------------------------------------
 * Costs and limits
 * ------------------------------------------------------------------------
 *
 * The router compares these times with those of the CPU.  They are measured on
 * the device or on a similar one.  Every number is finite and above 0.
 */

/*
 * A cost curve: microseconds of a sort of 2^10, 2^11, ... 2^28 keys.  Every
 * power of two has a sample point, because the time jumps where an algorithm
 * changes to other kernels.
 */
#define GPUSORT_COST_POINTS		19
#define GPUSORT_COST_FIRST_LOG2	10

/* Number of key ranges with a cost curve for counting keys without row ids. */
#define GPUSORT_COST_RANGES		4

/* Distribution of the keys between the least and the greatest key. */
typedef enum GpusortDistribution
{
	GPUSORT_KEYS_UNIFORM,		/* equal density over the range */
	GPUSORT_KEYS_FREQUENT,		/* some values are frequent; the other keys,
								 * if any, are uniform */
	GPUSORT_KEYS_SKEWED,		/* uniform between neighbouring quantiles of a
								 * sample */
	GPUSORT_KEYS_CLUSTERED,		/* clustered at any scale, or many values
								 * repeat */
	GPUSORT_KEYS_LONG_PREFIX	/* clustered, and many keys differ only in
								 * their low bits */
} GpusortDistribution;

#define GPUSORT_DISTRIBUTIONS			5

/*
 * Costs of a device.  An index [3] is the key width: 0, 1, 2 for 32, 64 and 128
 * bits.
 */
typedef struct GpusortCosts
{
	/*
	 * Curves of sorts with row ids.  gpu_merge compares keys, so that its
	 * time does not depend on the distribution.
	 */
	double		radix[GPUSORT_DISTRIBUTIONS][3][GPUSORT_COST_POINTS];
	double		merge[3][GPUSORT_COST_POINTS];
	double		bucket[GPUSORT_DISTRIBUTIONS][3][GPUSORT_COST_POINTS];

	/*
	 * gpu_counting with row ids, 32-bit keys, by ordering bits: up to 8, up
	 * to 16, more.
	 */
	double		counting_rids[3][GPUSORT_COST_POINTS];

	/*
	 * gpu_counting without row ids, 32-bit keys: curve r is of keys with
	 * 2^range_log2[r] possible values.  range_log2 ascends.
	 */
	double		range_log2[GPUSORT_COST_RANGES];
	double		counting_keys[GPUSORT_COST_RANGES][GPUSORT_COST_POINTS];
	double		hp1[GPUSORT_COST_POINTS];	/* gpu_hp1, keys without row ids */

	/* gpu_counting where the curves above do not apply as they are */
	double		counting_wide_ns;	/* nanoseconds per key where the range
									 * exceeds that of the last curve */
	double		counting_width[3];	/* factor on all times of gpu_counting, by
									 * key width */

	/*
	 * gpu_radix over fewer than all key bits: the share of its time that does
	 * not depend on the number of passes, and the number of 8-bit passes over
	 * all key bits.  That number holds from radix_passes_from keys on;
	 * smaller sorts take key width / 8 passes.
	 */
	double		radix_fixed[3];
	double		radix_passes[GPUSORT_DISTRIBUTIONS][3];
	double		radix_passes_from[3];

	/* Transfer between host and device. */
	double		job_us;			/* microseconds per job: opening, wake-ups,
								 * first launches */
	double		copy_ns;		/* nanoseconds per byte copied, one direction */

	/* Device memory of a sort; see gpusort_keys_bytes(). */
	uint64_t	copies;			/* arrays of keys and row ids: input, output,
								 * scratch */
	uint64_t	job_bytes;		/* bytes that do not depend on n */

	/*
	 * Limits of the algorithms that count values (gpu_counting, gpu_onehot,
	 * gpu_hp*): the number of possible key values is at most values_always,
	 * or at most values_per_key * n.  gpu_onehot also limits the keys and the
	 * 32-bit words of its matrix.
	 */
	uint64_t	values_always;
	uint64_t	values_per_key;
	uint64_t	onehot_rows;
	uint64_t	onehot_words;
} GpusortCosts;

/*
 * Microseconds of a curve at n keys.  Interpolates geometrically between sample
 * points; constant below the first, proportional to n above the last.
 */
static inline double
gpusort_cost_at(const double *curve, double n)
{
	double		x = log2(n > 1 ? n : 1) - GPUSORT_COST_FIRST_LOG2;
	int			sample_point = (int) x;
	const int	last = GPUSORT_COST_POINTS - 1;

	if (x <= 0)
		return curve[0];
	if (sample_point >= last)
		return curve[last] * n / ldexp(1, GPUSORT_COST_FIRST_LOG2 + last);
	return curve[sample_point] * pow(curve[sample_point + 1] / curve[sample_point], x - sample_point);
}

/*
 * Estimated bytes of device memory of a sort of n keys of key_bits bits (32, 64
 * or 128) with 32-bit row ids.  Rows that travel to the device are not
 * included.
 */
static inline uint64_t
gpusort_keys_bytes(const GpusortCosts *costs, uint64_t n, int32_t key_bits)
{
	return n * costs->copies * ((uint64_t) key_bits / 8 + sizeof(uint32_t)) + costs->job_bytes;
}

/* ------------------------------------------------------------------------
 * Groups: drop equal keys behind a sort
 * ------------------------------------------------------------------------
 *
 * keys[] ascends in its bits [begin_bit, end_bit).  Keys that are equal in these
 * bits are a group.  groups_run writes the first key of each group, its row id,
 * and where the group ends: group g has the keys ends[g - 1] .. ends[g] - 1 of
 * keys[].
 *
 * All arrays are device memory, 256-byte aligned, without overlap.  The outputs
 * have room for n elements.
 */
typedef struct GpusortGroups
{
	uint64_t	n;				/* number of keys, at most 2^32 - 1 */
	int32_t		key_width;		/* bits of a key, as in GpusortProblem */
	int32_t		begin_bit;		/* 0 <= begin_bit < end_bit <= key_width */
	int32_t		end_bit;
	uint32_t	reserved;		/* 0 */
	const void *keys;			/* n keys */
	const uint32_t *rids;		/* n row ids; NULL: none */
	void	   *keys_out;		/* first key of each group */
	uint32_t   *rids_out;		/* its row id, with rids */
	uint32_t   *ends;			/* index of the first key behind each group */
	void	   *scratch;		/* working memory; undefined afterwards */
	uint64_t	scratch_bytes;	/* size of scratch, at least that from
								 * groups_scratch */
	const volatile int32_t *cancel; /* cancel flag or NULL; see GpusortProblem */
} GpusortGroups;

/* ------------------------------------------------------------------------
 * Gather: write rows in sorted order (row mode)
 * ------------------------------------------------------------------------
 *
 * Rows lie in device memory at multiples of 8 bytes.  A unit is 8 bytes: 32
 * bits address 32 GiB.  Row r starts at unit row_offset[r] and is row_units[r]
 * units long.  order[i] is the number of the row that is i-th in sorted order
 * (the rids_out of a sort).
 *
 * gather_plan computes the place of each row in the sorted output: row order[i]
 * starts there at unit out_offset[i], and out_offset[n] is the output's size.
 * It also cuts the output into chunks of at most chunk_units units and whole
 * rows: chunk c has the sorted rows chunk_row[c] .. chunk_row[c + 1] - 1.
 * gather_rows writes any range of sorted rows.  The caller thus copies chunks
 * to the host while the next ones are written, and needs no device memory for
 * the whole output.
 */
typedef struct GpusortGather
{
	uint64_t	n;				/* number of rows, at most 2^32 - 2 */
	const void *rows;			/* device: unit 0 of the rows */
	uint64_t	rows_units;		/* units that rows[] holds */
	const uint32_t *row_offset; /* device: first unit of each of the n rows */
	const uint32_t *row_units;	/* device: units of each of the n rows; NULL:
								 * row r ends where row r + 1 starts, and
								 * row_offset has n + 1 entries */
	const uint32_t *order;		/* device: n row numbers in sorted order */
	uint64_t   *out_offset;		/* device: n + 1 unit numbers, written by
								 * gather_plan, read by gather_rows */

	uint64_t	chunk_units;	/* maximal units of a chunk, and so of a row */
	uint32_t	max_chunks;		/* maximal number of chunks */
	uint32_t	overhead_units; /* units of a chunk that each row takes
								 * beside its own: the caller's keys */
	uint32_t   *chunk_row;		/* host: max_chunks + 1 entries, written by
								 * gather_plan */

	void	   *scratch;		/* device: working memory of gather_plan */
	uint64_t	scratch_bytes;	/* size of scratch, at least that from
								 * gather_scratch */
	const volatile int32_t *cancel; /* cancel flag or NULL; see GpusortProblem */
} GpusortGather;

/* ------------------------------------------------------------------------
 * The table
 * ------------------------------------------------------------------------
 */

/* Handles.  Each is created and destroyed by functions of the table. */
typedef struct GpusortContext GpusortContext;	/* a device in use */
typedef struct GpusortStream GpusortStream; /* a queue of work on the device */
typedef struct GpusortEvent GpusortEvent;	/* a point in a stream's work */

typedef struct GpusortCudaApi
{
	uint32_t	abi_version;	/* GPUSORT_ABI_VERSION of the library */
	uint32_t	api_size;		/* sizeof(GpusortCudaApi) */

	/*
	 * Lists the devices of the host.  Sets *count to their number, usable or
	 * not, and fills out[0 .. min(*count, max) - 1].  GPUSORT_NO_DEVICE: no
	 * driver or no device.
	 */
	GpusortStatus (*devices) (GpusortDeviceInfo *out, int32_t max,
							  int32_t *count, GpusortError *err);

	/*
	 * context_create makes a context on a device.  memory_budget limits the
	 * context's device memory in bytes; 0: all that is free at the time of
	 * each allocation, less a reserve for other programs.
	 *
	 * context_destroy waits for the streams of the context and frees
	 * everything that was made with it, also after a CUDA error.  ctx may be
	 * NULL.
	 */
	GpusortStatus (*context_create) (int32_t device, uint64_t memory_budget,
									 GpusortContext **out, GpusortError *err);
	void		(*context_destroy) (GpusortContext *ctx);

	/*
	 * device_alloc returns a 256-byte aligned block of device memory.
	 * GPUSORT_NO_MEMORY: the block exceeds the budget, or the device is full.
	 *
	 * device_free keeps the block for later allocations.  It does not wait:
	 * no work that uses the block may be running.  Other pointers are
	 * ignored.
	 *
	 * device_trim returns all kept blocks to the device.
	 *
	 * device_memory reports the context's figures.  look 1: computes the
	 * budget anew from the free memory of the device; 0: reports the last
	 * budget.
	 */
	GpusortStatus (*device_alloc) (GpusortContext *ctx, uint64_t bytes,
								   void **out, GpusortError *err);
	void		(*device_free) (GpusortContext *ctx, void *p);
	void		(*device_trim) (GpusortContext *ctx);
	void		(*device_memory) (GpusortContext *ctx, int32_t look, GpusortMemory *out);

	/*
	 * Pinned host memory, which copies use at full speed and asynchronously:
	 * host_alloc allocates it; host_register pins memory of the caller,
	 * shared memory for instance, until host_unregister.
	 */
	GpusortStatus (*host_alloc) (GpusortContext *ctx, uint64_t bytes,
								 void **out, GpusortError *err);
	void		(*host_free) (GpusortContext *ctx, void *p);
	GpusortStatus (*host_register) (GpusortContext *ctx, void *p, uint64_t bytes,
									GpusortError *err);
	void		(*host_unregister) (GpusortContext *ctx, void *p);

	/*
	 * Streams.  stream_poll returns GPUSORT_OK when all work of the stream is
	 * done, GPUSORT_NOT_READY before.  stream_wait blocks until then.  Both
	 * return the error of earlier asynchronous work.  stream_destroy waits
	 * for the work; stream may be NULL.
	 */
	GpusortStatus (*stream_create) (GpusortContext *ctx, GpusortStream **out,
									GpusortError *err);
	void		(*stream_destroy) (GpusortStream *stream);
	GpusortStatus (*stream_poll) (GpusortStream *stream, GpusortError *err);
	GpusortStatus (*stream_wait) (GpusortStream *stream, GpusortError *err);

	/*
	 * Events.  event_record marks the end of the work that the stream has at
	 * present; recording again moves the mark.  event_poll and event_wait are
	 * as those of streams, for the work before the mark.  An event that was
	 * never recorded is done.  event_destroy's event may be NULL.
	 */
	GpusortStatus (*event_create) (GpusortContext *ctx, GpusortEvent **out,
								   GpusortError *err);
	void		(*event_destroy) (GpusortEvent *event);
	GpusortStatus (*event_record) (GpusortEvent *event, GpusortStream *stream,
								   GpusortError *err);
	GpusortStatus (*event_poll) (GpusortEvent *event, GpusortError *err);
	GpusortStatus (*event_wait) (GpusortEvent *event, GpusortError *err);

	/* Work that is added to the stream after this call waits for the event. */
	GpusortStatus (*stream_after) (GpusortStream *stream, GpusortEvent *event,
								   GpusortError *err);

	/* Microseconds between two events that were recorded and are done. */
	GpusortStatus (*event_elapsed) (GpusortEvent *from, GpusortEvent *to,
									double *us, GpusortError *err);

	/*
	 * Asynchronous copies of bytes bytes, without overlap of source and
	 * destination: from host to device, from device to host, within the
	 * device's memory.  With host memory that is not pinned a copy is slower,
	 * and the call may block until it is done.
	 */
	GpusortStatus (*copy_in) (GpusortStream *stream, void *device_dst,
							  const void *host_src, uint64_t bytes,
							  GpusortError *err);
	GpusortStatus (*copy_out) (GpusortStream *stream, void *host_dst,
							   const void *device_src, uint64_t bytes,
							   GpusortError *err);

	GpusortStatus (*copy_within) (GpusortStream *stream, void *device_dst,
								  const void *device_src, uint64_t bytes,
								  GpusortError *err);

	/* The algorithm of that index, from 0 on; NULL: there are no more. */
	const GpusortAlgorithm *(*algorithm) (int32_t index);

	/* Costs and limits of the algorithms on the context's device. */
	void		(*costs) (const GpusortContext *ctx, GpusortCosts *out);

	/*
	 * Checks a problem, whose arrays and scratch need not be set yet, and
	 * sets *bytes to the scratch that the algorithm needs for it.
	 * GPUSORT_UNSUPPORTED: the algorithm cannot sort it; *why is then a few
	 * static words, else NULL.  why may be NULL.
	 *
	 * A problem with row ids and fewer keys needs no more scratch.  That does
	 * not hold for keys without row ids: the algorithms that count values may
	 * choose another method for fewer keys.
	 */
	GpusortStatus (*sort_scratch) (GpusortContext *ctx, int32_t algorithm,
								   const GpusortProblem *problem, uint64_t *bytes,
								   const char **why, GpusortError *err);

	/*
	 * Sorts a problem.  The outputs are complete when the stream's work is
	 * done; some algorithms block the caller for intermediate results.  Fills
	 * *result, which may be NULL.
	 */
	GpusortStatus (*sort_run) (GpusortStream *stream, int32_t algorithm,
							   const GpusortProblem *problem, GpusortResult *result,
							   GpusortError *err);

	/*
	 * groups_scratch sets *bytes to the scratch that groups_run needs.  Fewer
	 * keys need no more.
	 *
	 * groups_run drops equal keys, and sets *groups to the number of groups.
	 * It blocks until the stream's work is done.
	 */
	GpusortStatus (*groups_scratch) (GpusortContext *ctx, const GpusortGroups *problem,
									 uint64_t *bytes, GpusortError *err);
	GpusortStatus (*groups_run) (GpusortStream *stream, const GpusortGroups *problem,
								 uint64_t *groups, GpusortError *err);

	/*
	 * gather_scratch sets *bytes to the scratch that gather_plan needs.
	 *
	 * gather_plan fills out_offset, chunk_row and *chunks, the number of
	 * chunks.  It blocks until the stream's work is done.
	 * GPUSORT_UNSUPPORTED: a row is longer than chunk_units, or the rows need
	 * more than max_chunks chunks.
	 *
	 * gather_rows, asynchronous, writes the sorted rows [first, last) to
	 * device memory, from dst on.
	 */
	GpusortStatus (*gather_scratch) (GpusortContext *ctx, const GpusortGather *gather,
									 uint64_t *bytes, GpusortError *err);
	GpusortStatus (*gather_plan) (GpusortStream *stream, const GpusortGather *gather,
								  uint32_t *chunks, GpusortError *err);
	GpusortStatus (*gather_rows) (GpusortStream *stream, const GpusortGather *gather,
								  uint64_t first, uint64_t last, void *dst,
								  GpusortError *err);
} GpusortCudaApi;

/* The library's only export.  NULL: the library has another ABI version. */
typedef const GpusortCudaApi *(*gpusort_cuda_api_fn) (uint32_t abi_version);
extern const GpusortCudaApi *gpusort_cuda_api(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif							/* GPUSORT_ABI_H */
