/*
 * offload.c
 *	  The default SortOffload: all sorts stay on the host.
 */
#include "postgres.h"

#include "sort/sort_internal.h"

static DeviceState
no_offload_state(void)
{
	return DEVICE_STATE_NONE;
}

static Sink *
no_offload_begin_rows(SortEnv *env, Batch *batch, bool *allowed)
{
	*allowed = false;
	return NULL;
}

/* without a device no other function is called */
static const SortOffload no_offload = {
	.state = no_offload_state,
	.begin_rows = no_offload_begin_rows
};

const SortOffload *sort_offload = &no_offload;
