/*
 * secret.h
 *	  Secret of a device job: only what this job sent passes the checks on its way back.
 *
 * Memory of a device and chunks of the staging pool are used again without being cleared, so
 * they may still hold rows and keys of other sessions, with their checksums.  Checksums of rows and
 * sums of keys therefore depend on a secret of the job: a row or key of another job passes the check
 * with a probability of 2^-32.
 *
 * The secret stays in the memory of the backends that fill and read the job: neither the device nor
 * the memory that the service shares has it.
 */
#ifndef GPUSORT_SECRET_H
#define GPUSORT_SECRET_H

#include "postgres.h"

typedef struct JobSecret
{
	uint64		offset;
	uint64		factor;			/* odd */
	uint64		high_factor;	/* odd; of a key's upper 64 bits */
} JobSecret;

/* False if the server has no random numbers: then there is no job. */
static inline bool
job_secret_make(JobSecret *secret)
{
	if (!pg_strong_random(secret, sizeof(*secret)))
		return false;
	secret->factor |= 1;
	secret->high_factor |= 1;
	return true;
}

/* The upper half tells which job's value this is. */
static inline uint64
job_secret_mix(const JobSecret *secret, uint64 value)
{
	return (value + secret->offset) * secret->factor;
}

#endif							/* GPUSORT_SECRET_H */
