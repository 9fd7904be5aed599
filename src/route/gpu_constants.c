/*
 * gpu_constants.c
 *	  The GPU model's constants.
 *
 * Measured on an H200 with CUDA 13.0, device-resident, keys uniform, with 32-bit
 * rids: bench/results/gpu-h200-sizes.csv (gpu_radix, gpu_bucket), -merge.csv,
 * -ranges.csv (counting and the histograms; between the sizes and ranges that it
 * has, interpolated).  Skew: -distributions.csv, the mean of zipf, exponential and
 * entropy1.  copy_ns is PCIe 5 from pinned memory; job_us a sort of few keys from
 * one process to the other and back.  The costs of rows in the host's memory are what
 * bench/results/queries-h200.md leaves to them: 50M rows of 32 bytes and 10M of 88,
 * CPU's time less GPU's and less the CPU's sort; spilling from its work_mem of
 * 4 and 64 MB.
 */
#include "route/gpu_model.h"

const GpuModel gpu_model_builtin = {
	.radix = {
		{60.9, 64.1, 67.5, 78.9, 199.7, 611.6, 2104.5, 7986.6},
		{100.3, 108.9, 122.6, 196.3, 532.1, 1640.7, 6028.5, 23632.7},
		{194.9, 213.9, 247.6, 495.1, 1831.2, 6666.2, 26095.3, 103618}
	},
	.merge = {
		{60.7, 75.0, 92.5, 147.1, 448.1, 1604.1, 6731.5, 29670.3},
		{70.1, 88.4, 110.8, 188.5, 607.8, 2236.9, 9642.3, 42883.1},
		/* the last was not measured: four times the one before */
		{70.2, 92.0, 136.0, 290.0, 1058.9, 4234.3, 18370.5, 73500}
	},
	.bucket = {
		{22.9, 32.9, 36.8, 54.1, 125.0, 374.3, 1364.7, 5723.2},
		{28.3, 35.7, 42.7, 63.6, 162.1, 483.4, 1832.6, 7846.4},
		{31.5, 45.0, 51.0, 75.5, 234.8, 769.2, 2925.2, 12314.4}
	},
	.counting_rids = {
		{24, 25.1, 26, 27.1, 55, 156.3, 515, 2018.8},
		{40, 45.8, 47, 48.4, 105, 293.8, 978, 3934.4},
		{60, 68, 70, 73, 160, 440, 1562.2, 6250}
	},
	.range_log2 = {8, 16, 20, 25},
	.counting_keys = {
		{18, 18, 18, 18, 27, 56.7, 140, 512.5},
		{21, 24, 30, 39.9, 57.5, 89.7, 190, 681.9},
		{21, 26, 36, 45.7, 83.6, 180, 440, 1500},
		{21, 26, 38, 60, 110, 345, 1150, 3900}
	},
	.beyond_ns = 0.07,
	.radix_fixed = {0.43, 0.15, 0.06},
	.bucket_skew = 3.3,
	.radix_skew = 1.06,
	.count_width = {1, 1.16, 2.5},	/* the last by its bytes */
	.hp = 1.25,
	.hp0 = 1.31,
	.hp1 = {21, 23, 25, 27.5, 65, 220, 837.6, 3350},
	.onehot_us = 5.9,
	.onehot_square_us = 7.8e-6,
	.job_us = 300,
	.copy_ns = 0.02,
	.host_ns = 0.6,
	.fault_ns = 0.09,
	.miss_ns = 6.3,
	.spill_ns = 1.2,
	.move_ns = 0.15
};
