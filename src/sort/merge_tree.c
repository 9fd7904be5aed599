/*
 * merge_tree.c
 *	  K-way merge of sorted streams of rows in memory.
 *
 * The merge is a binary tree of two-way merges.  Each node merges a batch of rows
 * ahead and holds them as items, a row's address followed by its key.  A step
 * compares two adjacent keys and copies one item without a branch; it waits only
 * for keys in the first-level cache.  A loser tree needs fewer comparisons
 * with many streams, but each waits for the one before.
 *
 * Rows are returned where they lie.  The merge does not read them, except to
 * compare equal keys, but prefetches them for the caller: another CPU may have
 * written them.
 *
 * A source is asked for its next rows when its leaf and all nodes above the leaf
 * have no items.  So the caller has returned all rows that the source gave before,
 * and the source may release them.  With a batch of one row the tree holds one row
 * of each stream.  If then a stream gives two rows in succession, the least of the
 * other streams' rows is found, and the following rows of the stream are compared with
 * that row only.  So streams that follow each other cost one comparison a row.
 *
 * Of rows that are equal in the distinct columns, the first is returned, if the owner
 * wants that.
 *
 * Equal rows are returned in the order of their streams, or of their TIDs (ties_by_tid).
 *
 * Memory: a batch of items in each node.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/distinct.h"
#include "sort/merge_tree.h"
#include "sort/sort_env.h"
#include "tiebreak/tiebreak.h"

/* Units of RowPlace in a cache line. */
#define ROW_PLACES_PER_LINE	(64 / sizeof(uint64))

/* Steps below which a batch is not merged as two halves. */
#define MERGE_MIN_HALVES	32

/* A node of the tree: a leaf reads a stream, an inner node merges a and b. */
typedef struct MergeNode
{
	const char *items;			/* rows merged ahead */
	uint32		n;				/* number of items */
	int			first;			/* number of its first stream */
	bool		ended;			/* no more rows will come */
	struct MergeNode *a;		/* NULL in a leaf */
	struct MergeNode *b;
	MergeSource *source;		/* of a leaf */

	/* of a leaf: its rows that are not items yet */
	MergeRows	rows;
	char		space[FLEXIBLE_ARRAY_MEMBER];	/* for the items */
} MergeNode;

static inline Size
node_size(const MergeTree *tree)
{
	return MAXALIGN(offsetof(MergeNode, space) + tree->batch * tree->item_bytes);
}

/*
 * Prefetches the next batch of rows: every cache line of short rows, so that no
 * line is requested twice, but only the first line of longer rows.
 */
static inline void
prefetch_rows(const MergeTree *tree, const MergeRows *rows)
{
	const RowPlace *places = rows->places;
	uint32		n = Min(rows->n, tree->batch);

	if (n == 0 || places == NULL)
		return;
	if (places[n - 1] - places[0] < n * ROW_PLACES_PER_LINE)
	{
		for (uint32 place = places[0]; place <= places[n - 1]; place += ROW_PLACES_PER_LINE)
			__builtin_prefetch(rows->base + place * sizeof(uint64));
		return;
	}
	for (uint32 i = 0; i < n; i++)
		__builtin_prefetch(rows->base + places[i] * sizeof(uint64));
}

/* Compares two rows with equal keys. */
static int
compare_equal_keys(const MergeTree *tree, MinimalTuple a, MinimalTuple b)
{
	int			order = tree->exact ? 0 : tiebreak_compare(tree->tiebreak, a, b);
	ItemPointerData tid_a;
	ItemPointerData tid_b;

	if (order != 0 || !tree->ties_by_tid)
		return order;
	row_get_tid(a, &tid_a);
	row_get_tid(b, &tid_b);
	return ItemPointerCompare(&tid_a, &tid_b);
}

#define MERGE_KEY		uint64
#define MERGE(name)		narrow_##name
#include "sort/merge_tree_template.h"

#define MERGE_KEY		uint128
#define MERGE(name)		wide_##name
#include "sort/merge_tree_template.h"

/* Makes items of the stream's next rows. */
static void
stream_more(MergeTree *tree, MergeNode *stream)
{
	MergeRows  *rows = &stream->rows;

	if (rows->n == 0)
	{
		if (!stream->source->next(stream->source, rows))
		{
			stream->ended = true;
			return;
		}
		prefetch_rows(tree, rows);
	}
	stream->n = Min(rows->n, tree->batch);
	stream->items = stream->space;
	if (tree->wide)
		wide_take(stream);
	else
		narrow_take(stream);
	if (rows->places != NULL)
		rows->places += stream->n;
	rows->n -= stream->n;
	prefetch_rows(tree, rows);
}

/* Refills a node whose items are used up; sets ended at the end. */
static void
node_more(MergeTree *tree, MergeNode *node)
{
	MergeNode  *a = node->a;
	MergeNode  *b = node->b;

	if (a == NULL)
	{
		stream_more(tree, node);
		return;
	}
	if (a->n == 0 && !a->ended)
		node_more(tree, a);
	if (b->n == 0 && !b->ended)
		node_more(tree, b);
	if (tree->wide)
		wide_merge(tree, node);
	else
		narrow_merge(tree, node);
	node->ended = (node->n == 0);
}

/* Does the first row of one node sort before that of another node, with other streams? */
static inline bool
node_before(MergeTree *tree, const MergeNode *node, const MergeNode *other)
{
	return tree->wide ? wide_before(tree, node, other) : narrow_before(tree, node, other);
}

/*
 * Finds the stream of the last row: its leaf and all nodes above are empty.  If least
 * is not NULL, sets it to the least of the other streams' rows; NULL: there is none.
 */
static MergeNode *
last_stream(MergeTree *tree, MergeNode **least)
{
	MergeNode  *node = tree->root;

	if (least != NULL)
		*least = NULL;
	while (node->a != NULL)
	{
		bool		in_a = node->a->n == 0 && !node->a->ended;
		MergeNode  *other = in_a ? node->b : node->a;

		if (least != NULL && other->n > 0 && (*least == NULL || node_before(tree, other, *least)))
			*least = other;
		node = in_a ? node->a : node->b;
	}
	return node;
}

/*
 * Refills the root of a tree with batches of one row.  If the last two rows came from
 * one stream, its next row probably comes first, too.  Then the nodes above the
 * stream's leaf stay empty.
 */
static void
next_row(MergeTree *tree)
{
	MergeNode  *root = tree->root;
	MergeNode  *before = tree->stream;

	if (!tree->again)
	{
		tree->stream = last_stream(tree, NULL);
		tree->again = tree->stream == before && before != root;
		if (tree->again)
			(void) last_stream(tree, &tree->least);
	}
	if (tree->again)
	{
		stream_more(tree, tree->stream);
		tree->again = tree->stream->n > 0 &&
			(tree->least == NULL || node_before(tree, tree->stream, tree->least));
	}
	if (!tree->again)
	{
		node_more(tree, root);
		return;
	}
	root->items = tree->stream->items;
	root->n = 1;
	tree->stream->n = 0;
}

/* Builds the tree for streams from this number on, from *space on, which it advances. */
static MergeNode *
build_node(const MergeTree *tree, MergeSource **sources, int first, int n, char **space)
{
	MergeNode  *node = (MergeNode *) *space;

	memset(node, 0, offsetof(MergeNode, space));
	node->first = first;
	*space += node_size(tree);
	if (n == 1)
		node->source = sources[first];
	else
	{
		node->a = build_node(tree, sources, first, n / 2, space);
		node->b = build_node(tree, sources, first + n / 2, n - n / 2, space);
	}
	return node;
}

MergeTree *
merge_tree_create(MergeSource **sources, int n, uint32 batch, const SortSpec *spec, const KeyLayout *layout,
				  TieBreak *tiebreak)
{
	bool		wide = layout->total_bits > 64;
	MergeTree  *tree = palloc0(sizeof(MergeTree));
	char	   *space;

	tree->item_bytes = MERGE_KEY_AT + (wide ? sizeof(uint128) : sizeof(uint64));
	tree->batch = batch;
	tree->wide = wide;
	tree->exact = layout->exact;
	tree->ties_by_tid = spec->ties_by_tid;
	tree->tiebreak = tiebreak;
	tree->distinct = spec->distinct;
	tree->test = distinct_test(distinct_columns(spec->keys, spec->distinct), layout,
							   Min(layout->total_bits, 128));
	equal_columns_table(tree->equal, spec->keys, spec->nkeys, layout, Min(layout->total_bits, 128));
	tree->cxt = CurrentMemoryContext;
	if (n > 0)
	{
		space = palloc((2 * n - 1) * node_size(tree));
		tree->root = build_node(tree, sources, 0, n, &space);
	}
	return tree;
}

void
merge_tree_free(MergeTree *tree)
{
	if (tree->root != NULL)
		pfree(tree->root);
	kept_row_free(&tree->last_row);
	pfree(tree);
}

/* Merges the next items; false at the end. */
static bool
merge_items(MergeTree *tree)
{
	MergeNode  *root = tree->root;

	if (root == NULL || root->ended)
		return false;
	root->n = 0;
	do
	{
		if (tree->batch == 1 && tree->begun)
			next_row(tree);
		else
			node_more(tree, root);
		if (tree->distinct == 0 || root->n == 0)
			break;
		if (tree->wide)
			wide_distinct(tree, root);
		else
			narrow_distinct(tree, root);
		CHECK_FOR_INTERRUPTS();
	} while (root->n == 0);
	tree->next = root->items;
	tree->merged = root->items + (Size) root->n * tree->item_bytes;
	tree->end = tree->make_rows == NULL ? tree->merged : tree->next;
	tree->begun |= root->n > 0;
	return root->n > 0;
}

bool
merge_tree_more(MergeTree *tree)
{
	if (tree->next == tree->merged && !merge_items(tree))
		return false;
	if (tree->end != tree->merged)
	{
		tree->make_rows(tree, unconstify(char *, tree->next), (tree->merged - tree->next) / tree->item_bytes);
		tree->end = tree->merged;
	}
	return true;
}

void
merge_tree_equal(const MergeTree *tree, uint32 n, EqualColumns *equal)
{
	if (tree->wide)
		wide_equal(tree, n, equal);
	else
		narrow_equal(tree, n, equal);
}

const char *
merge_tree_skip(MergeTree *tree, uint32 most, uint32 *n, MinimalTuple *last)
{
	const char *items;

	if (tree->next == tree->merged && !merge_items(tree))
		return NULL;
	items = tree->next;
	*n = Min(most, (tree->merged - tree->next) / tree->item_bytes);
	tree->next += (Size) *n * tree->item_bytes;
	tree->end = Max(tree->end, tree->next);
	if (last != NULL && tree->make_rows != NULL)
		tree->make_rows(tree, unconstify(char *, tree->next) - tree->item_bytes, 1);
	if (last != NULL)
		*last = *(const MinimalTuple *) (tree->next - tree->item_bytes);
	return items;
}
