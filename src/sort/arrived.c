/*
 * arrived.c
 *	  Batches that need no sort: their rows came in order, or in reverse.
 *
 * That was noticed when they came (key/arrival.c).  No keys are packed, and no kernel or
 * device is asked: what is sorted are the rids as they were staged, or these the other
 * way round.  Rows that are no more than their keys are packed all the same, for they
 * are read from the packed keys.
 */
#include "postgres.h"

#include "device/client/client.h"
#include "settings.h"
#include "sort/arrived.h"
#include "sort/device/keys/device_keys.h"

/* What EXPLAIN and statistics will say. */
static void
report(SortEnv *env, const Stage *stage)
{
	KeyRange	ranges[STAGE_MAX_COLUMNS];
	KeyLayout	layout;
	RouteFacts	facts = {0};
	bool		up = (stage->arrival.ways & ARRIVAL_UP) != 0;

	key_stage_ranges(stage, ranges);
	key_layout(&layout, stage, ranges);
	facts.n = stage->n;
	facts.format = layout.total_bits > 64 ? SORT_REC_128 : SORT_REC_64;
	facts.end_bit = Min(layout.total_bits, 128);
	facts.order_known = true;
	facts.descents = up ? 0 : stage->n - 1;
	facts.ascents = up && stage->arrival.varied ? stage->n - 1 : 0;
	facts.inexact = !layout.exact;
	facts.bound = env->bound;
	facts.device = env->device_failed ? DEVICE_STATE_FAILED : device_state();
	env->progress.now->algorithm = ALGORITHM_PRESORTED;
	env->report.facts = facts;
	memset(&env->report.decision, 0, sizeof(env->report.decision));
	env->report.decision.algorithm = &sort_algorithms[ALGORITHM_PRESORTED];
	env->report.sorted = true;
	env->report.key_bits = facts.end_bit;
}

bool
arrived_in_order(SortEnv *env, Batch *batch, DeviceKeys *early, Sorted *sorted)
{
	Stage	   *stage = &batch->stage;
	size_t		n = stage->n;
	uint32	   *rids;

	arrival_look(stage);
	if (stage->arrival.ways == 0 || env->spec.keys_only || gpusort_verify ||
		gpusort_forced_algorithm() != NULL)
		return false;
	if (early != NULL)
		device_keys_end(early);
	arena_trim(&batch->arena, env->bulk);
	bulk_reserve(env->bulk, &env->recs, n * sizeof(uint32), 0);
	sort_env_note_memory(env, batch_held(batch));
	rids = env->recs.ptr;
	if (stage->arrival.ways & ARRIVAL_UP)
		memcpy(rids, stage->rids, n * sizeof(uint32));
	else
	{
		for (size_t i = 0; i < n; i++)
			rids[i] = stage->rids[n - 1 - i];
	}
	report(env, stage);
	sorted->rids = rids;
	sorted->n = n;
	return true;
}
