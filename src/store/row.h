/*
 * row.h
 *	  Rows as MinimalTuples: how they are made, copied and checked.
 */
#ifndef GPUSORT_STORE_ROW_H
#define GPUSORT_STORE_ROW_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "port/atomics.h"
#include "store/arena.h"
#include "utils/memutils.h"

/* More than so many bytes are worth a call. */
#define COPY_INLINE_MAX		256

/* Copies len bytes, no byte beyond them is read or written. */
static inline void
copy_bytes(char *to, const char *from, Size len)
{
	if (likely(len >= 16 && len <= COPY_INLINE_MAX))
	{
		for (Size at = 0; at < len - 16; at += 16)
		{
			memcpy(to + at, from + at, 16);
			/* or the compiler makes it a call again */
			pg_compiler_barrier();
		}
		memcpy(to + len - 16, from + len - 16, 16);
	}
	else if (len >= 16)
		memcpy(to, from, len);
	else if (len >= 8)
	{
		memcpy(to, from, 8);
		memcpy(to + len - 8, from + len - 8, 8);
	}
	else if (len >= 4)
	{
		memcpy(to, from, 4);
		memcpy(to + len - 4, from + len - 4, 4);
	}
	else
	{
		for (Size at = 0; at < len; at++)
			to[at] = from[at];
	}
}

/*
 * The next place of this alignment (less one).  The bytes before it become zero, as
 * padding must be; so may eight more.
 */
static inline char *
copy_align(char *to, uint8 align)
{
	memset(to, 0, sizeof(uint64));
	return (char *) (((uintptr_t) to + align) & ~(uintptr_t) align);
}

/*
 * Copies a varlena that is not expanded into a row, in the format that
 * heap_fill_tuple() would give it; returns where it ends.
 */
static inline char *
copy_varlena(char *to, const char *from, uint8 align, bool packable, uint16 *infomask)
{
	Size		size;

	*infomask |= HEAP_HASVARWIDTH;
	if (VARATT_IS_1B_E(from))
	{
		*infomask |= HEAP_HASEXTERNAL;
		size = VARSIZE_EXTERNAL(from);
	}
	else if (VARATT_IS_1B(from))
		size = VARSIZE_1B(from);
	else if (packable && VARATT_CAN_MAKE_SHORT(from))
	{
		size = VARATT_CONVERTED_SHORT_SIZE(from);
		/* compilers reckon with a varlena shorter than its header */
		if (size < VARHDRSZ_SHORT)
			pg_unreachable();
		SET_VARSIZE_SHORT(to, size);
		copy_bytes(to + VARHDRSZ_SHORT, from + VARHDRSZ, size - VARHDRSZ_SHORT);
		return to + size;
	}
	else
	{
		to = copy_align(to, align);
		size = VARSIZE(from);
	}
	copy_bytes(to, from, size);
	return to + size;
}

/* ------------------------------------------------------------------------
 * Secret of a device job: only what this job sent passes the checks on its way back.
 *
 * Memory of a device and chunks of the staging pool are used again without being cleared, so
 * they may still hold rows and keys of other sessions, with their checksums.  Checksums of rows and
 * sums of keys therefore depend on a secret of the job: a row or key of another job passes the check
 * with a probability of 2^-32.
 *
 * The secret stays in the memory of the backends that fill and read the job: neither the device nor
 * the memory that the service shares has it.
 * ------------------------------------------------------------------------
 */

typedef struct JobSecret
{
	uint64		offset;
	uint64		factor;			/* odd */
	uint64		high_factor;	/* odd; of a key's upper 64 bits */
} JobSecret;

/* False if the server has no random numbers: then there is no job. */
static inline bool
job_secret_make(JobSecret *secret)
{
	if (!pg_strong_random(secret, sizeof(*secret)))
		return false;
	secret->factor |= 1;
	secret->high_factor |= 1;
	return true;
}

/* The upper half tells which job's value this is. */
static inline uint64
job_secret_mix(const JobSecret *secret, uint64 value)
{
	return (value + secret->offset) * secret->factor;
}

/* ------------------------------------------------------------------------
 * A row that tells whether its key may be that of the next.
 *
 * Rows that were sorted elsewhere come back without their keys.  What is left of a MinimalTuple's
 * padding beside the checksum (row_sum.h) has 16 bits of a hash of the key: rows whose
 * marks differ have other keys, and of neighbours with the same mark one in 65,536 has, too.
 *
 * A mark is made before the row's checksum, which covers it.
 * ------------------------------------------------------------------------
 */

#define ROW_MARK_LOW	UINT64CONST(0x9E3779B97F4A7C15)
#define ROW_MARK_HIGH	UINT64CONST(0xC2B2AE3D27D4EB4F)

/* Where it lies in a row. */
#define ROW_MARK_AT		((Size) 8)

/* Marks a row with its key, of up to 128 bits. */
static inline void
row_set_mark(char *row, uint64 high, uint64 low)
{
	uint16		mark = (uint16) ((high * ROW_MARK_HIGH + (low ^ low >> 32) * ROW_MARK_LOW) >> 48);

	StaticAssertStmt(ROW_MARK_AT + sizeof(uint16) <= offsetof(MinimalTupleData, t_infomask2) &&
					 ROW_MARK_AT >= offsetof(MinimalTupleData, mt_padding) + sizeof(uint32),
					 "a mark has no place in a MinimalTuple");
	memcpy(row + ROW_MARK_AT, &mark, sizeof(mark));
}

static inline uint16
row_mark(const char *row)
{
	uint16		mark;

	memcpy(&mark, row + ROW_MARK_AT, sizeof(mark));
	return mark;
}

/* ------------------------------------------------------------------------
 * Checksum of a row that goes to a device, and the sum of its content.
 *
 * A row that goes to a device carries a checksum of all its bytes in the padding of its
 * MinimalTuple, which PostgreSQL does not read.  The checksum depends on a secret of the job
 * (secret.h).  A row whose length lies within its buffer and whose checksum is right is one that this
 * job sent: its header, its NULLs and the lengths of its columns can be relied upon.
 *
 * The sum of a row's content is a sum of its words, each multiplied by an odd number
 * of its place: a word and a cycle.  It leaves out what may differ between two reads of
 * the same row: the bits for visibility in its header, the bytes after its end.  So sums
 * over many rows tell whether they are the same rows, in whatever order.  The last step is not
 * linear in the words: otherwise the rows 1, 2, 3 had the sum of 2, 2, 2.
 * ------------------------------------------------------------------------
 */

#define ROW_SUM_STEP	UINT64CONST(0x9E3779B97F4A7C16)
#define ROW_SUM_FIRST	UINT64CONST(0xD6E8FEB86659FD93)

/* The header's words: the length, then padding, the number of columns and flags. */
#define ROW_SUM_HEADER	((Size) 16)

/* The sum of a row's length and columns; len is at least ROW_SUM_HEADER. */
static inline uint64
row_sum(const char *row, Size len)
{
	uint64		factor = ROW_SUM_FIRST;
	uint64		sum = len * factor;
	Size		at = ROW_SUM_HEADER;
	uint64		word;

	for (; at + sizeof(uint64) <= len; at += sizeof(uint64))
	{
		memcpy(&word, row + at, sizeof(uint64));
		factor += ROW_SUM_STEP;
		sum += word * factor;
	}
	if (at < len)
	{
		/* the row's memory ends at a whole word, what it holds does not */
		memcpy(&word, row + at, sizeof(uint64));
#ifdef WORDS_BIGENDIAN
		word &= ~(PG_UINT64_MAX >> 8 * (len - at));
#else
		word &= PG_UINT64_MAX >> 8 * (at + sizeof(uint64) - len);
#endif
		sum += word * (factor + ROW_SUM_STEP);
	}
	return sum ^ sum >> 32;
}

/* The checksum, in the padding, of a row whose content has this sum. */
static inline uint32
row_checksum(const char *row, uint64 sum, const JobSecret *secret)
{
	uint64		word;

	memcpy(&word, row + sizeof(uint64), sizeof(uint64));
	return (uint32) (job_secret_mix(secret, sum + word * ROW_SUM_STEP) >> 32);
}

/* Gives a row its checksum; returns the sum of its content. */
static inline uint64
row_set_checksum(char *row, const JobSecret *secret)
{
	uint64		sum = row_sum(row, ((MinimalTuple) row)->t_len);
	uint32		checksum = row_checksum(row, sum, secret);

	StaticAssertStmt(offsetof(MinimalTupleData, mt_padding) == sizeof(uint32) &&
					 MINIMAL_TUPLE_PADDING >= sizeof(uint32),
					 "a checksum has no place in a MinimalTuple");
	memcpy(row + sizeof(uint32), &checksum, sizeof(uint32));
	return sum;
}

/* Is there a row of the secret's job, in so many bytes?  Then *sum is the sum of its content. */
static inline bool
row_is_whole(const char *row, Size bytes, const JobSecret *secret, uint64 *sum)
{
	uint32		len;
	uint32		checksum;

	if (unlikely(bytes < ROW_SUM_HEADER))
		return false;
	len = ((const MinimalTupleData *) row)->t_len;
	if (unlikely(len < ROW_SUM_HEADER || MAXALIGN(len) > bytes))
		return false;
	*sum = row_sum(row, len);
	memcpy(&checksum, row + sizeof(uint32), sizeof(uint32));
	return likely(checksum == row_checksum(row, *sum, secret));
}

/* ------------------------------------------------------------------------
 * Where the columns of a heap tuple lie.
 *
 * A walk is prepared once, for the columns of a table that are wanted.  Columns of
 * fixed width that lie together are one step of it, a varlena is one.  A tuple that
 * has all columns up to the last one wanted, and no NULL among them, takes these
 * steps without a question about any column; any other is walked column by column.
 * ------------------------------------------------------------------------
 */

/* Walks of more steps are taken column by column. */
#define WALK_MAX_STEPS	64

typedef struct WalkStep
{
	int32		len;			/* of columns of fixed width; 0: a varlena */
	uint8		align;			/* less one */
	bool		small;			/* a varlena that has to be in the short format */
} WalkStep;

/* Where a step was found. */
typedef struct WalkAt
{
	const char *begin;
	const char *end;
} WalkAt;

typedef struct WalkColumn
{
	int16		len;			/* -1: a varlena */
	uint8		align;			/* less one */
	uint16		step;
	int32		offset;			/* from where the step begins */
	const char *missing;		/* what tuples from before this column have; NULL: NULL */
} WalkColumn;

typedef struct TupleWalk
{
	int			natts;			/* columns up to the last wanted */
	int			nsteps;			/* 0: column by column */
	Size		missing_len;	/* bytes of all missing values */
	WalkStep   *steps;
	WalkColumn *cols;
} TupleWalk;

/*
 * A walk to columns atts[] (from 0) of tuples of desc; NULL if it cannot be done.
 * If small, tuple_walk() is only for tuples that have these columns' varlenas in the
 * short format, which lie unaligned.  In the current memory context.
 */
extern TupleWalk *tuple_walk_create(TupleDesc desc, const AttrNumber *atts, int n, bool small);

extern void tuple_walk_free(TupleWalk *walk);

/*
 * Where each of the walk's columns lies, of any tuple; NULL where it is NULL.  An
 * error if one lies outside the tuple.
 */
extern void tuple_walk_columns(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len,
							   const char **where);

/* The size of the value that lies at p. */
static inline Size
walk_value_size(const WalkColumn *col, const char *p)
{
	return col->len > 0 ? col->len : VARSIZE_ANY(p);
}

/* Has the tuple all columns, and no NULL in them? */
static inline bool
tuple_walk_plain(const TupleWalk *walk, const HeapTupleHeaderData *tuple)
{
	if (unlikely(HeapTupleHeaderGetNatts(tuple) < walk->natts))
		return false;
	if (likely((tuple->t_infomask & HEAP_HASNULL) == 0))
		return true;
	for (int byte = 0; byte < walk->natts / 8; byte++)
	{
		if (tuple->t_bits[byte] != 0xFF)
			return false;
	}
	return (~tuple->t_bits[walk->natts / 8] & ((1 << walk->natts % 8) - 1)) == 0;
}

/*
 * Takes the steps through a tuple of len bytes; false if it is not one for them.
 * Pages, and tuples on them, are aligned, so that addresses tell the alignment.
 */
static inline bool
tuple_walk(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len, WalkAt *at)
{
	const char *p = (const char *) tuple + tuple->t_hoff;

	if (unlikely(walk->nsteps == 0 || !tuple_walk_plain(walk, tuple)))
		return false;
	for (int s = 0; s < walk->nsteps; s++)
	{
		const WalkStep *step = &walk->steps[s];

		if (step->len > 0)
		{
			p = (const char *) (((uintptr_t) p + step->align) & ~(uintptr_t) step->align);
			at[s].begin = p;
			p += step->len;
		}
		else if (likely(VARATT_IS_1B(p) && !VARATT_IS_1B_E(p)))
		{
			at[s].begin = p;
			p += VARSIZE_1B(p);
		}
		else
		{
			if (step->small)
				return false;
			if (!VARATT_NOT_PAD_BYTE(p))
				p = (const char *) (((uintptr_t) p + step->align) & ~(uintptr_t) step->align);
			at[s].begin = p;
			p += VARSIZE_ANY(p);
		}
		at[s].end = p;
	}
	/* a broken length must not lead anybody out of the tuple */
	return likely(p <= (const char *) tuple + len);
}

/* ------------------------------------------------------------------------
 * Rows made of a slot's values.
 *
 * What heap_form_minimal_tuple() makes, byte for byte, for one kind of row after
 * another: what the columns' types say is asked once.  Where there is plenty of room the row
 * is not measured beforehand, but each varlena when its turn comes: that is half as many
 * instructions.
 * ------------------------------------------------------------------------
 */

typedef enum WriterKind
{
	WRITER_1,					/* by value, so many bytes */
	WRITER_2,
	WRITER_4,
	WRITER_8,
	WRITER_FIXED,				/* by reference, of fixed width */
	WRITER_VARLENA,
	WRITER_CSTRING
} WriterKind;

typedef struct WriterColumn
{
	uint8		kind;
	uint8		align;			/* less one */
	bool		packable;		/* goes into the short format if it fits */
	int16		len;
} WriterColumn;

typedef struct RowWriter
{
	TupleDesc	desc;			/* the rows' */
	TupleDesc	alike;			/* another that is none for storing them */
	int			natts;
	int			nvaried;		/* columns of no fixed width */
	Size		room;			/* for the others, the header and all padding */
	WriterColumn *cols;
	AttrNumber *varied;			/* from 0 */
	MemoryContext cxt;
	/* a row without NULLs begins with it, but for its length and which kinds of values it has */
	char		head[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} RowWriter;

/* A writer of rows of desc, in the current memory context. */
extern RowWriter *row_writer_create(TupleDesc desc);

/* Makes it one of rows of another desc. */
extern void row_writer_adapt(RowWriter *writer, TupleDesc desc);

/* Room for such a row: at least what row_writer_write() will write. */
extern Size row_writer_room(const RowWriter *writer, const Datum *values, const bool *isnull);

/* An error if heap_form_minimal_tuple() would not make a row so large. */
extern void row_writer_check(const RowWriter *writer, Datum *values, bool *isnull);

/* Writes the row; returns how many bytes it takes, MAXALIGN'ed. */
extern Size row_writer_write(const RowWriter *writer, const Datum *values, const bool *isnull,
							 char *row);

/*
 * The same in one pass, for a row that was not measured: 0 if it may need more than room bytes, or
 * has a value that has to be flattened.
 */
extern Size row_writer_try(const RowWriter *writer, const Datum *values, const bool *isnull,
						   char *row, Size room);

/* ------------------------------------------------------------------------
 * Rows made of some columns of heap tuples, in any order.
 *
 * Byte for byte the row that a slot with these values would be stored as.  It is
 * made of pieces: columns that follow each other in the tuple as in the row, and
 * would be padded alike in both, are one piece and are copied at once.  Which they
 * are is known beforehand as long as varlenas are in the short format and nothing is
 * NULL; other tuples go column by column.
 * ------------------------------------------------------------------------
 */

typedef struct PickPiece
{
	uint16		step;			/* begins in this step, */
	uint16		last;			/* ends in that one, */
	int32		from;			/* so far behind its begin, */
	int32		until;			/* and so far before its end */
	int32		len;			/* if known beforehand; 0: not */
	uint8		align;			/* in the row, less one */
} PickPiece;

typedef struct PickColumn
{
	AttrNumber	att;			/* in the tuple, from 0 */
	bool		packable;		/* goes into the short format if it fits */
} PickColumn;

typedef struct RowPick
{
	TupleWalk  *walk;
	int			npieces;
	int			ncols;
	int			times;			/* that any one column is taken at most */
	Size		extra;			/* bytes of a row beyond so many times its tuple's data */
	PickPiece  *pieces;
	PickColumn *cols;
	char		header[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(8);
} RowPick;

/*
 * Rows of rowdesc whose i-th column is column atts[i] (from 0) of tuples of desc; NULL
 * if they cannot be made so.  In the current memory context.
 */
extern RowPick *row_pick_create(TupleDesc desc, TupleDesc rowdesc, const AttrNumber *atts);

extern void row_pick_free(RowPick *pick);

/* row_pick() of a tuple with NULLs, long varlenas, or columns that came later. */
extern Size row_pick_by_column(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len,
							   char *row);

/* Room for the row of a tuple of len bytes: at least what row_pick() will write. */
static inline Size
row_pick_room(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len)
{
	return MAXALIGN((len - tuple->t_hoff) * pick->times + pick->extra);
}

/* Writes the row of a tuple of len bytes; returns how many it takes, MAXALIGN'ed. */
static inline Size
row_pick(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len, char *row)
{
	WalkAt		at[WALK_MAX_STEPS];
	char	   *to = row + sizeof(pick->header);

	if (unlikely(!tuple_walk(pick->walk, tuple, len, at)))
		return row_pick_by_column(pick, tuple, len, row);
	memcpy(row, pick->header, sizeof(pick->header));
	for (int i = 0; i < pick->npieces; i++)
	{
		const PickPiece *piece = &pick->pieces[i];
		const char *from = at[piece->step].begin + piece->from;

		if (piece->align != 0)
			to = copy_align(to, piece->align);
		if (piece->len == 8)
			memcpy(to, from, 8);
		else if (piece->len == 4)
			memcpy(to, from, 4);
		else if (piece->len != 0)
			copy_bytes(to, from, piece->len);
		else
		{
			Size		size = at[piece->last].end - piece->until - from;

			copy_bytes(to, from, size);
			to += size;
		}
		to += piece->len;
	}
	((MinimalTuple) row)->t_len = to - row;
	return copy_align(to, MAXIMUM_ALIGNOF - 1) - row;
}

/* ------------------------------------------------------------------------
 * A slot's row copied once, into the arena, as a MinimalTuple.
 * ------------------------------------------------------------------------
 */

/* How a slot's row will be stored, and the room that it takes at most. */
typedef struct RowForm
{
	Size		room;			/* MAXALIGN'ed */
	const char *normkey;			/* the MinimalTuple's bytes; NULL: form them */
	Size		len;			/* of the image */
} RowForm;

/* Is the slot's row in heap format already?  Rows from a scan without projection are. */
static inline bool
row_has_normkey(TupleTableSlot *slot, RowForm *form)
{
	const TupleTableSlotOps *ops = slot->tts_ops;

	if (ops == &TTSOpsBufferHeapTuple || ops == &TTSOpsHeapTuple)
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (likely(tuple != NULL))
		{
			form->len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
			form->normkey = (char *) tuple->t_data + MINIMAL_TUPLE_OFFSET;
			form->room = MAXALIGN(form->len);
			return true;
		}
	}
	else if (ops == &TTSOpsMinimalTuple)
	{
		MinimalTuple tuple = ((MinimalTupleTableSlot *) slot)->mintuple;

		if (likely(tuple != NULL))
		{
			form->len = tuple->t_len;
			form->normkey = (char *) tuple;
			form->room = MAXALIGN(form->len);
			return true;
		}
	}
	return false;
}

/* A virtual row's values, and a writer for them. */
static inline void
row_prepare(RowWriter *writer, TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	if (unlikely(slot->tts_tupleDescriptor != writer->desc &&
				 slot->tts_tupleDescriptor != writer->alike))
		row_writer_adapt(writer, slot->tts_tupleDescriptor);
}

static inline void
row_measure_values(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	form->normkey = NULL;
	form->len = 0;
	form->room = row_writer_room(writer, slot->tts_values, slot->tts_isnull);
	if (unlikely(!AllocSizeIsValid(form->room)))
		row_writer_check(writer, slot->tts_values, slot->tts_isnull);
}

/* A row that is in heap format is copied as it is, another is formed in place. */
static inline void
row_measure(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	if (row_has_normkey(slot, form))
		return;
	row_prepare(writer, slot);
	row_measure_values(writer, slot, form);
}

/* Rows up to this length are copied in words, without a call. */
#define ROW_COPY_WORDS	128

/*
 * A MinimalTuple of len bytes copied from a heap page, where it has MAXALIGN(len)
 * bytes to itself, as it has at row.  Returns MAXALIGN(len).
 */
static inline Size
row_copy(char *row, const char *normkey, Size len)
{
	if (likely(len <= ROW_COPY_WORDS))
	{
		for (Size at = 0; at < len; at += sizeof(uint64))
		{
			memcpy(row + at, normkey + at, sizeof(uint64));
			/* or the compiler makes it a call again */
			pg_compiler_barrier();
		}
	}
	else
		memcpy(row, normkey, len);
	((MinimalTuple) row)->t_len = len;
	return MAXALIGN(len);
}

/* Writes it; returns how many bytes it takes, MAXALIGN'ed. */
static inline Size
row_write(const RowWriter *writer, TupleTableSlot *slot, const RowForm *form, char *row)
{
	if (form->normkey == NULL)
		return row_writer_write(writer, slot->tts_values, slot->tts_isnull, row);
	memcpy(row, form->normkey, form->len);
	((MinimalTuple) row)->t_len = form->len;
	return form->room;
}

/* Stores the slot's row; false if the arena is full. */
static inline bool
row_store(RowWriter *writer, Arena *arena, BulkOwner *owner, TupleTableSlot *slot, uint32 *rid)
{
	RowForm		form;

	if (!row_has_normkey(slot, &form))
	{
		Size		size;

		row_prepare(writer, slot);
		size = row_writer_try(writer, slot->tts_values, slot->tts_isnull, arena->next, arena->end - arena->next);
		if (likely(size > 0))
		{
			*rid = arena_take(arena, size);
			return true;
		}
		row_measure_values(writer, slot, &form);
	}
	if (unlikely(!arena_reserve(arena, owner, form.room)))
		return false;
	*rid = arena_take(arena, row_write(writer, slot, &form, arena->next));
	return true;
}

/*
 * Asks for the memory of a row, some of about so many bytes: whoever reads its columns
 * waits for the second line as long as for the first.  Into the second cache, which has more
 * loads under way than the first: of 10M rows of 120 bytes each costs 15 ns less.
 */
static inline void
row_prefetch(const char *row, int bytes)
{
	__builtin_prefetch(row, 0, 2);
	/* it may begin anywhere in its first line */
	for (int at = 64; at < bytes + 32; at += 64)
		__builtin_prefetch(row + at, 0, 2);
}

/*
 * Puts a stored row into a slot of TTSOpsMinimalTuple that never owns its
 * tuple: ExecStoreMinimalTuple without the questions that cannot arise here.
 */
static inline void
row_to_slot(TupleTableSlot *slot, MinimalTuple row)
{
	MinimalTupleTableSlot *mslot = (MinimalTupleTableSlot *) slot;

	Assert(TTS_IS_MINIMALTUPLE(slot));
	/* somebody may have materialised the row before */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_nvalid = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	mslot->mintuple = row;
	mslot->off = 0;
	mslot->minhdr.t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	mslot->minhdr.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
}

/* ------------------------------------------------------------------------
 * Sorted rows and their keys side by side, as one process hands them to another.
 *
 * A block is a header, MinimalTuples each padded to 8 bytes, and behind them the
 * rows' keys, uint64 or uint128, in the rows' order, and where each row begins: so who merges
 * blocks need not look at a row.  There are no pointers in it.
 * A row that is larger than a block comes in pieces: its first block has one row, its
 * key and the row's full length, those that follow have no rows.
 * ------------------------------------------------------------------------
 */

#define ROW_BLOCK_SIZE		((Size) 64 * 1024)

typedef struct RowBlock
{
	uint32		n;				/* rows */
	uint32		bytes;			/* of rows */
	uint32		keys_at;		/* from rows; 16-byte aligned */
	uint32		places_at;		/* of the rows' places, the same */
	uint64		whole;			/* length of a row in pieces; 0: none */
	uint64		pad2;
	char		rows[FLEXIBLE_ARRAY_MEMBER];
} RowBlock;

/* Bytes for rows and keys. */
#define ROW_BLOCK_ROOM		(ROW_BLOCK_SIZE - offsetof(RowBlock, rows))

#define ROW_BLOCK_KEY_ALIGN	16

/* A row's place, from rows, in units of 8 bytes. */
typedef uint16 RowPlace;

/* Most bytes of a row that comes in pieces. */
#define ROW_BLOCK_PIECE		(ROW_BLOCK_ROOM - 3 * ROW_BLOCK_KEY_ALIGN)

/* No block has more rows: the least row is two words, the least key is one. */
#define ROW_BLOCK_MAX_ROWS	(ROW_BLOCK_ROOM / (16 + sizeof(uint64) + sizeof(RowPlace)))

/* Do n rows of so many bytes in all, with such keys, go into a block? */
static inline bool
row_block_has_room(Size bytes, Size n, Size key_bytes)
{
	return bytes + n * (key_bytes + sizeof(RowPlace)) <= ROW_BLOCK_ROOM - ROW_BLOCK_KEY_ALIGN;
}

/* n rows of so many bytes in all are in the block: where are its keys, and the places, which are these? */
static inline void
row_block_divide(RowBlock *block, uint32 n, Size bytes, Size key_bytes, const RowPlace *places)
{
	block->n = n;
	block->bytes = bytes;
	block->whole = 0;
	block->keys_at = TYPEALIGN(ROW_BLOCK_KEY_ALIGN, bytes);
	block->places_at = block->keys_at + n * key_bytes;
	memcpy(block->rows + block->places_at, places, n * sizeof(RowPlace));
}

#endif							/* GPUSORT_STORE_ROW_H */
