/*
 * merge_template.h
 *	  Merging of 64-bit words with bitonic networks (Satish 2010, section 5.2);
 *	  included once per instruction set.
 *
 * The includer includes rec.h and defines these, inlined:
 *		vec						a vector of LANES words, LANES 4 or 8
 *		vload, vstore			at any multiple of 8 bytes
 *		vmin, vmax				as unsigned words
 *		vreverse				the lanes in reverse order
 *		vclean					sorts a bitonic vector
 *		vsort_columns			transposes LANES vectors and sorts each vector
 *
 * Two runs are merged by blocks of two vectors.  A step takes the block of the
 * run with the smaller first word and merges it with the block that the step
 * before has held back.  It outputs the lower half of the result and holds back
 * the upper half.  No branch depends on the data.
 */

#define BLOCK	(2 * LANES)

/*
 * Merges two ascending sequences, r[0 .. n/2 - 1] and r[n/2 .. n - 1], in
 * place.
 */
static inline __attribute__((always_inline)) void
merge_vectors(vec *r, int n)
{
	EACH (int i = 0; i < n / 4; i++)
	{
		vec			t = r[n / 2 + i];

		r[n / 2 + i] = r[n - 1 - i];
		r[n - 1 - i] = t;
	}
	EACH (int i = n / 2; i < n; i++)
		r[i] = vreverse(r[i]);
	EACH (int d = n / 2; d > 0; d /= 2)
		EACH (int i = 0; i < n; i++)
			if ((i & d) == 0)
			{
				vec			low = vmin(r[i], r[i + d]);

				r[i + d] = vmax(r[i], r[i + d]);
				r[i] = low;
			}
	EACH (int i = 0; i < n; i++)
		r[i] = vclean(r[i]);
}

/* Sorts 8 * LANES words in registers. */
static inline __attribute__((always_inline)) void
sort_base(const uint64_t *src, uint64_t *dst)
{
	vec			r[8];

	EACH (int i = 0; i < 8; i++)
		r[i] = vload(src + i * LANES);
	EACH (int i = 0; i < 8; i += LANES)
		vsort_columns(r + i);
	EACH (int i = 0; i < 8; i += 2)
		merge_vectors(r + i, 2);
	EACH (int i = 0; i < 8; i += 4)
		merge_vectors(r + i, 4);
	merge_vectors(r, 8);
	EACH (int i = 0; i < 8; i++)
		vstore(dst + i * LANES, r[i]);
}

/*
 * One step: merges the block at p with the held block, and stores the lower
 * half.
 */
#define MERGE_STEP(held, p, out) \
	do { \
		vec			r_[4]; \
		r_[0] = held[0]; \
		r_[1] = held[1]; \
		r_[2] = vload(p); \
		r_[3] = vload((p) + LANES); \
		merge_vectors(r_, 4); \
		vstore(out, r_[0]); \
		vstore((out) + LANES, r_[1]); \
		held[0] = r_[2]; \
		held[1] = r_[3]; \
	} while (0)

/* Merges two nonempty runs whose lengths are multiples of BLOCK. */
static void
merge_runs(const uint64_t *a, const uint64_t *a_end,
		   const uint64_t *b, const uint64_t *b_end, uint64_t *out)
{
	vec			held[2];

	held[0] = vload(a);
	held[1] = vload(a + LANES);
	a += BLOCK;
	while (a < a_end && b < b_end)
	{
		size_t		from_a = *a <= *b;
		const uint64_t *p = from_a ? a : b;

		a += from_a * BLOCK;
		b += (1 - from_a) * BLOCK;
		MERGE_STEP(held, p, out);
		out += BLOCK;
	}
	for (; a < a_end; a += BLOCK, out += BLOCK)
		MERGE_STEP(held, a, out);
	for (; b < b_end; b += BLOCK, out += BLOCK)
		MERGE_STEP(held, b, out);
	vstore(out, held[0]);
	vstore(out + LANES, held[1]);
}

/* MergeOps.sort_chunk */
static uint64_t *
sort_chunk(const uint64_t *src, size_t n, uint64_t *a, uint64_t *b)
{
	for (size_t i = 0; i < n; i += 8 * LANES)
		sort_base(src + i, a + i);
	for (size_t run = 8 * LANES; run < n; run *= 2)
	{
		uint64_t   *t = a;

		for (size_t i = 0; i < n; i += 2 * run)
		{
			size_t		mid = n - i < run ? n : i + run;
			size_t		end = n - i < 2 * run ? n : i + 2 * run;

			if (mid == end)
				memcpy(b + i, a + i, (end - i) * sizeof(uint64_t));
			else
				merge_runs(a + i, a + mid, a + mid, a + end, b + i);
		}
		a = b;
		b = t;
	}
	return a;
}

/*
 * A stream without words: blocks of the largest word.
 */
static const uint64_t exhausted[MERGE_MAX_BLOCK] = {
	UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
	UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
	UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
	UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX
};

static void tree_fill(MergeTree *tree, size_t node);

/* Refills the stream of a node that has less than a block of words. */
static inline void
tree_refill(MergeTree *tree, size_t node)
{
	MergeStream *s = &tree->streams[node];

	if (node < tree->nleaves)
		tree_fill(tree, node);
	else if (s->ptr < s->end)
	{
		MergeTail  *tail = &tree->tails[node - tree->nleaves];
		size_t		left = s->end - s->ptr;

		for (size_t i = 0; i < BLOCK; i++)
			tail->words[i] = i < left ? s->ptr[i] : UINT64_MAX;
		s->ptr = tail->words;
		s->end = s->ptr + BLOCK;
	}
	else
	{
		s->ptr = exhausted;
		s->end = exhausted + BLOCK;
	}
}

/*
 * Merges the next n words of a node's children to out; n is a multiple of
 * BLOCK.
 */
static inline __attribute__((always_inline)) void
tree_merge(MergeTree *tree, size_t node, uint64_t *out, size_t n)
{
	MergeStream *streams = &tree->streams[2 * node];
	uint64_t   *kept = tree->nodes[node].held;
	const uint64_t *a = streams[0].ptr;
	const uint64_t *b = streams[1].ptr;
	const uint64_t *a_end = streams[0].end;
	const uint64_t *b_end = streams[1].end;
	vec			held[2];

	held[0] = vload(kept);
	held[1] = vload(kept + LANES);
	for (uint64_t *end = out + n; out < end; out += BLOCK)
	{
		size_t		from_a = *a <= *b;
		const uint64_t *p = from_a ? a : b;

		a += from_a * BLOCK;
		b += (1 - from_a) * BLOCK;
		MERGE_STEP(held, p, out);
		if (unlikely(a_end - a < BLOCK))
		{
			streams[0].ptr = a;
			tree_refill(tree, 2 * node);
			a = streams[0].ptr;
			a_end = streams[0].end;
		}
		if (unlikely(b_end - b < BLOCK))
		{
			streams[1].ptr = b;
			tree_refill(tree, 2 * node + 1);
			b = streams[1].ptr;
			b_end = streams[1].end;
		}
	}
	streams[0].ptr = a;
	streams[1].ptr = b;
	vstore(kept, held[0]);
	vstore(kept + LANES, held[1]);
}

/* Fills the queue of an inner node. */
static void
tree_fill(MergeTree *tree, size_t node)
{
	MergeNode  *nd = &tree->nodes[node];

	tree_merge(tree, node, nd->fifo, MERGE_FIFO_WORDS);
	tree->streams[node].ptr = nd->fifo;
	tree->streams[node].end = nd->fifo + MERGE_FIFO_WORDS;
}

/* MergeOps.tree_start */
static void
tree_start(MergeTree *tree)
{
	for (size_t node = 2 * tree->nleaves - 1; node >= 1; node--)
	{
		MergeStream *s = &tree->streams[node];

		if (node >= tree->nleaves)
		{
			if (s->end - s->ptr < BLOCK)
				tree_refill(tree, node);
			continue;
		}

		/* hold back the first block of the child with the smaller first word */
		s = &tree->streams[2 * node];
		if (*s[1].ptr < *s[0].ptr)
			s++;
		memcpy(tree->nodes[node].held, s->ptr, BLOCK * sizeof(uint64_t));
		s->ptr += BLOCK;
		if (s->end - s->ptr < BLOCK)
			tree_refill(tree, s - tree->streams);
		if (node > 1)
			tree_fill(tree, node);
	}
}

/* MergeOps.tree_next */
static void
tree_next(MergeTree *tree, uint64_t *out, size_t n)
{
	size_t		whole = n / BLOCK * BLOCK;

	tree_merge(tree, 1, out, whole);
	if (whole < n)
	{
		uint64_t	last[BLOCK];

		tree_merge(tree, 1, last, BLOCK);
		memcpy(out + whole, last, (n - whole) * sizeof(uint64_t));
	}
}
