/*
 * store.h
 *	  Where a sort's rows lie: large memory, the row arena, and rows as MinimalTuples.
 */
#ifndef GPUSORT_STORE_STORE_H
#define GPUSORT_STORE_STORE_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "monitor/progress.h"
#include "port/atomics.h"
#include "utils/memutils.h"

/* ------------------------------------------------------------------------
 * Large memory: regions on huge pages, kept for the next sort
 * ------------------------------------------------------------------------
 */

/* Regions are multiples of this, so that huge pages can back them. */
#define BULK_GRAIN		((Size) 2 * 1024 * 1024)

/* Smaller requests are palloc'd. */
#define BULK_THRESHOLD	((Size) 1024 * 1024)

/* Owner of bulk memory.  All its memory is freed when its memory context is reset. */
typedef struct BulkOwner BulkOwner;

/* One growing, contiguous allocation. */
typedef struct BulkBuf
{
	void	   *ptr;
	Size		size;			/* usable bytes */
	Size		requested;		/* largest size passed to bulk_reserve() */
	bool		mapped;			/* true: a mapped region; false: palloc'd */
} BulkBuf;

/* progress: counts the owner's memory; NULL if it is not counted. */
extern BulkOwner *bulk_owner_create(MemoryContext cxt, Progress *progress);

/* The memory context of the owner. */
extern MemoryContext bulk_owner_context(const BulkOwner *owner);

/*
 * Makes buf at least size bytes large and keeps its first "keep" bytes.  If keep is
 * 0, the old memory is freed first.  New memory is not zeroed.  The memory is aligned
 * to 64 bytes.
 */
extern void bulk_reserve(BulkOwner *owner, BulkBuf *buf, Size size, Size keep);
extern void bulk_free(BulkOwner *owner, BulkBuf *buf);

/*
 * Called when a sort begins: shrinks the memory that the process keeps to the current
 * work_mem, or to maintenance_work_mem if the sort is that of an index build.
 */
extern void bulk_begin(bool index_build);

/* ------------------------------------------------------------------------
 * Row arena: memory for rows, addressed by 32-bit row ids (rids)
 *
 * Rows lie in chunks of 16 MB.  A rid counts 8-byte units: its upper bits are
 * the chunk number, its lower bits the offset within the chunk.  32 bits
 * address 32 GB, so no table of row offsets is needed.  Rids ascend in input
 * order, so sorting by key and then by rid is stable.
 *
 * A chunk contains no pointers, so it can be moved, shared between processes or
 * copied to a device.  The arena does not store its BulkOwner: functions that
 * allocate or free memory take it as an argument.
 * ------------------------------------------------------------------------
 */

#define ARENA_UNIT_SHIFT	3	/* a rid counts 8-byte units */
#define ARENA_CHUNK_SHIFT	21	/* units in a chunk */
#define ARENA_CHUNK_UNITS	((uint32) 1 << ARENA_CHUNK_SHIFT)
#define ARENA_CHUNK_SIZE	((Size) ARENA_CHUNK_UNITS << ARENA_UNIT_SHIFT)
#define ARENA_MAX_CHUNKS	((uint32) 1 << (32 - ARENA_CHUNK_SHIFT))

typedef struct ArenaChunk
{
	BulkBuf		buf;			/* empty for the later chunks of a huge row */
} ArenaChunk;

typedef struct Arena
{
	char	   *next;			/* address of the next row */
	char	   *end;			/* end of the current chunk */
	uint32		next_rid;		/* rid of the next row */

	char	  **base;			/* address of each chunk */
	ArenaChunk *chunks;
	uint32		nchunks;		/* chunks in use */

	/* chunks with memory; >= nchunks after a reset */
	uint32		nowned;
	uint32		capacity;		/* entries of base and chunks */
	Size		closed;			/* bytes in chunks before the current one */
} Arena;

/* Removes all rows and keeps the memory. */
extern void arena_reset(Arena *arena, BulkOwner *owner);

/* Makes room for a row of size bytes; false if no rids remain. */
extern bool arena_make_room(Arena *arena, BulkOwner *owner, Size size);

/* Frees chunks without rows. */
extern void arena_trim(Arena *arena, BulkOwner *owner);

/*
 * Compaction.  arena_compact_begin() removes all rows from the arena; *from still
 * addresses them.  The caller then allocates the rows to keep again, in the order of
 * their rids, and copies each from *from.  A copy never overwrites a later row.
 * arena_compact_end() drops *from.
 */
extern void arena_compact_begin(Arena *arena, BulkOwner *owner, Arena *from);

/*
 * Frees the chunks of *from that only have rows before rid.  The caller no longer
 * needs these rows.  *chunk is the first chunk that is not freed yet; 0 at first.
 */
extern void arena_compact_passed(Arena *from, BulkOwner *owner, uint32 rid, uint32 *chunk);

extern void arena_compact_end(Arena *arena, BulkOwner *owner, Arena *from);

/* Frees all memory but the chunk tables. */
extern void arena_free(Arena *arena, BulkOwner *owner);

/* Do rids remain for size more bytes of rows?  No row may be huge. */
static inline bool
arena_has_rids(const Arena *arena, Size size)
{
	return arena->nchunks + size / ARENA_CHUNK_SIZE + 1 < ARENA_MAX_CHUNKS;
}

/* Bytes of all rows. */
static inline Size
arena_used(const Arena *arena)
{
	return arena->closed +
		(arena->nchunks == 0 ? 0 : arena->next - arena->base[arena->nchunks - 1]);
}

static inline char *
arena_at(const Arena *arena, uint32 rid)
{
	return arena->base[rid >> ARENA_CHUNK_SHIFT] +
		((Size) (rid & (ARENA_CHUNK_UNITS - 1)) << ARENA_UNIT_SHIFT);
}

/* Makes size bytes available at arena->next; false if the arena is full. */
static inline bool
arena_reserve(Arena *arena, BulkOwner *owner, Size size)
{
	return likely(size <= (Size) (arena->end - arena->next)) || arena_make_room(arena, owner, size);
}

/* Adds the row of size bytes (MAXALIGN'ed) at arena->next; returns its rid. */
static inline uint32
arena_take(Arena *arena, Size size)
{
	uint32		rid = arena->next_rid;

	Assert(size == MAXALIGN(size) && size <= (Size) (arena->end - arena->next));
	arena->next += size;
	arena->next_rid += size >> ARENA_UNIT_SHIFT;
	return rid;
}

/* Allocates a row of size bytes (MAXALIGN'ed); NULL if the arena is full. */
static inline char *
arena_alloc(Arena *arena, BulkOwner *owner, Size size, uint32 *rid)
{
	char	   *row;

	if (unlikely(!arena_reserve(arena, owner, size)))
		return NULL;
	row = arena->next;
	*rid = arena_take(arena, size);
	return row;
}

/* ------------------------------------------------------------------------
 * Rows as MinimalTuples: forms, copies and checks
 * ------------------------------------------------------------------------
 */

/* More bytes than this are copied by memcpy(). */
#define COPY_INLINE_MAX		256

/* Copies len bytes; reads and writes no byte after them. */
static inline void
copy_bytes(char *to, const char *from, Size len)
{
	if (likely(len >= 16 && len <= COPY_INLINE_MAX))
	{
		for (Size at = 0; at < len - 16; at += 16)
		{
			memcpy(to + at, from + at, 16);
			/* keeps the compiler from making the loop a call of memcpy() */
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
 * Returns the next address with this alignment (less one).  Zeroes the padding before it,
 * and possibly more: 8 bytes from to on.
 */
static inline char *
copy_align(char *to, uint8 align)
{
	memset(to, 0, sizeof(uint64));
	return (char *) (((uintptr_t) to + align) & ~(uintptr_t) align);
}

/*
 * Copies a varlena that is not expanded into a row, in the format of heap_fill_tuple();
 * returns the end of the copy.
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
		/* avoids a compiler warning about varlenas shorter than their header */
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

/* ---- Secret of a device job ----
 *
 * GPU memory and chunks of the staging pool are reused without being cleared, so they
 * may contain rows and keys of other sessions with their checksums.  So checksums of
 * rows and sums of keys depend on a secret of the job: a row or key of another job
 * passes the check with a probability of 2^-32.
 *
 * Only the backends that fill and read the job know the secret.  Neither the device
 * nor the memory shared with the service has it.
 */

typedef struct JobSecret
{
	uint64		offset;
	uint64		factor;			/* odd */
	uint64		high_factor;	/* odd; for the upper 64 bits of a key */
} JobSecret;

/* Draws a secret; false if the server has no random numbers. */
static inline bool
job_secret_make(JobSecret *secret)
{
	if (!pg_strong_random(secret, sizeof(*secret)))
		return false;
	secret->factor |= 1;
	secret->high_factor |= 1;
	return true;
}

/* Mixes a value with the secret.  The upper half depends on all bits of both. */
static inline uint64
job_secret_mix(const JobSecret *secret, uint64 value)
{
	return (value + secret->offset) * secret->factor;
}

/* ---- Mark of a row: a hash of its key ----
 *
 * Rows that a GPU has sorted return without their keys.  Two bytes of the padding of a
 * MinimalTuple have a 16-bit hash of the key, the mark.  Rows with different marks have
 * different keys; of neighbours with different keys one in 65,536 has the same mark.  Rows
 * whose duplicates the GPU has dropped return with their keys, which must have their marks.
 *
 * The checksum covers the mark, so the mark is set first.
 */

#define ROW_MARK_LOW	UINT64CONST(0x9E3779B97F4A7C15)
#define ROW_MARK_HIGH	UINT64CONST(0xC2B2AE3D27D4EB4F)

/* Offset of the mark in a row. */
#define ROW_MARK_AT		((Size) 8)

/* Sets the mark of a row whose key has up to 128 bits. */
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

/* ---- Checksum of a row that goes to a device, and sum of its content ----
 *
 * A row that goes to a device has a checksum of all its bytes in the padding of its
 * MinimalTuple, which PostgreSQL does not read.  The checksum depends on the job's
 * secret.  A row that fits its buffer and has the right checksum was sent by this
 * job: its header, its NULLs and the lengths of its columns can be trusted.
 *
 * The sum of the content multiplies each word by an odd number that depends on the
 * word's index and adds the products.  It leaves out what may differ between two
 * reads of the same row: visibility bits of the header and bytes after the end.  So
 * sums over many rows tell whether two sets of rows are the same, in any order.  The
 * last step is not linear in the words: otherwise the rows 1, 2, 3 would have the
 * same sum as 2, 2, 2.
 */

#define ROW_SUM_STEP	UINT64CONST(0x9E3779B97F4A7C16)
#define ROW_SUM_FIRST	UINT64CONST(0xD6E8FEB86659FD93)

/* Bytes of the header: length, padding, number of columns, flags. */
#define ROW_SUM_HEADER	((Size) 16)

/* The sum of a row's content: its length and columns.  len is at least ROW_SUM_HEADER. */
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
		/* the memory of the row ends at a word boundary, its content does not */
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

/* The checksum of a row whose content has this sum. */
static inline uint32
row_checksum(const char *row, uint64 sum, const JobSecret *secret)
{
	uint64		word;

	memcpy(&word, row + sizeof(uint64), sizeof(uint64));
	return (uint32) (job_secret_mix(secret, sum + word * ROW_SUM_STEP) >> 32);
}

/* Sets the checksum of a row; returns the sum of its content. */
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

/*
 * Do the bytes contain a whole row of the job with this secret?  *sum is then the sum
 * of its content.
 */
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

/* ---- TID of a row: the heap tuple that an index tuple is for ----
 *
 * A row of an index build has the TID in the padding of its MinimalTuple, and a flag in
 * a bit of t_infomask2 that PostgreSQL leaves unused.  Arenas and runs keep both.  Such
 * rows have no checksum and no mark, whose places these are.
 */

/* Flag in t_infomask2: the heap tuple is dead to all new snapshots. */
#define ROW_DEAD	0x0800

static inline void
row_set_tid(char *row, const ItemPointerData *tid)
{
	StaticAssertStmt(MINIMAL_TUPLE_PADDING >= sizeof(ItemPointerData) && (ROW_DEAD & HEAP_NATTS_MASK) == 0,
					 "a TID has no place in a MinimalTuple");
	memcpy(((MinimalTuple) row)->mt_padding, tid, sizeof(ItemPointerData));
}

static inline void
row_get_tid(const MinimalTupleData *row, ItemPointerData *tid)
{
	memcpy(tid, row->mt_padding, sizeof(ItemPointerData));
}

/* ---- TID as a row id: block number, offset, and whether the heap tuple is dead ----
 *
 * Row ids of TIDs ascend in TID order.  Blocks from TID_RID_BLOCKS on have none.
 */
#define TID_RID_OFFSET_BITS	(MaxHeapTuplesPerPage < 512 ? 9 : 11)
#define TID_RID_BLOCKS		((BlockNumber) 1 << (31 - TID_RID_OFFSET_BITS))
#define TID_RID_DEAD		((uint32) 1)

static inline uint32
tid_rid(const ItemPointerData *tid, bool dead)
{
	StaticAssertStmt(MaxHeapTuplesPerPage < 1 << TID_RID_OFFSET_BITS, "an offset does not fit a row id");
	return ItemPointerGetBlockNumberNoCheck(tid) << (TID_RID_OFFSET_BITS + 1) |
		(uint32) ItemPointerGetOffsetNumberNoCheck(tid) << 1 | (dead ? TID_RID_DEAD : 0);
}

static inline void
tid_of_rid(uint32 rid, ItemPointerData *tid)
{
	ItemPointerSet(tid, rid >> (TID_RID_OFFSET_BITS + 1), rid >> 1 & ((1 << TID_RID_OFFSET_BITS) - 1));
}

/* ---- Walk: finds the columns of a heap tuple ----
 *
 * A walk is prepared once for the wanted columns of a table.  A step of it is a
 * varlena, or several adjacent columns of fixed width.  A tuple that has all columns
 * up to the last wanted one, and no NULL among them, takes these steps without tests
 * per column.  Other tuples are walked column by column.
 */

/* A walk that needs more steps goes column by column. */
#define WALK_MAX_STEPS	64

typedef struct WalkStep
{
	/* bytes of columns of fixed width; 0: a varlena */
	int32		len;
	uint8		align;			/* alignment less one */
	bool		small;			/* the varlena must have the short format */
} WalkStep;

/* Begin and end of a step in a tuple. */
typedef struct WalkAt
{
	const char *begin;
	const char *end;
} WalkAt;

typedef struct WalkColumn
{
	int16		len;			/* -1: a varlena */
	uint8		align;			/* alignment less one */
	uint16		step;			/* the step that has the column */
	int32		offset;			/* offset in the step */
	const char *missing;		/* value in older tuples; NULL: SQL NULL */
} WalkColumn;

typedef struct TupleWalk
{
	int			natts;			/* columns up to the last wanted one */
	int			nsteps;			/* 0: walk column by column */
	Size		missing_len;	/* bytes of all missing values */
	WalkStep   *steps;
	WalkColumn *cols;
} TupleWalk;

/*
 * Creates a walk to the columns atts[] (from 0) of tuples of desc, in the current
 * memory context; NULL if a type is not supported.  If small, tuple_walk() accepts
 * only tuples that have the varlenas of these columns in the short format, which is
 * not aligned.
 */
extern TupleWalk *tuple_walk_create(TupleDesc desc, const AttrNumber *atts, int n, bool small);

extern void tuple_walk_free(TupleWalk *walk);

/*
 * Finds the columns of any tuple: where[] gets their addresses, NULL for an SQL NULL.
 * Raises an error if a column lies outside the tuple.
 */
extern void tuple_walk_columns(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len,
							   const char **where);

/* The size of the column's value at p. */
static inline Size
walk_value_size(const WalkColumn *col, const char *p)
{
	return col->len > 0 ? col->len : VARSIZE_ANY(p);
}

/* Does the tuple have all columns of the walk, without a NULL? */
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
 * Takes the steps through a tuple of len bytes; false if the tuple needs a walk column by
 * column.  Pages and tuples are aligned, so padding follows from addresses.
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
	/* a corrupt length must not lead outside the tuple */
	return likely(p <= (const char *) tuple + len);
}

/* ---- Column reader: stores the values of some columns where they are needed ---- */

typedef struct ReaderColumn
{
	/* set by the caller */
	AttrNumber	att;			/* from 0 */
	Datum	   *value;			/* where the value is stored */
	bool	   *isnull;

	/* set by column_reader_create() */
	int16		byval_len;		/* bytes of a type passed by value; 0: by
								 * reference */
	uint16		step;			/* the walk's step that has the column */
	int32		offset;			/* offset in the step */
} ReaderColumn;

typedef struct ColumnReader
{
	TupleWalk  *walk;
	int			n;
	ReaderColumn *columns;
} ColumnReader;

/*
 * Creates a reader of n columns of tuples of desc, in the current memory context; NULL if
 * a type is not supported.  The reader keeps the array.
 */
extern ColumnReader *column_reader_create(TupleDesc desc, ReaderColumn *columns, int n);

/* column_reader_read() for tuples that need a walk column by column. */
extern void column_reader_read_slowly(const ColumnReader *reader, const HeapTupleHeaderData *tuple, Size len);

/* The value of a column at this address, which is not NULL. */
static inline Datum
reader_column_load(const ReaderColumn *column, const char *from)
{
	switch (column->byval_len)
	{
		case 0:
			return PointerGetDatum(from);
		case 1:
			return CharGetDatum(*from);
		case 2:
			return Int16GetDatum(*(const int16 *) from);
		case 4:
			return Int32GetDatum(*(const int32 *) from);
		default:
			return *(const Datum *) from;
	}
}

/*
 * Stores the columns of a tuple of len bytes.  Values passed by reference stay in the tuple.
 * Raises an error if a column lies outside the tuple.
 */
static pg_attribute_always_inline void
column_reader_read(const ColumnReader *reader, const HeapTupleHeaderData *tuple, Size len)
{
	WalkAt		at[WALK_MAX_STEPS];

	if (unlikely(!tuple_walk(reader->walk, tuple, len, at)))
	{
		column_reader_read_slowly(reader, tuple, len);
		return;
	}
	for (int i = 0; i < reader->n; i++)
	{
		const ReaderColumn *column = &reader->columns[i];

		*column->value = reader_column_load(column, at[column->step].begin + column->offset);
		*column->isnull = false;
	}
}

/* ---- Row writer: forms MinimalTuples from a slot's values ----
 *
 * Writes the bytes that heap_form_minimal_tuple() would write.  The properties of the
 * columns are looked up once.  If enough room is available, each varlena is measured
 * when it is written, which takes half as many instructions as measuring the row
 * first.
 */

typedef enum WriterKind
{
	WRITER_1,					/* by value, 1, 2, 4 or 8 bytes */
	WRITER_2,
	WRITER_4,
	WRITER_8,
	WRITER_FIXED,				/* by reference, of fixed width */
	WRITER_VARLENA,
	WRITER_CSTRING
} WriterKind;

typedef struct WriterColumn
{
	uint8		kind;			/* WriterKind */
	uint8		align;			/* alignment less one */
	bool		packable;		/* may have the short format */
	int16		len;			/* attlen */
} WriterColumn;

typedef struct RowWriter
{
	TupleDesc	desc;			/* descriptor of the rows */
	TupleDesc	same_layout;	/* other descriptor, same layout of rows */
	int			natts;
	int			nvarying;		/* columns without fixed width */
	Size		room;			/* fixed-width columns, header and padding */
	WriterColumn *cols;
	AttrNumber *varying;		/* columns without fixed width, from 0 */
	MemoryContext cxt;
	/* header of a row without NULLs, except length and infomask */
	char		head[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} RowWriter;

/* Creates a writer of rows of desc in the current memory context. */
extern RowWriter *row_writer_create(TupleDesc desc);

/* Changes the writer to another descriptor. */
extern void row_writer_adapt(RowWriter *writer, TupleDesc desc);

/* Upper bound of the bytes that row_writer_write() writes. */
extern Size row_writer_room(const RowWriter *writer, const Datum *values, const bool *isnull);

/* Raises an error if the row is too large for heap_form_minimal_tuple(). */
extern void row_writer_check(const RowWriter *writer, Datum *values, bool *isnull);

/* Writes the row; returns its MAXALIGN'ed size. */
extern Size row_writer_write(const RowWriter *writer, const Datum *values, const bool *isnull,
							 char *row);

/*
 * Writes the row without measuring it first.  Returns 0 if it may need more than room
 * bytes, or has a value that must be flattened.
 */
extern Size row_writer_try(const RowWriter *writer, const Datum *values, const bool *isnull,
						   char *row, Size room);

/* ---- Row pick: forms MinimalTuples from some columns of heap tuples ----
 *
 * The columns may come in any order.  Writes the bytes that a slot with these values
 * would be stored as.  Columns that are adjacent in the tuple and in the row, with
 * the same padding, form one piece and are copied at once.  The pieces are known in
 * advance for tuples whose varlenas are short and that have no NULL; other tuples are
 * copied column by column.
 */

typedef struct PickPiece
{
	uint16		step;			/* step in which the piece begins */
	uint16		last;			/* step in which the piece ends */
	int32		from;			/* bytes from the begin of the first step */
	int32		until;			/* bytes to the end of the last step */
	int32		len;			/* length if known in advance; otherwise 0 */
	uint8		align;			/* alignment in the row, less one */
} PickPiece;

typedef struct PickColumn
{
	AttrNumber	att;			/* column of the tuple, from 0 */
	bool		packable;		/* may have the short format */
} PickColumn;

typedef struct RowPick
{
	TupleWalk  *walk;
	int			npieces;
	int			ncols;
	int			times;			/* how often a column is taken at most */

	/* a row is at most times * (data of its tuple) + extra bytes */
	Size		extra;
	PickPiece  *pieces;
	PickColumn *cols;
	char		header[MAXALIGN(SizeofMinimalTupleHeader)] pg_attribute_aligned(8);
} RowPick;

/*
 * Creates a pick of rows of rowdesc, whose i-th column is column atts[i] (from 0) of
 * tuples of desc, in the current memory context; NULL if it is not possible.
 */
extern RowPick *row_pick_create(TupleDesc desc, TupleDesc rowdesc, const AttrNumber *atts);

extern void row_pick_free(RowPick *pick);

/* row_pick() for tuples with NULLs, long varlenas or missing columns. */
extern Size row_pick_by_column(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len,
							   char *row);

/* Upper bound of the bytes that row_pick() writes for a tuple of len bytes. */
static inline Size
row_pick_room(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len)
{
	return MAXALIGN((len - tuple->t_hoff) * pick->times + pick->extra);
}

/* Writes the row of a tuple of len bytes; returns its MAXALIGN'ed size. */
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

/* ---- Storing a slot's row in the arena ---- */

/* The form of a slot's row before it is stored. */
typedef struct RowForm
{
	Size		room;			/* upper bound of the stored size, MAXALIGN'ed */

	/* bytes of the MinimalTuple; NULL: form it from values */
	const char *tuple;
	Size		len;			/* bytes of tuple */
} RowForm;

/* Does the slot have a heap or minimal tuple?  Slots of a scan without projection do. */
static inline bool
row_has_tuple(TupleTableSlot *slot, RowForm *form)
{
	const TupleTableSlotOps *ops = slot->tts_ops;

	if (ops == &TTSOpsBufferHeapTuple || ops == &TTSOpsHeapTuple)
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (likely(tuple != NULL))
		{
			form->len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
			form->tuple = (char *) tuple->t_data + MINIMAL_TUPLE_OFFSET;
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
			form->tuple = (char *) tuple;
			form->room = MAXALIGN(form->len);
			return true;
		}
	}
	return false;
}

/* Deforms the slot's row and adapts the writer to the slot. */
static inline void
row_prepare(RowWriter *writer, TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	if (unlikely(slot->tts_tupleDescriptor != writer->desc &&
				 slot->tts_tupleDescriptor != writer->same_layout))
		row_writer_adapt(writer, slot->tts_tupleDescriptor);
}

static inline void
row_measure_values(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	form->tuple = NULL;
	form->len = 0;
	form->room = row_writer_room(writer, slot->tts_values, slot->tts_isnull);
	if (unlikely(!AllocSizeIsValid(form->room)))
		row_writer_check(writer, slot->tts_values, slot->tts_isnull);
}

/* Finds the form of a slot's row and its room. */
static inline void
row_measure(RowWriter *writer, TupleTableSlot *slot, RowForm *form)
{
	if (row_has_tuple(slot, form))
		return;
	row_prepare(writer, slot);
	row_measure_values(writer, slot, form);
}

/* Rows up to this length are copied in words, without a call of memcpy(). */
#define ROW_COPY_WORDS	128

/*
 * Copies a MinimalTuple of len bytes from a heap page; returns MAXALIGN(len).  Both
 * source and destination have MAXALIGN(len) bytes.
 */
static inline Size
row_copy(char *row, const char *tuple, Size len)
{
	if (likely(len <= ROW_COPY_WORDS))
	{
		for (Size at = 0; at < len; at += sizeof(uint64))
		{
			memcpy(row + at, tuple + at, sizeof(uint64));
			/* keeps the compiler from making the loop a call of memcpy() */
			pg_compiler_barrier();
		}
	}
	else
		memcpy(row, tuple, len);
	((MinimalTuple) row)->t_len = len;
	return MAXALIGN(len);
}

/*
 * Makes a MinimalTuple of a copied heap tuple.  heap_form_tuple() marks its tuples as
 * composite values by these two bits; heap_getattr() would then read the type's OID from
 * bytes that are the MinimalTuple's length.
 */
static inline void
row_clear_composite(MinimalTuple row)
{
	const uint16 composite = HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID;

	if (unlikely((row->t_infomask & composite) == composite))
		row->t_infomask &= ~composite;
}

/* Writes a slot's row in this form; returns its MAXALIGN'ed size. */
static inline Size
row_write(const RowWriter *writer, TupleTableSlot *slot, const RowForm *form, char *row)
{
	if (form->tuple == NULL)
		return row_writer_write(writer, slot->tts_values, slot->tts_isnull, row);
	memcpy(row, form->tuple, form->len);
	((MinimalTuple) row)->t_len = form->len;
	row_clear_composite((MinimalTuple) row);
	return form->room;
}

/* Stores the slot's row in the arena; false if the arena is full. */
static inline bool
row_store(RowWriter *writer, Arena *arena, BulkOwner *owner, TupleTableSlot *slot, uint32 *rid)
{
	RowForm		form;

	if (!row_has_tuple(slot, &form))
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
 * Prefetches a row of about this many bytes, all its cache lines: a miss of a later line
 * costs as much as one of the first.  Prefetches into the second-level cache, which
 * allows more loads in flight than the first.
 */
static inline void
row_prefetch(const char *row, int bytes)
{
	__builtin_prefetch(row, 0, 2);
	/* the row may begin anywhere in its first cache line */
	for (int at = 64; at < bytes + 32; at += 64)
		__builtin_prefetch(row + at, 0, 2);
}

/*
 * Stores a row in a slot of TTSOpsMinimalTuple, which does not own it.  This is
 * ExecStoreMinimalTuple() without the cases that do not occur here.
 */
static inline void
row_to_slot(TupleTableSlot *slot, MinimalTuple row)
{
	MinimalTupleTableSlot *mslot = (MinimalTupleTableSlot *) slot;

	Assert(TTS_IS_MINIMALTUPLE(slot));
	/* the slot's previous row may have been materialised */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_nvalid = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	mslot->mintuple = row;
	mslot->off = 0;
	mslot->minhdr.t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	mslot->minhdr.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
}

/* Offset of a row among rows that lie together, in units of 8 bytes. */
typedef uint16 RowPlace;

#endif							/* GPUSORT_STORE_STORE_H */
