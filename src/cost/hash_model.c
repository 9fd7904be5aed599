/*
 * hash_model.c
 *	  Cost model of hash tables, and of the nodes that take sorted rows instead.
 *
 * PostgreSQL counts operators: a row costs the same in a hash table of a kilobyte and
 * of a gigabyte.  But each row reads random places of the table.  In a table that
 * exceeds the CPU's caches and its TLB a read takes a hundred times as long.  So the
 * model has
 *
 * - a constant for a row, and for each key column,
 * - random reads of the table, by a curve over its size,
 * - a constant for each new entry, whose memory is new,
 * - rows that exceed the memory limit, which are written to files and read again.
 *
 * A table that exceeds the memory limit is split into batches; then each batch's table
 * has the size of the limit.  So a spilled table of 8 MB may be faster than one of a
 * gigabyte in memory.
 *
 * docs/design/cost-model.md tells what the constants were fitted to.  Where measurements
 * differ, the constants of hash tables are at the lower end, those of sorted rows at the
 * upper end.  So a plan is changed only if the gain is clear.  Reads of grouped rows differ
 * most, by the machine and by other work on it: they are between a quiet machine's and a
 * busy one's, and a quiet machine's if the sort would need a disk.
 */
#include <math.h>

#include "cost/cost.h"

/* A row in a hash table that lies in the cache */
#define GROUP_ROW_NS		40.0	/* taking a row, finding its group */
#define GROUP_VARLENA_NS	20.0	/* in addition to HASH_KEY_NS, if the column's length varies */
#define HASH_ROW_NS			25.0	/* taking a row, finding the other side's rows */
#define HASH_KEY_NS			7.0 /* hashing and comparing a column */
#define HASH_ENTRY_NS		90.0	/* a new entry */

/* In addition, if a column's length varies: hashing it for a join, comparing it with a sorted neighbour */
#define VARLENA_KEY_NS		10.0

/* Random reads of a hash table: the curve's points are at 2^20, 2^22, ... 2^30 bytes. */
#define READ_POINT_FIRST	20
#define READ_POINT_STEP		2
static const double read_ns[] = {0, 6, 16, 36, 64, 100};

/* Tables of this size exceed the CPU's inner caches. */
#define INNER_CACHE_BYTES	(4.0 * 1024 * 1024)

/* Each process has caches of this size for itself. */
#define OWN_CACHE_BYTES		(1024.0 * 1024)

/* Reads of a grouped row: bucket and row, and its transition values.  On a busy machine each takes longer. */
#define GROUP_READS			1.5
#define AGGREGATE_READS		0.5
#define BUSY_GROUP_READS	3.5
#define BUSY_AGGREGATE_READS	1.0

/* bucket, then rows: one read waits for the other */
#define JOIN_READS			5.0
#define JOIN_ENTRY_READS	2.0 /* bucket of a new row */

/* Rows beyond the memory limit */
#define SPILL_ROW_NS		15.0	/* a row written and read */
#define SPILL_BYTE_NS		0.9 /* a byte of it */

/* Sorted rows */
#define UNIQUE_ROW_NS		8.0 /* compare a row with the row before */
#define SORTED_KEY_NS		6.0 /* comparing a column */

/* Per row among equal ones, if a column's length varies. */
#define VARLENA_TIE_NS		45.0
#define AGGREGATE_ROW_NS	12.0	/* in addition, if there are aggregates */

/*
 * Sorted rows in a GpuSort Aggregate.  It takes rows from the sort at once, which saves
 * more of the sort's time to return a row than the node spends on it.
 */
#define NODE_ROW_NS			(-8.0)
#define NODE_KEY_NS			3.0 /* comparing a column */
#define NODE_VARLENA_NS		4.0 /* in addition, if its length varies */
#define NODE_TIE_NS			10.0	/* per row among equal ones, if a column's length varies */
#define NODE_GROUP_NS		50.0	/* beginning a group, returning its row */

/* Merge Join: taking a row of either side; returning to an inner row for one more outer row */
#define MERGE_ROW_NS		16.0
#define MERGE_AGAIN_NS		40.0

/* GpuSort Join: the same steps */
#define NODE_MERGE_ROW_NS	8.0
#define NODE_MERGE_KEY_NS	4.0 /* comparing a column */
#define NODE_MERGE_VARLENA_NS	30.0	/* in addition, if its length varies */
#define NODE_MERGE_AGAIN_NS	15.0

/* Time of one random read of a table. */
static double
random_read_ns(double bytes)
{
	double		point = (log2(fmax(bytes, 1)) - READ_POINT_FIRST) / READ_POINT_STEP;
	int			last = (int) (sizeof(read_ns) / sizeof(read_ns[0])) - 1;
	int			below;

	if (point <= 0)
		return read_ns[0];
	below = (int) fmin(floor(point), last);
	if (below == last)
		return read_ns[last];
	return read_ns[below] + (read_ns[below + 1] - read_ns[below]) * (point - below);
}

/* Time for the key columns of a row. */
static double
keys_ns(int keys, int varlena_keys, double key_ns)
{
	return keys * key_ns + varlena_keys * VARLENA_KEY_NS;
}

/* The share of the rows that exceed the memory limit. */
static double
spilled_share(double bytes, double memory)
{
	return bytes > memory ? 1 - memory / bytes : 0;
}

/* Time to write and read a row that exceeds the memory limit. */
static double
spill_row_ns(double row_bytes)
{
	return SPILL_ROW_NS + row_bytes * SPILL_BYTE_NS;
}

double
hash_group_us(const GroupFacts *facts)
{
	double		groups = fmin(facts->groups, facts->rows);
	double		bytes = groups * facts->entry_bytes;
	double		spilled = spilled_share(bytes, facts->memory);
	double		table = fmin(bytes, facts->memory);
	double		reads = facts->quiet ? GROUP_READS + (facts->aggregates ? AGGREGATE_READS : 0) :
		BUSY_GROUP_READS + (facts->aggregates ? BUSY_AGGREGATE_READS : 0);
	double		row_ns = GROUP_ROW_NS + facts->keys * HASH_KEY_NS + facts->varlena_keys * GROUP_VARLENA_NS;

	/* the tables of other processes take room in the caches that all share */
	table += fmax(table - OWN_CACHE_BYTES, 0) * fmax(facts->processes - 1, 0);
	row_ns += reads * random_read_ns(table);

	return (facts->rows * (row_ns + spilled * spill_row_ns(facts->row_bytes)) + groups * HASH_ENTRY_NS) / 1000;
}

double
sorted_group_us(const GroupFacts *facts)
{
	double		row_ns = UNIQUE_ROW_NS + (facts->aggregates ? AGGREGATE_ROW_NS : 0) +
		keys_ns(facts->keys, facts->varlena_keys, SORTED_KEY_NS);
	double		ties = facts->varlena_keys > 0 ? fmax(0, facts->rows - facts->groups) : 0;

	return (ties * VARLENA_TIE_NS + facts->rows * row_ns) / 1000;
}

double
aggregate_node_us(const GroupFacts *facts)
{
	double		row_ns = NODE_ROW_NS + facts->keys * NODE_KEY_NS + facts->varlena_keys * NODE_VARLENA_NS;
	double		groups = fmin(facts->groups, facts->rows);
	double		ties = facts->varlena_keys > 0 ? facts->rows - groups : 0;

	return (ties * NODE_TIE_NS + facts->rows * row_ns + groups * NODE_GROUP_NS) / 1000;
}

double
hash_join_us(const JoinFacts *facts)
{
	double		spilled = spilled_share(facts->table_bytes, facts->memory);
	double		key_ns = keys_ns(facts->keys, facts->varlena_keys, HASH_KEY_NS);
	double		read_once_ns = random_read_ns(fmin(facts->table_bytes, facts->memory));
	double		inner_ns = key_ns + HASH_ENTRY_NS + JOIN_ENTRY_READS * read_once_ns +
		spilled * spill_row_ns(facts->inner_bytes);
	double		outer_ns = HASH_ROW_NS + key_ns + JOIN_READS * read_once_ns +
		spilled * spill_row_ns(facts->outer_bytes);

	return (facts->inner_rows * inner_ns + facts->outer_rows * outer_ns) / 1000;
}

bool
hash_exceeds_caches(double table_bytes)
{
	return table_bytes >= INNER_CACHE_BYTES;
}

double
merge_join_us(const JoinFacts *facts, double outer_read, double inner_read, double inner_again)
{
	double		row_ns = MERGE_ROW_NS + keys_ns(facts->keys, facts->varlena_keys, SORTED_KEY_NS);
	double		again_ns = MERGE_AGAIN_NS;

	if (facts->node)
	{
		row_ns = NODE_MERGE_ROW_NS + facts->keys * NODE_MERGE_KEY_NS + facts->varlena_keys * NODE_MERGE_VARLENA_NS;
		again_ns = NODE_MERGE_AGAIN_NS;
	}
	return ((outer_read + inner_read) * row_ns + inner_again * again_ns) / 1000;
}
