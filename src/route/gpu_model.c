/*
 * gpu_model.c
 *	  How long the GPU route of a sort will take, and the names of its algorithms.
 *
 * The route's time is that of getting keys there and rids back, plus the sort,
 * which is small beside them.  What both routes do alike (packing the keys,
 * reading the rids out) is left out, as in model.c.  The constants were measured
 * on an H200 with CUDA 13.0: gpu_bucket's rates for uniform (key, 32-bit rid)
 * pairs (bench/results/gpu-h200-sizes.csv), copies from pinned memory over PCIe 5,
 * and the hand-over of a job to the device process and back.
 */
#include "route/gpu_model.h"

#include <string.h>

#define JOB_US				300.0	/* opening, latches, first launches */
#define COPY_BYTES_PER_US	50000.0
#define HOST_NS_PER_ROW		0.6 /* rids copied into and out of staging */

#define RATE_KNOTS			4
#define RATE_FIRST_LOG2		16
#define RATE_STEP_LOG2		4

/* Rows per microsecond at 2^16, 2^20, 2^24, 2^28 rows. */
static const double rates[3][RATE_KNOTS] = {
	{1930, 18700, 44800, 46900},
	{1840, 16400, 34600, 34200},
	{1430, 13900, 21900, 21800}
};

static double
sort_us(size_t n, int key_width)
{
	const double *rate = rates[key_width == 32 ? 0 : key_width == 64 ? 1 : 2];
	int			log2 = 63 - __builtin_clzll((unsigned long long) n | 1);
	int			knot = (log2 - RATE_FIRST_LOG2) / RATE_STEP_LOG2;

	/* the lower knot's rate: pessimistic between knots, exact enough */
	if (log2 < RATE_FIRST_LOG2)
		return (1 << RATE_FIRST_LOG2) / rate[0];
	return n / rate[knot < RATE_KNOTS ? knot : RATE_KNOTS - 1];
}

double
gpu_predict_us(size_t n, int key_width, bool want_keys)
{
	double		key_bytes = (double) n * (key_width / 8);
	double		rid_bytes = (double) n * sizeof(uint32_t);
	double		up = key_bytes + rid_bytes;
	double		down = rid_bytes + (want_keys ? key_bytes : 0);

	return JOB_US + (up + down) / COPY_BYTES_PER_US + sort_us(n, key_width) +
		n * HOST_NS_PER_ROW / 1000;
}

#define ALL_WIDTHS	(1u << SORT_REC_PACKED | 1u << SORT_REC_64 | 1u << SORT_REC_128)

/* As the GPU library describes them; it is not loaded where this is asked for. */
static const SortKernel gpu_kernels[] = {
	{.name = "gpu_radix", .formats = ALL_WIDTHS, .stable = true, .needs = "",
	.paper = "Satish et al. 2010; Pirjan 2012"},
	{.name = "gpu_merge", .formats = ALL_WIDTHS, .stable = true, .needs = "",
	.paper = "Satish et al. 2010; Chen et al. 2009"},
	{.name = "gpu_bucket", .formats = ALL_WIDTHS, .stable = true, .needs = "",
	.paper = "Chen et al. 2009"},
	{.name = "gpu_counting", .formats = ALL_WIDTHS, .stable = true,
		.needs = "keys whose range is known and at most 16 times the rows",
	.paper = "Abdel-hafeez et al. 2018"},
	{.name = "gpu_onehot", .formats = ALL_WIDTHS, .stable = true,
		.needs = "at most 4096 rows; rows times range at most about a million",
	.paper = "Abdel-hafeez et al. 2018"},
	{.name = "gpu_hp", .formats = ALL_WIDTHS, .stable = false,
		.needs = "keys alone, whose range is known and at most 16 times the rows",
	.paper = "Kozakai et al. 2021"},
	{.name = "gpu_hp1", .formats = ALL_WIDTHS, .stable = false,
		.needs = "distinct keys alone, whose range is known and at most 16 times the rows",
	.paper = "Kozakai et al. 2021"},
	{.name = "gpu_hp0", .formats = ALL_WIDTHS, .stable = false,
		.needs = "keys alone, whose range is known and at most 16 times the rows",
	.paper = "Kozakai et al. 2021"},
	{.name = NULL}
};

const SortKernel *
gpu_route_kernels(void)
{
	return gpu_kernels;
}

const SortKernel *
gpu_route_kernel(const char *name)
{
	for (const SortKernel *k = gpu_kernels; k->name != NULL; k++)
	{
		if (strcmp(k->name, name) == 0)
			return k;
	}
	return NULL;
}
