/*
 * stat.c
 *	  Statistics by algorithm: the view gpusort_stat.
 *
 * With shared_preload_libraries the counters lie in shared memory; each sort adds to
 * them once, atomically.  Otherwise they count the sorts of this session.
 */
#include "postgres.h"

#include "compat.h"
#include "funcapi.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "monitor/index_stat.h"
#include "monitor/stat.h"
#include "port/atomics.h"
#include "shared_memory.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

/* The counters, in the order of the view's columns; times in microseconds. */
typedef enum StatCounter
{
	STAT_SORTS,
	STAT_ROWS,
	STAT_BYTES,					/* peak memory, or bytes written to disk */
	STAT_SPILLS,				/* sorts that wrote runs */
	STAT_FALLBACKS,				/* sorts that could not use it as decided */
	STAT_TIMED,					/* sorts that the times count */
	STAT_INGEST_US,
	STAT_SORT_US,
	STAT_SPILL_US,
	STAT_PREDICTED_US,
	STAT_MEASURED_US,
	STAT_COUNTERS
} StatCounter;

#define STAT_FIRST_TIME	STAT_INGEST_US

typedef struct AlgorithmStat
{
	pg_atomic_uint64 counters[STAT_COUNTERS];
} AlgorithmStat;

/* One entry per AlgorithmId, and one for sorts without rows */
#define STAT_NONE		ALGORITHM_COUNT
#define STAT_ALGORITHMS	(STAT_NONE + 1)

static AlgorithmStat session_stats[STAT_ALGORITHMS];
static AlgorithmStat *stats = NULL;

void		(*gpusort_stat_reset_too) (void) = NULL;

SQL_FUNCTION(gpusort_stat_get);
SQL_FUNCTION(gpusort_stat_reset);

static void
stat_clear(AlgorithmStat *s)
{
	for (int i = 0; i < STAT_ALGORITHMS; i++)
	{
		for (int c = 0; c < STAT_COUNTERS; c++)
			pg_atomic_init_u64(&s[i].counters[c], 0);
	}
}

static void
init_stats(void)
{
	stat_clear(stats);
}

void
gpusort_stat_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &stats,
		.size = sizeof(session_stats),
		.init = init_stats
	};

	shared_memory_add(&part);
}

static AlgorithmStat *
stat_counters(void)
{
	if (stats == NULL)
	{
		stat_clear(session_stats);
		stats = session_stats;
	}
	return stats;
}

static inline void
stat_add(AlgorithmStat *s, StatCounter counter, uint64 n)
{
	pg_atomic_fetch_add_u64(&s->counters[counter], n);
}

void
gpusort_stat_count(const SortCount *sort)
{
	AlgorithmStat *s = &stat_counters()[sort->algorithm ? (int) sort->algorithm->id : STAT_NONE];

	stat_add(s, STAT_SORTS, 1);
	stat_add(s, STAT_ROWS, sort->rows);
	stat_add(s, STAT_BYTES, sort->bytes);
	if (sort->spilled)
		stat_add(s, STAT_SPILLS, 1);
	if (sort->passed_over)
		gpusort_stat_fallback(sort->passed_over);
	if (sort->timed)
	{
		stat_add(s, STAT_TIMED, 1);
		stat_add(s, STAT_INGEST_US, (uint64) Max(sort->ingest_us, 0));
		stat_add(s, STAT_SORT_US, (uint64) Max(sort->sort_us, 0));
		stat_add(s, STAT_SPILL_US, (uint64) Max(sort->spill_us, 0));
		stat_add(s, STAT_PREDICTED_US, (uint64) Max(sort->predicted_us, 0));
		stat_add(s, STAT_MEASURED_US, (uint64) Max(sort->measured_us, 0));
	}
}

void
gpusort_stat_fallback(const Algorithm *algorithm)
{
	stat_add(&stat_counters()[algorithm->id], STAT_FALLBACKS, 1);
}

/* The SQL of version 1.0 declares only the columns up to the fallbacks. */
Datum
gpusort_stat_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	AlgorithmStat *s = stat_counters();

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < STAT_ALGORITHMS; i++)
	{
		Datum		values[1 + STAT_COUNTERS];
		bool		nulls[1 + STAT_COUNTERS] = {false};

		values[0] = CStringGetTextDatum(i == STAT_NONE ? "none" : sort_algorithms[i].name);
		for (int c = 0; c < STAT_COUNTERS; c++)
		{
			uint64		n = pg_atomic_read_u64(&s[i].counters[c]);

			values[1 + c] = c < STAT_FIRST_TIME ? Int64GetDatum((int64) n) :
				Float8GetDatum((double) n / 1e6);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
gpusort_stat_reset(PG_FUNCTION_ARGS)
{
	AlgorithmStat *s = stat_counters();

	for (int i = 0; i < STAT_ALGORITHMS; i++)
	{
		for (int c = 0; c < STAT_COUNTERS; c++)
			pg_atomic_write_u64(&s[i].counters[c], 0);
	}
	index_stat_reset();
	if (gpusort_stat_reset_too != NULL)
		gpusort_stat_reset_too();
	PG_RETURN_VOID();
}
