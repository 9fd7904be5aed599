/*
 * device_parts_host.c
 *	  A part of a sort's keys that no device sorts: the CPU does, where it lies.
 *
 * Memory policy: records and scratch of one part, within work_mem.
 */
#include "postgres.h"

#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "sort/device/keys/device_parts.h"
#include "sort/threads.h"

/* The part's keys as records, or records' keys and rids back into the part. */
static void
copy_records(const KeySplit *split, int part, const SortProblem *problem, void *recs, bool back)
{
	uint64		rid_mask = (UINT64CONST(1) << problem->begin_bit) - 1;
	size_t		i = 0;

	while (i < split->parts[part].n)
	{
		KeySpan		span = key_split_span(split, part, i);

		CHECK_FOR_INTERRUPTS();
		for (size_t k = 0; k < span.n; k++, i++)
		{
			Key128		key = device_key_at(span.keys, split->key_width, k);
			uint32		rid = span.rids == NULL ? 0 : span.rids[k];

			switch (problem->format)
			{
				case SORT_REC_PACKED:
					if (back)
					{
						key = ((uint64 *) recs)[i] >> problem->begin_bit;
						rid = (uint32) (((uint64 *) recs)[i] & rid_mask);
					}
					else
						((uint64 *) recs)[i] = (uint64) key << problem->begin_bit | rid;
					break;
				case SORT_REC_64:
					if (back)
					{
						key = ((SortRec64 *) recs)[i].key;
						rid = ((SortRec64 *) recs)[i].rid;
					}
					else
						((SortRec64 *) recs)[i] = (SortRec64) {(uint64) key, rid, 0};
					break;
				case SORT_REC_128:
					if (back)
					{
						key = (Key128) ((SortRec128 *) recs)[i].hi << 64 | ((SortRec128 *) recs)[i].lo;
						rid = ((SortRec128 *) recs)[i].rid;
					}
					else
						((SortRec128 *) recs)[i] = (SortRec128) {(uint64) (key >> 64), (uint64) key, rid, 0};
					break;
			}
			if (!back)
				continue;
			if (split->key_width == 32)
				((uint32 *) span.keys)[k] = (uint32) key;
			else if (split->key_width == 64)
				((uint64 *) span.keys)[k] = (uint64) key;
			else
				((Key128 *) span.keys)[k] = key;
			if (span.rids != NULL)
				span.rids[k] = rid;
		}
	}
}

bool
device_part_sort_here(SortEnv *env, Batch *batch, const KeySplit *split, int part, int key_bits)
{
	const SortKernel *kernel = sort_algorithms[ALGORITHM_CPU_RADIX].kernel;
	int			rid_bits = split->rids ? stage_rid_bits(&batch->stage) : 0;
	BulkBuf		recs = {0};
	SortProblem problem = {0};
	Size		bytes;
	Size		scratch;
	SortStatus	status;

	problem.format = key_bits + rid_bits <= 64 ? SORT_REC_PACKED : key_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
	problem.n = split->parts[part].n;
	problem.begin_bit = problem.format == SORT_REC_PACKED ? rid_bits : 0;
	problem.end_bit = problem.begin_bit + key_bits;
	problem.rids_ascending = split->rids;
	problem.team = sort_threads(problem.n, env->spec.participants);
	problem.interrupted = sort_threads_interrupted;
	problem.interrupted_arg = problem.team;
	bytes = problem.n * sort_rec_size(problem.format);
	scratch = kernel->scratch_bytes(&problem);
	if (batch_held(batch) + split->blocks.asked + env->recs.asked + bytes + scratch > env->limit)
	{
		sort_threads_release();
		return false;
	}

	bulk_reserve(env->bulk, &recs, bytes, 0);
	bulk_reserve(env->bulk, &env->scratch, scratch, 0);
	problem.recs = recs.ptr;
	problem.scratch = env->scratch.ptr;
	sort_env_note_memory(env, batch_held(batch) + split->blocks.asked + bytes);
	copy_records(split, part, &problem, problem.recs, false);
	status = kernel->run(&problem);
	sort_threads_ended(status, sort_algorithms[ALGORITHM_CPU_RADIX].name);
	copy_records(split, part, &problem, problem.result, true);
	bulk_free(env->bulk, &recs);
	bulk_free(env->bulk, &env->scratch);
	return true;
}
