/*
 * shards.c
 *	  ORDER BY over foreign partitions: sorted by their servers, or here.
 *
 * PostgreSQL plans a Merge Append above foreign scans that send the ORDER BY to their
 * servers.  A Merge Append asks its children for their first row one after the other,
 * and postgres_fdw begins a remote statement only then.  So each server begins to sort
 * when the server before it has sorted, and each batch of rows is waited for.  Below an
 * Append, asynchronous foreign scans run on all servers at the same time, and a sort
 * above the Append needs the rows in no order.
 *
 * After PostgreSQL has made the paths of an ORDER BY, this file therefore compares two
 * predicted times:
 *
 * - that of the Merge Append: the sum of all servers' scans and sorts, before the first row
 *	 comes; then each row's transport,
 * - that of a Sort above an Append of the unsorted scans: the time of the slowest server or
 *	 of taking all rows from the connections, and of our sort.
 *
 * If the Sort is faster, it is added at the Merge Append's cost in the ratio of the times, and
 * add_path() chooses.  A LIMIT usually keeps the Merge Append, which then takes few rows from
 * each server.
 *
 * Not known are the servers' indexes, unless use_remote_estimate is set: an index may
 * return the first rows at once.  Then a LIMIT or a cursor keeps the Merge Append.  It is
 * assumed that the servers have gpusort, and that messages take no time: both make the
 * Merge Append cheaper.  Servers with different hosts are different machines.
 */
#include "postgres.h"

#include "compat.h"
#include "commands/defrem.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "parallel/parallel.h"
#include "planner/planner_internal.h"
#include "settings.h"

/*
 * A column of a row on its way: processor time of the server, which makes a text; of this
 * process, which makes a value of the text; elapsed time of both, which overlap in part.
 */
#define SEND_COLUMN_NS	250.0
#define TAKE_COLUMN_NS	140.0
#define PASS_COLUMN_NS	225.0

/* Rows of a batch, if fetch_size is not set. */
#define FETCH_SIZE		100

/* The sort here must take at most this share of the Merge Append's time. */
#define SORT_HERE_MOST	0.9

/* ------------------------------------------------------------------------
 * Foreign scans
 * ------------------------------------------------------------------------
 */

/* What is known of a foreign scan: options of its table and server, and the cost of its steps. */
typedef struct RemoteScan
{
	double		startup_cost;
	double		tuple_cost;
	double		fetch_size;
	bool		estimates;		/* costs come from the server */
	bool		elsewhere;		/* the server is on another machine */

	Cost		scan;			/* until the server has all rows, in no order */
	Cost		sort;			/* until it has sorted them, without the scan */
	Cost		send;			/* processor time of a row in the server */
	Cost		take;			/* processor time of a row here */
	Cost		pass;			/* elapsed time of a row, from the server's sort to here */
} RemoteScan;

/* Does a server's option host or hostaddr name another machine? */
static bool
is_elsewhere(const char *host)
{
	return host[0] != '/' && host[0] != '@' && host[0] != '\0' && strcmp(host, "localhost") != 0 &&
		strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0;
}

static void
read_options(List *list, RemoteScan *options)
{
	ListCell   *lc;

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "fdw_startup_cost") == 0)
			(void) parse_real(defGetString(def), &options->startup_cost, 0, NULL);
		else if (strcmp(def->defname, "fdw_tuple_cost") == 0)
			(void) parse_real(defGetString(def), &options->tuple_cost, 0, NULL);
		else if (strcmp(def->defname, "use_remote_estimate") == 0)
			options->estimates = defGetBoolean(def);
		else if (strcmp(def->defname, "fetch_size") == 0)
			options->fetch_size = Max(1, strtod(defGetString(def), NULL));
		else if (strcmp(def->defname, "host") == 0 || strcmp(def->defname, "hostaddr") == 0)
			options->elsewhere = is_elsewhere(defGetString(def));
	}
}

/* A foreign path without its order. */
static RemoteScan
remote_scan(PlannerInfo *root, const Path *path)
{
	const RelOptInfo *rel = path->parent;
	double		columns = Max(1, list_length(path->pathtarget->exprs)) / 1000.0;
	RemoteScan	remote = {.startup_cost = COMPAT_FDW_STARTUP_COST,.tuple_cost = COMPAT_FDW_TUPLE_COST,
	.fetch_size = FETCH_SIZE};

	read_options(GetForeignServer(rel->serverid)->options, &remote);
	if (IS_SIMPLE_REL(rel))
		read_options(GetForeignTable(planner_rt_fetch(rel->relid, root)->relid)->options, &remote);
	remote.scan = Max(0, path->total_cost - remote.startup_cost - path->rows * (remote.tuple_cost + cpu_tuple_cost));
	remote.send = cost_of_us(columns * SEND_COLUMN_NS);
	remote.take = cost_of_us(columns * TAKE_COLUMN_NS);
	remote.pass = cost_of_us(columns * PASS_COLUMN_NS);
	return remote;
}

/* A foreign path with an order.  unordered: its relation's path without one. */
static RemoteScan
ordered_scan(PlannerInfo *root, const Path *ordered, const Path *unordered)
{
	RemoteScan	remote = remote_scan(root, unordered);
	SortCostFacts facts;
	SortCost	sort;

	if (sort_path_facts(root, unordered, ordered->pathkeys, &facts))
	{
		sort_cost_serial(&facts, &sort);
		remote.sort = cost_of_us(sort.sort_us);
	}
	/* an index may have the order, or the server may be faster */
	if (remote.estimates)
	{
		Cost		start = Max(0, ordered->startup_cost - remote.startup_cost);

		remote.scan = Min(remote.scan, start);
		remote.sort = Min(remote.sort, start - remote.scan);
	}
	return remote;
}

/* The foreign path below a projection; NULL for other paths. */
static Path *
foreign_path(const Path *path)
{
	path = path_below_projection(path);
	return IsA(path, ForeignPath) ? unconstify(Path *, path) : NULL;
}

static bool
is_async(const Path *path)
{
	const FdwRoutine *routine = path->parent->fdwroutine;

	return routine != NULL && routine->IsForeignPathAsyncCapable != NULL &&
		routine->IsForeignPathAsyncCapable((ForeignPath *) path);
}

/* ------------------------------------------------------------------------
 * Both plans
 * ------------------------------------------------------------------------
 */

/* A Merge Append's cost: its children run one after the other until each has its first rows. */
static void
merge_append_cost(PlannerInfo *root, const MergeAppendPath *merge, Cost *startup, Cost *total)
{
	Cost		children = 0;
	Cost		run = 0;
	ListCell   *lc;

	*startup = 0;
	foreach(lc, merge->subpaths)
	{
		Path	   *path = lfirst(lc);
		Path	   *unordered = foreign_path(path->parent->cheapest_total_path);
		const Path *below = path_below_projection(path);
		const Path *input = IsA(below, SortPath) ? ((const SortPath *) below)->subpath : NULL;
		SortCostFacts facts;
		SortCost	sort;

		children += path->total_cost;
		if (unordered != NULL && foreign_path(input != NULL ? input : path) != NULL)
		{
			RemoteScan	remote = ordered_scan(root, path, unordered);
			double		first = input != NULL ? unordered->rows : Min(remote.fetch_size, unordered->rows);

			*startup += remote.scan + remote.sort + first * remote.pass;
			run += (unordered->rows - first) * remote.pass;
		}
		else if (input != NULL && sort_path_facts(root, input, below->pathkeys, &facts))
		{
			sort_cost_serial(&facts, &sort);
			*startup += input->total_cost + cost_of_us(sort.sort_us);
			run += cost_of_us(sort.rows_us);
		}
		else
		{
			*startup += path->startup_cost;
			run += path->total_cost - path->startup_cost;
		}
	}
	/* the merge itself costs what PostgreSQL says */
	*total = *startup + run + Max(0, merge->path.total_cost - children);
}

/* A connection, by which the foreign scans of one server and user take turns. */
typedef struct Connection
{
	Oid			server;
	Oid			user;
	Cost		busy;
} Connection;

/*
 * The cost of reading all rows of these paths below an Append: asynchronous scans run at
 * the same time, one on each connection, while this process takes rows and runs the other
 * paths.  Servers on this machine share its CPUs.
 */
static Cost
async_append_cost(PlannerInfo *root, List *paths)
{
	Connection *connections = palloc(list_length(paths) * sizeof(Connection));
	int			n = 0;
	int			processes = 1;	/* on this machine */
	Cost		here = 0;		/* of this process */
	Cost		machine = 0;	/* of the other processes on this machine */
	Cost		slowest = 0;
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);
		Path	   *foreign = foreign_path(path);
		const RelOptInfo *rel = path->parent;
		RemoteScan	remote;
		int			i;

		if (foreign == NULL)
		{
			here += path->total_cost;
			continue;
		}
		remote = remote_scan(root, foreign);
		if (!is_async(foreign))
		{
			here += remote.scan + foreign->rows * remote.pass;
			continue;
		}
		here += foreign->rows * remote.take;
		for (i = 0; i < n; i++)
		{
			if (connections[i].server == rel->serverid && connections[i].user == rel->userid)
				break;
		}
		if (i == n)
		{
			connections[n++] = (Connection) {.server = rel->serverid,.user = rel->userid};
			processes += remote.elsewhere ? 0 : 1;
		}
		if (!remote.elsewhere)
			machine += remote.scan + foreign->rows * remote.send;
		connections[i].busy += remote.scan + foreign->rows * remote.pass;
		slowest = Max(slowest, connections[i].busy);
	}
	pfree(connections);
	return Max(Max(here, slowest), (here + machine) / sort_abreast(processes));
}

/* What is known of the children of a Merge Append. */
typedef struct Children
{
	List	   *unordered;		/* their cheapest paths */
	int			async;			/* paths of these that can run asynchronously */
	double		read;			/* rows that their tables have */
	bool		estimates;		/* all foreign ones have costs of their servers */
} Children;

/* False if the children cannot be read by an Append. */
static bool
find_children(PlannerInfo *root, const MergeAppendPath *merge, Children *children)
{
	ListCell   *lc;

	memset(children, 0, sizeof(*children));
	children->estimates = true;
	foreach(lc, merge->subpaths)
	{
		const RelOptInfo *rel = ((const Path *) lfirst(lc))->parent;
		Path	   *path = rel->cheapest_total_path;

		if (path == NULL || path->param_info != NULL || rel == merge->path.parent)
			return false;
		children->unordered = lappend(children->unordered, path);
		children->read += Max(path->rows, IS_SIMPLE_REL(rel) ? rel->tuples : 0);
		if (foreign_path(path) == NULL)
			continue;
		children->estimates = children->estimates && remote_scan(root, foreign_path(path)).estimates;
		if (is_async(foreign_path(path)))
			children->async++;
	}
	return list_length(children->unordered) > 1;
}

/*
 * A Sort above an Append of the children, with its predicted times as costs; its input's cost
 * is *least.
 */
static Path *
sort_here(PlannerInfo *root, RelOptInfo *rel, const MergeAppendPath *merge, const Children *children, Cost *least)
{
	Path	   *append = compat_create_append_path(root, merge->path.parent, children->unordered);
	PathTarget *target = root->upper_targets[UPPERREL_ORDERED];
	SortCostFacts facts;
	SortCost	cost;
	Path	   *path;

	/* the executor runs scans of a parallel-safe Append one after the other */
	if (append->parallel_safe || !sort_path_facts(root, append, merge->path.pathkeys, &facts))
		return NULL;
	facts.bound = Max(root->limit_tuples, 0);
	path = (Path *) create_sort_path(root, rel, append, merge->path.pathkeys, facts.bound > 0 ? facts.bound : -1);
	if (target != NULL && !equal(path->pathtarget->exprs, target->exprs))
		path = apply_projection_to_path(root, rel, path, target);
	sort_cost_serial(&facts, &cost);
	path->startup_cost = (async_append_cost(root, children->unordered) + cost_of_us(cost.sort_us)) / SORT_HERE_MOST;
	path->total_cost = path->startup_cost + cost_of_us(cost.rows_us);
	*least = append->total_cost;
	return path;
}

/* ------------------------------------------------------------------------
 * The choice
 * ------------------------------------------------------------------------
 */

/* The cheapest Merge Append with at least one foreign scan among its children; or NULL. */
static MergeAppendPath *
find_merge_append(const RelOptInfo *rel)
{
	MergeAppendPath *found = NULL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		const Path *path = path_below_projection(lfirst(lc));
		ListCell   *sub;

		if (!IsA(path, MergeAppendPath) || (found != NULL && found->path.total_cost <= path->total_cost))
			continue;
		foreach(sub, ((const MergeAppendPath *) path)->subpaths)
		{
			if (foreign_path(lfirst(sub)) != NULL)
			{
				found = (MergeAppendPath *) path;
				break;
			}
		}
	}
	return found;
}

static void
log_reason(const char *reason)
{
	ereport(DEBUG1,
			(errmsg_internal("gpusort: Merge Append of foreign scans stays: %s", reason)));
}

/* The cost of the rows that the query fetches. */
static Cost
cost_wanted(PlannerInfo *root, Cost startup, Cost total, double rows)
{
	double		wanted = root->tuple_fraction;

	if (wanted >= 1)
		wanted = Min(1, wanted / Max(1, rows));
	return startup + (total - startup) * (wanted > 0 ? wanted : 1);
}

void
offer_sort_of_shards(PlannerInfo *root, RelOptInfo *rel)
{
	MergeAppendPath *merge;
	Children	children;
	Path	   *ours;
	Cost		startup;
	Cost		total;
	Cost		least;
	double		ratio;

	if (!enable_async_append || root->sort_pathkeys == NIL)
		return;
	merge = find_merge_append(rel);
	if (merge == NULL || !find_children(root, merge, &children) ||
		children.read < gpusort_plan_grouping_min_rows)
		return;
	if (children.async == 0)
	{
		log_reason("none is async_capable");
		return;
	}
	if (root->tuple_fraction > 0 && !children.estimates)
	{
		log_reason("a LIMIT or a cursor, and not all have use_remote_estimate");
		return;
	}
	if (!limit_is_known(root->parse))
	{
		log_reason("the LIMIT is not a constant");
		return;
	}
	ours = sort_here(root, rel, merge, &children, &least);
	if (ours == NULL)
		return;
	merge_append_cost(root, merge, &startup, &total);
	ratio = cost_wanted(root, ours->startup_cost, ours->total_cost, ours->rows) /
		cost_wanted(root, startup, total, merge->path.rows);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: foreign scans are faster %s: %.2f of the Merge Append's time",
							 ratio < 1 ? "all at once" : "sorted by their servers", ratio)));
	if (ratio >= 1)
		return;
	/* the time above is in the ratio; the cost is not below that of the Append */
	ours->total_cost = Max(least, merge->path.total_cost * ratio);
	ours->startup_cost = ours->total_cost;
	add_path(rel, ours);
}
