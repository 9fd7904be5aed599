/*
 * block_merge_template.h
 *	  A merge of two nodes' rows, for one width of keys.
 *
 * Included once for each width, with MERGE_KEY, the keys' type, and MERGE(name), what
 * names are made of.
 *
 * Neither runs out of rows in as many steps as the one has that has less: in these
 * steps nothing is asked but which key is less, and the answer is used as a number.
 */

/* steps rows of a and b, who have as many. */
static pg_attribute_always_inline void
MERGE(steps)(BlockMerge *merge, MergeNode *a, MergeNode *b, MERGE_KEY *keys, MinimalTuple *rows,
			 uint32 steps, bool exact)
{
	const MERGE_KEY *a_keys = (const MERGE_KEY *) a->keys;
	const MERGE_KEY *b_keys = (const MERGE_KEY *) b->keys;
	uint32		of_a = 0;
	uint32		of_b = 0;

	for (uint32 i = 0; i < steps; i++)
	{
		MERGE_KEY	a_key = a_keys[of_a];
		MERGE_KEY	b_key = b_keys[of_b];
		uintptr_t	a_row = (uintptr_t) a->rows[of_a];
		uintptr_t	b_row = (uintptr_t) b->rows[of_b];
		bool		b_first = b_key < a_key;

		if (!exact && unlikely(a_key == b_key))
			b_first = tiebreak_compare(merge->tiebreak, (MinimalTuple) b_row, (MinimalTuple) a_row) < 0;
		keys[i] = a_key ^ ((a_key ^ b_key) & -(MERGE_KEY) b_first);
		rows[i] = (MinimalTuple) (a_row ^ ((a_row ^ b_row) & -(uintptr_t) b_first));
		of_b += b_first;
		of_a = i + 1 - of_b;
	}
	a->keys += of_a * sizeof(MERGE_KEY);
	a->rows += of_a;
	a->n -= of_a;
	b->keys += of_b * sizeof(MERGE_KEY);
	b->rows += of_b;
	b->n -= of_b;
}

/* The node's next rows: until it is full, or one of those below has to be asked for more. */
static void
MERGE(merge)(BlockMerge *merge, MergeNode *node)
{
	MergeNode  *a = node->a;
	MergeNode  *b = node->b;
	MERGE_KEY  *keys = (MERGE_KEY *) node->key_space;
	uint32		n = 0;
	uint32		steps;

	while ((steps = Min(Min(a->n, b->n), MERGE_BATCH - n)) > 0)
	{
		if (merge->exact)
			MERGE(steps) (merge, a, b, keys + n, node->row_space + n, steps, true);
		else
			MERGE(steps) (merge, a, b, keys + n, node->row_space + n, steps, false);
		n += steps;
	}
	node->keys = (const char *) keys;
	node->rows = node->row_space;
	node->n = n;
	if (n > 0)
		return;

	/* one has ended: the other's rows are this node's */
	if (a->n == 0)
		a = b;
	node->keys = a->keys;
	node->rows = a->rows;
	node->n = a->n;
	a->n = 0;
}

#undef MERGE_KEY
#undef MERGE
