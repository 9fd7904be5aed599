/*
 * cpu_abi_stale.c
 *	  Fault injection of the fake device: outputs of earlier jobs, see
 *	  cpu_abi.c.
 *
 * A faulty device may skip a step without an error, or return the output of an
 * earlier job, which may be another session's.  GPUSORT_CPU_ABI_STALE selects:
 *
 *		RECORD	keep the outputs of sorts and gathers
 *		REPLAY	return kept outputs: those of a sort of the same number of keys,
 *				or of the same chunk of a gather of the same number of rows
 *		NOTHING	keys-only sorts and gathers write nothing
 *		TWICE	the second key or row replaces the first and the third
 */
#include <stdlib.h>
#include <string.h>

#include "cpu_abi.h"

typedef enum Stale
{
	STALE_NONE,
	STALE_RECORD,
	STALE_REPLAY,
	STALE_NOTHING,
	STALE_TWICE
} Stale;

typedef struct Output
{
	struct Output *next;
	uint64_t	n;				/* rows of the job */
	uint64_t	part;			/* a chunk's number, or KEYS + the keys' width */
	uint64_t	bytes;
	char		data[];
} Output;

#define KEYS		(UINT64_C(1) << 32)

static Output *outputs = NULL;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Stale
stale(void)
{
	return (Stale) cpu_abi_setting("GPUSORT_CPU_ABI_STALE", STALE_NONE);
}

static void
replay(uint64_t n, uint64_t part, void *dst, uint64_t room)
{
	for (const Output *o = outputs; o; o = o->next)
	{
		if (o->n == n && o->part == part)
		{
			memcpy(dst, o->data, o->bytes < room ? o->bytes : room);
			return;
		}
	}
}

static void
record(uint64_t n, uint64_t part, const void *data, uint64_t bytes)
{
	Output	   *o = malloc(sizeof(*o) + bytes);

	if (!o)
		abort();
	o->n = n;
	o->part = part;
	o->bytes = bytes;
	memcpy(o->data, data, bytes);
	/* the newest output is the first of the list */
	o->next = outputs;
	outputs = o;
}

/* Copies the second element of this size over the first and the third. */
static void
repeat_second(char *data, uint64_t size)
{
	memcpy(data, data + size, size);
	memcpy(data + 2 * size, data + size, size);
}

/* Records the output of a step, or replaces it by that of an earlier job. */
static void
output(uint64_t n, uint64_t part, void *data, uint64_t bytes, uint64_t room)
{
	Stale		how = stale();

	pthread_mutex_lock(&lock);
	if (how == STALE_RECORD)
		record(n, part, data, bytes);
	else if (how == STALE_REPLAY)
		replay(n, part, data, room);
	pthread_mutex_unlock(&lock);
}

int
cpu_abi_writes_nothing(void)
{
	return stale() == STALE_NOTHING;
}

void
cpu_abi_sorted(const GpusortProblem *problem)
{
	uint64_t	bytes = problem->n * (uint64_t) (problem->key_width / 8);

	if ((problem->output & GPUSORT_OUT_KEYS) && !(problem->output & GPUSORT_OUT_RIDS))
	{
		output(problem->n, KEYS + (uint64_t) problem->key_width, problem->keys_out, bytes, bytes);
		if (stale() == STALE_TWICE && problem->n >= 3)
			repeat_second(problem->keys_out, (uint64_t) problem->key_width / 8);
	}
}

void
cpu_abi_gathered(const GpusortGather *gather, uint64_t first, uint64_t last, void *dst)
{
	uint64_t	chunk = 0;

	while (gather->chunk_row[chunk] < first)
		chunk++;
	output(gather->n, chunk, dst, (gather->out_offset[last] - gather->out_offset[first]) * 8,
		   (uint64_t) gather->chunk_units * 8);
	if (stale() == STALE_TWICE && first == 0 && last >= 3 &&
		gather->out_offset[2] == 2 * gather->out_offset[1] && gather->out_offset[3] == 3 * gather->out_offset[1])
		repeat_second(dst, gather->out_offset[1] * 8);
}
