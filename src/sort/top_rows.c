/*
 * top_rows.c
 *	  Bounded sort by insertion: keeps the wanted rows in sort order.
 *
 * Sorting batches of twice the bound needs several comparisons for each row, which is
 * slow when the comparator is needed.  Here a new row is compared with the last wanted
 * row.  If it sorts before that row, binary search finds its position.  If the previous row
 * became the first one, the new row is compared with the first row before the search:
 * descending input then costs one comparison for each row, for any bound.  The heap of
 * tuplesort.c needs one comparison, and two more for each level.
 *
 * The order is an array of blocks of row numbers.  An insertion moves the following row
 * numbers of its block.  A full block is split; at either end of the order a new block
 * is added instead.
 *
 * A batch sorts the first rows, with less work for each row than insertion: most LIMITs of
 * half the rows and more end there, as in tuplesort.c.  Insertion continues with the wanted
 * rows of that batch.  Where keys decide or strings are compared, batches need far fewer
 * comparisons than binary search, so a large bound stays with them.
 *
 * Normalized keys of the first column are compared first, as long as they decide at
 * least half of the comparisons.  Keys of strings leave out a common prefix.  A new
 * prefix is chosen when the keys become mostly equal, because the wanted rows have
 * changed.
 *
 * A new row is placed behind rows that it equals, which makes the sort stable.
 *
 * Memory policy: rows lie in the batch's arena.  A dropped row stays there until the
 * arena has twice the wanted rows or memory is full; then the wanted rows are compacted.
 * The arrays grow with the rows and count as memory of the sort.
 */
#include "postgres.h"

#include "key/key.h"
#include "miscadmin.h"
#include "settings.h"
#include "sort/sort_internal.h"

/* Rows that the arrays have room for at first. */
#define FIRST_CAPACITY		64

/* Arrays of up to this many rows are kept for the next sort. */
#define KEPT_CAPACITY		1024

/* Comparisons of keys between two decisions whether to use keys. */
#define DECIDE_COMPARED		512

/* Bytes of the common prefix that stay in the keys, because later rows may differ there. */
#define PREFIX_SLACK		4

/* Prefixes in succession that do not help until keys are no longer used. */
#define MAX_USELESS			3

/* From this bound on only rows that the comparator alone orders are inserted. */
#define KEYS_BOUND			2048

/* A new row, in a slot or on a page. */
typedef struct NewRow
{
	uint64		key;			/* see TopRow */
	Datum		value;
	bool		null;
	TupleTableSlot *slot;		/* NULL: not yet made from the page */
	RowPage    *page;			/* NULL: the row is in the slot */
	int			i;				/* row of the page */
} NewRow;

/* Where a row is inserted into the order: before row at of the block, or at its end. */
typedef struct TopPosition
{
	size_t		block;			/* index in the order */
	uint32		at;
} TopPosition;

/* Number of blocks.  All but the first and the last are at least half full. */
static inline size_t
block_count(size_t capacity)
{
	return capacity / (TOP_BLOCK_ROWS / 2) + 4;
}

/* Size of TopRows.order, which grows at both ends. */
static inline size_t
order_size(size_t capacity)
{
	return 2 * block_count(capacity) + 2;
}

/* Maximal number of rows in the arena. */
static inline size_t
stored_size(size_t capacity)
{
	return 2 * capacity + 256;
}

static void
free_arrays(TopRows *top)
{
	if (top->capacity == 0)
		return;
	pfree(top->rows);
	pfree(top->blocks);
	pfree(top->free);
	pfree(top->order);
	pfree(top->stored);
	top->capacity = 0;
	top->bytes = 0;
}

static void
set_capacity(TopRows *top, size_t capacity)
{
	MemoryContext cxt = top->env->cxt;
	size_t		nblocks = block_count(capacity);
	TopRow	   *rows = MemoryContextAlloc(cxt, capacity * sizeof(TopRow));
	TopBlock   *blocks = MemoryContextAlloc(cxt, nblocks * sizeof(TopBlock));
	uint32	   *free_blocks = MemoryContextAlloc(cxt, nblocks * sizeof(uint32));
	uint32	   *order = MemoryContextAlloc(cxt, order_size(capacity) * sizeof(uint32));
	TopStored  *stored = MemoryContextAlloc(cxt, stored_size(capacity) * sizeof(TopStored));
	size_t		begin = (order_size(capacity) - top->nblocks) / 2;
	size_t		known = 0;

	if (top->capacity > 0)
	{
		known = block_count(top->capacity);
		memcpy(rows, top->rows, top->n * sizeof(TopRow));
		memcpy(blocks, top->blocks, known * sizeof(TopBlock));
		memcpy(free_blocks, top->free, top->nfree * sizeof(uint32));
		memcpy(order + begin, top->order + top->begin, top->nblocks * sizeof(uint32));
		memcpy(stored, top->stored, top->nstored * sizeof(TopStored));
		free_arrays(top);
	}
	for (; known < nblocks; known++)
		free_blocks[top->nfree++] = (uint32) known;
	top->rows = rows;
	top->blocks = blocks;
	top->free = free_blocks;
	top->order = order;
	top->begin = begin;
	top->stored = stored;
	top->capacity = capacity;
	top->bytes = capacity * sizeof(TopRow) + nblocks * (sizeof(TopBlock) + sizeof(uint32)) +
		order_size(capacity) * sizeof(uint32) + stored_size(capacity) * sizeof(TopStored);
	top->env->sink_bytes = top->bytes;
}

bool
top_rows_suit(const SortEnv *env, const KeyBuffer *keybuf)
{
	KeyKind		kind;

	if (env->bound == 0 || env->bound > TOP_ROWS_MAX || keybuf->exact || gpusort_verify ||
		gpusort_run_rows > 0 || gpusort_forced_algorithm() != NULL)
		return false;
	return env->bound < KEYS_BOUND ||
		(key_traits[keybuf->cols[0].kind].needs_comparator && !key_sorts_strings(&env->spec.keys[0], &kind));
}

static inline TopBlock *
order_block(const TopRows *top, size_t block)
{
	return &top->blocks[top->order[top->begin + block]];
}

static inline TopRow *
row_at(const TopRows *top, size_t block, uint32 at)
{
	return &top->rows[order_block(top, block)->rows[at]];
}

static inline TopRow *
first_row(const TopRows *top)
{
	return row_at(top, 0, 0);
}

static inline TopRow *
last_row(const TopRows *top)
{
	return row_at(top, top->nblocks - 1, order_block(top, top->nblocks - 1)->n - 1);
}

static inline MinimalTuple
stored_row(const TopRows *top, const TopRow *row)
{
	return (MinimalTuple) arena_at(&top->batch->arena, row->rid);
}

/* Value of the first column, which is not NULL. */
static inline Datum
row_value(const TopRows *top, const TopRow *row)
{
	return top->by_reference ? PointerGetDatum((char *) stored_row(top, row) + row->value) : row->value;
}

/* ------------------------------------------------------------------------
 * Comparisons
 * ------------------------------------------------------------------------
 */

/* A slot with the new row, its key columns deformed. */
static inline TupleTableSlot *
new_slot(const TopRows *top, NewRow *new)
{
	if (new->slot == NULL)
	{
		new->slot = new->page->row(new->page, new->i);
		slot_getsomeattrs(new->slot, top->batch->keybuf.last_att);
	}
	return new->slot;
}

/* < 0: the new row sorts before the other row. */
static int
compare_new_row(TopRows *top, NewRow *new, const TopRow *row)
{
	TieBreak   *tb = top->env->tiebreak;
	int			cmp = 0;

	if (unlikely(new->null || row->null))
	{
		if (new->null != row->null)
			return new->null == top->batch->keybuf.cols[0].nulls_first ? -1 : 1;
	}
	else
	{
		if (top->use_keys)
		{
			top->compared++;
			if (new->key != row->key)
				return new->key < row->key ? -1 : 1;
			top->tied++;
		}
		if (!top->use_keys || !top->keys_exact)
			cmp = tiebreak_compare_first(tb, new->value, row_value(top, row));
	}
	if (cmp == 0 && top->env->spec.nkeys > 1)
		cmp = tiebreak_compare_slot_behind(tb, new_slot(top, new), stored_row(top, row));
	return cmp;
}

/* Finds the position of the new row.  False if it sorts behind all rows. */
static bool
find_position(TopRows *top, NewRow *new, TopPosition *position)
{
	size_t		from = 0;
	size_t		to = top->nblocks;
	uint32		begin;
	uint32		end;

	position->block = 0;
	position->at = 0;
	if (top->n == 0)
		return true;
	if (top->at_front)
	{
		if (compare_new_row(top, new, first_row(top)) < 0)
			return true;
		if (top->n == 1)
			return false;
	}
	if (compare_new_row(top, new, last_row(top)) >= 0)
		return false;

	/*
	 * the last block whose first row sorts before the new row, or the first
	 * block
	 */
	while (to - from > 1)
	{
		size_t		mid = from + (to - from) / 2;

		if (compare_new_row(top, new, row_at(top, mid, 0)) < 0)
			to = mid;
		else
			from = mid;
	}
	position->block = from;
	/* skip the first and the last row if they have been compared already */
	begin = from > 0 || top->at_front ? 1 : 0;
	end = order_block(top, from)->n - (from == top->nblocks - 1 ? 1 : 0);
	while (begin < end)
	{
		uint32		mid = begin + (end - begin) / 2;

		if (compare_new_row(top, new, row_at(top, from, mid)) < 0)
			end = mid;
		else
			begin = mid + 1;
	}
	position->at = begin;
	return true;
}

/* ------------------------------------------------------------------------
 * Normalized keys
 * ------------------------------------------------------------------------
 */
static inline void
make_key(TopRows *top, NewRow *new)
{
	const KeyBufferColumn *col = &top->batch->keybuf.cols[0];
	bool		inexact;

	new->key = 0;
	if (!top->use_keys || new->null)
		return;
	new->key = normkey_of_value(col, top->env->keys.makers[0], new->value, &inexact);
	if (unlikely(key_normkey_unplaced(col, new->key)))
		top->use_keys = false;
}

/*
 * The common prefix of the rows' strings, less PREFIX_SLACK bytes.  False if it cannot be
 * found.
 */
static bool
find_prefix(const TopRows *top, BytesPrefix *prefix)
{
	KeyKind		kind = top->batch->keybuf.cols[0].kind;
	const TopRow *first = NULL;
	const TopRow *last = NULL;
	Datum		a;
	Datum		b;
	KeyString	x;
	KeyString	y;
	int			common;

	for (size_t block = 0; block < top->nblocks; block++)
	{
		for (uint32 at = 0; at < order_block(top, block)->n; at++)
		{
			const TopRow *row = row_at(top, block, at);

			if (row->null)
				continue;
			if (first == NULL)
				first = row;
			last = row;
		}
	}
	if (first == NULL)
		return false;
	a = row_value(top, first);
	b = row_value(top, last);
	if (string_is_toasted(kind, a) || string_is_toasted(kind, b))
		return false;

	/*
	 * strings are ordered by bytes, so all rows between the first and the
	 * last have it
	 */
	x = string_of(kind, a);
	y = string_of(kind, b);
	common = (int) Min(bytes_common(x.p, x.len, y.p, y.len), BYTES_PREFIX_MAX);
	prefix->len = Max(common - PREFIX_SLACK, 0);
	memcpy(prefix->bytes, x.p, prefix->len);
	return true;
}

/* Chooses another prefix and makes all keys again.  False if there is no other prefix. */
static bool
change_prefix(TopRows *top)
{
	KeyBufferColumn *col = &top->batch->keybuf.cols[0];
	BytesPrefix prefix = col->prefix;

	if (!find_prefix(top, &prefix) ||
		(prefix.len == col->prefix.len && memcmp(prefix.bytes, col->prefix.bytes, prefix.len) == 0))
		return false;
	col->prefix = prefix;
	for (size_t i = 0; i < top->n; i++)
	{
		TopRow	   *row = &top->rows[i];
		bool		inexact;

		if (!row->null)
			row->key = normkey_of_value(col, top->env->keys.makers[0], row_value(top, row), &inexact);
	}
	return true;
}

/* Decides whether to use keys: at least half of the comparisons must be decided by them. */
static pg_noinline void
decide_use_of_keys(TopRows *top)
{
	const KeyBufferColumn *col = &top->batch->keybuf.cols[0];

	if (top->tied <= top->compared / 2 || top->keys_exact)
		top->useless = 0;
	else if (col->by_bytes && change_prefix(top))
		top->useless++;
	else
		top->useless = MAX_USELESS;
	if (top->useless == MAX_USELESS)
		top->use_keys = false;
	top->compared = top->tied = 0;
}

/* ------------------------------------------------------------------------
 * Storing and dropping rows
 * ------------------------------------------------------------------------
 */

/* Removes the dropped rows from the arena. */
static void
compact_rows(TopRows *top)
{
	Arena	   *arena = &top->batch->arena;
	BulkOwner  *owner = top->env->bulk;
	size_t		kept = 0;
	uint32		passed = 0;
	Arena		from;

	sort_env_note_memory(top->env, arena_used(arena));
	arena_compact_begin(arena, owner, &from);
	for (size_t i = 0; i < top->nstored; i++)
	{
		TopStored	stored = top->stored[i];
		TopRow	   *row = &top->rows[stored.row];
		MinimalTuple tuple;
		char	   *to;

		CHECK_FOR_INTERRUPTS();
		if (row->rid != stored.rid)
			continue;
		tuple = (MinimalTuple) arena_at(&from, stored.rid);
		to = arena_alloc(arena, owner, MAXALIGN(tuple->t_len), &row->rid);
		if (to == NULL)
			elog(ERROR, "a bounded sort's rows do not fit its arena");
		memmove(to, tuple, MAXALIGN(tuple->t_len));
		arena_compact_passed(&from, owner, stored.rid, &passed);
		top->stored[kept].rid = row->rid;
		top->stored[kept++].row = stored.row;
	}
	arena_compact_end(arena, owner, &from);
	top->nstored = kept;
}

static inline Size
memory_taken(const TopRows *top)
{
	return arena_used(&top->batch->arena) + top->bytes;
}

/* Memory is full: compacts the rows.  False if that frees too little. */
static pg_noinline bool
compact_to_make_room(TopRows *top)
{
	Size		limit = top->batch->limit;

	compact_rows(top);
	return memory_taken(top) <= limit - limit / MEMORY_PARTS;
}

/* Stores the new row in the arena.  False if there is no memory. */
static inline bool
store_row(TopRows *top, NewRow *new, uint32 *rid)
{
	Arena	   *arena = &top->batch->arena;
	BulkOwner  *owner = top->env->bulk;

	if (unlikely(memory_taken(top) > top->batch->limit) && !compact_to_make_room(top))
		return false;
	if (new->page == NULL || !new->page->direct)
		return row_store(top->env->writer, arena, owner, new_slot(top, new), rid);
	if (unlikely(!arena_reserve(arena, owner, row_page_room(new->page, new->i))))
		return false;
	*rid = arena_take(arena, row_page_write(new->page, new->i, arena->next));
	return true;
}

/* Inserts an empty block into the order, at this index. */
static TopBlock *
add_block(TopRows *top, size_t block)
{
	size_t		size = order_size(top->capacity);
	uint32	   *order;

	if (unlikely(top->begin == 0 || top->begin + top->nblocks == size))
	{
		size_t		begin = (size - top->nblocks) / 2;

		memmove(top->order + begin, top->order + top->begin, top->nblocks * sizeof(uint32));
		top->begin = begin;
	}
	order = top->order + top->begin;
	if (block < top->nblocks - block)
	{
		memmove(order - 1, order, block * sizeof(uint32));
		top->begin--;
	}
	else
		memmove(order + block + 1, order + block, (top->nblocks - block) * sizeof(uint32));
	top->nblocks++;
	top->order[top->begin + block] = top->free[--top->nfree];
	order_block(top, block)->n = 0;
	return order_block(top, block);
}

/* Inserts a row number at a position of the order. */
static inline void
insert_number(TopRows *top, TopPosition position, uint32 number)
{
	TopBlock   *block = top->nblocks == 0 ? add_block(top, 0) : order_block(top, position.block);

	if (unlikely(block->n == TOP_BLOCK_ROWS))
	{
		if (position.block == 0 && position.at == 0)
			block = add_block(top, 0);
		else if (position.block == top->nblocks - 1 && position.at == TOP_BLOCK_ROWS)
		{
			block = add_block(top, top->nblocks);
			position.at = 0;
		}
		else
		{
			TopBlock   *half = add_block(top, position.block + 1);

			block = order_block(top, position.block);
			half->n = TOP_BLOCK_ROWS / 2;
			block->n -= half->n;
			memcpy(half->rows, block->rows + block->n, half->n * sizeof(uint32));
			if (position.at > block->n)
			{
				position.at -= block->n;
				block = half;
			}
		}
	}
	memmove(block->rows + position.at + 1, block->rows + position.at, (block->n - position.at) * sizeof(uint32));
	block->rows[position.at] = number;
	block->n++;
	top->n++;
}

/* Drops the last row; returns its number. */
static inline uint32
drop_last(TopRows *top)
{
	TopBlock   *block = order_block(top, top->nblocks - 1);
	uint32		number = block->rows[--block->n];

	if (block->n == 0)
	{
		top->nblocks--;
		top->free[top->nfree++] = top->order[top->begin + top->nblocks];
	}
	top->n--;
	return number;
}

/* Inserts a stored row at its position; drops the last row if there are bound rows. */
static inline void
insert_row(TopRows *top, const NewRow *new, TopPosition position, uint32 rid)
{
	uint32		number = (uint32) top->n;
	bool		first = position.block == 0 && position.at == 0;
	TopRow	   *row;

	if (likely(top->n == top->bound))
	{
		number = drop_last(top);
		/* the block of the position may have been removed */
		if (position.block == top->nblocks && top->nblocks > 0)
		{
			position.block--;
			position.at = TOP_BLOCK_ROWS;
		}
		if (top->nblocks > 0)
			position.at = Min(position.at, order_block(top, position.block)->n);
	}
	else if (unlikely(top->n == top->capacity))
		set_capacity(top, Min(2 * top->capacity, top->bound));
	insert_number(top, position, number);
	row = &top->rows[number];
	row->key = new->key;
	row->rid = rid;
	row->null = new->null;
	row->value = new->value;
	if (top->by_reference && !new->null)
	{
		bool		isnull;
		Datum		value = tiebreak_first_value(top->env->tiebreak, stored_row(top, row), &isnull);

		row->value = (Datum) ((char *) DatumGetPointer(value) - (char *) stored_row(top, row));
	}
	top->stored[top->nstored].rid = rid;
	top->stored[top->nstored++].row = number;
	top->at_front = first;
}

static inline TopAnswer
put_new_row(TopRows *top, NewRow *new)
{
	TopPosition position;
	uint32		rid;

	if (unlikely(top->compared >= DECIDE_COMPARED))
		decide_use_of_keys(top);
	make_key(top, new);
	if (!find_position(top, new, &position))
	{
		top->at_front = false;
		if (likely(top->n == top->bound))
			return TOP_TAKEN;
		position.block = top->nblocks - 1;
		position.at = order_block(top, position.block)->n;
	}
	if (unlikely(top->nstored == stored_size(top->capacity)) ||
		(unlikely(arena_used(&top->batch->arena) >= BOUNDED_CUT_BYTES) && top->nstored >= 2 * top->bound))
		compact_rows(top);
	if (unlikely(!store_row(top, new, &rid)))
		return TOP_FULL;
	insert_row(top, new, position, rid);
	return TOP_TAKEN;
}

static int
compare_stored(const void *a, const void *b)
{
	uint32		x = ((const TopStored *) a)->rid;
	uint32		y = ((const TopStored *) b)->rid;

	return (x > y) - (x < y);
}

/* Makes a stored row of the batch the row of this number. */
static void
take_stored_row(TopRows *top, uint32 number, uint32 rid)
{
	TopRow	   *row = &top->rows[number];
	NewRow		new = {0};

	row->rid = rid;
	new.value = tiebreak_first_value(top->env->tiebreak, stored_row(top, row), &new.null);
	make_key(top, &new);
	row->key = new.key;
	row->null = new.null;
	row->value = new.value;
	if (top->by_reference && !new.null)
		row->value = (Datum) ((char *) DatumGetPointer(new.value) - (char *) stored_row(top, row));
	top->stored[number].rid = rid;
	top->stored[number].row = number;
}

void
top_rows_begin(TopRows *top, SortEnv *env, Batch *batch, const uint32 *rids)
{
	KeyBufferColumn *col = &batch->keybuf.cols[0];
	size_t		nblocks;

	top->on = true;
	top->env = env;
	top->batch = batch;
	top->bound = env->bound;
	top->n = top->nstored = top->nblocks = 0;
	top->by_reference = !TupleDescAttr(env->spec.desc, col->att)->attbyval;
	top->use_keys = !key_traits[col->kind].needs_comparator;
	top->keys_exact = key_traits[col->kind].exact && key_traits[col->kind].words == 1;
	top->at_front = false;
	top->compared = top->tied = 0;
	top->useless = 0;
	col->prefix.len = 0;
	col->prefix.frozen = true;
	if (top->capacity < top->bound)
	{
		free_arrays(top);
		top->nfree = 0;
		set_capacity(top, top->bound);
	}
	env->sink_bytes = top->bytes;
	top->begin = order_size(top->capacity) / 2;
	nblocks = (top->bound + TOP_BLOCK_ROWS - 1) / TOP_BLOCK_ROWS;
	for (top->nfree = 0; top->nfree < block_count(top->capacity); top->nfree++)
		top->free[top->nfree] = (uint32) top->nfree;
	for (size_t block = 0; block < nblocks; block++)
	{
		TopBlock   *to = add_block(top, block);

		CHECK_FOR_INTERRUPTS();
		for (to->n = 0; to->n < TOP_BLOCK_ROWS && top->n < top->bound; top->n++)
		{
			take_stored_row(top, (uint32) top->n, rids[top->n]);
			to->rows[to->n++] = (uint32) top->n;
		}
	}
	top->nstored = top->n;
	qsort(top->stored, top->nstored, sizeof(TopStored), compare_stored);
	batch_free_keys(batch, env->bulk);
	keybuf_reset(&batch->keybuf);
}

TopAnswer
top_rows_put_slot(TopRows *top, TupleTableSlot *slot)
{
	int			att = top->batch->keybuf.cols[0].att;
	NewRow		new = {.value = slot->tts_values[att],.null = slot->tts_isnull[att],.slot = slot};

	return put_new_row(top, &new);
}

TopAnswer
top_rows_put_page(TopRows *top, RowPage *page, int i, PageKeyPointers where)
{
	const char *p = where[0][i];
	NewRow		new = {.null = p == NULL,.page = page,.i = i};

	if (p != NULL)
		new.value = page_datum(p, page->keys.byval_len[0]);
	return put_new_row(top, &new);
}

bool
top_rows_limit(const TopRows *top, uint64 *limit)
{
	const TopRow *last;

	if (top->n < top->bound || !top->use_keys)
		return false;
	last = last_row(top);
	/* a NULL has no key */
	if (last->null)
		return false;
	*limit = last->key;
	return true;
}

uint32
top_rows_last(const TopRows *top)
{
	return last_row(top)->rid;
}

/* ------------------------------------------------------------------------
 * The end
 * ------------------------------------------------------------------------
 */
void
top_rows_buffer_keys(TopRows *top)
{
	SortEnv    *env = top->env;
	KeyBuffer  *keybuf = &top->batch->keybuf;
	TupleTableSlot *slot = sort_env_slot(env);

	keybuf_begin(keybuf);
	keybuf_reserve(keybuf, env->bulk, Max(top->n, 1));
	for (size_t i = 0; i < top->nstored; i++)
	{
		TopStored	stored = top->stored[i];

		if (top->rows[stored.row].rid != stored.rid)
			continue;
		keybuf_stored_row(keybuf, &env->keys, slot, (MinimalTuple) arena_at(&top->batch->arena, stored.rid),
						  stored.rid);
	}
	ExecClearTuple(slot);
}

void
top_rows_order(TopRows *top, Sorted *sorted)
{
	SortEnv    *env = top->env;
	uint32	   *rids;

	bulk_reserve(env->bulk, &env->recs, Max(top->n, 1) * sizeof(uint32), 0);
	sort_env_note_memory(env, batch_held(top->batch));
	rids = env->recs.ptr;
	for (size_t block = 0; block < top->nblocks; block++)
	{
		for (uint32 at = 0; at < order_block(top, block)->n; at++)
			*rids++ = row_at(top, block, at)->rid;
	}
	sorted->rids = env->recs.ptr;
	sorted->keys = NULL;
	sorted->n = top->n;
	env->report.inserted = top->n > 0;
}

void
top_rows_end(TopRows *top)
{
	top->on = false;
	top->n = 0;
	if (top->capacity > KEPT_CAPACITY)
		free_arrays(top);
}
