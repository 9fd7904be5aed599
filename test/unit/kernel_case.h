/*
 * kernel_case.h
 *	  One case of a kernel's test: records between sentinels, their sort and
 *	  its checks.
 */
#ifndef GPUSORT_KERNEL_CASE_H
#define GPUSORT_KERNEL_CASE_H

#include "../../bench/cpu/cases.h"
#include "../../bench/cpu/distributions.h"
#include "../../src/kernel/isa.h"
#include "../../src/kernel/team.h"

/*
 * Memory between sentinels.  Cases reuse it, because new pages cost more than
 * a small sort.
 */
typedef struct Area
{
	unsigned char *base;		/* sentinel, size bytes, sentinel, poisoned
								 * bytes */
	size_t		size;
	size_t		room;			/* bytes at base */
} Area;

extern Area recs;
extern Area scratch;

extern SortTeam *team;			/* threads for the problems; NULL: one */
extern unsigned long ncases;
extern unsigned long nfailures;

/* Counts a failure; prints it unless there were many. */
extern void fail(const char *kernel, const SortCase *c, const char *distribution, const char *what);

extern void area_make(Area *a, size_t size);
extern void *area_data(const Area *a);

/* Whether the sentinels are unchanged.  Ends the use of the area. */
extern bool area_intact(Area *a);

/* Runs the kernel on this case, if it accepts it, and checks its outputs. */
extern void run_case(const Algorithm *algorithm, const SortCase *c, const char *distribution);

#endif							/* GPUSORT_KERNEL_CASE_H */
