/*
 * explain_sort.c
 *	  EXPLAIN output that the nodes of sorts share.
 *
 * "Sort Key", "Sort Method" and their structured properties are those of Sort,
 * so that tools that read plans understand them.  "Sort Route" tells why the
 * algorithm was chosen.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/base/explain_sort.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/typcache.h"

/* Appends COLLATE, DESC, USING and NULLS FIRST in the syntax of ORDER BY. */
static void
append_sort_order(StringInfo buf, Node *expr, const KeyColumn *key)
{
	Oid			type = exprType(expr);
	TypeCacheEntry *typentry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	bool		reverse = false;

	if (OidIsValid(key->collation) && key->collation != get_typcollation(type))
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

/* Shows the first nkeys keys as this property; with their direction if "order" is set. */
static void
explain_key_list(const char *property, const CustomScanState *css, const KeyColumn *keys, int nkeys,
				 bool order, List *ancestors, ExplainState *es)
{
	Plan	   *plan = css->ss.ps.plan;

	/* the sort's input, before the node's projection */
	List	   *tlist = ((CustomScan *) plan)->custom_scan_tlist;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, plan, ancestors);
	bool		useprefix = (compat_explain_tables(es) > 1 || es->verbose);
	List	   *result = NIL;

	for (int i = 0; i < nkeys; i++)
	{
		TargetEntry *tle = get_tle_by_resno(tlist, keys[i].attno);
		StringInfoData buf;

		if (tle == NULL)
			elog(ERROR, "no tlist entry for key %d", keys[i].attno);
		initStringInfo(&buf);
		appendStringInfoString(&buf, deparse_expression((Node *) tle->expr, context,
														useprefix, true));
		if (order)
			append_sort_order(&buf, (Node *) tle->expr, &keys[i]);
		result = lappend(result, buf.data);
	}
	ExplainPropertyList(property, result, es);
}

void
explain_keys(const CustomScanState *css, const SortPlan *sort, int npresorted, List *ancestors, ExplainState *es)
{
	explain_key_list("Sort Key", css, sort->keys, sort->nkeys, true, ancestors, es);
	if (npresorted > 0)
		explain_key_list("Presorted Key", css, sort->keys, npresorted, false, ancestors, es);
	if (sort->distinct > 0)
		explain_key_list("Distinct Key", css, sort->keys, sort->distinct, false, ancestors, es);
}

void
participant_report_fill(ParticipantReport *to, const SortReport *report, bool keys_only)
{
	const char *prefix = report->bounded ? "top-N " : "";
	StringInfoData buf;
	char		reason[ROUTE_REASON_SIZE];
	const char *name = report->device.one_job ? "gpu" : "none";

	initStringInfo(&buf);
	if (report->sorted)
	{
		name = report->decision.algorithm->display;
		appendStringInfoString(&buf, gpusort_route_reason(&report->facts, &report->decision,
														  reason));
	}
	else
		appendStringInfoString(&buf, report->device.one_job ? "sent to one GPU with all participants' rows" :
							   "no rows");
	if (keys_only)
		appendStringInfoString(&buf, ", keys only");
	if (report->parts > 0)
		appendStringInfo(&buf, ", %d parts", report->parts);
	if (report->runs > 0)
		appendStringInfo(&buf, report->key_runs ? ", %d %s of keys merged" : ", %d %s merged", report->runs,
						 report->runs == 1 ? "run" : "runs");
	if (report->cutoff_pages > 0)
		appendStringInfo(&buf, ", cutoff from the last %d %s", report->cutoff_pages,
						 report->cutoff_pages == 1 ? "page" : "pages");
	if (report->ties > 0)
		appendStringInfo(&buf, ", " UINT64_FORMAT " ties compared", report->ties);
	strlcpy(to->route, buf.data, sizeof(to->route));
	pfree(buf.data);
	snprintf(to->method, sizeof(to->method), "%s%s", prefix, name);

	to->rows = report->rows;
	to->distinct = report->distinct;
	to->dropped_in_batches = report->dropped_in_batches;
	to->dropped_in_merges = report->dropped_in_merges;
	to->dropped_on_device = report->dropped_on_device;
	to->page_rows = report->page_rows;
	to->peak_kb = (int64) ((report->memory_peak + 1023) / 1024);
	to->spilled = report->runs > 0;
	to->space_kb = to->spilled ? (int64) (report->disk_bytes / 1024) : to->peak_kb;
	to->ingest_ms = INSTR_TIME_GET_MILLISEC(report->ingest_time);
	to->sort_ms = INSTR_TIME_GET_MILLISEC(report->sort_time);
	to->valid = true;
}

void
explain_dropped(const char *prefix, uint64 in_batches, uint64 in_merges, uint64 on_device,
				const DistinctFilter *filter, ExplainState *es)
{
	uint64		at_emit = filter != NULL ? filter->dropped : 0;

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%sDuplicates Dropped: batches=" UINT64_FORMAT " merges=" UINT64_FORMAT,
						 prefix, in_batches, in_merges);
		if (on_device > 0)
			appendStringInfo(es->str, " gpu=" UINT64_FORMAT, on_device);
		if (at_emit > 0)
			appendStringInfo(es->str, " emit=" UINT64_FORMAT, at_emit);
		appendStringInfoChar(es->str, '\n');
	}
	else
	{
		ExplainPropertyUInteger("Duplicates Dropped in Batches", NULL, in_batches, es);
		ExplainPropertyUInteger("Duplicates Dropped in Merges", NULL, in_merges, es);
		ExplainPropertyUInteger("Duplicates Dropped on Device", NULL, on_device, es);
		ExplainPropertyUInteger("Duplicates Dropped at Emit", NULL, at_emit, es);
	}
}

/* Shows a sort's report; in text format each line begins with prefix. */
static void
explain_report(const ParticipantReport *report, const char *prefix, const DistinctFilter *filter, ExplainState *es)
{
	const char *type = report->spilled ? "Disk" : "Memory";

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%sSort Method: %s  %s: " INT64_FORMAT "kB\n",
						 prefix, report->method, type, report->space_kb);
	}
	else
	{
		ExplainPropertyText("Sort Method", report->method, es);
		ExplainPropertyInteger("Sort Space Used", "kB", report->space_kb, es);
		ExplainPropertyText("Sort Space Type", type, es);
	}
	ExplainPropertyText(psprintf("%sSort Route", prefix), report->route, es);
	if (report->distinct || filter != NULL)
		explain_dropped(prefix, report->dropped_in_batches, report->dropped_in_merges, report->dropped_on_device,
						filter, es);
	if (es->verbose)
	{
		ExplainPropertyUInteger(psprintf("%sSort Rows by Page", prefix), NULL,
								report->page_rows, es);
		ExplainPropertyUInteger(psprintf("%sSort Peak Memory", prefix), "kB",
								report->peak_kb, es);
	}
}

/* Shows a participant of a parallel sort, if it took part; in text format each line begins with prefix. */
static void
explain_participant(const ParticipantReport *report, const char *prefix, ExplainState *es)
{
	if (!report->valid)
		return;
	explain_report(report, prefix, NULL, es);
	if (!es->timing)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%sSort Phases: rows=" UINT64_FORMAT " ingest=%.3f sort=%.3f ms\n",
						 prefix, report->rows, report->ingest_ms, report->sort_ms);
	}
	else
	{
		ExplainPropertyUInteger("Sort Rows", NULL, report->rows, es);
		ExplainPropertyFloat("Sort Ingest Time", "ms", report->ingest_ms, 3, es);
		ExplainPropertyFloat("Sort Time", "ms", report->sort_ms, 3, es);
	}
}

/* Shows the phases of a sort.  Emission takes the remaining time of the node. */
static void
explain_phases(const PlanState *ps, const ParticipantReport *report, ExplainState *es)
{
	double		nloops = ps->instrument->nloops;
	double		ingest = report->ingest_ms;
	double		sort = report->sort_ms;
	double		emit = compat_node_total_ms(ps) / Max(nloops, 1) - ingest - sort;

	/* ingest and sort are times of the last loop, the node's time is the mean of all loops */
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

/* Shows what each device has sorted, if keys or rows were sorted in parts. */
static void
explain_parts(const SortReport *report, ExplainState *es)
{
	bool		text = (es->format == EXPLAIN_FORMAT_TEXT);

	for (int d = 0; d < REPORT_DEVICES; d++)
	{
		const ReportDevice *device = &report->device.used[d];

		if (device->parts == 0)
			continue;
		if (text)
		{
			appendStringInfoSpaces(es->str, es->indent * 2);
			appendStringInfo(es->str, "Sort Device %d: parts=%d rows=" UINT64_FORMAT " sort=%.3f ms\n",
							 device->index, device->parts, device->rows, device->sort_us / 1000);
			continue;
		}
		ExplainOpenGroup("Sort Device", NULL, true, es);
		ExplainPropertyInteger("Device Number", NULL, device->index, es);
		ExplainPropertyInteger("Sort Parts", NULL, device->parts, es);
		ExplainPropertyUInteger("Sort Rows", NULL, device->rows, es);
		ExplainPropertyFloat("Sort Device Time", "ms", device->sort_us / 1000, 3, es);
		ExplainCloseGroup("Sort Device", NULL, true, es);
	}
}

/* Shows a device's time and copied bytes. */
static void
explain_device(const SortReport *report, ExplainState *es)
{
	int64		up = (int64) (report->device.bytes_up / 1024);
	int64		down = (int64) (report->device.bytes_down / 1024);
	double		sort = report->device.sort_us / 1000;

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Sort Device: %s sort=%.3f ms up=" INT64_FORMAT "kB down=" INT64_FORMAT "kB\n",
						 report->device.rows > 0 ? "rows" : "keys", sort, up, down);
	}
	else
	{
		ExplainPropertyText("Sort Device Mode", report->device.rows > 0 ? "rows" : "keys", es);
		ExplainPropertyFloat("Sort Device Time", "ms", sort, 3, es);
		ExplainPropertyInteger("Sort Device Up", "kB", up, es);
		ExplainPropertyInteger("Sort Device Down", "kB", down, es);
	}
	if (report->parts == 0)
		return;
	ExplainOpenGroup("Sort Devices", "Sort Devices", false, es);
	explain_parts(report, es);
	ExplainCloseGroup("Sort Devices", "Sort Devices", false, es);
}

void
explain_sort(const CustomScanState *css, const SortReport *report, bool keys_only, const DistinctFilter *filter,
			 ExplainState *es)
{
	ParticipantReport shown;

	participant_report_fill(&shown, report, keys_only);
	explain_report(&shown, "", filter, es);
	if (!es->timing || css->ss.ps.instrument == NULL)
		return;
	explain_phases(&css->ss.ps, &shown, es);
	if (report->device.bytes_up > 0)
		explain_device(report, es);
}

void
explain_participants(const ParticipantReport *leader, const ParticipantReport *workers, int n, ExplainState *es)
{
	bool		text = (es->format == EXPLAIN_FORMAT_TEXT);

	explain_participant(leader, "", es);
	if (workers == NULL)
		return;
	ExplainOpenGroup("Sort Workers", "Sort Workers", false, es);
	for (int w = 0; w < n; w++)
	{
		ExplainOpenGroup("Sort Worker", NULL, true, es);
		if (!text)
			ExplainPropertyInteger("Worker Number", NULL, w, es);
		explain_participant(&workers[w], text ? psprintf("Worker %d:  ", w) : "", es);
		ExplainCloseGroup("Sort Worker", NULL, true, es);
	}
	ExplainCloseGroup("Sort Workers", "Sort Workers", false, es);
}
