/*
 * tuple.c
 *	  Forms MinimalTuples from heap tuples and from the values of slots.
 *
 * The columns of a step have fixed offsets from the begin of the step.  So a column
 * that needs more alignment than the first column of a step begins a new one.  The
 * first step of a tuple is an exception: it begins at an address with the maximum
 * alignment.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "compat.h"
#include "store/store.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

/* The value of a column in tuples older than the column, as a tuple would have it. */
static const char *
missing_value(TupleDesc desc, int att, Size *len)
{
	Form_pg_attribute attr = TupleDescAttr(desc, att);
	bool		isnull;
	Datum		value = getmissingattr(desc, att + 1, &isnull);
	char	   *copy;

	if (isnull)
		return NULL;
	if (attr->attbyval)
	{
		copy = palloc0(sizeof(Datum));
		store_att_byval(copy, value, attr->attlen);
	}
	else
		copy = DatumGetPointer(datumCopy(value, false, attr->attlen));
	*len += attr->attlen > 0 ? attr->attlen : VARSIZE_ANY(copy);
	return copy;
}

/* Divides the columns into steps; returns their number, or 0 if there would be too many. */
static int
make_steps(TupleWalk *walk, const bool *small)
{
	int			n = 0;
	WalkStep   *step = NULL;	/* step to which the next column may be added */

	for (int att = 0; att < walk->natts; att++)
	{
		WalkColumn *col = &walk->cols[att];

		if (col->len > 0 && step != NULL && (n == 1 || col->align <= step->align))
		{
			col->offset = (step->len + col->align) & ~col->align;
			step->len = col->offset + col->len;
			step->align = Max(step->align, col->align);
		}
		else
		{
			if (n == WALK_MAX_STEPS)
				return 0;
			step = &walk->steps[n++];
			step->len = Max(col->len, 0);
			step->align = col->align;
			step->small = small[att];
			col->offset = 0;
			if (col->len < 0)
				step = NULL;
		}
		col->step = n - 1;
	}
	return n;
}

TupleWalk *
tuple_walk_create(TupleDesc desc, const AttrNumber *atts, int n, bool small)
{
	TupleWalk  *walk;
	bool	   *wanted;
	int			natts = 0;

	for (int i = 0; i < n; i++)
		natts = Max(natts, atts[i] + 1);
	for (int att = 0; att < natts; att++)
	{
		/* cstring: no table has such a column */
		if (TupleDescAttr(desc, att)->attlen < -1)
			return NULL;
	}

	wanted = palloc0(Max(1, natts) * sizeof(bool));
	walk = palloc0(sizeof(TupleWalk));
	walk->natts = natts;
	walk->steps = palloc0(WALK_MAX_STEPS * sizeof(WalkStep));
	walk->cols = palloc0(Max(1, natts) * sizeof(WalkColumn));
	for (int i = 0; i < n; i++)
		wanted[atts[i]] = true;
	for (int att = 0; att < natts; att++)
	{
		WalkColumn *col = &walk->cols[att];

		col->len = TupleDescAttr(desc, att)->attlen;
		col->align = att_align_nominal(1, TupleDescAttr(desc, att)->attalign) - 1;
		if (wanted[att])
			col->missing = missing_value(desc, att, &walk->missing_len);
		wanted[att] &= small;
	}
	walk->nsteps = make_steps(walk, wanted);
	pfree(wanted);
	return walk;
}

void
tuple_walk_free(TupleWalk *walk)
{
	for (int att = 0; att < walk->natts; att++)
	{
		if (walk->cols[att].missing != NULL)
			pfree(unconstify(char *, walk->cols[att].missing));
	}
	pfree(walk->steps);
	pfree(walk->cols);
	pfree(walk);
}

void
tuple_walk_columns(const TupleWalk *walk, const HeapTupleHeaderData *tuple, Size len,
				   const char **where)
{
	const char *p = (const char *) tuple + tuple->t_hoff;
	const char *end = (const char *) tuple + len;
	bool		hasnull = (tuple->t_infomask & HEAP_HASNULL) != 0;
	int			natts = Min(walk->natts, HeapTupleHeaderGetNatts(tuple));

	for (int att = 0; att < natts; att++)
	{
		const WalkColumn *col = &walk->cols[att];

		if (hasnull && att_isnull(att, tuple->t_bits))
		{
			where[att] = NULL;
			continue;
		}
		if (col->len > 0 || (p < end && !VARATT_NOT_PAD_BYTE(p)))
			p = (const char *) (((uintptr_t) p + col->align) & ~(uintptr_t) col->align);
		where[att] = p;
		if (p < end)
			p += walk_value_size(col, p);
		if (unlikely(p > end || where[att] == end))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg_internal("column %d lies outside its tuple", att + 1)));
	}
	for (int att = natts; att < walk->natts; att++)
		where[att] = walk->cols[att].missing;
}

/* ---- Column reader ---- */

ColumnReader *
column_reader_create(TupleDesc desc, ReaderColumn *columns, int n)
{
	AttrNumber *atts = palloc(Max(1, n) * sizeof(AttrNumber));
	TupleWalk  *walk;
	ColumnReader *reader;

	for (int i = 0; i < n; i++)
		atts[i] = columns[i].att;
	walk = tuple_walk_create(desc, atts, n, false);
	pfree(atts);
	if (walk == NULL)
		return NULL;
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, columns[i].att);

		columns[i].byval_len = attr->attbyval ? attr->attlen : 0;
		columns[i].step = walk->cols[columns[i].att].step;
		columns[i].offset = walk->cols[columns[i].att].offset;
	}
	reader = palloc(sizeof(ColumnReader));
	reader->walk = walk;
	reader->n = n;
	reader->columns = columns;
	return reader;
}

void
column_reader_read_slowly(const ColumnReader *reader, const HeapTupleHeaderData *tuple, Size len)
{
	const char *where[MaxTupleAttributeNumber];

	tuple_walk_columns(reader->walk, tuple, len, where);
	for (int i = 0; i < reader->n; i++)
	{
		const ReaderColumn *column = &reader->columns[i];
		const char *from = where[column->att];

		*column->isnull = from == NULL;
		*column->value = from == NULL ? (Datum) 0 : reader_column_load(column, from);
	}
}

/* ---- Row writer ---- */

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

void
row_writer_check(const RowWriter *writer, Datum *values, bool *isnull)
{
	Size		len = SizeofMinimalTupleHeader;
	bool		hasnull = false;

	for (int att = 0; att < writer->natts; att++)
		hasnull |= isnull[att];
	if (hasnull)
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

static inline bool
has_null(const RowWriter *writer, const bool *isnull)
{
	bool		has = false;

	for (int att = 0; att < writer->natts; att++)
		has |= isnull[att];
	return has;
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

/* ---- Row pick ---- */

/* Largest RowPick.extra. */
#define PICK_MAX_EXTRA		(32 * 1024)

/*
 * What is known in advance of an offset: its remainder modulo a power of two <=
 * MAXIMUM_ALIGNOF.
 */
typedef struct KnownOffset
{
	int			modulus;
	int			remainder;
} KnownOffset;

static KnownOffset
known_offset_after(KnownOffset offset, int bytes)
{
	offset.remainder = (offset.remainder + bytes) % offset.modulus;
	return offset;
}

static bool
known_offset_is_aligned(KnownOffset offset, uint8 align)
{
	return offset.modulus > align && (offset.remainder & align) == 0;
}

static KnownOffset
known_offset_aligned(KnownOffset offset, uint8 align)
{
	if (offset.modulus > align)
		offset.remainder = ((offset.remainder + align) & ~align) % offset.modulus;
	else
	{
		offset.modulus = align + 1;
		offset.remainder = 0;
	}
	return offset;
}

/* The largest known power of two modulo which both offsets are equal. */
static int
known_offsets_agree(KnownOffset a, KnownOffset b)
{
	int			modulus = Min(a.modulus, b.modulus);

	while ((a.remainder - b.remainder) % modulus != 0)
		modulus /= 2;
	return modulus;
}

/* The offset of a column in the tuple. */
static KnownOffset
known_offset_of_column(const TupleWalk *walk, AttrNumber att)
{
	const WalkColumn *col = &walk->cols[att];
	const WalkStep *step = &walk->steps[col->step];
	KnownOffset offset = {MAXIMUM_ALIGNOF, 0};

	if (col->step == 0)
		return known_offset_after(offset, col->offset);
	if (step->len > 0)
	{
		offset.modulus = step->align + 1;
		return known_offset_after(offset, col->offset);
	}
	/* the second step is a varlena at the end of the first step */
	if (col->step == 1 && walk->steps[0].len > 0)
		return known_offset_after(offset, walk->steps[0].len);
	offset.modulus = 1;
	return offset;
}

/*
 * Joins columns to pieces.  A column continues the previous piece if the two columns
 * are adjacent in the tuple too, and if the offsets in row and tuple are known to be
 * equal modulo the column's alignment.
 */
static void
make_pieces(RowPick *pick)
{
	const TupleWalk *walk = pick->walk;
	KnownOffset to = {MAXIMUM_ALIGNOF, 0};
	PickPiece  *piece = NULL;
	int			agree = 0;

	for (int i = 0; i < pick->ncols; i++)
	{
		AttrNumber	att = pick->cols[i].att;
		const WalkColumn *col = &walk->cols[att];

		/* short varlenas have no alignment */
		uint8		align = col->len > 0 ? col->align : 0;

		if (piece == NULL || att != pick->cols[i - 1].att + 1 || align >= agree)
		{
			if (piece != NULL)
				to = piece->len > 0 ? known_offset_after(to, piece->len) : (KnownOffset)
			{
				1, 0
			};
			piece = &pick->pieces[pick->npieces++];
			piece->step = col->step;
			piece->from = col->offset;
			piece->align = known_offset_is_aligned(to, align) ? 0 : align;
			to = known_offset_aligned(to, align);
			agree = known_offsets_agree(to, known_offset_of_column(walk, att));
		}
		piece->last = col->step;
		piece->until = col->len > 0 ? walk->steps[col->step].len - (col->offset + col->len) : 0;
		piece->len = 0;
		if (col->len > 0 && piece->step == piece->last)
			piece->len = col->offset + col->len - piece->from;
	}
}

/* Bytes that a row can take at most beyond the data of its tuple. */
static Size
extra_bytes(const RowPick *pick)
{
	Size		extra = MAXALIGN(SizeofMinimalTupleHeader + BITMAPLEN(pick->ncols));

	for (int i = 0; i < pick->ncols; i++)
		extra += pick->walk->cols[pick->cols[i].att].align;
	/* copy_align() may write 8 bytes, at two alignments */
	return extra + pick->walk->missing_len * pick->times + 2 * sizeof(uint64);
}

RowPick *
row_pick_create(TupleDesc desc, TupleDesc rowdesc, const AttrNumber *atts)
{
	int			ncols = rowdesc->natts;
	TupleWalk  *walk = tuple_walk_create(desc, atts, ncols, true);
	RowPick    *pick;
	MinimalTuple header;
	int		   *times;

	if (walk == NULL)
		return NULL;
	pick = palloc0(sizeof(RowPick));
	pick->walk = walk;
	pick->ncols = ncols;
	pick->cols = palloc0(Max(1, ncols) * sizeof(PickColumn));
	pick->pieces = palloc0(Max(1, ncols) * sizeof(PickPiece));
	times = palloc0(Max(1, walk->natts) * sizeof(int));
	header = (MinimalTuple) pick->header;
	for (int i = 0; i < ncols; i++)
	{
		pick->cols[i].att = atts[i];
		pick->cols[i].packable = TupleDescAttr(rowdesc, i)->attlen == -1 &&
			TupleDescAttr(rowdesc, i)->attstorage != TYPSTORAGE_PLAIN;
		pick->times = Max(pick->times, ++times[atts[i]]);
		if (walk->cols[atts[i]].len < 0)
			header->t_infomask |= HEAP_HASVARWIDTH;
	}
	pfree(times);
	if (walk->nsteps > 0)
		make_pieces(pick);
	HeapTupleHeaderSetNatts(header, ncols);
	header->t_hoff = sizeof(pick->header) + MINIMAL_TUPLE_OFFSET;

	pick->extra = extra_bytes(pick);
	if (pick->extra > PICK_MAX_EXTRA)
	{
		row_pick_free(pick);
		return NULL;
	}
	return pick;
}

void
row_pick_free(RowPick *pick)
{
	tuple_walk_free(pick->walk);
	pfree(pick->cols);
	pfree(pick->pieces);
	pfree(pick);
}

Size
row_pick_by_column(const RowPick *pick, const HeapTupleHeaderData *tuple, Size len, char *row)
{
	const char *where[MaxTupleAttributeNumber];
	MinimalTuple header = (MinimalTuple) row;
	int			hoff = sizeof(pick->header);
	bool		hasnull = false;
	char	   *to;

	tuple_walk_columns(pick->walk, tuple, len, where);
	for (int i = 0; i < pick->ncols; i++)
		hasnull |= (where[pick->cols[i].att] == NULL);
	if (hasnull)
		hoff = MAXALIGN(SizeofMinimalTupleHeader + BITMAPLEN(pick->ncols));
	memset(row, 0, hoff);
	HeapTupleHeaderSetNatts(header, pick->ncols);
	header->t_hoff = hoff + MINIMAL_TUPLE_OFFSET;
	header->t_infomask = hasnull ? HEAP_HASNULL : 0;

	to = row + hoff;
	for (int i = 0; i < pick->ncols; i++)
	{
		const PickColumn *col = &pick->cols[i];
		const WalkColumn *walk_col = &pick->walk->cols[col->att];
		const char *from = where[col->att];

		if (from == NULL)
			continue;
		if (hasnull)
			header->t_bits[i / 8] |= 1 << i % 8;
		if (walk_col->len > 0)
		{
			to = copy_align(to, walk_col->align);
			copy_bytes(to, from, walk_col->len);
			to += walk_col->len;
		}
		else
			to = copy_varlena(to, from, walk_col->align, col->packable, &header->t_infomask);
	}
	header->t_len = to - row;
	return copy_align(to, MAXIMUM_ALIGNOF - 1) - row;
}
