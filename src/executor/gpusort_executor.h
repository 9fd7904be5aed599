/*
 * gpusort_executor.h
 *	  Interface of the executor's nodes for the planner and for start-up.
 */
#ifndef GPUSORT_EXECUTOR_GPUSORT_EXECUTOR_H
#define GPUSORT_EXECUTOR_GPUSORT_EXECUTOR_H

#include "postgres.h"

#include "key/key.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/*
 * A parallel sort has one plan node more than the plan that it replaces.  The
 * id of a partial sort is the id of the Sort plus this offset; the planner
 * counts its own nodes from 0.  The id names the node's shared memory and its
 * instrumentation.
 */
#define PARTIAL_SORT_NODE_ID	(1 << 30)

/* Plan nodes "Custom Scan (GpuSort)" and "Custom Scan (GpuSort Feed)". */
extern const CustomScanMethods gpusort_scan_methods;
extern const CustomScanMethods partial_sort_scan_methods;

/* Plan node "Custom Scan (GpuSort Incremental)". */
extern const CustomScanMethods incremental_scan_methods;

/* Plan node "Custom Scan (GpuSort Window)". */
extern const CustomScanMethods window_scan_methods;

/* Plan node "Custom Scan (GpuSort Aggregate)". */
extern const CustomScanMethods aggregate_scan_methods;

/* Plan node "Custom Scan (GpuSort Join)". */
extern const CustomScanMethods join_scan_methods;

/* Registers these nodes, when the library is loaded. */
extern void executor_nodes_init(void);

/* ------------------------------------------------------------------------
 * Format of a GpuSort in a finished plan
 * ------------------------------------------------------------------------
 */

/* Is this a GpuSort, serial or parallel? */
extern bool gpusort_plan_is(const Plan *plan);

/* Is this a GpuSort Incremental? */
extern bool incremental_plan_is(const Plan *plan);

/* Is this GpuSort parallel, that is, above a Gather of partial sorts? */
extern bool plan_above_partial_sorts(const CustomScan *cscan);

/* Writes key columns and the Limit above (or NULL) into the plan node. */
extern void gpusort_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit);

/* Returns the key columns as a palloc'd array of *nkeys. */
extern KeyColumn *gpusort_plan_keys(const CustomScan *cscan, int *nkeys);

/*
 * The number of leading key columns whose duplicates are not wanted; 0: all rows are
 * wanted.  The node leaves out rows that are equal to the row before in these columns.
 * groups: the planner's estimate of the number of their values; 0: unknown.  Has no effect
 * on a node that leaves out as many rows already, for a node that it has replaced.
 */
extern void gpusort_plan_set_distinct(CustomScan *cscan, int distinct, double groups);
extern int	gpusort_plan_distinct(const CustomScan *cscan);
extern double gpusort_plan_groups(const CustomScan *cscan);

/* Changes keys that are column "from" of the child to column "to". */
extern void gpusort_plan_move_key(CustomScan *cscan, AttrNumber from, AttrNumber to);

/*
 * Prepares LIMIT and OFFSET of the Limit above, which the node evaluates
 * itself.  *count and *offset are NULL without such a clause.
 */
extern void gpusort_plan_limit(const CustomScan *cscan, PlanState *parent, ExprState **count,
							   ExprState **offset);

/*
 * gpusort_plan_fill() for a GpuSort Incremental, whose child's rows are ordered by the
 * first nprefix key columns; and that number.
 */
extern void incremental_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, int nprefix,
								  Limit *limit);
extern int	incremental_plan_prefix(const CustomScan *cscan);

/* A column of the child by which neighbouring rows are compared. */
typedef struct ComparedColumn
{
	AttrNumber	attno;			/* column of the child, from 1 */
	Oid			equality;		/* equality operator */
	Oid			collation;
} ComparedColumn;

/* ------------------------------------------------------------------------
 * Format of a GpuSort Window in a finished plan
 *
 * Its columns are the child's, in its target list and qual as OUTER_VAR.  INDEX_VAR i is
 * the value of functions[i - 1].  custom_exprs is the run condition.
 * ------------------------------------------------------------------------
 */

/* What a window function returns for a row. */
typedef enum WindowValue
{
	/* counters, of type int8 */
	WINDOW_ROW_NUMBER,			/* rows of the partition up to this row */
	WINDOW_RANK,				/* row number of the first row of the peer group */
	WINDOW_DENSE_RANK,			/* peer groups of the partition up to its own */
	WINDOW_PEERS_END,			/* row number of the last row of the peer group */
	WINDOW_PARTITION_ROWS,		/* rows of the partition */

	/* computed of the counters */
	WINDOW_NTILE,
	WINDOW_PERCENT_RANK,
	WINDOW_CUME_DIST
} WindowValue;

#define WINDOW_COUNTERS		WINDOW_NTILE

typedef struct WindowFunction
{
	WindowValue value;
	int			buckets;		/* of ntile() */
} WindowFunction;

typedef struct WindowFormat
{
	int			npartition;		/* leading columns that define partitions */
	int			ncolumns;		/* columns of partitions and of the order */
	ComparedColumn *columns;
	int			nfunctions;
	WindowFunction *functions;
} WindowFormat;

/* Is this a GpuSort Window? */
extern bool window_plan_is(const Plan *plan);

/* Writes the format into the plan node's custom_private. */
extern void window_plan_fill(CustomScan *cscan, const WindowFormat *format);

/* ------------------------------------------------------------------------
 * Format of a GpuSort Aggregate in a finished plan
 *
 * INDEX_VAR i is column i of the Agg's target list.  The Agg itself, which refers to the
 * child's columns as OUTER_VAR, is kept without child and initplans.
 * ------------------------------------------------------------------------
 */

typedef struct AggregateFormat
{
	Agg		   *agg;

	/* columns by which the child's rows of a group are ordered, if it matters */
	int			norder;
	ComparedColumn *order;
	bool		nulls_first;	/* NULLs of the first of these come first */
} AggregateFormat;

/* Writes the format into the plan node's custom_private. */
extern void aggregate_plan_fill(CustomScan *cscan, const AggregateFormat *format);

/*
 * The number of leading order columns that form the values of a DISTINCT aggregate; 0: it is
 * none.  Constants are no order columns.
 */
extern int	aggregate_distinct_columns(const Aggref *aggref);

/* Is this percentile_cont(), percentile_disc() or mode()? */
extern bool ordered_set_is_known(const Aggref *aggref);

/*
 * The column by which the input of such an aggregate is sorted: its argument, without a
 * cast that keeps the order.
 */
extern Expr *ordered_set_column(const Aggref *aggref);

/* ------------------------------------------------------------------------
 * Format of a GpuSort Join in a finished plan
 *
 * The target list, the qual and the expressions refer to the children as OUTER_VAR and
 * INNER_VAR.
 * ------------------------------------------------------------------------
 */

/* One key: both children are ordered by these columns. */
typedef struct JoinKeyFormat
{
	AttrNumber	outer;			/* columns of the children, from 1 */
	AttrNumber	inner;
	bool		reverse;		/* in descending order */
	Oid			opfamily;		/* of the order; a btree */
	Oid			outer_type;		/* operand types of the equality operator */
	Oid			inner_type;
	Oid			collation;
} JoinKeyFormat;

typedef struct JoinFormat
{
	JoinType	jointype;		/* JOIN_INNER, JOIN_LEFT, JOIN_SEMI or JOIN_ANTI */
	bool		inner_unique;	/* an outer row has at most one match */
	int			nkeys;
	JoinKeyFormat *keys;
	List	   *clauses;		/* one for each key */
	List	   *condition;		/* join condition besides the keys, as a list of ANDs */
} JoinFormat;

/* Is this a GpuSort Join? */
extern bool join_plan_is(const Plan *plan);

/* Writes the format into the plan node's custom_private and custom_exprs. */
extern void join_plan_fill(CustomScan *cscan, const JoinFormat *format);

/* ------------------------------------------------------------------------
 * Executor runs that may stop before the end of their plan
 * ------------------------------------------------------------------------
 */

/* Installs the hook.  Only called where the library is preloaded. */
extern void device_pause_init(void);

#endif							/* GPUSORT_EXECUTOR_GPUSORT_EXECUTOR_H */
