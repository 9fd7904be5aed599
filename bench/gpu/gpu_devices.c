/*
 * gpu_devices.c
 *	  One sort on one device against the same sort on several, without a server.
 *
 * Sorts 64-bit keys without rids on one device, and divided by key range into equal
 * parts on several devices, each driven by its own thread.  Times the sort in device
 * memory, and the sort with transfers from and to pinned host memory.  The parts
 * have random keys, as if the host had split them before; splitting is not timed.
 *
 * usage: gpu_devices LIBRARY [DEVICES] [LOG2 OF KEYS, FROM] [TO]
 *
 * Prints CSV: keys, devices, milliseconds of the sort alone and with transfers,
 * each the least of three.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpusort_abi.h"

#define MAX_DEVICES		8
#define ROUNDS			3

typedef struct Device
{
	const GpusortCudaApi *api;
	GpusortContext *ctx;
	GpusortStream *stream;
	GpusortProblem problem;
	int			algorithm;
	void	   *host;			/* n keys */
	int			copies;			/* both ways, too */
	pthread_barrier_t *start;
} Device;

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void
check(GpusortStatus status, const GpusortError *err, const char *what)
{
	if (status == GPUSORT_OK)
		return;
	fprintf(stderr, "gpu_devices: %s: %s\n", what, err->message);
	exit(1);
}

static int
algorithm_named(const GpusortCudaApi *api, const char *name)
{
	for (int i = 0; api->algorithm(i); i++)
		if (strcmp(api->algorithm(i)->name, name) == 0)
			return i;
	return 0;
}

static void
prepare(Device *d, const GpusortCudaApi *api, int device, uint64_t n)
{
	GpusortError err = {0};
	const char *why;
	uint64_t	state = 88172645463325252u + device;

	memset(&d->problem, 0, sizeof(d->problem));
	d->api = api;
	d->algorithm = algorithm_named(api, "gpu_bucket");
	check(api->context_create(device, 0, &d->ctx, &err), &err, "context");
	check(api->stream_create(d->ctx, &d->stream, &err), &err, "stream");
	d->problem.n = n;
	d->problem.key_width = d->problem.end_bit = 64;
	d->problem.output = GPUSORT_OUT_KEYS;
	d->problem.facts = GPUSORT_MAY_CLOBBER_INPUT;
	if (api->sort_scratch(d->ctx, d->algorithm, &d->problem, &d->problem.scratch_bytes, &why, &err) != GPUSORT_OK)
	{
		d->algorithm = algorithm_named(api, "gpu_radix");
		check(api->sort_scratch(d->ctx, d->algorithm, &d->problem, &d->problem.scratch_bytes, &why, &err), &err,
			  "scratch");
	}
	check(api->device_alloc(d->ctx, n * 8, (void **) &d->problem.keys, &err), &err, "memory");
	check(api->device_alloc(d->ctx, n * 8, &d->problem.keys_out, &err), &err, "memory");
	check(api->device_alloc(d->ctx, d->problem.scratch_bytes, &d->problem.scratch, &err), &err, "memory");
	check(api->host_alloc(d->ctx, n * 8, &d->host, &err), &err, "pinned memory");
	for (uint64_t i = 0; i < n; i++)
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		((uint64_t *) d->host)[i] = state;
	}
}

static void *
run(void *arg)
{
	Device	   *d = arg;
	GpusortError err = {0};
	uint64_t	bytes = d->problem.n * 8;

	pthread_barrier_wait(d->start);
	if (d->copies)
		check(d->api->copy_in(d->stream, (void *) d->problem.keys, d->host, bytes, &err), &err, "copy in");
	check(d->api->sort_run(d->stream, d->algorithm, &d->problem, NULL, &err), &err, "sort");
	if (d->copies)
		check(d->api->copy_out(d->stream, d->host, d->problem.keys_out, bytes, &err), &err, "copy out");
	check(d->api->stream_wait(d->stream, &err), &err, "wait");
	return NULL;
}

/*
 * Runs all devices at the same time.  Each round restores the random keys, because
 * sorted keys take less time.
 */
static double
best_ms(Device *devices, int n, int copies)
{
	double		best = 1e300;

	for (int round = 0; round < ROUNDS; round++)
	{
		pthread_t	threads[MAX_DEVICES];
		pthread_barrier_t start;
		double		began;

		pthread_barrier_init(&start, NULL, n + 1);
		for (int d = 0; d < n; d++)
		{
			GpusortError err = {0};
			uint64_t   *keys = devices[d].host;

			for (uint64_t i = 0; copies && i < devices[d].problem.n; i++)
				keys[i] *= UINT64_C(0x9E3779B97F4A7C15);
			if (!copies)
			{
				check(devices[d].api->copy_in(devices[d].stream, (void *) devices[d].problem.keys, keys,
											  devices[d].problem.n * 8, &err), &err, "copy in");
				check(devices[d].api->stream_wait(devices[d].stream, &err), &err, "wait");
			}
			devices[d].copies = copies;
			devices[d].start = &start;
			pthread_create(&threads[d], NULL, run, &devices[d]);
		}
		began = now_ms();
		pthread_barrier_wait(&start);
		for (int d = 0; d < n; d++)
			pthread_join(threads[d], NULL);
		if (now_ms() - began < best)
			best = now_ms() - began;
		pthread_barrier_destroy(&start);
	}
	return best;
}

int
main(int argc, char **argv)
{
	void	   *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	gpusort_cuda_api_fn get_api = library ? (gpusort_cuda_api_fn) dlsym(library, "gpusort_cuda_api") : NULL;
	const GpusortCudaApi *api = get_api ? get_api(GPUSORT_ABI_VERSION) : NULL;
	int			most = argc > 2 ? atoi(argv[2]) : 2;
	int			from = argc > 3 ? atoi(argv[3]) : 24;
	int			to = argc > 4 ? atoi(argv[4]) : 30;

	if (!api || most < 1 || most > MAX_DEVICES)
	{
		fprintf(stderr, "usage: gpu_devices LIBRARY [DEVICES] [LOG2 OF KEYS, FROM] [TO]\n");
		return 2;
	}
	printf("keys,devices,resident_ms,both_ways_ms\n");
	for (int bits = from; bits <= to; bits += 2)
	{
		for (int n = 1; n <= most; n *= 2)
		{
			Device		devices[MAX_DEVICES];
			double		resident;

			for (int d = 0; d < n; d++)
				prepare(&devices[d], api, d, (UINT64_C(1) << bits) / n);
			resident = best_ms(devices, n, 0);
			printf("%llu,%d,%.3f,%.3f\n", 1ULL << bits, n, resident, best_ms(devices, n, 1));
			fflush(stdout);
			for (int d = 0; d < n; d++)
				api->context_destroy(devices[d].ctx);
		}
	}
	return 0;
}
