/*
 * costs_h200.h
 *	  What sorts cost on an H200; see GpusortCosts.
 *
 * Measured with CUDA 13.0, device-resident, keys uniform, with 32-bit rids:
 * bench/results/gpu-h200-model.csv; sorts by value: -ranges.csv, interpolated
 * between the sizes and ranges measured.  gpu_radix of 32 and 64 bits from 2^20 on, and gpu_merge
 * to 2^18: gpu-h200-unkind.csv, 2^28 by proportion.  Uneven keys: the mean of gaussian, exponential,
 * zipf and entropy1, gpu_bucket on an H100 (gpu-h100-distributions.csv; 2^10 and 2^12 by
 * proportion, 2^28 without exponential, 128 bits at 2^20 from trials), gpu_radix from
 * gpu-h200-distributions.csv over 2^20 to 2^26 rows.  From 2^18 on, 32-bit keys are no
 * longer dealt flat: a step (53.8 to 170 at 2^19), which 74 puts behind that knot.
 * copy_ns is what the transfers take in -model.csv; job_us is meant to be more than a
 * sort of few keys takes from one process to the other and back (70 to 90 without a
 * device).
 *
 * The library reports them for every device today, and so does its stand-in; they are
 * also what is assumed of a device before a library has spoken.
 */
#ifndef GPUSORT_COSTS_H200_H
#define GPUSORT_COSTS_H200_H

#include "gpusort_abi.h"
#include "value/value_limits.h"

static const GpusortCosts gpusort_costs_h200 = {
	/* radix */
	{
		{57.2, 56.5, 60.8, 66.6, 72.9, 86.2, 195.6, 554.4, 1888.5, 7200},
		{90.3, 89.8, 103.4, 116.1, 139.7, 169.4, 496.8, 1508.3, 5670.7, 22260},
		{165.1, 178.6, 197.7, 221.3, 259.3, 522.2, 1895.8, 6794.8, 26425.1, 105094.3}
	},
	/* merge */
	{
		{13.1, 18.5, 23.4, 30.9, 63.5, 162.5, 461.4, 1644.2, 6726.6, 29700.2},
		{14.6, 21.6, 28, 40.4, 73.4, 195.0, 633.3, 2281.7, 9639.2, 42864.3},
		{18.3, 25.8, 32.6, 57.9, 112.7, 302.0, 1090.5, 4261.4, 18357.2, 80960.0}
	},
	/* bucket */
	{
		{8.9, 11.0, 22.1, 32.6, 37.5, 56.6, 130.0, 402.7, 1368.2, 5754.0},
		{9.2, 13.1, 28.6, 37.2, 37.2, 58.7, 180.4, 520.1, 1843.2, 7881.5},
		{9.2, 14.5, 31.6, 40.3, 45.4, 74.4, 260.0, 805.3, 2936.5, 12352.8}
	},
	/* bucket_uneven */
	{
		{25, 31, 32.3, 36.2, 74, 178.6, 419.8, 1090, 3859, 16400},
		{26, 35, 36.2, 41.4, 64.1, 148.8, 482.1, 1341, 4752, 20900},
		{26, 37, 43.6, 53.3, 93.9, 265, 636.1, 1897, 6963, 31100}
	},
	/* counting_rids */
	{
		{22.2, 24.2, 25, 26.8, 27, 27.7, 55, 163, 510, 1953.8},
		{38, 39, 41, 43.7, 46, 49.1, 105, 300.4, 960, 3840.4},
		{58, 60, 63, 66, 69, 73, 155, 430, 1488.9, 6000}
	},
	/* range_log2 */
	{8, 16, 20, 25},
	/* counting_keys */
	{
		{18, 18, 18, 19, 20, 21.7, 30, 57.6, 143, 519.2},
		{20, 20, 21, 24, 30, 41.2, 55, 87.7, 190, 686.3},
		{20, 20, 21, 26, 36, 49.2, 80, 165, 390, 1330},
		{20, 20, 21, 26, 38, 62, 115, 350.3, 1050, 3000}
	},
	/* hp1 */
	{20, 20, 21, 25, 26.5, 30, 66, 220, 841.5, 3370},
	0.07,						/* beyond_ns */
	{1, 1.16, 2.5},				/* count_width; the last by its bytes */
	{0.43, 0.15, 0.06},			/* radix_fixed */
	1.04,						/* radix_skew */
	300,						/* job_us */
	0.018,						/* copy_ns */
	3,							/* copies: in, out, scratch */
	UINT64_C(8) << 20,			/* job_bytes: tables, rounding */
	GPUSORT_VALUES_ALWAYS,
	GPUSORT_VALUES_PER_KEY,
	GPUSORT_ONEHOT_KEYS,
	GPUSORT_ONEHOT_WORDS
};

#endif							/* GPUSORT_COSTS_H200_H */
