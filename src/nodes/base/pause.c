/*
 * pause.c
 *	  Executor runs that may stop before the end of their plan.
 *
 * Cursors, portals that a client reads in pieces, loops over a query in PL/pgSQL
 * and SQL functions that return row by row run a plan for a number of rows, and
 * continue when more rows are asked for, perhaps never.  A sort that streams its
 * rows from a device would hold device memory, a job slot and chunks of the
 * staging pool meanwhile, and nothing could reclaim them: a backend that waits
 * for its client cannot be interrupted for this.
 *
 * So in such a run a sort copies its whole result from the device before it
 * returns the first row, into work_mem or to disk, and ends its job.  The hook
 * recognizes such runs by their row count.  A device failure is also noticed
 * before the first row: between two fetches settings may change, and then the
 * child's second run could differ from its first.
 *
 * A query that runs to its end streams.  It keeps the device while its client
 * stops reading; other sorts use the CPU if they find no room meanwhile.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "executor/executor.h"
#include "nodes/base/pause.h"

static ExecutorRun_hook_type prev_executor_run = NULL;

static bool may_pause = false;

bool
device_may_pause(void)
{
	return may_pause;
}

static void
pause_executor_run(COMPAT_RUN_PARAMS)
{
	bool		outer = may_pause;

	/* a worker that stops early does not continue */
	may_pause = count != 0 && !COMPAT_RUN_ONCE && !IsParallelWorker();
	PG_TRY();
	{
		if (prev_executor_run)
			prev_executor_run(COMPAT_RUN_ARGS);
		else
			standard_ExecutorRun(COMPAT_RUN_ARGS);
	}
	PG_FINALLY();
	{
		may_pause = outer;
	}
	PG_END_TRY();
}

void
device_pause_init(void)
{
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = pause_executor_run;
}
