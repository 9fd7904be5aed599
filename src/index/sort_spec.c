/*
 * sort_spec.c
 *	  What an index build sorts: the index's key columns as sort keys.  What the sort did.
 *
 * Memory policy: the keys are palloc'd in the current memory context.
 *
 * On error: if an index cannot be sorted, the reason is returned and no error is raised.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "compat.h"
#include "index/index_internal.h"
#include "utils/lsyscache.h"

bool
index_sort_spec(Relation index, SortSpec *spec, const char **reason)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	KeyColumn  *keys = palloc0(nkeys * sizeof(KeyColumn));

	memset(spec, 0, sizeof(*spec));

	/*
	 * a copy without reference count: slots are freed with their memory
	 * context
	 */
	spec->desc = CreateTupleDescCopy(RelationGetDescr(index));
	spec->keys = keys;
	spec->nkeys = nkeys;
	spec->node = PROGRESS_NO_NODE;
	spec->timing = true;
	spec->ties_by_tid = true;
	spec->gpu_verified = true;
	spec->within_limit = true;
	for (int k = 0; k < nkeys; k++)
	{
		int16		option = index->rd_indoption[k];
		bool		descending = (option & INDOPTION_DESC) != 0;
		Oid			family = index->rd_opfamily[k];
		Oid			type = index->rd_opcintype[k];
		Oid			family_found;
		Oid			type_found;
		bool		reverse;

		keys[k].attno = k + 1;
		keys[k].collation = index->rd_indcollation[k];
		keys[k].nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;
		keys[k].sortop = get_opfamily_member(family, type, type,
											 descending ? BTGreaterStrategyNumber : BTLessStrategyNumber);

		/*
		 * an operator may belong to several families, which may compare in
		 * different ways
		 */
		if (!OidIsValid(keys[k].sortop) ||
			!compat_ordering_op(keys[k].sortop, &family_found, &type_found, &reverse) ||
			family_found != family || type_found != type || reverse != descending)
		{
			*reason = "the ordering operator of an operator class is not its own";
			return false;
		}

		/*
		 * A column of type name is stored as a cstring.  Comparators and
		 * normalized keys of names read up to the zero byte, as stock's do.
		 */
		if (!key_type_lookup(&keys[k], type, reason))
			return false;
	}
	return true;
}

/*
 * Are values equal only if their bytes are?  Asks what gpusort knows of a type, not its
 * operator class: that of bpchar, and any that a user makes, may say so wrongly.
 */
static bool
bytes_decide(const KeyColumn *key)
{
	KeyKind		kind = key->kind;

	switch (kind)
	{
		case KEY_UINT8:
		case KEY_INT2:
		case KEY_INT4:
		case KEY_UINT4:
		case KEY_INT8:
		case KEY_UINT64:
		case KEY_UUID:
		case KEY_MACADDR:
		case KEY_MACADDR8:
		case KEY_TID:
		case KEY_ENUM:
		case KEY_BYTEA:
		case KEY_TEXT:
			return true;
		default:
			/* a deterministic collation orders strings that it calls equal by their bytes */
			return key_sorts_strings(key, &kind) && kind == KEY_TEXT &&
				get_collation_isdeterministic(key->collation);
	}
}

bool
index_bytes_decide(const SortSpec *spec)
{
	bool		decide = spec->desc->natts == spec->nkeys;

	for (int k = 0; k < spec->nkeys; k++)
		decide &= bytes_decide(&spec->keys[k]);
	return decide;
}

void
index_count_scan(IndexBuildCounters *counters, const Sorter *sorter, instr_time *clock)
{
	counters->sort_ms = INSTR_TIME_GET_MILLISEC(sorter->report->sort_time);
	counters->scan_ms = index_elapsed_ms(clock) - counters->sort_ms;
}

void
index_count_sort(IndexBuildCounters *counters, const Sorter *sorter, instr_time *clock)
{
	const SortReport *report = sorter->report;

	counters->sort_ms += index_elapsed_ms(clock);
	counters->runs = report->runs;
	counters->spilled_bytes = report->disk_bytes;
	counters->memory = report->memory_peak;
	counters->sorted = report->sorted;
	if (report->sorted)
		counters->algorithm = report->decision.algorithm->id;
	counters->device_batches = report->device.batches;
	counters->device_failed = report->device.failed;
}
