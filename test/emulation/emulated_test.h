/*
 * emulated_test.h
 *	  What tests on the emulated device share.
 */
#ifndef GPUSORT_EMULATED_TEST_H
#define GPUSORT_EMULATED_TEST_H

#include <memory>

#include "emulation.h"
#include "gpu_test.cuh"

/* Exactly so many bytes, where arrays of the device may begin. */
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
		   what, "something was not given back");
}

#endif							/* GPUSORT_EMULATED_TEST_H */
