/*
 * gpu_gather_test.cu
 *	  Tests the gather of rows in device memory against a gather on the host.
 */
#include <vector>

#include "gpu_test.cuh"

static uint64_t
noise(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

template <class T> static T *
to_device(const std::vector<T> &host)
{
	void	   *p;

	MUST(api->device_alloc(ctx, host.size() * sizeof(T) + 8, &p, &must_err));
	MUST(api->copy_in(stream, p, host.data(), host.size() * sizeof(T), &must_err));
	MUST(api->stream_wait(stream, &must_err));
	return static_cast<T *>(p);
}

static void
fail_gather(uint64_t n, uint32_t longest, const char *detail)
{
	char		what[100];

	snprintf(what, sizeof(what), "gather of %llu rows of up to %u units",
			 (unsigned long long) n, longest);
	fail(what, detail);
}

/*
 * n rows of 1 .. longest units in random order, each with an overhead in its
 * chunk.  With gaps, rows do not touch
 * and their lengths are passed; without, a row ends where the next begins.
 */
static void
check_gather(uint64_t n, uint32_t longest, uint64_t chunk_units, bool gaps, uint32_t overhead = 0)
{
	uint64_t	seed = n * 31 + longest;
	std::vector<uint32_t> offset(n + 1),
				units(n),
				order(n),
				chunk_row(n + 2);
	std::vector<uint64_t> rows,
				expected,
				got;
	GpusortGather gather = {};
	GpusortError err = {};
	uint64_t	bytes;
	uint32_t	chunks;
	void	   *scratch,
			   *out,
			   *out_offset;
	uint64_t	i;

	checks++;
	for (i = 0; i < n; i++)
	{
		if (gaps)
			rows.resize(rows.size() + noise(&seed) % 4);
		offset[i] = (uint32_t) rows.size();
		units[i] = 1 + noise(&seed) % longest;
		for (uint32_t u = 0; u < units[i]; u++)
			rows.push_back(i << 32 | u);
		order[i] = (uint32_t) i;
	}
	offset[n] = (uint32_t) rows.size();
	for (i = n; i > 1; i--)
		std::swap(order[i - 1], order[noise(&seed) % i]);
	for (i = 0; i < n; i++)
		expected.insert(expected.end(), &rows[offset[order[i]]],
						&rows[offset[order[i]]] + units[order[i]]);

	gather.n = n;
	gather.rows = to_device(rows);
	gather.rows_units = rows.size();
	gather.row_offset = to_device(offset);
	gather.row_units = gaps ? to_device(units) : NULL;
	gather.order = to_device(order);
	gather.chunk_units = chunk_units;
	gather.overhead_units = overhead;
	gather.max_chunks = (uint32_t) n + 1;
	gather.chunk_row = chunk_row.data();
	MUST(api->device_alloc(ctx, (n + 1) * 8, &out_offset, &must_err));
	MUST(api->device_alloc(ctx, expected.size() * 8 + 8, &out, &must_err));
	gather.out_offset = static_cast<uint64_t *>(out_offset);
	MUST(api->gather_scratch(ctx, &gather, &bytes, &must_err));
	MUST(api->device_alloc(ctx, bytes, &scratch, &must_err));
	gather.scratch = scratch;
	gather.scratch_bytes = bytes;
	MUST(api->gather_plan(stream, &gather, &chunks, &must_err));

	got.assign(expected.size(), ~UINT64_C(0));
	for (uint32_t c = 0; c < chunks; c++)
	{
		uint64_t	begin = 0,
					end = 0;

		for (i = 0; i < chunk_row[c + 1]; i++)
		{
			begin += i < chunk_row[c] ? units[order[i]] : 0;
			end += units[order[i]];
		}
		uint64_t	beside = (uint64_t) (chunk_row[c + 1] - chunk_row[c]) * overhead;

		if (chunk_row[c + 1] <= chunk_row[c] || end - begin + beside > chunk_units)
			fail_gather(n, longest, "a chunk is empty or too large");
		if (chunk_row[c + 1] < n &&
			end - begin + beside + units[order[chunk_row[c + 1]]] + overhead <= chunk_units)
			fail_gather(n, longest, "a chunk leaves room for a row");
		MUST(api->gather_rows(stream, &gather, chunk_row[c], chunk_row[c + 1], out, &must_err));
		MUST(api->copy_out(stream, &got[begin], out, (end - begin) * 8, &must_err));
	}
	MUST(api->stream_wait(stream, &must_err));
	if (chunk_row[chunks] != n)
		fail_gather(n, longest, "rows are missing");
	if (got != expected)
		fail_gather(n, longest, "rows are wrong");

	/* too few chunks, and a row longer than a chunk, are refused */
	if (chunks > 1)
	{
		gather.max_chunks = chunks - 1;
		if (api->gather_plan(stream, &gather, &chunks, &err) != GPUSORT_UNSUPPORTED)
			fail_gather(n, longest, "accepts more chunks than fit");
		gather.max_chunks = (uint32_t) n + 1;
	}
	if (n > 100 && longest > 1)
	{
		gather.chunk_units = longest / 2;
		if (api->gather_plan(stream, &gather, &chunks, &err) != GPUSORT_UNSUPPORTED)
			fail_gather(n, longest, "accepts a row longer than a chunk");
	}
	api->device_free(ctx, const_cast<void *>(gather.rows));
	api->device_free(ctx, const_cast<uint32_t *>(gather.row_offset));
	if (gather.row_units)
		api->device_free(ctx, const_cast<uint32_t *>(gather.row_units));
	api->device_free(ctx, const_cast<uint32_t *>(gather.order));
	api->device_free(ctx, out_offset);
	api->device_free(ctx, out);
	api->device_free(ctx, scratch);
}

int
main(void)
{
	open_library();
	for (bool gaps : {false, true})
	{
		check_gather(1, 5, 8, gaps);
		check_gather(2, 1, 1, gaps);
		check_gather(33, 4, 9, gaps);
		check_gather(1000, 1, 100, gaps);
		check_gather(1000, 40, 200, gaps);
		check_gather(100003, 7, 4096, gaps);
		check_gather(20011, 300, 100000, gaps);
		check_gather(20011, 3, UINT64_C(1) << 40, gaps);
		check_gather(1000, 40, 200, gaps, 2);
		check_gather(20011, 3, 4096, gaps, 3);
	}
	return close_library("gpu gather");
}
