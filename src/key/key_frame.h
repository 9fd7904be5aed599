/*
 * key_frame.h
 *	  What images of a sort's key columns are relative to, and where they lie.
 *
 * Two sorts of the same columns have images that do not compare: strings are taken
 * behind a prefix that those of one sort have in common (bytes.h).  A frame for both is
 * made of their own; keys of rows are then made in it once more.
 *
 * Plain data without pointers, for it passes between processes.
 */
#ifndef GPUSORT_KEY_FRAME_H
#define GPUSORT_KEY_FRAME_H

#include "postgres.h"

#include "key/stage.h"

typedef struct KeyFrame
{
	KeyRange	ranges[STAGE_MAX_COLUMNS];
	BytesPrefix prefixes[STAGE_MAX_COLUMNS];	/* of columns of strings */
} KeyFrame;

/* Of no rows. */
extern void key_frame_init(KeyFrame *frame);

/* A sort's: its ranges are in the frame, its prefixes come from the stage. */
extern void key_frame_of_stage(KeyFrame *frame, const Stage *stage);

/* Widens a frame for another's rows; the stage has the columns of both. */
extern void key_frame_unite(KeyFrame *frame, const KeyFrame *other, const Stage *stage);

/* A new stage's images are to be in this frame. */
extern void key_frame_apply(const KeyFrame *frame, Stage *stage);

/* Has every staged row's image been reckoned with? */
extern bool key_frame_holds(const KeyFrame *frame, const Stage *stage);

#endif							/* GPUSORT_KEY_FRAME_H */
