/*
 * row_writer.c
 *	  Forms MinimalTuples from the values of slots.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "compat.h"
#include "store/row_copy.h"
#include "store/row_writer.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

static WriterColumn
describe_column(Form_pg_attribute attr)
{
	WriterColumn col = {0};

	col.len = attr->attlen;
	col.align = att_align_nominal(1, attr->attalign) - 1;
	col.packable = attr->attlen == -1 && attr->attstorage != TYPSTORAGE_PLAIN;
	if (attr->attlen == -1)
		col.kind = WRITER_VARLENA;
	else if (attr->attlen == -2)
		col.kind = WRITER_CSTRING;
	else if (!attr->attbyval)
		col.kind = WRITER_FIXED;
	else
		col.kind = attr->attlen == 1 ? WRITER_1 : attr->attlen == 2 ? WRITER_2 :
			attr->attlen == 4 ? WRITER_4 : WRITER_8;
	return col;
}

static void
describe_row(RowWriter *writer, TupleDesc desc)
{
	MinimalTuple head = (MinimalTuple) writer->head;

	writer->desc = writer->same_layout = desc;
	writer->natts = desc->natts;
	writer->nvarying = 0;
	writer->room = MAXALIGN(SizeofMinimalTupleHeader + BITMAPLEN(desc->natts));
	for (int att = 0; att < desc->natts; att++)
	{
		WriterColumn *col = &writer->cols[att];

		*col = describe_column(TupleDescAttr(desc, att));
		writer->room += col->align + Max(col->len, 0);
		if (col->len < 0)
			writer->varying[writer->nvarying++] = att;
	}
	/* copy_align() may write 8 bytes, at two alignments */
	writer->room += 2 * sizeof(uint64);

	memset(writer->head, 0, sizeof(writer->head));
	HeapTupleHeaderSetNatts(head, desc->natts);
	head->t_hoff = sizeof(writer->head) + MINIMAL_TUPLE_OFFSET;
}

RowWriter *
row_writer_create(TupleDesc desc)
{
	RowWriter  *writer = palloc0(sizeof(RowWriter));

	writer->cxt = CurrentMemoryContext;
	writer->cols = palloc(Max(1, desc->natts) * sizeof(WriterColumn));
	writer->varying = palloc(Max(1, desc->natts) * sizeof(AttrNumber));
	describe_row(writer, desc);
	return writer;
}

void
row_writer_adapt(RowWriter *writer, TupleDesc desc)
{
	bool		same = desc->natts == writer->natts;

	for (int att = 0; same && att < desc->natts; att++)
	{
		WriterColumn col = describe_column(TupleDescAttr(desc, att));
		const WriterColumn *mine = &writer->cols[att];

		same = col.kind == mine->kind && col.align == mine->align &&
			col.packable == mine->packable && col.len == mine->len;
	}
	if (same)
	{
		writer->same_layout = desc;
		return;
	}
	if (desc->natts > writer->natts)
	{
		pfree(writer->cols);
		pfree(writer->varying);
		writer->cols = MemoryContextAlloc(writer->cxt, desc->natts * sizeof(WriterColumn));
		writer->varying = MemoryContextAlloc(writer->cxt, desc->natts * sizeof(AttrNumber));
	}
	describe_row(writer, desc);
}

Size
row_writer_room(const RowWriter *writer, const Datum *values, const bool *isnull)
{
	Size		room = writer->room;

	for (int i = 0; i < writer->nvarying; i++)
	{
		AttrNumber	att = writer->varying[i];
		const char *value = DatumGetPointer(values[att]);

		if (isnull[att])
			continue;
		if (unlikely(writer->cols[att].kind == WRITER_CSTRING))
			room += strlen(value) + 1;
		else if (unlikely(VARATT_IS_EXTERNAL_EXPANDED(value)))
			room += EOH_get_flat_size(DatumGetEOHP(values[att]));
		else
			room += VARSIZE_ANY(value);
	}
	return MAXALIGN(room);
}

static inline bool
has_null(const RowWriter *writer, const bool *isnull)
{
	bool		has = false;

	for (int att = 0; att < writer->natts; att++)
		has |= isnull[att];
	return has;
}

void
row_writer_check(const RowWriter *writer, Datum *values, bool *isnull)
{
	Size		len = SizeofMinimalTupleHeader;

	if (has_null(writer, isnull))
		len += BITMAPLEN(writer->natts);
	len = MAXALIGN(len) + heap_compute_data_size(writer->desc, values, isnull);
	if (!AllocSizeIsValid(len))
		elog(ERROR, "invalid memory alloc request size %zu", len);
}

static pg_noinline char *
write_expanded(const WriterColumn *col, Datum value, char *to, uint16 *infomask)
{
	ExpandedObjectHeader *eoh = DatumGetEOHP(value);
	Size		size = EOH_get_flat_size(eoh);

	*infomask |= HEAP_HASVARWIDTH;
	to = copy_align(to, col->align);
	EOH_flatten_into(eoh, to, size);
	return to + size;
}

/* Writes a value passed by value; its type may have any alignment. */
#define WRITE_VALUE(type, from_datum) \
	do { \
		type		bytes = from_datum; \
		to = copy_align(to, col->align); \
		memcpy(to, &bytes, sizeof(bytes)); \
		to += sizeof(bytes); \
	} while (0)

/*
 * Writes the values of all columns to "to" and sets infomask and null bitmap; returns
 * their end.  If bounded, returns NULL when a value without fixed width would end
 * behind last or must be flattened.
 */
static pg_attribute_always_inline char *
write_values(const RowWriter *writer, const Datum *values, const bool *isnull, bool hasnull,
			 bool bounded, const char *last, MinimalTuple row, char *to)
{
	uint16		infomask = hasnull ? HEAP_HASNULL : 0;
	const WriterColumn *col = writer->cols;
	const int	natts = writer->natts;

	for (int att = 0; att < natts; att++, col++)
	{
		Datum		value = values[att];

		if (hasnull)
		{
			if (isnull[att])
				continue;
			row->t_bits[att / 8] |= 1 << att % 8;
		}
		switch ((WriterKind) col->kind)
		{
			case WRITER_1:
				WRITE_VALUE(char, DatumGetChar(value));
				break;
			case WRITER_2:
				WRITE_VALUE(int16, DatumGetInt16(value));
				break;
			case WRITER_4:
				WRITE_VALUE(int32, DatumGetInt32(value));
				break;
			case WRITER_8:
				WRITE_VALUE(Datum, value);
				break;
			case WRITER_FIXED:
				to = copy_align(to, col->align);
				copy_bytes(to, DatumGetPointer(value), col->len);
				to += col->len;
				break;
			case WRITER_VARLENA:
				if (unlikely(VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value))))
				{
					if (bounded)
						return NULL;
					to = write_expanded(col, value, to, &infomask);
					break;
				}
				if (bounded && unlikely((ssize_t) VARSIZE_ANY(DatumGetPointer(value)) > last - to))
					return NULL;
				to = copy_varlena(to, DatumGetPointer(value), col->align, col->packable, &infomask);
				break;
			case WRITER_CSTRING:
				{
					Size		size = strlen(DatumGetCString(value)) + 1;

					if (bounded && (ssize_t) size > last - to)
						return NULL;
					infomask |= HEAP_HASVARWIDTH;
					memcpy(to, DatumGetCString(value), size);
					to += size;
					break;
				}
		}
	}
	row->t_infomask = infomask;
	return to;
}

static pg_attribute_always_inline Size
write_row(const RowWriter *writer, const Datum *values, const bool *isnull, bool bounded,
		  const char *last, char *row)
{
	MinimalTuple header = (MinimalTuple) row;
	char	   *to;

	if (unlikely(has_null(writer, isnull)))
	{
		Size		hoff = MAXALIGN(SizeofMinimalTupleHeader + BITMAPLEN(writer->natts));

		memset(row, 0, hoff);
		HeapTupleHeaderSetNatts(header, writer->natts);
		header->t_hoff = hoff + MINIMAL_TUPLE_OFFSET;
		to = write_values(writer, values, isnull, true, bounded, last, header, row + hoff);
	}
	else
	{
		memcpy(row, writer->head, sizeof(writer->head));
		to = write_values(writer, values, isnull, false, bounded, last, header, row + sizeof(writer->head));
	}
	if (bounded && unlikely(to == NULL))
		return 0;
	header->t_len = to - row;
	return copy_align(to, MAXIMUM_ALIGNOF - 1) - row;
}

Size
row_writer_write(const RowWriter *writer, const Datum *values, const bool *isnull, char *row)
{
	return write_row(writer, values, isnull, false, NULL, row);
}

Size
row_writer_try(const RowWriter *writer, const Datum *values, const bool *isnull, char *row, Size room)
{
	if (unlikely(room < writer->room))
		return 0;
	return write_row(writer, values, isnull, true, row + (room - writer->room), row);
}
