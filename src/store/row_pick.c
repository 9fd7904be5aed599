/*
 * row_pick.c
 *	  Rows made of some columns of heap tuples, in any order.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "store/row_pick.h"

/* Rows may need so much room beyond their tuple's data. */
#define PICK_MAX_EXTRA		(32 * 1024)

/*
 * What is known of a place beforehand: its remainder by a power of two, at most
 * MAXIMUM_ALIGNOF.
 */
typedef struct KnownPlace
{
	int			modulus;
	int			rest;
} KnownPlace;

static KnownPlace
place_behind(KnownPlace place, int bytes)
{
	place.rest = (place.rest + bytes) % place.modulus;
	return place;
}

static bool
place_is_aligned(KnownPlace place, uint8 align)
{
	return place.modulus > align && (place.rest & align) == 0;
}

static KnownPlace
place_aligned(KnownPlace place, uint8 align)
{
	if (place.modulus > align)
		place.rest = ((place.rest + align) & ~align) % place.modulus;
	else
	{
		place.modulus = align + 1;
		place.rest = 0;
	}
	return place;
}

/* The power of two by which both leave the same remainder. */
static int
places_agree(KnownPlace a, KnownPlace b)
{
	int			modulus = Min(a.modulus, b.modulus);

	while ((a.rest - b.rest) % modulus != 0)
		modulus /= 2;
	return modulus;
}

/* Where a column lies in the tuple. */
static KnownPlace
place_of_column(const TupleWalk *walk, AttrNumber att)
{
	const WalkColumn *col = &walk->cols[att];
	const WalkStep *step = &walk->steps[col->step];
	KnownPlace	place = {MAXIMUM_ALIGNOF, 0};

	if (col->step == 0)
		return place_behind(place, col->offset);
	if (step->len > 0)
	{
		place.modulus = step->align + 1;
		return place_behind(place, col->offset);
	}
	/* the second step, a varlena, is where the front ends */
	if (col->step == 1 && walk->steps[0].len > 0)
		return place_behind(place, walk->steps[0].len);
	place.modulus = 1;
	return place;
}

/*
 * Joins columns to pieces.  A column goes on with the piece before it if it follows
 * the last column there in the tuple, too, and asks for no more alignment than that by
 * which the two places are known to agree.
 */
static void
make_pieces(RowPick *pick)
{
	const TupleWalk *walk = pick->walk;
	KnownPlace	to = {MAXIMUM_ALIGNOF, 0};
	PickPiece  *piece = NULL;
	int			agree = 0;

	for (int i = 0; i < pick->ncols; i++)
	{
		AttrNumber	att = pick->cols[i].att;
		const WalkColumn *col = &walk->cols[att];
		/* short varlenas are not aligned */
		uint8		align = col->len > 0 ? col->align : 0;

		if (piece == NULL || att != pick->cols[i - 1].att + 1 || align >= agree)
		{
			if (piece != NULL)
				to = piece->len > 0 ? place_behind(to, piece->len) : (KnownPlace) {1, 0};
			piece = &pick->pieces[pick->npieces++];
			piece->step = col->step;
			piece->from = col->offset;
			piece->align = place_is_aligned(to, align) ? 0 : align;
			to = place_aligned(to, align);
			agree = places_agree(to, place_of_column(walk, att));
		}
		piece->last = col->step;
		piece->until = col->len > 0 ? walk->steps[col->step].len - (col->offset + col->len) : 0;
		piece->len = 0;
		if (col->len > 0 && piece->step == piece->last)
			piece->len = col->offset + col->len - piece->from;
	}
}

/* The most that a row can take beyond its tuple's data. */
static Size
extra_bytes(const RowPick *pick)
{
	Size		extra = MAXALIGN(SizeofMinimalTupleHeader + BITMAPLEN(pick->ncols));

	for (int i = 0; i < pick->ncols; i++)
		extra += pick->walk->cols[pick->cols[i].att].align;
	/* what copy_align() may overwrite */
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
		const WalkColumn *place = &pick->walk->cols[col->att];
		const char *from = where[col->att];

		if (from == NULL)
			continue;
		if (hasnull)
			header->t_bits[i / 8] |= 1 << i % 8;
		if (place->len > 0)
		{
			to = copy_align(to, place->align);
			copy_bytes(to, from, place->len);
			to += place->len;
		}
		else
			to = copy_varlena(to, from, place->align, col->packable, &header->t_infomask);
	}
	header->t_len = to - row;
	return copy_align(to, MAXIMUM_ALIGNOF - 1) - row;
}
