/*
 * gpusort_abi.h
 *	  The contract between the GPU library and the process that uses it.
 *
 * This is the only header that both compilers see.  The library
 * (libgpusort_cuda.so, built by nvcc) exports one function,
 * gpusort_cuda_api(), which returns a table of function pointers.  The user
 * loads it with dlopen, so that one package works with and without a GPU.  A
 * plain C build of the same table (cpu_abi.c) stands in for it where there is
 * no device, so that everything above this line can be tested anywhere.
 *
 * Rules that hold for every function of the table:
 *
 *	* No exception and no exit crosses this line.  Every function that can fail
 *	  returns a GpusortStatus and fills *err (err may be NULL).  A status tells
 *	  "use the CPU instead" from "something is broken": gpusort_use_cpu(),
 *	  gpusort_is_broken().
 *	* Sizes and offsets are bytes unless a name says otherwise.
 *	* One context belongs to one process and one device; it does not survive fork.
 *	  Its memory, streams and events are made and destroyed, and its memory is asked
 *	  about, by one thread at a time.  Each stream is used by one thread at a time: sorts,
 *	  gathers and copies of different streams may be run by different threads,
 *	  beside each other and beside that.
 *	* "Device memory" comes from device_alloc.  Under cpu_abi.c it is host
 *	  memory; callers must not look into it.
 *	* Work on one stream happens in the order it was asked for.  Work on
 *	  different streams is ordered by events only.
 *	* A sort allocates nothing.  It uses the memory of its problem: ask scratch_bytes,
 *	  then run.
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

/* Raised with every incompatible change of anything below. */
#define GPUSORT_ABI_VERSION		7

/* ------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------
 */
typedef enum GpusortStatus
{
	GPUSORT_OK = 0,
	GPUSORT_NOT_READY = 1,		/* poll: the work asked about is not done yet */
	GPUSORT_STOPPED = 2,		/* the problem's cancel flag was seen; outputs are
								 * undefined, the context is fine */

	/* 16..31: nothing is wrong, but this is work for the CPU */
	GPUSORT_NO_DEVICE = 16,		/* no driver, no device, or an unusable one */
	GPUSORT_NO_MEMORY = 17,		/* over the budget, or the device is full */
	GPUSORT_UNSUPPORTED = 18,	/* this algorithm cannot sort this problem */

	/* 32..: broken; the error says where.  The work's outputs are undefined. */
	GPUSORT_CUDA_ERROR = 32,	/* cuda_error and message are set.  The context
								 * may be lost: destroy it before going on */
	GPUSORT_BAD_CALL = 33,		/* the caller's arguments contradict each other */
	GPUSORT_INTERNAL = 34		/* a kernel found its own invariant broken */
} GpusortStatus;

static inline int
gpusort_use_cpu(GpusortStatus s)
{
	return s >= GPUSORT_NO_DEVICE && s < GPUSORT_CUDA_ERROR;
}

static inline int
gpusort_is_broken(GpusortStatus s)
{
	return s >= GPUSORT_CUDA_ERROR;
}

typedef struct GpusortError
{
	int32_t		status;			/* GpusortStatus */
	int32_t		cuda_error;		/* cudaError_t, 0 if none */
	int32_t		line;			/* where it was noticed */
	char		file[60];
	char		message[184];	/* never empty when status is not GPUSORT_OK */
} GpusortError;

/* ------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------
 */
typedef struct GpusortDeviceInfo
{
	int32_t		index;			/* what context_create takes */
	int32_t		usable;			/* 0: why_not says why */
	char		name[64];
	char		pci_bus_id[32];
	char		why_not[96];
	uint64_t	memory_total;	/* bytes */
	uint64_t	memory_free;	/* bytes at the time of the query; 0 if the query
								 * would have to create a context */
	uint64_t	l2_bytes;
	int32_t		compute_major;
	int32_t		compute_minor;
	int32_t		multiprocessors;
	int32_t		copy_engines;	/* 2: copies both ways at once */
	int32_t		driver_version; /* as CUDA counts, 13000 is 13.0; 0 under
								 * cpu_abi.c */
	int32_t		runtime_version;
} GpusortDeviceInfo;

/* What a context may have of its device's memory, and has. */
typedef struct GpusortMemory
{
	uint64_t	budget;			/* that may be used in all, now: what was told, but no
								 * more than others leave.  They come and go, so
								 * that it is less or more when asked again */
	uint64_t	used;			/* of it, by device_alloc */
	uint64_t	kept;			/* freed blocks that device_trim would give back */
} GpusortMemory;

/* ------------------------------------------------------------------------
 * Sorts
 * ------------------------------------------------------------------------
 */

/* A 128-bit key.  Bit 0 is lo's lowest.  Arrays of it are 16-byte aligned. */
typedef struct GpusortKey128
{
	uint64_t	lo;
	uint64_t	hi;
} GpusortKey128;

/* What is known of a problem's keys, and what its arrays may be used for. */
#define GPUSORT_FACT_KEY_RANGE			0x01	/* key_min, key_max hold: bounds that
												 * contradict each other or the bits
												 * are a GPUSORT_BAD_CALL; keys outside
												 * them make a wrong result, no more */
#define GPUSORT_FACT_RIDS_ASCENDING		0x02	/* rids[] ascends strictly, and
												 * ends below 2^32 - 1 */
#define GPUSORT_FACT_DISTINCT_KEYS		0x04	/* no two keys are equal */
#define GPUSORT_MAY_CLOBBER_INPUT		0x08	/* keys[], rids[] may be used as
												 * scratch: less of it is needed */

/* What a problem is to write. */
#define GPUSORT_OUT_KEYS				0x01	/* keys_out */
#define GPUSORT_OUT_RIDS				0x02	/* rids_out */

/*
 * One sort.  All arrays are device memory, 256-byte aligned, and do not overlap.
 *
 * The order is that of the key bits [begin_bit, end_bit) as an unsigned number;
 * other bits may hold anything and travel with their key.  Equal keys keep
 * their input order if the algorithm is stable.
 */
typedef struct GpusortProblem
{
	/* what */
	uint64_t	n;				/* keys; at most 2^32 when rids are wanted */
	int32_t		key_width;		/* 32, 64 (uint32_t, uint64_t) or 128
								 * (GpusortKey128) */
	int32_t		begin_bit;		/* 0 <= begin_bit < end_bit <= key_width */
	int32_t		end_bit;
	uint32_t	facts;			/* GPUSORT_FACT_*, GPUSORT_MAY_* */
	uint32_t	output;			/* GPUSORT_OUT_KEYS | GPUSORT_OUT_RIDS */
	uint32_t	reserved;		/* 0 */
	GpusortKey128 key_min;		/* with GPUSORT_FACT_KEY_RANGE: bounds of the */
	GpusortKey128 key_max;		/* keys' bits [begin_bit, end_bit), shifted
								 * down by begin_bit, both inclusive */

	/* the arrays */
	const void *keys;			/* n keys */
	const uint32_t *rids;		/* n rids, or NULL: a key's rid is its position */
	void	   *keys_out;		/* n keys, if wanted */
	uint32_t   *rids_out;		/* n rids, if wanted */
	void	   *scratch;
	uint64_t	scratch_bytes;	/* at least what the algorithm asked for */

	/*
	 * Polled between launches (may be NULL): nonzero means stop.  Another
	 * thread or process may set it at any time.
	 */
	const volatile int32_t *cancel;
} GpusortProblem;

/* What a sort did, for EXPLAIN and the statistics. */
typedef struct GpusortResult
{
	int32_t		stable;			/* equal keys kept their input order */
	int32_t		passes;			/* times that the keys were moved */
	int32_t		launches;		/* kernels started */
	int32_t		shortcut;		/* GPUSORT_SHORTCUT_* */
} GpusortResult;

#define GPUSORT_SHORTCUT_NONE		0
#define GPUSORT_SHORTCUT_SORTED		1	/* input was sorted already */
#define GPUSORT_SHORTCUT_REVERSED	2
#define GPUSORT_SHORTCUT_FLAT		3	/* all keys equal */

/* Key widths an algorithm takes. */
#define GPUSORT_KEYS_32		0x01
#define GPUSORT_KEYS_64		0x02
#define GPUSORT_KEYS_128	0x04

typedef struct GpusortAlgorithm
{
	const char *name;			/* as in gpusort.algorithm, whose users read of it in
								 * src/kernel/algorithms.c */
	uint32_t	key_widths;		/* GPUSORT_KEYS_* */
	int32_t		stable;
	int32_t		rids;			/* 0: keys only */
} GpusortAlgorithm;

/* ------------------------------------------------------------------------
 * Costs and limits
 * ------------------------------------------------------------------------
 *
 * What a router that chooses between this device and a CPU must know of its sorts, as
 * measured on it or on one like it.  Every number is finite and above 0.
 */

/* Curves are over 2^10, 2^11, ... 2^28 rows: where kernels change, a size makes a step. */
#define GPUSORT_COST_KNOTS		19
#define GPUSORT_COST_KNOT_FIRST	10

/* Ranges of values for which counting keys alone was measured. */
#define GPUSORT_COST_RANGES		4

/* How keys lie between the least and the greatest. */
typedef enum GpusortDistribution
{
	GPUSORT_KEYS_UNIFORM,
	GPUSORT_KEYS_FREQUENT,	/* but for some values that are frequent, or nothing but those */
	GPUSORT_KEYS_SKEWED,		/* even between a sample's quantiles */
	GPUSORT_KEYS_CLUSTERED,		/* not even between those: clustered at any scale, or many values repeat */
	GPUSORT_KEYS_LONG_PREFIX			/* the same, and many differ in late bits only */
} GpusortDistribution;

#define GPUSORT_DISTRIBUTIONS			5

typedef struct GpusortCosts
{
	/* microseconds of a sort of keys with rids, by key width 32, 64, 128; comparisons do not care how
	 * keys are spread */
	double		radix[GPUSORT_DISTRIBUTIONS][3][GPUSORT_COST_KNOTS];
	double		merge[3][GPUSORT_COST_KNOTS];
	double		bucket[GPUSORT_DISTRIBUTIONS][3][GPUSORT_COST_KNOTS];

	/* gpu_counting: keys of up to 8, 16 and more bits with rids; keys alone, of these
	 * ranges; gpu_hp1 */
	double		counting_rids[3][GPUSORT_COST_KNOTS];
	double		range_log2[GPUSORT_COST_RANGES];
	double		counting_keys[GPUSORT_COST_RANGES][GPUSORT_COST_KNOTS];
	double		hp1[GPUSORT_COST_KNOTS];

	double		beyond_ns;		/* per key alone, where the range outgrows the last */
	double		count_width[3]; /* counted keys of 32, 64 and 128 bits, times those of 32 */
	double		radix_fixed[3]; /* share of gpu_radix's time that no pass takes */

	/* passes of 8 bits that gpu_radix takes of keys of a width's bits, so many rows or more; below, one for
	 * each 8 bits */
	double		radix_passes[GPUSORT_DISTRIBUTIONS][3];
	double		radix_passes_from[3];

	/* the way there and back */
	double		job_us;			/* opening, wake-ups, first launches */
	double		copy_ns;		/* per byte */

	/* device memory of a sort: the number of copies of keys and rids, and the bytes of tables */
	uint64_t	copies;
	uint64_t	job_bytes;

	/* what can be sorted by value: any input's range of keys may be this large, or this multiple of
	 * the rows; gpu_onehot's rows, and words of its matrix */
	uint64_t	values_always;
	uint64_t	values_per_key;
	uint64_t	onehot_rows;
	uint64_t	onehot_words;
} GpusortCosts;

/* A curve at n rows; constant below its first sample point, in proportion above the last. */
static inline double
gpusort_cost_at(const double *curve, double n)
{
	double		x = log2(n > 1 ? n : 1) - GPUSORT_COST_KNOT_FIRST;
	int			sample_point = (int) x;
	const int	last = GPUSORT_COST_KNOTS - 1;

	if (x <= 0)
		return curve[0];
	if (sample_point >= last)
		return curve[last] * n / ldexp(1, GPUSORT_COST_KNOT_FIRST + last);
	return curve[sample_point] * pow(curve[sample_point + 1] / curve[sample_point], x - sample_point);
}

/* Device memory that a sort of n keys and rids takes, roughly; not that of rows. */
static inline uint64_t
gpusort_keys_bytes(const GpusortCosts *costs, uint64_t n, int32_t key_bits)
{
	return n * costs->copies * ((uint64_t) key_bits / 8 + sizeof(uint32_t)) + costs->job_bytes;
}

/* ------------------------------------------------------------------------
 * Rows: bring the rows themselves into sorted order (record mode)
 * ------------------------------------------------------------------------
 *
 * Rows lie in device memory at multiples of 8 bytes.  Row r starts at unit
 * row_offset[r] (a unit is 8 bytes, so 32 bits address 32 GiB) and is
 * row_units[r] units long.  The sorted order is order[], n row numbers (a
 * sort's rids_out).
 *
 * gather_plan computes where each row goes: row order[i] to unit out_offset[i]
 * of the sorted whole, out_offset[n] being its size.  It also cuts the whole
 * into chunks of at most chunk_units units that hold entire rows:
 * chunk c is made of the sorted rows chunk_row[c] .. chunk_row[c + 1] - 1.
 * gather_rows then writes any range of sorted rows, so that a whole
 * never needs to exist at once and chunks can leave while others are built.
 */
typedef struct GpusortGather
{
	uint64_t	n;				/* rows, at most 2^32 - 2 */
	const void *rows;			/* device: base of the rows */
	uint64_t	rows_units;		/* units that rows[] holds */
	const uint32_t *row_offset; /* device: n, in units */
	const uint32_t *row_units;	/* device: n; NULL: row r ends where row r + 1
								 * starts, row_offset has n + 1 entries */
	const uint32_t *order;		/* device: n row numbers */
	uint64_t   *out_offset;		/* device: n + 1, in units; written by plan */

	uint64_t	chunk_units;	/* no row may be longer */
	uint32_t	max_chunks;		/* room in chunk_row: max_chunks + 1 */
	uint32_t	reserved;		/* 0 */
	uint32_t   *chunk_row;		/* host: max_chunks + 1; written by plan */

	void	   *scratch;		/* device */
	uint64_t	scratch_bytes;
	const volatile int32_t *cancel;
} GpusortGather;

/* ------------------------------------------------------------------------
 * The table
 * ------------------------------------------------------------------------
 */
typedef struct GpusortContext GpusortContext;
typedef struct GpusortStream GpusortStream;
typedef struct GpusortEvent GpusortEvent;

typedef struct GpusortCudaApi
{
	uint32_t	abi_version;
	uint32_t	api_size;		/* sizeof(GpusortCudaApi) */

	/*
	 * Devices.  *count is how many exist, usable or not; at most max of them
	 * are described.  GPUSORT_NO_DEVICE when there is no driver or no device.
	 */
	GpusortStatus (*devices) (GpusortDeviceInfo *out, int32_t max,
							  int32_t *count, GpusortError *err);

	/*
	 * Context.  memory_budget bounds the sum of device_alloc; 0 means what is
	 * free on the device whenever something is allocated, less a reserve.  Destroying frees everything
	 * that was made with the context, also after a CUDA error.
	 */
	GpusortStatus (*context_create) (int32_t device, uint64_t memory_budget,
									 GpusortContext **out, GpusortError *err);
	void		(*context_destroy) (GpusortContext *ctx);

	/*
	 * Device memory, 256-byte aligned.  Freed memory is kept for the next
	 * allocation; device_trim gives it back to the device.  Freeing does
	 * not wait: the caller has seen to it that no work on it is under way.
	 */
	GpusortStatus (*device_alloc) (GpusortContext *ctx, uint64_t bytes,
								   void **out, GpusortError *err);
	void		(*device_free) (GpusortContext *ctx, void *p);
	void		(*device_trim) (GpusortContext *ctx);
	/* look: asks the device what is free; otherwise the budget is as of the last look */
	void		(*device_memory) (GpusortContext *ctx, int32_t look, GpusortMemory *out);

	/*
	 * Host memory that copies run from and to at full speed: either allocated
	 * here, or the caller's own (shared) memory registered in place.
	 */
	GpusortStatus (*host_alloc) (GpusortContext *ctx, uint64_t bytes,
								 void **out, GpusortError *err);
	void		(*host_free) (GpusortContext *ctx, void *p);
	GpusortStatus (*host_register) (GpusortContext *ctx, void *p, uint64_t bytes,
									GpusortError *err);
	void		(*host_unregister) (GpusortContext *ctx, void *p);

	/*
	 * Streams.  stream_poll: GPUSORT_OK when all work is done,
	 * GPUSORT_NOT_READY when not; both it and stream_wait report an error
	 * that earlier asynchronous work ran into.
	 */
	GpusortStatus (*stream_create) (GpusortContext *ctx, GpusortStream **out,
									GpusortError *err);
	void		(*stream_destroy) (GpusortStream *stream);
	GpusortStatus (*stream_poll) (GpusortStream *stream, GpusortError *err);
	GpusortStatus (*stream_wait) (GpusortStream *stream, GpusortError *err);

	/* Events mark a point of a stream; an event never recorded counts as done. */
	GpusortStatus (*event_create) (GpusortContext *ctx, GpusortEvent **out,
								   GpusortError *err);
	void		(*event_destroy) (GpusortEvent *event);
	GpusortStatus (*event_record) (GpusortEvent *event, GpusortStream *stream,
								   GpusortError *err);
	GpusortStatus (*event_poll) (GpusortEvent *event, GpusortError *err);
	GpusortStatus (*event_wait) (GpusortEvent *event, GpusortError *err);

	/* Later work on the stream waits for the event. */
	GpusortStatus (*stream_after) (GpusortStream *stream, GpusortEvent *event,
								   GpusortError *err);

	/* Microseconds between two recorded, finished events. */
	GpusortStatus (*event_elapsed) (GpusortEvent *from, GpusortEvent *to,
									double *us, GpusortError *err);

	/*
	 * Asynchronous copies.  Host memory that is not pinned works too, slowly
	 * and with the caller waiting.
	 */
	GpusortStatus (*copy_in) (GpusortStream *stream, void *device_dst,
							  const void *host_src, uint64_t bytes,
							  GpusortError *err);
	GpusortStatus (*copy_out) (GpusortStream *stream, void *host_dst,
							   const void *device_src, uint64_t bytes,
							   GpusortError *err);

	/* ... and from one place of device memory to another that does not overlap */
	GpusortStatus (*copy_within) (GpusortStream *stream, void *device_dst,
								  const void *device_src, uint64_t bytes,
								  GpusortError *err);

	/* Algorithms: index from 0; NULL past the last. */
	const GpusortAlgorithm *(*algorithm) (int32_t index);

	/* What they cost on the context's device. */
	void		(*costs) (const GpusortContext *ctx, GpusortCosts *out);

	/*
	 * Can it sort this problem (arrays and scratch need not be set yet)?  GPUSORT_OK
	 * and the scratch it needs, or GPUSORT_UNSUPPORTED and *why, a few words.
	 * What n rows need is enough for fewer, but for keys alone that are sorted by
	 * their values: fewer of those may be counted another way, so ask again.
	 */
	GpusortStatus (*sort_scratch) (GpusortContext *ctx, int32_t algorithm,
								   const GpusortProblem *problem, uint64_t *bytes,
								   const char **why, GpusortError *err);

	/*
	 * Sorts it.  May wait for its own intermediate results, so that on return
	 * the work may or may not be finished: the outputs are there when the
	 * stream is done.  result may be NULL.
	 */
	GpusortStatus (*sort_run) (GpusortStream *stream, int32_t algorithm,
							   const GpusortProblem *problem, GpusortResult *result,
							   GpusortError *err);

	/*
	 * Rows.  gather_plan waits for the stream, since it writes *chunks and
	 * chunk_row on the host; GPUSORT_UNSUPPORTED when a row is longer than
	 * chunk_units or max_chunks do not suffice.  gather_rows is asynchronous: it
	 * writes the sorted rows [first, last) at dst, the row first at dst itself.
	 */
	GpusortStatus (*gather_scratch) (GpusortContext *ctx, const GpusortGather *gather,
									 uint64_t *bytes, GpusortError *err);
	GpusortStatus (*gather_plan) (GpusortStream *stream, const GpusortGather *gather,
								  uint32_t *chunks, GpusortError *err);
	GpusortStatus (*gather_rows) (GpusortStream *stream, const GpusortGather *gather,
								  uint64_t first, uint64_t last, void *dst,
								  GpusortError *err);
} GpusortCudaApi;

/* The library's only export.  NULL if it does not speak that version. */
typedef const GpusortCudaApi *(*gpusort_cuda_api_fn) (uint32_t abi_version);
extern const GpusortCudaApi *gpusort_cuda_api(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif							/* GPUSORT_ABI_H */
