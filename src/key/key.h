/*
 * key.h
 *	  Normalized keys: key buffer, key layouts, packing, decoding.
 *
 * A sort collects the normalized keys of its rows in a key buffer, one array per key
 * column.  While rows arrive, the ranges of the columns are not known.  When all rows
 * are there, pack.c folds the columns into one narrow key that has only the bits that
 * these ranges need.  Streams of several processes use a CommonKeyRange.
 *
 * Other rooms include this header.  Each subject has a header of its own.  Inline
 * functions that call key_buffer.c are apart from the types that it needs.
 */
#ifndef GPUSORT_KEY_KEY_H
#define GPUSORT_KEY_KEY_H

#include "key/key_column.h"
#include "key/key_layout.h"
#include "key/key_row.h"
#include "key/key_string.h"
#include "key/page_keys.h"

#endif							/* GPUSORT_KEY_KEY_H */
