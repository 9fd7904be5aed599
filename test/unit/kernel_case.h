/*
 * kernel_case.h
 *	  One case of a kernel's test: records between sentinels, and what is checked of them.
 */
#ifndef GPUSORT_KERNEL_CASE_H
#define GPUSORT_KERNEL_CASE_H

#include "../../bench/cpu/cases.h"
#include "../../bench/cpu/distributions.h"
#include "../../src/kernel/isa.h"
#include "../../src/kernel/team.h"

/* Memory between sentinels, which is used again by the next of its kind: new pages cost more than a sort. */
typedef struct Area
{
	unsigned char *base;		/* sentinel, size bytes, sentinel, and what is poisoned */
	size_t		size;
	size_t		room;			/* bytes at base */
} Area;

extern Area recs;
extern Area scratch;

extern SortTeam *team;			/* of the problems; NULL for one thread */
extern unsigned long ncases;
extern unsigned long nfailures;

/* Counts a failure, and says what it is unless there are many. */
extern void fail(const char *kernel, const SortCase *c, const char *distribution, const char *what);

extern void area_make(Area *a, size_t size);
extern void *area_data(const Area *a);

/* Are the sentinels there still?  For the last time. */
extern bool area_intact(Area *a);

/* Has the kernel sort this case, if it takes it, and checks all that it wrote. */
extern void run_case(const Algorithm *algorithm, const SortCase *c, const char *distribution);

#endif							/* GPUSORT_KERNEL_CASE_H */
