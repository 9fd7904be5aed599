/*
 * emulated_test.h
 *	  Shared by the tests of test/gpu that run on the emulated device only:
 *	  exact allocations, checks, set up and tear down of a context.
 */
#ifndef GPUSORT_EMULATED_TEST_H
#define GPUSORT_EMULATED_TEST_H

#include <memory>

#include "emulation.h"
#include "gpu_test.cuh"

/*
 * A buffer of exactly the given bytes, aligned as device memory: the address
 * sanitizer reports an access behind its end.
 */
struct Exact
{
	std::unique_ptr<unsigned char, decltype(&free)> p;

	explicit Exact(size_t bytes)
		: p(NULL, free)
	{
		void	   *memory;

		if (posix_memalign(&memory, 256, bytes) != 0)
			abort();
		memset(memory, 0xa5, bytes);
		p.reset(static_cast<unsigned char *>(memory));
	}
};

static void
expect(bool holds, const char *what, const char *detail)
{
	checks++;
	if (!holds)
		fail(what, detail);
}

static void
begin_context(int arch, int multiprocessors)
{
	emulation.arch = arch;
	emulation.multiprocessors = multiprocessors;
	MUST(api->context_create(0, 0, &ctx, &must_err));
	MUST(api->stream_create(ctx, &stream, &must_err));
}

static void
end_context(const char *what)
{
	api->stream_destroy(stream);
	api->context_destroy(ctx);
	expect(emulation.device_blocks == 0 && emulation.host_blocks == 0 &&
		   emulation.registered == 0 && emulation.streams == 0 && emulation.events == 0,
		   what, "memory, registrations, streams or events were not freed");
}

#endif							/* GPUSORT_EMULATED_TEST_H */
