/*
 * keys_slot.h
 *	  The slot of rows that are their keys.
 */
#ifndef GPUSORT_KEYS_SLOT_H
#define GPUSORT_KEYS_SLOT_H

#include "postgres.h"

#include "executor/tuptable.h"

/* Once, before any of these slots is made. */
extern void keys_slot_init(void);

extern TupleTableSlotOps keys_slot_ops;

/* Lets the slot make its own copies; what it needs for them is the current memory context's. */
extern void keys_slot_prepare(TupleTableSlot *slot);

#endif							/* GPUSORT_KEYS_SLOT_H */
