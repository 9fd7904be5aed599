/*
 * interrupts.c
 *	  Measures the longest time that a backend computes between two
 *	  CHECK_FOR_INTERRUPTS(), for t/server/interrupts.pl.
 *
 * A profiling timer sets InterruptPending, as a signal to the backend would, and
 * CHECK_FOR_INTERRUPTS() clears it.  The timer's handler, which runs each
 * millisecond of processor time, measures how long the flag stays set.
 * Processor time does not depend on the load of the machine.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "fmgr.h"
#include "miscadmin.h"

#define TICK_US		1000

static volatile sig_atomic_t raised = false;	/* the handler has set
												 * InterruptPending */
static volatile int64 raised_at = 0;	/* processor time, ns */
static volatile int64 longest = 0;	/* ns */

/* Nanoseconds of processor time. */
static int64
processor_time(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
tick(int signo)
{
	int			save_errno = errno;
	int64		now = processor_time();

	if (!InterruptPending)
		raised = false;
	if (raised)
		longest = Max(longest, now - raised_at);
	else
	{
		raised_at = now;
		raised = true;
		InterruptPending = true;
	}
	errno = save_errno;
}

static void
set_timer(int us)
{
	struct itimerval timer = {{0, us}, {0, us}};

	if (setitimer(ITIMER_PROF, &timer, NULL) != 0)
		elog(ERROR, "setitimer: %m");
}

/* interrupts_watch(): starts the measurement. */
PG_FUNCTION_INFO_V1(interrupts_watch);
Datum
interrupts_watch(PG_FUNCTION_ARGS)
{
	struct sigaction action = {0};

	raised = false;
	longest = 0;
	action.sa_handler = tick;
	action.sa_flags = SA_RESTART;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGPROF, &action, NULL) != 0)
		elog(ERROR, "sigaction: %m");
	set_timer(TICK_US);
	PG_RETURN_VOID();
}

/* interrupts_longest(): ends the measurement; the longest interval in ms. */
PG_FUNCTION_INFO_V1(interrupts_longest);
Datum
interrupts_longest(PG_FUNCTION_ARGS)
{
	set_timer(0);
	PG_RETURN_FLOAT8(longest / 1e6);
}
