/*
 * compat.h
 *	  Everything that depends on the server's version: PostgreSQL 15 to 19.
 */
#ifndef GPUSORT_COMPAT_H
#define GPUSORT_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "gpusort needs PostgreSQL 15 or later"
#endif

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* PostgreSQL 17 gave sort operators' properties a CompareType from 18 on. */
#include "utils/lsyscache.h"
#if PG_VERSION_NUM >= 180000
#include "access/cmptype.h"

static inline bool
compat_ordering_op(Oid op, Oid *opfamily, Oid *opcintype, bool *reverse)
{
	CompareType cmptype;

	if (!get_ordering_op_properties(op, opfamily, opcintype, &cmptype))
		return false;
	*reverse = (cmptype == COMPARE_GT);
	return true;
}
#else
#include "access/stratnum.h"

static inline bool
compat_ordering_op(Oid op, Oid *opfamily, Oid *opcintype, bool *reverse)
{
	int16		strategy;

	if (!get_ordering_op_properties(op, opfamily, opcintype, &strategy))
		return false;
	*reverse = (strategy == BTGreaterStrategyNumber);
	return true;
}
#endif

/* Wait events moved to a header of their own. */
#include "pgstat.h"
#if PG_VERSION_NUM >= 160000
#include "utils/wait_event.h"
#endif

/* Extensions name their wait events from 17 on. */
#include "utils/wait_event.h"
static inline uint32
compat_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}

#endif							/* GPUSORT_COMPAT_H */
