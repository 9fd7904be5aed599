/*
 * merge_tree_template.h
 *	  Two-way merge of merge_tree.c, for one key width.
 *
 * Included once for each width, with MERGE_KEY, the type of keys, and MERGE(name),
 * which makes the names.
 *
 * For as many steps as the shorter input has items, neither input can run out.
 * These steps only compare keys, and use the result as a number instead of a
 * branch.  A step depends on the one before for its addresses.  So a batch is
 * divided into two halves, whose steps alternate and overlap in the CPU.
 */
typedef struct MERGE (Item)
{
	MinimalTuple row;
	MERGE_KEY	key;
} MERGE		(Item);

/* Makes stream->n items of the stream's next rows. */
static void
MERGE		(take) (MergeNode *stream)
{
	const		MERGE_KEY *keys = (const MERGE_KEY *) stream->rows.keys;
	const RowPlace *places = stream->rows.places;
	MERGE		(Item) *items = (MERGE (Item) *) stream->space;

	StaticAssertStmt(offsetof(MERGE (Item), key) == MERGE_KEY_AT, "MERGE_KEY_AT is not the offset of an item's key");
	for (uint32 i = 0; i < stream->n; i++)
	{
		items[i].row = places == NULL ? NULL : (MinimalTuple) (stream->rows.base + places[i] * sizeof(uint64));
		items[i].key = keys[i];
	}
	stream->rows.keys = keys + stream->n;
}

/* Does b sort before a?  exact: equal keys mean equal rows, whose order does not matter. */
static pg_attribute_always_inline bool
MERGE		(b_first) (MergeTree *tree, const MERGE (Item) *a, const MERGE (Item) *b, bool exact)
{
	if (!exact && unlikely(a->key == b->key))
		return compare_equal_keys(tree, b->row, a->row) < 0;
	return b->key < a->key;
}

/* Does the first item of a node sort before that of another node, with other streams? */
static bool
MERGE		(before) (MergeTree *tree, const MergeNode *node, const MergeNode *other)
{
	const		MERGE (Item) *item = (const MERGE (Item) *) node->items;
	const		MERGE (Item) *other_item = (const MERGE (Item) *) other->items;
	bool		exact = tree->exact && !tree->ties_by_tid;

	return node->first < other->first ? !MERGE (b_first) (tree, item, other_item, exact) :
		MERGE (b_first) (tree, other_item, item, exact);
}

/* Returns how many of the first n rows of the merge come from a: a binary search. */
static pg_attribute_always_inline uint32
MERGE		(split) (MergeTree *tree, const MERGE (Item) *a, const MERGE (Item) *b, uint32 n, bool exact)
{
	uint32		least = 0;
	uint32		most = n;

	while (least < most)
	{
		uint32		from_a = (least + most) / 2;

		if (MERGE (b_first) (tree, &a[from_a], &b[n - 1 - from_a], exact))
			most = from_a;
		else
			least = from_a + 1;
	}
	return least;
}

/* Copies the smaller item to *to and advances its input. */
static pg_attribute_always_inline void
MERGE		(step) (MergeTree *tree, const MERGE (Item) **a, const MERGE (Item) **b, MERGE (Item) *to,
					bool exact)
{
	uintptr_t	b_first = MERGE (b_first) (tree, *a, *b, exact);

	*to = *(const MERGE (Item) *) ((uintptr_t) *a ^ (((uintptr_t) *a ^ (uintptr_t) *b) & -b_first));
	*b += b_first;
	*a += 1 - b_first;
}

/* Merges n items of two nodes that have at least n each. */
static pg_attribute_always_inline void
MERGE		(steps) (MergeTree *tree, MergeNode *a_node, MergeNode *b_node, MERGE (Item) *to, uint32 n,
					 bool exact)
{
	const MERGE (Item) *a = (const MERGE (Item) *) a_node->items;
	const MERGE (Item) *b = (const MERGE (Item) *) b_node->items;
	uint32		half = n >= MERGE_MIN_HALVES ? n / 2 : 0;
	uint32		from_a = MERGE (split) (tree, a, b, half, exact);
	const MERGE (Item) *half_a = a + from_a;
	const MERGE (Item) *half_b = b + (half - from_a);

	for (uint32 i = 0; i < half; i++)
	{
		MERGE		(step) (tree, &a, &b, &to[i], exact);
		MERGE		(step) (tree, &half_a, &half_b, &to[half + i], exact);
	}
	for (uint32 i = 2 * half; i < n; i++)
		MERGE		(step) (tree, &half_a, &half_b, &to[i], exact);

	from_a = half_a - (const MERGE (Item) *) a_node->items;
	a_node->items = (const char *) half_a;
	a_node->n -= from_a;
	b_node->items = (const char *) half_b;
	b_node->n -= n - from_a;
}

/* Fills an inner node, until it is full or the items of a or b are used up. */
static void
MERGE		(merge) (MergeTree *tree, MergeNode *node)
{
	MergeNode  *a = node->a;
	MergeNode  *b = node->b;
	MERGE		(Item) *items = (MERGE (Item) *) node->space;
	uint32		n = 0;
	uint32		steps;

	while ((steps = Min(Min(a->n, b->n), tree->batch - n)) > 0)
	{
		if (tree->exact && !tree->ties_by_tid)
			MERGE		(steps) (tree, a, b, items + n, steps, true);

		else
			MERGE		(steps) (tree, a, b, items + n, steps, false);

		n += steps;
	}
	node->items = node->space;
	node->n = n;
	if (n > 0)
		return;

	/* one has ended: takes over the other's items without copying */
	if (a->n == 0)
		a = b;
	node->items = a->items;
	node->n = a->n;
	a->n = 0;
}

/* Drops the root's items that are equal in the distinct columns to the row before. */
static void
MERGE		(distinct) (MergeTree *tree, MergeNode *root)
{
	MERGE		(Item) *items = unconstify(MERGE (Item) *, (const MERGE (Item) *) root->items);
	const		MERGE_KEY mask = (MERGE_KEY) distinct_mask(tree->test.cut);
	MERGE_KEY	last_key = (MERGE_KEY) tree->last_key;
	MinimalTuple last_row = (MinimalTuple) tree->last_row.row;
	bool		have_last = tree->have_last;
	uint32		kept = 0;

	for (uint32 i = 0; i < root->n; i++)
	{
		if (have_last && ((items[i].key ^ last_key) & mask) == 0 &&
			(tree->test.exact || tiebreak_equal(tree->tiebreak, tree->distinct, last_row, items[i].row)))
			continue;
		have_last = true;
		last_key = items[i].key;
		last_row = items[i].row;
		items[kept++] = items[i];
	}
	tree->dropped += root->n - kept;
	tree->have_last = have_last;
	tree->last_key = last_key;
	/* the rows of these items become invalid */
	if (kept > 0 && !tree->test.exact)
		kept_row_set(&tree->last_row, tree->cxt, last_row);
	root->n = kept;
}

/* merge_tree_equal() */
static void
MERGE		(equal) (const MergeTree *tree, uint32 n, EqualColumns *equal)
{
	const		MERGE (Item) *items = (const MERGE (Item) *) tree->next;

	for (uint32 i = 0; i < n; i++, items++)
		equal[i] = tree->equal[highest_bit(items[0].key ^ items[-1].key)];
}

#undef MERGE_KEY
#undef MERGE
