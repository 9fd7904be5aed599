/*
 * tuple.c
 *	  Reads the columns of heap tuples, and forms MinimalTuples from them.
 *
 * The columns of a step have fixed offsets from the begin of the step.  So a column
 * that needs more alignment than the first column of a step begins a new one.  The
 * first step of a tuple is an exception: it begins at an address with the maximum
 * alignment.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "compat.h"
#include "store/row_copy.h"
#include "store/tuple.h"
#include "utils/datum.h"

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
		/* a cstring: tables have them by base types with internallength = -2 */
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
			p += col->len > 0 ? col->len : VARSIZE_ANY(p);
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
		*column->value = from == NULL ? (Datum) 0 : datum_at(from, column->byval_len);
	}
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

static const KnownOffset unknown_offset = {1, 0};

static KnownOffset
known_offset_after(KnownOffset offset, int bytes)
{
	offset.remainder = (offset.remainder + bytes) % offset.modulus;
	return offset;
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
	return unknown_offset;
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
				to = piece->len > 0 ? known_offset_after(to, piece->len) : unknown_offset;
			piece = &pick->pieces[pick->npieces++];
			piece->step = col->step;
			piece->from = col->offset;
			piece->align = to.modulus > align && (to.remainder & align) == 0 ? 0 : align;
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
