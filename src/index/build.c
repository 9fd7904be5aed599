/*
 * build.c
 *	  Drives the build of one btree index: scan, sort, load.
 *
 * A build that is not supported returns before it writes a page, and the
 * caller runs btbuild().
 */
#include "postgres.h"

#include "index/index_build.h"

static IndexBuildCounters counters;

IndexBuildResult *
index_build_sorted(Relation heap, Relation index, IndexInfo *info, const char **reason)
{
	memset(&counters, 0, sizeof(counters));
	*reason = "index builds are not supported";
	return NULL;
}

const IndexBuildCounters *
index_build_counters(void)
{
	return &counters;
}
