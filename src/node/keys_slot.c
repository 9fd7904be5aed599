/*
 * keys_slot.c
 *	  The slot of rows that are their keys.
 *
 * A virtual slot, whose values consumers read without deforming anything; but those of
 * such rows, grouping, DISTINCT and window functions above all, also copy every row or
 * every group's first.  A virtual slot's copy asks again for each row what its columns'
 * types are; this one has a writer that asked once.  DISTINCT of 2M int8: 178 ms of CPU
 * without, 160 so.
 *
 * Nodes above make slots of the same kind for rows of their own.  These have no writer,
 * and copy as virtual slots do.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "node/keys_slot.h"
#include "store/row_writer.h"

typedef struct KeysSlot
{
	VirtualTupleTableSlot base;
	RowWriter  *writer;			/* NULL: none */
} KeysSlot;

TupleTableSlotOps keys_slot_ops;

static MinimalTuple
copy_minimal(TupleTableSlot *slot COMPAT_COPY_EXTRA_PARAM)
{
	const RowWriter *writer = ((KeysSlot *) slot)->writer;
	char	   *mem;

	if (unlikely(writer == NULL))
		return TTSOpsVirtual.copy_minimal_tuple(slot COMPAT_COPY_EXTRA_ARG);
	mem = palloc(COMPAT_COPY_EXTRA + row_writer_room(writer, slot->tts_values, slot->tts_isnull));
	memset(mem, 0, COMPAT_COPY_EXTRA);
	(void) row_writer_write(writer, slot->tts_values, slot->tts_isnull, mem + COMPAT_COPY_EXTRA);
	return (MinimalTuple) (mem + COMPAT_COPY_EXTRA);
}

/* What heap_form_tuple() makes. */
static HeapTuple
copy_heap(TupleTableSlot *slot)
{
	const RowWriter *writer = ((KeysSlot *) slot)->writer;
	TupleDesc	desc = slot->tts_tupleDescriptor;
	HeapTuple	tuple;
	HeapTupleHeader header;
	MinimalTuple row;

	if (unlikely(writer == NULL))
		return TTSOpsVirtual.copy_heap_tuple(slot);
	tuple = palloc(HEAPTUPLESIZE + MINIMAL_TUPLE_OFFSET +
				   row_writer_room(writer, slot->tts_values, slot->tts_isnull));
	header = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);
	row = (MinimalTuple) ((char *) header + MINIMAL_TUPLE_OFFSET);
	(void) row_writer_write(writer, slot->tts_values, slot->tts_isnull, (char *) row);
	tuple->t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	tuple->t_data = header;
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	/* the row's length is in the way of these */
	HeapTupleHeaderSetDatumLength(header, tuple->t_len);
	HeapTupleHeaderSetTypeId(header, desc->tdtypeid);
	HeapTupleHeaderSetTypMod(header, desc->tdtypmod);
	ItemPointerSetInvalid(&header->t_ctid);
	return tuple;
}

void
keys_slot_init(void)
{
	keys_slot_ops = TTSOpsVirtual;
	keys_slot_ops.base_slot_size = sizeof(KeysSlot);
	keys_slot_ops.copy_minimal_tuple = copy_minimal;
	keys_slot_ops.copy_heap_tuple = copy_heap;
}

void
keys_slot_prepare(TupleTableSlot *slot)
{
	Assert(slot->tts_ops == &keys_slot_ops);
	((KeysSlot *) slot)->writer = row_writer_create(slot->tts_tupleDescriptor);
}
