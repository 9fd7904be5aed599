/*
 * store.h
 *	  Where a sort's rows lie: large memory, the row arena, and rows as MinimalTuples.
 *
 * Other rooms include this header.  Each subject has a header of its own.  A header
 * whose inline functions call a source file is apart from that file's types.
 */
#ifndef GPUSORT_STORE_STORE_H
#define GPUSORT_STORE_STORE_H

#include "store/memory.h"
#include "store/row_copy.h"
#include "store/row_mark.h"
#include "store/row_tid.h"
#include "store/row_writer.h"
#include "store/slot_row.h"
#include "store/tuple_read.h"

#endif							/* GPUSORT_STORE_STORE_H */
