/*
 * kernel_case.h
 *	  One case of a kernel's test: records between sentinels, and what is checked of them.
 */
#ifndef GPUSORT_KERNEL_CASE_H
#define GPUSORT_KERNEL_CASE_H

#include "../bench/cases.h"
#include "../bench/distributions.h"
#include "../src/kernel/isa.h"
#include "../src/kernel/team.h"

/* Memory between sentinels. */
typedef struct Area
{
	unsigned char *base;		/* sentinel, size bytes, sentinel */
	size_t		size;
} Area;

extern SortTeam *team;			/* of the problems; NULL for one thread */
extern unsigned long ncases;
extern unsigned long nfailures;

/* Counts a failure, and says what it is unless there are many. */
extern void fail(const char *kernel, const SortCase *c, const char *distribution, const char *what);

extern Area area_make(size_t size);
extern void *area_data(const Area *a);

/* Are the sentinels there still?  For the last time. */
extern bool area_intact(const Area *a);

/* Has the kernel sort this case, if it takes it, and checks all that it wrote. */
extern void run_case(const Algorithm *algorithm, const SortCase *c, const char *distribution);

#endif							/* GPUSORT_KERNEL_CASE_H */
