/*
 * key_run.h
 *	  Runs of keys without rows, and their merge.
 *
 * A run of a sort whose rows consist of their keys has sections.  A section begins with
 * its layout and its first key; blocks of delta-coded keys follow (kernel/key_delta.h).
 * Keys are those of the layout that the batch was sorted by.  The merge translates them
 * to one layout for all runs.
 */
#ifndef GPUSORT_SORT_KEY_RUN_H
#define GPUSORT_SORT_KEY_RUN_H

#include "postgres.h"

#include "key/key.h"
#include "kernel/key_delta.h"
#include "sort/run.h"

struct Runs;

/* A key without rows has at most this number of columns (keys_only_possible()). */
#define KEY_RUN_COLUMNS		3

/* Writes the sorted keys of one layout as a section of a run. */
typedef struct KeyRunWriter
{
	RunWriter  *writer;
	const KeyLayout *layout;
	SortRecFormat format;		/* of the records */
	bool		wide;			/* keys have more than 64 bits */
	bool		begun;			/* the section has keys */
	Key128		last;			/* the last key */
} KeyRunWriter;

/* Begins a section.  Keys of more than 64 bits come as SORT_REC_128, others as this or SORT_REC_PACKED. */
extern void key_run_writer_begin(KeyRunWriter *keys, RunWriter *writer, const KeyLayout *layout,
								 SortRecFormat format);

/* Writes n keys, which are records of the format. */
extern void key_run_writer_put(KeyRunWriter *keys, const void *recs, size_t n);

/* How a column of a section's keys becomes a column of the merge's keys. */
typedef struct KeyMove
{
	int			from;			/* lowest bit in the section's keys */
	int			to;				/* lowest bit in the merge's keys */
	bool		nulls;			/* the section has NULLs in this column */
	Key128		mask;			/* as many bits as the column has in the
								 * section */
	Key128		null_from;		/* number of NULLs in the section */
	Key128		null_to;		/* value to add for a NULL, at its place in
								 * the merge's keys */
} KeyMove;

/* Translates keys from one layout to another. */
typedef struct KeyTranslation
{
	int			nmoves;			/* 0: adding is enough */
	Key128		add;			/* added to each key */
	KeyMove		moves[KEY_RUN_COLUMNS];
} KeyTranslation;

/* Begins a translation of keys of these columns to a layout that has room for all of their values. */
extern void key_translation_begin(KeyTranslation *t, const LayoutColumn *cols, const KeyLayout *layout);

/* Translates up to KEY_DELTA_BLOCK keys in place.  key_translate128() if either layout has more than 64 bits. */
extern void key_translate64(const KeyTranslation *t, uint64 *keys, size_t n);
extern void key_translate128(const KeyTranslation *t, SortKey *keys, size_t n);

/* Reads a run of keys forward. */
typedef struct KeyRunReader
{
	KeyTranslation translation; /* of the current section */
	Key128		last;			/* last key of the section that was read */
	SpillFile  *file;
	SpillRun   *run;
	const KeyLayout *layout;	/* of the keys that are returned */
	bool		wide;			/* the section's keys have more than 64 bits */
	char	   *buf;			/* the caller's buffer */
	Size		piece;			/* bytes of a read at most */
	Size		pos;			/* offset in buf of the next block */
	Size		len;			/* bytes in buf */
	uint64		next;			/* offset in the run of the next byte to read */
	uint64		left;			/* keys of the run that have not been read */
} KeyRunReader;

/* Size of the caller's buffer for reads of this size. */
extern Size key_run_buffer_size(Size piece);

/* Begins to read a run.  Keys are returned in this layout, that of all runs. */
extern void key_run_reader_open(KeyRunReader *reader, SpillFile *file, SpillRun *run, const KeyLayout *layout,
								char *buf, Size piece);

/*
 * Reads up to KEY_DELTA_BLOCK keys: uint64 if the layout has up to 64 bits, otherwise
 * Key128.  Returns their number; 0 at the end of the run.
 */
extern size_t key_run_read(KeyRunReader *reader, void *keys);

/* ------------------------------------------------------------------------
 * K-way merge of runs of keys
 * ------------------------------------------------------------------------
 */

typedef struct KeyMerge KeyMerge;

/*
 * Merges n of the runs, whose space is freed as they are read.  The keys get the layout of
 * the runs.  Duplicates are dropped in a sort with distinct columns.  Uses env->recs and
 * env->scratch.
 */
extern KeyMerge *key_merge_begin(const struct Runs *runs, SpillRun **some, int n);
extern void key_merge_end(KeyMerge *merge);

/* Format of the records of merged keys. */
static inline SortRecFormat
merged_key_format(const KeyLayout *layout)
{
	return layout->total_bits > 64 ? SORT_REC_128 : SORT_REC_PACKED;
}

/*
 * The next keys in order, as records of that format.  Returns their number; 0 at the end.
 * They are valid until the next call.
 */
extern size_t key_merge_next(KeyMerge *merge, const void **recs);

/* How many runs can be merged at once in the sort's memory; at least 6.  See merge_fan_in(). */
extern int	key_merge_fan_in(const struct Runs *runs, bool last);

#endif							/* GPUSORT_SORT_KEY_RUN_H */
