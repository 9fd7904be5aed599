/*
 * job_key.h
 *	  Keys of a job in memory: their places and checksums.
 */
#ifndef GPUSORT_GPU_JOB_KEY_H
#define GPUSORT_GPU_JOB_KEY_H

#include "key/key.h"
#include "store/store.h"

/*
 * A key's part of a checksum.  It must not be linear in the key: otherwise keys 1, 2, 3 and
 * 2, 2, 2 would have the same checksum.
 */
static inline uint64
key_hash(const JobSecret *secret, uint64 key)
{
	uint64		hash = job_secret_mix(secret, key);

	return hash ^ hash >> 32;
}

static inline uint64
key_hash128(const JobSecret *secret, Key128 key)
{
	uint64		hash = job_secret_mix(secret, (uint64) key) + (uint64) (key >> 64) * secret->high_factor;

	return hash ^ hash >> 32;
}

/* Key i of an array of keys. */
static inline Key128
device_key_at(const char *keys, int width, size_t i)
{
	if (width == 32)
		return ((const uint32 *) keys)[i];
	if (width == 64)
		return ((const uint64 *) keys)[i];
	return ((const Key128 *) keys)[i];
}

#endif							/* GPUSORT_GPU_JOB_KEY_H */
