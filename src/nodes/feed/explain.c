/*
 * explain.c
 *	  EXPLAIN output of GpuSort Feed: the sorts of the leader and of the workers.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/base/explain_sort.h"
#include "nodes/feed/feed.h"

static void
explain_workers(const ParticipantReport *reports, int n, ExplainState *es)
{
	bool		text = (es->format == EXPLAIN_FORMAT_TEXT);

	if (!text)
		ExplainOpenGroup("Sort Workers", "Sort Workers", false, es);
	for (int w = 0; w < n; w++)
	{
		if (text)
			explain_participant(&reports[w], psprintf("Worker %d:  ", w), es);
		else
		{
			ExplainOpenGroup("Sort Worker", NULL, true, es);
			ExplainPropertyInteger("Worker Number", NULL, w, es);
			explain_participant(&reports[w], "", es);
			ExplainCloseGroup("Sort Worker", NULL, true, es);
		}
	}
	if (!text)
		ExplainCloseGroup("Sort Workers", "Sort Workers", false, es);
}

/* Shows the leader's sort and the workers' sorts. */
void
partial_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	PartialSortState *partial = (PartialSortState *) css;
	ParticipantReport own;

	explain_keys(css, &partial->sort, 0, ancestors, es);
	if (!es->analyze)
		return;
	if (partial->nreports > 0)
	{
		explain_participant(&partial->reports[partial->nreports - 1], "", es);
		explain_workers(partial->reports, partial->nreports - 1, es);
	}
	else if (partial->done)
	{
		participant_report_fill(&own, partial->sorter->report, partial->spec.keys_only);
		explain_participant(&own, "", es);
	}
}
