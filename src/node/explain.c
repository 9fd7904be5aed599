/*
 * explain.c
 *	  What EXPLAIN says about a GpuSort node.
 *
 * "Sort Key", "Sort Method" and their structured properties are a Sort's, so
 * that whatever reads plans reads ours.  "Sort Route" says why this algorithm.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "compat.h"
#include "node/gpusort_node.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/ruleutils.h"
#include "utils/typcache.h"

/* Appends COLLATE, DESC, USING, NULLS FIRST as ORDER BY would have them. */
static void
append_sort_order(StringInfo buf, Node *expr, const KeyColumn *key)
{
	Oid			type = exprType(expr);
	TypeCacheEntry *typentry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	bool		reverse = false;

	if (OidIsValid(key->collation) && key->collation != DEFAULT_COLLATION_OID)
	{
		char	   *name = get_collation_name(key->collation);

		if (name == NULL)
			elog(ERROR, "cache lookup failed for collation %u", key->collation);
		appendStringInfo(buf, " COLLATE %s", quote_identifier(name));
	}

	if (key->sortop == typentry->gt_opr)
	{
		appendStringInfoString(buf, " DESC");
		reverse = true;
	}
	else if (key->sortop != typentry->lt_opr)
	{
		char	   *name = get_opname(key->sortop);

		if (name == NULL)
			elog(ERROR, "cache lookup failed for operator %u", key->sortop);
		appendStringInfo(buf, " USING %s", name);
		(void) get_equality_op_for_ordering_op(key->sortop, &reverse);
	}

	if (key->nulls_first && !reverse)
		appendStringInfoString(buf, " NULLS FIRST");
	else if (!key->nulls_first && reverse)
		appendStringInfoString(buf, " NULLS LAST");
}

static void
explain_keys(GpuSortState *node, List *ancestors, ExplainState *es)
{
	Plan	   *plan = node->css.ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, plan, ancestors);
	bool		useprefix = (compat_explain_tables(es) > 1 || es->verbose);
	List	   *result = NIL;

	for (int i = 0; i < node->nkeys; i++)
	{
		TargetEntry *tle = get_tle_by_resno(plan->targetlist, node->keys[i].attno);
		StringInfoData buf;

		if (tle == NULL)
			elog(ERROR, "no tlist entry for key %d", node->keys[i].attno);
		initStringInfo(&buf);
		appendStringInfoString(&buf, deparse_expression((Node *) tle->expr, context,
														useprefix, true));
		append_sort_order(&buf, (Node *) tle->expr, &node->keys[i]);
		result = lappend(result, buf.data);
	}
	ExplainPropertyList("Sort Key", result, es);
}

static void
explain_method(const SortReport *report, ExplainState *es)
{
	char		method[64];
	const char *prefix = report->bounded ? "top-N " : "";
	bool		disk = report->runs > 0;
	int64		kb = disk ? (int64) (report->disk_bytes / 1024) :
		(int64) ((report->memory_peak + 1023) / 1024);

	if (report->sorted)
	{
		char		name[64];

		gpusort_route_display_name(report->decision.algorithm->name, name, sizeof(name));
		snprintf(method, sizeof(method), "%s%s", prefix, name);
	}
	else
		snprintf(method, sizeof(method), "%snone", prefix);

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Sort Method: %s  %s: " INT64_FORMAT "kB\n",
						 method, disk ? "Disk" : "Memory", kb);
	}
	else
	{
		ExplainPropertyText("Sort Method", method, es);
		ExplainPropertyInteger("Sort Space Used", "kB", kb, es);
		ExplainPropertyText("Sort Space Type", disk ? "Disk" : "Memory", es);
	}
}

static void
explain_route(const SortReport *report, bool keys_only, ExplainState *es)
{
	StringInfoData buf;
	char		reason[ROUTE_REASON_SIZE];

	initStringInfo(&buf);
	if (report->sorted)
		appendStringInfoString(&buf, gpusort_route_reason(&report->facts, &report->decision,
														  reason));
	else
		appendStringInfoString(&buf, "no rows");
	if (keys_only)
		appendStringInfoString(&buf, ", keys only");
	if (report->runs > 0)
		appendStringInfo(&buf, ", %d %s merged", report->runs,
						 report->runs == 1 ? "run" : "runs");
	if (report->ties > 0)
		appendStringInfo(&buf, ", " UINT64_FORMAT " ties compared", report->ties);
	ExplainPropertyText("Sort Route", buf.data, es);
}

static void
explain_phases(GpuSortState *node, ExplainState *es)
{
	const SortReport *report = sorter_report(node->sorter);
	PlanState  *ps = &node->css.ss.ps;
	double		nloops = ps->instrument->nloops;
	double		ingest = INSTR_TIME_GET_MILLISEC(report->ingest_time);
	double		sort = INSTR_TIME_GET_MILLISEC(report->sort_time);
	double		emit = compat_node_total_ms(ps) / Max(nloops, 1) - ingest - sort;

	/* the phases are the last loop's; only a single loop tells emission */
	if (nloops != 1 || emit < 0)
		emit = 0;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Sort Phases: ingest=%.3f sort=%.3f emit=%.3f ms\n",
						 ingest, sort, emit);
	}
	else
	{
		ExplainPropertyFloat("Sort Ingest Time", "ms", ingest, 3, es);
		ExplainPropertyFloat("Sort Time", "ms", sort, 3, es);
		ExplainPropertyFloat("Sort Emit Time", "ms", emit, 3, es);
	}
}

/* What the GPU had to do with it. */
static void
explain_device(const SortReport *report, ExplainState *es)
{
	int64		up = (int64) (report->bytes_up / 1024);
	int64		down = (int64) (report->bytes_down / 1024);
	double		sort = report->device_sort_us / 1000;

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Sort Device: %s sort=%.3f ms up=" INT64_FORMAT "kB down=" INT64_FORMAT "kB",
						 report->device_rows > 0 ? "rows" : "keys", sort, up, down);
		if (report->early_rows > 0)
			appendStringInfo(es->str, " early=" UINT64_FORMAT, report->early_rows);
		appendStringInfoChar(es->str, '\n');
	}
	else
	{
		ExplainPropertyText("Sort Device Mode", report->device_rows > 0 ? "rows" : "keys", es);
		ExplainPropertyFloat("Sort Device Time", "ms", sort, 3, es);
		ExplainPropertyInteger("Sort Device Up", "kB", up, es);
		ExplainPropertyInteger("Sort Device Down", "kB", down, es);
		ExplainPropertyInteger("Sort Device Early Rows", NULL, (int64) report->early_rows, es);
	}
}

void
gpusort_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	GpuSortState *node = (GpuSortState *) css;

	explain_keys(node, ancestors, es);
	if (!es->analyze || !node->sort_done)
		return;
	explain_method(sorter_report(node->sorter), es);
	explain_route(sorter_report(node->sorter), node->keys_only, es);
	if (es->verbose)
	{
		ExplainPropertyUInteger("Sort Rows by Page", NULL, sorter_report(node->sorter)->page_rows, es);
		ExplainPropertyUInteger("Sort Peak Memory", "kB",
								(sorter_report(node->sorter)->memory_peak + 1023) / 1024, es);
	}
	if (es->timing && css->ss.ps.instrument != NULL)
	{
		explain_phases(node, es);
		if (sorter_report(node->sorter)->bytes_up > 0)
			explain_device(sorter_report(node->sorter), es);
	}
}
