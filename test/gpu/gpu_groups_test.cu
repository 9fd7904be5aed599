/*
 * gpu_groups_test.cu
 *	  Tests the dropping of equal keys in device memory against the same on the
 *	  host.
 */
#include <algorithm>
#include <vector>

#include "gpu_test.cuh"

typedef unsigned __int128 Key;

static uint64_t
noise(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void *
device_array(uint64_t bytes)
{
	void	   *p;

	MUST(api->device_alloc(ctx, bytes + 8, &p, &must_err));
	return p;
}

template <class T> static T *
to_device(const std::vector<T> &host)
{
	void	   *p = device_array(host.size() * sizeof(T));

	MUST(api->copy_in(stream, p, host.data(), host.size() * sizeof(T), &must_err));
	MUST(api->stream_wait(stream, &must_err));
	return static_cast<T *>(p);
}

template <class T> static std::vector<T>
to_host(const void *p, uint64_t n)
{
	std::vector<T> host(n);

	MUST(api->copy_out(stream, host.data(), p, n * sizeof(T), &must_err));
	MUST(api->stream_wait(stream, &must_err));
	return host;
}

/* n keys of this number of values in bits [begin_bit, end_bit); the bits below ascend, those above differ. */
template <class K> static void
check_groups(uint64_t n, uint64_t values, int begin_bit, int end_bit, bool rids)
{
	const int	width = (int) sizeof(K) * 8;
	uint64_t	seed = n * 31 + values;
	std::vector<Key> ordered(n);
	std::vector<K> keys(n),
				keys_expected;
	std::vector<uint32_t> order(n),
				rids_expected,
				ends_expected;
	GpusortGroups problem = {};
	uint64_t	bytes,
				groups;
	char		what[120];

	checks++;
	snprintf(what, sizeof(what), "groups of %llu keys with %llu values in [%d, %d) of %d bits%s",
			 (unsigned long long) n, (unsigned long long) values, begin_bit, end_bit, width, rids ? ", rids" : "");
	for (Key &key : ordered)
		key = noise(&seed) % values;
	std::sort(ordered.begin(), ordered.end());
	for (uint64_t i = 0; i < n; i++)
	{
		Key			low = begin_bit == 0 ? 0 : (Key) noise(&seed) & (((Key) 1 << begin_bit) - 1);
		Key			high = end_bit == width ? 0 : (Key) noise(&seed) << end_bit;

		keys[i] = (K) (ordered[i] << begin_bit | low | high);
		order[i] = (uint32_t) noise(&seed);
		if (i == 0 || ordered[i] != ordered[i - 1])
		{
			keys_expected.push_back(keys[i]);
			rids_expected.push_back(order[i]);
			ends_expected.push_back(0);
		}
		ends_expected.back() = (uint32_t) i + 1;
	}

	problem.n = n;
	problem.key_width = width;
	problem.begin_bit = begin_bit;
	problem.end_bit = end_bit;
	problem.keys = to_device(keys);
	problem.rids = rids ? to_device(order) : NULL;
	problem.keys_out = device_array(n * sizeof(K));
	problem.rids_out = rids ? static_cast<uint32_t *>(device_array(n * sizeof(uint32_t))) : NULL;
	problem.ends = static_cast<uint32_t *>(device_array(n * sizeof(uint32_t)));
	MUST(api->groups_scratch(ctx, &problem, &bytes, &must_err));
	problem.scratch = device_array(bytes);
	problem.scratch_bytes = bytes;
	MUST(api->groups_run(stream, &problem, &groups, &must_err));
	if (groups != keys_expected.size())
		fail(what, "their number is wrong");
	else if (to_host<K>(problem.keys_out, groups) != keys_expected)
		fail(what, "keys are wrong");
	else if (to_host<uint32_t>(problem.ends, groups) != ends_expected)
		fail(what, "ends are wrong");
	else if (rids && to_host<uint32_t>(problem.rids_out, groups) != rids_expected)
		fail(what, "row ids are wrong");

	/* a cancelled job, too little scratch, and wrong bits are refused */
	if (n > 0)
	{
		int32_t		cancel = 1;
		GpusortError err = {};

		problem.cancel = &cancel;
		if (api->groups_run(stream, &problem, &groups, &err) != GPUSORT_STOPPED)
			fail(what, "runs although it is cancelled");
		problem.cancel = NULL;
		problem.scratch_bytes = bytes - 1;
		if (api->groups_run(stream, &problem, &groups, &err) != GPUSORT_BAD_CALL)
			fail(what, "accepts too little scratch");
		problem.scratch_bytes = bytes;
		problem.end_bit = width + 1;
		if (api->groups_run(stream, &problem, &groups, &err) != GPUSORT_BAD_CALL)
			fail(what, "accepts wrong bits");
	}
	api->device_free(ctx, const_cast<void *>(problem.keys));
	api->device_free(ctx, problem.keys_out);
	api->device_free(ctx, problem.ends);
	api->device_free(ctx, problem.scratch);
	if (rids)
	{
		api->device_free(ctx, const_cast<uint32_t *>(problem.rids));
		api->device_free(ctx, problem.rids_out);
	}
}

template <class K> static void
check_width(void)
{
	const int	width = (int) sizeof(K) * 8;

	for (uint64_t n : {0, 1, 2, 255, 256, 257, 1000, 100003})
		for (uint64_t values : {1, 2, 30, 50000, 1 << 20})
			for (bool rids : {false, true})
			{
				check_groups<K>(n, values, 0, width, rids);
				check_groups<K>(n, values, 7, width - 3, rids);
			}
}

int
main(void)
{
	open_library();
	check_width<uint32_t>();
	check_width<uint64_t>();
	check_width<Key>();
	return close_library("gpu groups");
}
