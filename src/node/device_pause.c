/*
 * device_pause.c
 *	  Runs of the executor that stop before their plan's end, and may never go on.
 *
 * A cursor, a portal that a client reads some rows at a time, a loop over a query in
 * PL/pgSQL, a SQL function that returns row by row: they run a plan for a number of
 * rows, and go on when somebody asks for more, after an hour or not at all.  A sort that
 * streams its result from the device would keep device memory, a slot and chunks of the
 * pool for as long, and nobody could have them back: a backend that waits for its
 * client can be asked for nothing, and rows that only the device has cannot be taken
 * from it.
 *
 * So in such a run a sort's whole result is brought to the host before its first row
 * is given out, into work_mem or else to disk, as the stock Sort would have it; then
 * its job is over.  That the run is of this kind shows in the number of rows it
 * is asked for.  A failure of the device, too, is over by then: between two fetches
 * settings may change with which the plan's second run would not be as its first.
 *
 * A query that is run to its end streams.  If its client stops reading, or what
 * stands above the sort is slow, it holds what it has; others reckon with that
 * (admission.c).
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "executor/executor.h"
#include "node/device_pause.h"

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

	/* a worker's leader stops it for good */
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
