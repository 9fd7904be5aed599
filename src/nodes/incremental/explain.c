/*
 * explain.c
 *	  EXPLAIN output of GpuSort Incremental: what Incremental Sort shows.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/base/explain_sort.h"
#include "nodes/incremental/incremental_state.h"

/* Names of the algorithms that sorted groups, as a list. */
static List *
group_methods(const SortGroups *groups)
{
	List	   *methods = NIL;
	char		name[64];

	if (groups->batches)
		methods = lappend(methods, pstrdup("multikey"));
	for (int bounded = 0; bounded < 2; bounded++)
	{
		for (int id = 0; id < ALGORITHM_COUNT; id++)
		{
			if ((groups->algorithms[bounded] >> id & 1) == 0)
				continue;
			gpusort_route_display_name(sort_algorithms[id].name, name, sizeof(name));
			methods = lappend(methods, psprintf("%s%s", bounded ? "top-N " : "", name));
		}
	}
	return methods;
}

static void
explain_group_space(const char *group, const char *type, int64 average, int64 peak, ExplainState *es)
{
	if (peak == 0)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfo(es->str, "  Average %s: " INT64_FORMAT "kB  Peak %s: " INT64_FORMAT "kB", type, average,
						 type, peak);
		return;
	}
	ExplainOpenGroup("Sort Space", group, true, es);
	ExplainPropertyInteger("Average Sort Space Used", "kB", average, es);
	ExplainPropertyInteger("Peak Sort Space Used", "kB", peak, es);
	ExplainCloseGroup("Sort Space", group, true, es);
}

static void
explain_groups(const SortGroups *groups, const char *group, ExplainState *es)
{
	List	   *methods = group_methods(groups);
	ListCell   *lc;

	if (groups->n == 0)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%s: " INT64_FORMAT "  Sort Method%s: ", group, groups->n,
						 list_length(methods) > 1 ? "s" : "");
		foreach(lc, methods)
			appendStringInfo(es->str, "%s%s", foreach_current_index(lc) > 0 ? ", " : "", (char *) lfirst(lc));
	}
	else
	{
		ExplainOpenGroup("Incremental Sort Groups", group, true, es);
		ExplainPropertyInteger("Group Count", NULL, groups->n, es);
		ExplainPropertyList("Sort Methods Used", methods, es);
	}
	explain_group_space("Sort Space Memory", "Memory", groups->memory_kb / groups->n, groups->memory_peak_kb, es);
	explain_group_space("Sort Space Disk", "Disk", groups->disk_kb / groups->n, groups->disk_peak_kb, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
		appendStringInfoChar(es->str, '\n');
	else
		ExplainCloseGroup("Incremental Sort Groups", group, true, es);
}

void
incremental_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	IncrementalState *node = (IncrementalState *) css;

	explain_keys(css, &node->sort, node->nprefix, ancestors, es);
	if (!es->analyze)
		return;
	explain_groups(&node->batches, "Full-sort Groups", es);
	explain_groups(&node->groups, "Pre-sorted Groups", es);
	if (node->filter != NULL)
		explain_dropped("", 0, 0, 0, node->filter, es);
}
