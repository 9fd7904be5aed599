/*
 * block.h
 *	  Row blocks: sorted rows and their keys, passed between processes by shared memory or by files.
 */
#ifndef GPUSORT_BLOCK_BLOCK_H
#define GPUSORT_BLOCK_BLOCK_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "key/key.h"
#include "sort/sort.h"

/* ------------------------------------------------------------------------
 * Row block
 *
 * A block is a header, MinimalTuples padded to 8 bytes, the keys of the rows (uint64
 * or uint128) in the order of the rows, and the offset of each row.  So a merge of
 * blocks does not read the rows.  A block contains no pointers.
 *
 * If the rows are their keys (SortSpec.keys_only), a block has the keys alone.
 *
 * A row larger than a block is divided into pieces.  The first block has n = 1, the
 * key and the full length of the row; the following blocks have n = 0.
 * ------------------------------------------------------------------------
 */

#define ROW_BLOCK_SIZE		((Size) 64 * 1024)

typedef struct RowBlock
{
	uint32		n;				/* number of rows */
	uint32		bytes;			/* bytes of all rows */
	uint32		keys_at;		/* offset of the keys; 16-byte aligned */
	uint32		places_at;		/* offset of the row offsets in rows[] */
	uint64		whole;			/* full length of a row in pieces; 0: none */
	uint64		size;			/* bytes of the block that are used */
	char		rows[FLEXIBLE_ARRAY_MEMBER];
} RowBlock;

/* Bytes for rows, keys and offsets. */
#define ROW_BLOCK_ROOM		(ROW_BLOCK_SIZE - offsetof(RowBlock, rows))

/* Alignment of blocks, and of keys in them. */
#define ROW_BLOCK_KEY_ALIGN	16

/* The range that contains the keys of n ranges, in the current memory context. */
extern CommonKeyRange *common_key_range(const CommonKeyRange **ranges, int n, const KeyColumn *keys, int nkeys);

/* Do keys in blocks with this range have 128 bits?  Otherwise they have 64. */
extern bool block_keys_wide(const SortSpec *spec, const CommonKeyRange *common_range);

/* ------------------------------------------------------------------------
 * Writer
 * ------------------------------------------------------------------------
 */

typedef struct BlockWriter BlockWriter;

/*
 * Creates a writer of the rows of a result or, if that is NULL, of a merge, which has returned
 * no row, in the current memory context.  common_range contains the keys of all rows that will
 * be merged.
 */
extern BlockWriter *block_writer_create(const SortSpec *spec, const CommonKeyRange *common_range,
										SortResult *result, MergeTree *merge);

/* Fills a block with the next rows; false if there are none. */
extern bool block_writer_fill(BlockWriter *writer, RowBlock *block);

/* ------------------------------------------------------------------------
 * Streams of blocks, their merge, and a reader of one of them
 *
 * All blocks must have been written with the merge's or the reader's common_range.
 * ------------------------------------------------------------------------
 */

typedef struct BlockSource BlockSource;
struct BlockSource
{
	MergeSource base;

	/*
	 * Frees the previous block and returns the next.  NULL at the end of the
	 * stream, or if the exchange was stopped (stopped is set then).
	 */
	RowBlock   *(*next_block) (BlockSource *source);
	bool		stopped;

	/* set by the merge or the reader */
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	bool		keys_only;		/* blocks have keys alone */
	MemoryContext cxt;

	char	   *long_row;		/* last row longer than a block; or NULL */
	Size		long_row_size;	/* allocated size */
	uint128		long_row_key;
};

/* This process's own sort result, in a block of its own memory. */
extern BlockSource *block_source_own(const SortSpec *spec, const CommonKeyRange *common_range,
									 SortResult *result);

/* Creates a merge of n streams of rows of spec, in the current memory context. */
extern MergeTree *block_merge_create(const SortSpec *spec, const CommonKeyRange *common_range,
									 BlockSource **sources, int n);

typedef struct BlockReader BlockReader;

/* Creates a reader in the current memory context.  source: NULL: there are no rows. */
extern BlockReader *block_reader_create(const SortSpec *spec, const CommonKeyRange *common_range,
										BlockSource *source);

/*
 * Puts the next row into the slot, of MinimalTuples, or of virtual rows if spec->keys_only; false at the end.  It is
 * valid until the next call for the reader.
 */
extern bool block_reader_next(BlockReader *reader, TupleTableSlot *slot);

/*
 * Skips following rows whose first key, an integer of this size in ascending order, is below a value: all of them, or
 * none if keys have columns whose values they do not tell.
 */
extern void block_reader_skip_below(BlockReader *reader, int64 value, int bytes);

#endif							/* GPUSORT_BLOCK_BLOCK_H */
