/*
 * row_block.h
 *	  Sorted rows and their keys side by side, as one process hands them to another.
 *
 * A block is a header, MinimalTuples each padded to 8 bytes, and behind them the
 * rows' keys, uint64 or uint128, in the rows' order, and where each row begins: so who merges
 * blocks need not look at a row.  There are no pointers in it.
 * A row that is larger than a block comes in pieces: its first block has one row, its
 * key and the row's full length, those that follow have no rows.
 */
#ifndef GPUSORT_ROW_BLOCK_H
#define GPUSORT_ROW_BLOCK_H

#include "postgres.h"

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

#endif							/* GPUSORT_ROW_BLOCK_H */
