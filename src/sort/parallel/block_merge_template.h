/*
 * block_merge_template.h
 *	  The loser tree of a merge of blocks, for one width of keys.
 *
 * Included once for each width, with MERGE_KEY, the keys' type, and MERGE(name), what
 * names are made of.
 *
 * An inner node of the tree holds the stream that lost the match there, with its
 * key; the root's parent holds the winner.  The next row of the winner's stream plays
 * its way up again: log2(k) comparisons whose outcome nobody can predict, so winner
 * and loser change places without a branch.  Only equal keys branch.
 */

typedef struct MERGE(Node)
{
	MERGE_KEY	key;			/* of its current row; all ones at its end */
	uint64		stream;
} MERGE(Node);

typedef struct MERGE(Tree)
{
	MERGE(Node) winner;
	MERGE(Node) losers[FLEXIBLE_ARRAY_MEMBER];	/* inner nodes 1 .. n - 1 */
} MERGE(Tree);

/* Lets a and b change places if so, without a branch. */
static inline void
MERGE(swap_if)(bool so, MERGE(Node) *a, MERGE(Node) *b)
{
	MERGE_KEY	key = (a->key ^ b->key) & -(MERGE_KEY) so;
	uint64		stream = (a->stream ^ b->stream) & -(uint64) so;

	a->key ^= key;
	b->key ^= key;
	a->stream ^= stream;
	b->stream ^= stream;
}

static pg_attribute_always_inline bool
MERGE(before)(BlockMerge *merge, const MERGE(Node) *a, const MERGE(Node) *b)
{
	if (unlikely(a->key == b->key))
		return equal_before(merge, (int) a->stream, (int) b->stream);
	return a->key < b->key;
}

/* The stream goes on to its next row, of which its block has one; returns the key. */
static pg_attribute_always_inline MERGE_KEY
MERGE(advance)(BlockStream *stream)
{
	MERGE_KEY	key = *(const MERGE_KEY *) stream->keys;

	stream->keys += sizeof(MERGE_KEY);
	stream->row = stream->next;
	__builtin_prefetch(stream->row + MERGE_AHEAD);
	stream->next += MAXALIGN(((MinimalTuple) stream->row)->t_len);
	stream->left--;
	return key;
}

/* The same where the stream's next block has to be had first. */
static MERGE_KEY
MERGE(next_block)(BlockMerge *merge, BlockStream *stream)
{
	return next_block(merge, stream) ? MERGE(advance) (stream) : ~(MERGE_KEY) 0;
}

/* Plays the tree below node; leaf r is node n + r.  Returns the winner. */
static MERGE(Node)
MERGE(play)(BlockMerge *merge, MERGE(Tree) *tree, int node)
{
	MERGE(Node) a;
	MERGE(Node) b;

	if (node >= merge->nstreams)
	{
		a.stream = node - merge->nstreams;
		a.key = MERGE(next_block) (merge, &merge->streams[a.stream]);
		return a;
	}
	a = MERGE(play) (merge, tree, 2 * node);
	b = MERGE(play) (merge, tree, 2 * node + 1);
	MERGE(swap_if) (MERGE(before) (merge, &b, &a), &a, &b);
	tree->losers[node] = b;
	return a;
}

/*
 * The winner's row has been given: its stream goes on.  False if that takes a new block
 * and must not be, for there are rows of this one that have yet to be used.
 */
static pg_attribute_always_inline bool
MERGE(step)(BlockMerge *merge, MERGE(Tree) *tree, MERGE(Node) *w, bool in_use)
{
	BlockStream *stream = &merge->streams[w->stream];

	if (unlikely(stream->left == 0))
	{
		if (in_use)
			return false;
		w->key = MERGE(next_block) (merge, stream);
	}
	else
		w->key = MERGE(advance) (stream);
	for (int node = (int) (merge->nstreams + w->stream) / 2; node > 0; node /= 2)
	{
		MERGE(Node) *l = &tree->losers[node];

		MERGE(swap_if) (MERGE(before) (merge, l, w), l, w);
	}
	return true;
}

/* Puts the next rows, and their keys, into the merge's arrays. */
static void
MERGE(more)(BlockMerge *merge)
{
	MERGE(Tree) *tree = merge->tree;
	MERGE_KEY  *keys = merge->keys;
	bool		given = (tree != NULL);
	MERGE(Node) w;

	merge->n = merge->at = 0;
	if (tree == NULL)
	{
		tree = merge->tree = MemoryContextAlloc(merge->cxt, offsetof(MERGE(Tree), losers) +
												merge->nstreams * sizeof(MERGE(Node)));
		w = MERGE(play) (merge, tree, 1);
	}
	else
		w = tree->winner;
	while (merge->n < MERGE_BATCH && merge->streams[w.stream].row != NULL)
	{
		if (likely(given) && !MERGE(step) (merge, tree, &w, merge->n > 0))
			break;
		given = true;
		if (merge->streams[w.stream].row == NULL)
			break;
		merge->rows[merge->n] = (MinimalTuple) merge->streams[w.stream].row;
		keys[merge->n++] = w.key;
	}
	tree->winner = w;
}

#undef MERGE_KEY
#undef MERGE
