/*
 * grouping_sets.c
 *	  GROUPING SETS, ROLLUP and CUBE: the sets that are leading columns of one order, above our sort.
 *
 * Sets that are not leading columns of it are hashed, or sorted by the Agg node, as in PostgreSQL's path.
 */
#include "postgres.h"

#include "optimizer/tlist.h"
#include "planner/grouping.h"

/* The columns of the sort order that all grouping sets with sorted input share, as sort group references. */
static List *
sorted_columns(PlannerInfo *root)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, root->group_pathkeys)
	{
		int			ref = (int) lfirst_node(PathKey, lc)->pk_eclass->ec_sortref;

		/* the order of this column and those behind it cannot be told */
		if (ref == 0 || list_member_int(columns, ref))
			break;
		columns = lappend_int(columns, ref);
	}
	return columns;
}

/* Does a grouping set consist of leading columns? */
static bool
set_leads(const GroupingSetData *set, List *columns)
{
	int			n = list_length(set->set);

	return n <= list_length(columns) && list_difference_int(set->set, list_truncate(list_copy(columns), n)) == NIL;
}

/* Descending by the number of columns */
static int
compare_sets(const ListCell *a, const ListCell *b)
{
	return list_length(lfirst_node(GroupingSetData, b)->set) - list_length(lfirst_node(GroupingSetData, a)->set);
}

/* The rollup of these sets of leading columns. */
static RollupData *
make_rollup(PlannerInfo *root, List *sets, List *columns)
{
	RollupData *rollup = makeNode(RollupData);
	int			most;
	ListCell   *lc;

	list_sort(sets, compare_sets);
	most = list_length(linitial_node(GroupingSetData, sets)->set);
	foreach(lc, columns)
	{
		if (foreach_current_index(lc) == most)
			break;
		rollup->groupClause = lappend(rollup->groupClause,
									  get_sortgroupref_clause(lfirst_int(lc), root->parse->groupClause));
	}
	foreach(lc, sets)
	{
		const GroupingSetData *set = lfirst_node(GroupingSetData, lc);
		List	   *indexes = NIL;

		for (int i = 0; i < list_length(set->set); i++)
			indexes = lappend_int(indexes, i);
		rollup->gsets = lappend(rollup->gsets, indexes);
		rollup->numGroups += set->numGroups;
	}
	rollup->gsets_data = sets;
	return rollup;
}

/*
 * Rollups with the sets of leading columns in one rollup, for which the input is sorted;
 * sets that are not leading columns remain as they are.  The hashed ones come first.  NIL
 * if there is no such rollup.
 */
static List *
sorted_rollups(PlannerInfo *root, List *rollups, bool *hashed)
{
	List	   *columns = sorted_columns(root);
	List	   *leading = NIL;
	List	   *hash_tables = NIL;
	List	   *other = NIL;
	ListCell   *lc;

	foreach(lc, rollups)
	{
		RollupData *rollup = lfirst_node(RollupData, lc);
		int			leads = 0;
		ListCell   *set;

		foreach(set, rollup->gsets_data)
			leads += set_leads(lfirst(set), columns) ? 1 : 0;
		if (leads == list_length(rollup->gsets_data))
			leading = list_concat(leading, rollup->gsets_data);
		else if (leads > 0 && !rollup->is_hashed)
			return NIL;
		else if (rollup->is_hashed)
			hash_tables = lappend(hash_tables, rollup);
		else
			other = lappend(other, rollup);
	}
	*hashed = hash_tables != NIL;
	if (leading == NIL)
		return NIL;
	leading = list_make1(make_rollup(root, leading, columns));
	if (linitial_node(RollupData, leading)->groupClause == NIL)
		return NIL;
	return list_concat(list_concat(hash_tables, leading), other);
}

void
offer_sets(Grouping *grouping, const GroupPathExtraData *extra)
{
	PlannerInfo *root = grouping->root;
	const GroupingSetsPath *like = (const GroupingSetsPath *) grouping->path;
	SortOffer	sort = {.pathkeys = root->group_pathkeys};
	GroupingSetsPath *path;
	List	   *rollups;
	bool		hashed;
	double		group_us;
	Peer		peer;

	if (!IsA(like, GroupingSetsPath) || root->group_pathkeys == NIL || (extra->flags & GROUPING_CAN_USE_SORT) == 0)
		return;
	rollups = sorted_rollups(root, like->rollups, &hashed);
	if (rollups == NIL)
		return;
	group_us = sets_us(grouping, rollups);
	if (!find_faster_sort(grouping, &sort, group_us, &peer))
		return;
	path = makeNode(GroupingSetsPath);
	*path = *like;
	path->subpath = sort_offer_path(root, grouping->rel, &sort, &peer);
	path->aggstrategy = hashed ? AGG_MIXED : AGG_SORTED;
	path->rollups = rollups;
	path->path.pathkeys = list_length(rollups) == 1 ? root->group_pathkeys : NIL;
	path->path.parallel_safe = path->path.parallel_safe && path->subpath->parallel_safe;
	add_above(grouping, &path->path, path->subpath, &peer, group_us);
}
