/*
 * gpu_constants.c
 *	  The GPU model's constants.
 *
 * Measured on an H200 with CUDA 13.0, device-resident, keys uniform, with 32-bit
 * rids: bench/results/gpu-h200-model.csv; gpu_hp1, gpu_onehot: -ranges.csv.  What lies
 * between the ranges and sizes measured for sorts by value is interpolated.  Skew:
 * -distributions.csv, the mean of zipf, exponential and entropy1.  copy_ns is what
 * the transfers take in -model.csv; job_us a sort of few keys from one process to the
 * other and back.  The costs of rows in the host's memory are what queries-h200.md
 * leaves to them: 50M rows of 32 bytes and 10M of 88, CPU's time less GPU's and less
 * the CPU's sort; spilling from its work_mem of 4 and 64 MB.
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
		{22, 23, 24, 26.9, 27.1, 27.3, 55, 158.2, 515, 2017.2},
		{38, 39, 41, 45, 48, 51.8, 105, 295.8, 985, 3946},
		{58, 60, 63, 68, 71, 75, 160, 440, 1556.8, 6250}
	},
	.range_log2 = {8, 16, 20, 25},
	.counting_keys = {
		{18, 18, 18, 18, 18, 18.2, 27, 56.1, 140, 510.3},
		{20, 20, 21, 24, 30, 39.2, 57, 89.1, 190, 681},
		{20, 20, 21, 26, 36, 47, 84, 180, 440, 1500},
		{20, 20, 21, 26, 38, 60, 110, 348.8, 1150, 3900}
	},
	.beyond_ns = 0.07,
	.radix_fixed = {0.43, 0.15, 0.06},
	.bucket_skew = 3.3,
	.radix_skew = 1.06,
	.count_width = {1, 1.16, 2.5},	/* the last by its bytes */
	.hp = 1.25,
	.hp0 = 1.31,
	.hp1 = {20, 20, 21, 23, 25, 27.5, 65, 220, 837.6, 3350},
	.onehot_us = 5.9,
	.onehot_square_us = 7.8e-6,
	.job_us = 300,
	.copy_ns = 0.018,
	.host_ns = 0.6,
	.fault_ns = 0.09,
	.miss_ns = 6.3,
	.spill_ns = 1.2,
	.move_ns = 0.15
};
