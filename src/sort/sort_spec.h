/*
 * sort_spec.h
 *	  What to sort.
 */
#ifndef GPUSORT_SORT_SORT_SPEC_H
#define GPUSORT_SORT_SORT_SPEC_H

#include "postgres.h"

#include "key/key.h"
#include "monitor/progress.h"
#include "tiebreak/tiebreak.h"

/* What to sort.  The arrays belong to the caller and live as long as the sorter. */
typedef struct SortSpec
{
	TupleDesc	desc;
	const KeyColumn *keys;
	int			nkeys;
	bool		random_access;	/* rewound, marked or read backward */

	/* Would the child return the same rows again, in the same order?  NULL: no. */
	bool		(*can_rerun) (void *arg);
	void	   *can_rerun_arg;
	int			node;			/* plan node id, or PROGRESS_NO_NODE */
	int			participants;	/* processes of the sort; 0 or 1: one */
	bool		timing;			/* time the phases of small sorts, too */
	bool		keys_only;		/* without rows; uses a virtual slot */

	/*
	 * With keys_only: row ids are TIDs (row.h), and runs return rows with
	 * TIDs.  Rows come in TID order, by slots of MinimalTuples or by pages
	 * with TIDs.
	 */
	bool		rids_are_tids;

	/*
	 * Leading keys of which each value is wanted once: the sort keeps the
	 * first row of each value, in sort order.  A result that may have other
	 * rows says so (SortResult.duplicates).  0: all rows are wanted.
	 */
	int			distinct;
	double		groups;			/* planner's estimate of the values of these keys; 0: none */
	bool		compares;		/* TakenRows.equal is asked for */

	/*
	 * Memory limit of a nested sort or of one without a plan node; 0: use
	 * work_mem.  Such a sort uses a GPU only if gpu_verified is set.  A
	 * nested sort shows no progress.
	 */
	Size		memory;

	/*
	 * With memory: a GPU is allowed.  The keys come back with their row ids,
	 * and the order of these pairs is checked in full before a row is
	 * returned.
	 */
	bool		gpu_verified;

	/*
	 * Rows have TIDs, and each participant puts its rows in TID order.  A
	 * merge of sorted shares then orders equal rows by TID.
	 */
	bool		ties_by_tid;

	/*
	 * The sort fails instead of writing a run that would exceed
	 * temp_file_limit (SortReport.over_limit).  The caller has another way.
	 */
	bool		within_limit;

	/*
	 * Called by the sort of a batch with two rows that are equal in all keys,
	 * without ROW_DEAD, for some or all groups of such rows.  It may raise an
	 * error.  NULL: no interest.
	 */
	EqualRows	on_equal;
	void	   *on_equal_arg;
	Progress   *within;			/* progress of the outer sort, or NULL */
} SortSpec;

/* Is it a sort of the rows of another sort? */
static inline bool
sort_is_nested(const SortSpec *spec)
{
	return spec->memory != 0 && spec->node != PROGRESS_NO_NODE;
}

#endif							/* GPUSORT_SORT_SORT_SPEC_H */
