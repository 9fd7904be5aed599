/*
 * row_tid.h
 *	  TIDs of the rows of an index build, and TIDs as row ids.
 */
#ifndef GPUSORT_STORE_ROW_TID_H
#define GPUSORT_STORE_ROW_TID_H

#include "postgres.h"

#include "access/htup_details.h"
#include "storage/itemptr.h"

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

#endif							/* GPUSORT_STORE_ROW_TID_H */
