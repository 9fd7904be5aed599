/*
 * explain_sort.h
 *	  EXPLAIN output that the nodes of sorts share.
 */
#ifndef GPUSORT_NODES_BASE_EXPLAIN_SORT_H
#define GPUSORT_NODES_BASE_EXPLAIN_SORT_H

#include "postgres.h"

#include "commands/explain.h"
#include "nodes/base/distinct_filter.h"
#include "parallel/parallel.h"
#include "sort/sort.h"

/* Shows the keys.  The child's rows are ordered by the first npresorted keys. */
extern void explain_keys(const CustomScanState *css, const SortPlan *sort, int npresorted, List *ancestors,
						 ExplainState *es);

/* Shows how many duplicates a sort with distinct columns has dropped; filter may be NULL. */
extern void explain_dropped(const char *prefix, uint64 in_batches, uint64 in_merges, uint64 on_device,
							const DistinctFilter *filter, ExplainState *es);

/* Shows a sort of this process.  filter may be NULL. */
extern void explain_sort(const CustomScanState *css, const SortReport *report, bool keys_only,
						 const DistinctFilter *filter, ExplainState *es);

/*
 * Shows the participants of a parallel sort that took part: the leader, and n workers.  workers: NULL: there was no
 * Gather.
 */
extern void explain_participants(const ParticipantReport *leader, const ParticipantReport *workers, int n,
								 ExplainState *es);

/* Fills the plain data that EXPLAIN shows of a sort. */
extern void participant_report_fill(ParticipantReport *to, const SortReport *report,
									bool keys_only);

#endif							/* GPUSORT_NODES_BASE_EXPLAIN_SORT_H */
