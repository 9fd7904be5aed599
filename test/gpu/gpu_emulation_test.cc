/*
 * gpu_emulation_test.cc
 *	  Tests that need the emulated device (test/emulation): calls that fail at
 *	  any point, sorts that are stopped at any launch, other architectures, and
 *	  the launches of problems larger than any test machine's memory.
 */
#include <vector>

#include "sort_internal.cuh"
#include "emulation/emulated_test.h"

/* Addresses for dry runs, which compute with them and access no memory. */
#define FAR_AWAY(i)		((char *) ((UINT64_C(1) << 44) * (i)))

/* ------------------------------------------------------------------------
 * Launches of all sizes
 * ------------------------------------------------------------------------
 */
struct KeyKind
{
	int			key_bits;
	int			begin_bit;
	int			end_bit;
	uint64_t	range;			/* 0: unknown */
};

/* Dry runs of one problem, on each path that readback words select. */
static void
dry_run(int algorithm, GpusortProblem &problem, const char *what)
{
	static const uint32_t first_words[] = {0, 1, 2, 3, 0x15555, 0x1ffff};
	GpusortError err = {};

	for (uint32_t word : first_words)
		for (int skewed = 0; skewed < 3; skewed++)
		{
			GpusortStatus status;

			api->stream_destroy(stream);	/* its readback words hold old values */
			MUST(api->stream_create(ctx, &stream, &must_err));
			memset(emulation.words, 0, sizeof(emulation.words));
			emulation.words[1] = word;
			emulation.words[2] = strcmp(api->algorithm(algorithm)->name, "gpu_radix") == 0
				? (skewed ? 0x5aaaa : 0)
				: strcmp(api->algorithm(algorithm)->name, "gpu_merge") == 0 && skewed;
			emulation.words[5] = skewed;
			emulation.words[6] = word & 1;
			emulation.dry = true;
			status = api->sort_run(stream, algorithm, &problem, NULL, &err);
			emulation.dry = false;
			expect(status == GPUSORT_OK, what, err.message);
		}
}

static void
check_launches(int arch, int multiprocessors)
{
	static const KeyKind kinds[] = {
		{32, 0, 32, 0}, {32, 0, 32, 300}, {32, 0, 32, 70000}, {32, 0, 32, 5000000},
		{32, 5, 21, 0}, {32, 31, 32, 0}, {32, 0, 32, UINT32_MAX},
		{64, 0, 64, 0}, {64, 0, 64, 65536}, {64, 0, 40, 0}, {64, 63, 64, 0},
		{64, 0, 64, UINT64_C(1) << 33},
		{128, 0, 128, 0}, {128, 0, 128, 1000000}, {128, 30, 110, 0}, {128, 127, 128, 0}
	};
	static const uint64_t sizes[] = {
		0, 2, 33, 513, 1921, 4608, 4609, 17408, 17409, 32769, 65537, 262145, 524289, 1000003, 3928320, 3932160,
		(1 << 23) - 1, 1 << 23, 31457281, 62914560, 62914561, (1 << 28) + 1,
		UINT64_C(1) << 31, UINT32_MAX - 1, UINT32_MAX
	};

	begin_context(arch, multiprocessors);
	for (int a = 0; api->algorithm(a); a++)
		for (const KeyKind &kind : kinds)
			for (int flags = 0; flags < 3 * 2 * 2; flags++)
			{
				uint64_t	least = 0;
				bool		by_value = a >= 3;

				for (uint64_t n : sizes)
				{
					GpusortProblem problem = {};
					GpusortError err = {};
					uint64_t	bytes;
					char		what[160];
					GpusortStatus status;

					problem.n = n;
					problem.key_width = kind.key_bits;
					problem.begin_bit = kind.begin_bit;
					problem.end_bit = kind.end_bit;
					problem.output = 1 + flags % 3;
					problem.facts = GPUSORT_FACT_DISTINCT_KEYS |
						(flags / 3 % 2 ? GPUSORT_MAY_CLOBBER_INPUT : 0) |
						(kind.range ? GPUSORT_FACT_KEY_RANGE : 0);
					problem.key_max.lo = kind.range - 1;
					snprintf(what, sizeof(what), "sm_%d x %d: %s u%d [%d, %d) range=%llu "
							 "n=%llu flags=%d", arch, multiprocessors,
							 api->algorithm(a)->name, kind.key_bits, kind.begin_bit,
							 kind.end_bit, (unsigned long long) kind.range,
							 (unsigned long long) n, flags);
					status = api->sort_scratch(ctx, a, &problem, &bytes, NULL, &err);
					expect(status == GPUSORT_OK || status == GPUSORT_UNSUPPORTED, what,
						   "neither accepts nor refuses the problem");
					if (status != GPUSORT_OK)
						continue;
					expect(by_value || bytes >= least, what, "fewer rows need more scratch");
					least = bytes;
					problem.keys = FAR_AWAY(1);
					problem.rids = flags / 6 ? (const uint32_t *) FAR_AWAY(2) : NULL;
					problem.keys_out = FAR_AWAY(3);
					problem.rids_out = (uint32_t *) FAR_AWAY(4);
					problem.scratch = FAR_AWAY(5);
					problem.scratch_bytes = bytes;
					emulation_bounds(problem.scratch, bytes);
					dry_run(a, problem, what);
				}
			}
	end_context("launches");
}

/* ------------------------------------------------------------------------
 * Small sorts that are executed
 * ------------------------------------------------------------------------
 */
#define ROWS		17500		/* more than one tile, or block, of every algorithm */
#define FEW_ROWS	500			/* for gpu_onehot */

struct Small
{
	GpusortProblem problem;
	std::vector<uint64_t> memory;	/* serves as device memory */
	std::vector<uint64_t> scratch;
};

static void
make_small(int algorithm, Small &small)
{
	const GpusortAlgorithm *info = api->algorithm(algorithm);
	GpusortProblem &problem = small.problem;
	uint64_t	bytes;
	uint64_t	n = strcmp(info->name, "gpu_onehot") == 0 ? FEW_ROWS : ROWS;
	uint64_t   *keys;

	problem = {};
	problem.n = n;
	problem.key_width = 64;
	problem.end_bit = 64;
	problem.output = info->rids ? GPUSORT_OUT_RIDS : GPUSORT_OUT_KEYS;
	problem.facts = GPUSORT_FACT_DISTINCT_KEYS;
	if (algorithm >= 3)
	{
		problem.facts |= GPUSORT_FACT_KEY_RANGE;
		problem.key_max.lo = n - 1;
	}
	MUST(api->sort_scratch(ctx, algorithm, &problem, &bytes, NULL, &must_err));
	small.memory.resize(3 * n);
	small.scratch.resize(bytes / 8 + 32);
	keys = small.memory.data();
	for (uint64_t i = 0; i < n; i++)
		keys[i] = i * 7919 % n;	/* distinct keys: 7919 is prime */
	problem.keys = keys;
	problem.keys_out = keys + n;
	problem.rids_out = (uint32_t *) (keys + 2 * n);
	problem.scratch = (void *) (((uintptr_t) small.scratch.data() + 255) & ~(uintptr_t) 255);
	problem.scratch_bytes = bytes;
}

static bool
is_sorted(const Small &small)
{
	const uint64_t *keys = small.memory.data();
	uint64_t	n = small.problem.n;

	for (uint64_t i = 0; i < n; i++)
		if ((small.problem.output & GPUSORT_OUT_RIDS ? keys[small.problem.rids_out[i]]
			 : keys[n + i]) != i)
			return false;
	return true;
}

static GpusortStatus
run_small(int algorithm, Small &small, GpusortError *err)
{
	memset(small.memory.data() + small.problem.n, 0, 2 * small.problem.n * sizeof(uint64_t));
	return api->sort_run(stream, algorithm, &small.problem, NULL, err);
}

/*
 * Each call of a sort fails once, and each sort is stopped at each launch.
 * The error is reported, and the next sort is right.
 */
static void
check_interrupted(int algorithm)
{
	const char *name = api->algorithm(algorithm)->name;
	static const struct
	{
		cudaError_t error;
		GpusortStatus status;
	}			failures_of[] = {
		{cudaErrorIllegalAddress, GPUSORT_CUDA_ERROR},
		{cudaErrorMemoryAllocation, GPUSORT_NO_MEMORY},
		{cudaErrorNoKernelImageForDevice, GPUSORT_NO_DEVICE}
	};
	Small		small;
	GpusortError err = {};
	uint64_t	calls,
				launches;
	int32_t		stop = 0;

	make_small(algorithm, small);
	calls = emulation.calls;
	launches = emulation.launches;
	expect(run_small(algorithm, small, &err) == GPUSORT_OK && is_sorted(small), name,
		   "is wrong");
	calls = emulation.calls - calls;
	launches = emulation.launches - launches;
	for (auto &f : failures_of)
		for (uint64_t k = 1; k <= calls; k++)
		{
			emulation.fail_in = (int) k;
			emulation.fail_with = f.error;
			expect(run_small(algorithm, small, &err) == f.status && err.status == f.status &&
				   err.cuda_error == f.error && err.message[0] != '\0' && err.line > 0, name,
				   "does not report the error");
			emulation.fail_in = 0;
			expect(cudaGetLastError() == cudaSuccess, name, "leaves an error");
		}
	small.problem.cancel = &stop;
	for (uint64_t k = 1; k < launches; k++)
	{
		emulation.stop = &stop;
		emulation.stop_at = emulation.launches + k;
		expect(run_small(algorithm, small, &err) == GPUSORT_STOPPED, name,
			   "does not stop between launches");
		emulation.stop = NULL;
		stop = 0;
	}
	expect(run_small(algorithm, small, &err) == GPUSORT_OK && is_sorted(small), name,
		   "is wrong after interrupted sorts");
}

/* ------------------------------------------------------------------------
 * Contexts
 * ------------------------------------------------------------------------
 */
/*
 * Makes a context, streams, events and blocks of memory.  Returns the first
 * status other than GPUSORT_OK.
 */
static GpusortStatus
make_everything(GpusortContext **context, GpusortError *err)
{
	static char mine[4096];
	void	   *blocks[3];
	GpusortEvent *events[2];
	GpusortStream *streams[2];
	GpusortDeviceInfo info[2];
	int32_t		count;
	double		us;

	*context = NULL;
	TRY(api->devices(info, 2, &count, err));
	if (!info[0].usable || !info[1].usable)
		return GPUSORT_CUDA_ERROR;	/* properties could not be read */
	TRY(api->context_create(1, 8 << 20, context, err));
	TRY(api->stream_create(*context, &streams[0], err));
	TRY(api->stream_create(*context, &streams[1], err));
	TRY(api->event_create(*context, &events[0], err));
	TRY(api->event_create(*context, &events[1], err));
	TRY(api->device_alloc(*context, 1000, &blocks[0], err));
	TRY(api->device_alloc(*context, 3 << 20, &blocks[1], err));
	TRY(api->host_alloc(*context, 1000, &blocks[2], err));
	TRY(api->host_register(*context, mine, sizeof(mine), err));
	TRY(api->copy_in(streams[0], blocks[0], mine, 1000, err));
	TRY(api->copy_within(streams[0], blocks[1], blocks[0], 1000, err));
	TRY(api->copy_out(streams[0], mine, blocks[0], 1000, err));
	TRY(api->event_record(events[0], streams[0], err));
	TRY(api->event_record(events[1], streams[0], err));
	TRY(api->stream_after(streams[1], events[0], err));
	TRY(api->event_wait(events[0], err));
	TRY(api->event_poll(events[1], err));
	TRY(api->event_elapsed(events[0], events[1], &us, err));
	TRY(api->stream_poll(streams[0], err));
	return api->stream_wait(streams[0], err);
}

static void
check_context(void)
{
	GpusortContext *context;
	GpusortError err = {};
	uint64_t	calls = emulation.calls;
	void	   *p;

	expect(make_everything(&context, &err) == GPUSORT_OK, "context", err.message);
	calls = emulation.calls - calls;
	MUST(api->stream_create(context, &stream, &must_err));
	emulation.fail_in = 1;
	emulation.fail_with = cudaErrorNotReady;
	expect(api->stream_poll(stream, &err) == GPUSORT_NOT_READY, "stream_poll",
		   "does not report unfinished work");
	expect(cudaGetLastError() == cudaSuccess, "stream_poll", "leaves an error");
	expect(api->device_alloc(context, UINT64_MAX, &p, &err) == GPUSORT_NO_MEMORY,
		   "device_alloc", "accepts a size that overflows");
	api->context_destroy(context);
	for (uint64_t k = 1; k <= calls; k++)
	{
		emulation.fail_in = (int) k;
		emulation.fail_with = cudaErrorIllegalAddress;
		expect(make_everything(&context, &err) == GPUSORT_CUDA_ERROR, "context",
			   "does not report the error");
		emulation.fail_in = 0;
		api->context_destroy(context);
		expect(emulation.device_blocks == 0 && emulation.host_blocks == 0 &&
			   emulation.registered == 0 && emulation.streams == 0 && emulation.events == 0,
			   "context", "some resources were not freed");
	}
}

/*
 * The scratch of a prefix sum depends on the sort's device, and not on the
 * current one.
 */
static void
check_two_devices(void)
{
	GpusortContext *other;
	GpusortError err = {};

	begin_context(90, 132);
	MUST(api->context_create(1, 0, &other, &must_err));
	for (int a = 0; api->algorithm(a); a++)
	{
		Small		small;
		void	   *p;

		MUST(api->device_alloc(other, 1, &p, &must_err));	/* makes its device current */
		make_small(a, small);
		MUST(api->device_alloc(other, 1, &p, &must_err));
		expect(run_small(a, small, &err) == GPUSORT_OK, api->algorithm(a)->name, err.message);
	}
	api->context_destroy(other);
	end_context("two devices");
}

int
main(void)
{
	open_library();
	api->stream_destroy(stream);
	api->context_destroy(ctx);
	check_context();
	check_two_devices();
	begin_context(90, 132);
	for (int a = 0; api->algorithm(a); a++)
		check_interrupted(a);
	end_context("interrupted sorts");
	for (int arch : {75, 80, 86, 90})
		for (int multiprocessors : {1, 20, 132})
			check_launches(arch, multiprocessors);
	begin_context(90, 132);
	return close_library("gpu emulation");
}
