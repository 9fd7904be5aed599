/*
 * gpu_constants.c
 *	  The GPU model's constants.
 *
 * Measured on an H200 with CUDA 13.0, device-resident, keys uniform, with 32-bit
 * rids: bench/results/gpu-h200-model.csv; sorts by value: -ranges.csv, interpolated
 * between the sizes and ranges measured.  Skew: -distributions.csv, the mean of
 * gaussian, exponential, zipf and entropy1 over 2^20 to 2^26 rows.  copy_ns is what
 * the transfers take in -model.csv; job_us is meant to be more than a sort of few keys
 * takes from one process to the other and back (70 to 90 without a device).
 *
 * The costs of rows in the host's memory are what queries-h200.md leaves to them:
 * 50M rows of 32 bytes and 10M of 88, CPU's time less GPU's and less what the built-in
 * model says of the CPU's sort; spilling from its work_mem of 4 and 64 MB.  They
 * contain what that model takes the H200's host, whose sorts are slower, for too
 * fast; its later phases put misses at 1 to 6 ns a row and no cost to faults.
 */
#include "route/gpu_model.h"

const GpuModel gpu_model_builtin = {
	.radix = {
		{57.2, 56.5, 60.8, 66.6, 72.9, 92.3, 230.7, 671.1, 2116.4, 8061.6},
		{90.3, 89.8, 103.4, 116.1, 139.7, 207.6, 574.6, 1711.3, 6084.4, 23885.2},
		{165.1, 178.6, 197.7, 221.3, 259.3, 522.2, 1895.8, 6794.8, 26425.1, 105094.3}
	},
	.merge = {
		{30.7, 32.3, 60.9, 76.3, 99.1, 162.5, 461.4, 1644.2, 6726.6, 29700.2},
		{41.6, 41.5, 74.1, 92.1, 117.4, 195.0, 633.3, 2281.7, 9639.2, 42864.3},
		{41.8, 56.2, 72.2, 96.5, 142.9, 302.0, 1090.5, 4261.4, 18357.2, 80960.0}
	},
	.bucket = {
		{8.9, 11.0, 22.1, 32.6, 37.5, 56.6, 130.0, 402.7, 1368.2, 5754.0},
		{9.2, 13.1, 28.6, 37.2, 37.2, 58.7, 180.4, 520.1, 1843.2, 7881.5},
		{9.2, 14.5, 31.6, 40.3, 45.4, 74.4, 260.0, 805.3, 2936.5, 12352.8}
	},
	.counting_rids = {
		{22.2, 24.2, 25, 26.8, 27, 27.7, 55, 163, 510, 1953.8},
		{38, 39, 41, 43.7, 46, 49.1, 105, 300.4, 960, 3840.4},
		{58, 60, 63, 66, 69, 73, 155, 430, 1488.9, 6000}
	},
	.range_log2 = {8, 16, 20, 25},
	.counting_keys = {
		{18, 18, 18, 19, 20, 21.7, 30, 57.6, 143, 519.2},
		{20, 20, 21, 24, 30, 41.2, 55, 87.7, 190, 686.3},
		{20, 20, 21, 26, 36, 49.2, 80, 165, 390, 1330},
		{20, 20, 21, 26, 38, 62, 115, 350.3, 1050, 3000}
	},
	.beyond_ns = 0.07,
	.radix_fixed = {0.43, 0.15, 0.06},
	.bucket_skew = 2.8,
	.radix_skew = 1.04,
	.count_width = {1, 1.16, 2.5},	/* the last by its bytes */
	.hp1 = {20, 20, 21, 25, 26.5, 30, 66, 220, 841.5, 3370},
	.job_us = 300,
	.copy_ns = 0.018,
	.host_ns = 0.6,
	.fault_ns = 0.09,
	.miss_ns = 6.3,
	.spill_ns = 1.2,
	.move_ns = 0.15
};
