/*
 * key_chunks.h
 *	  Key mode's chunks, up and down.
 *
 * What travels is keys and the rids that belong to them, or keys alone; how a chunk
 * is divided among them is known here only.
 */
#ifndef GPUSORT_KEY_CHUNKS_H
#define GPUSORT_KEY_CHUNKS_H

#include "device/client/client.h"

typedef struct KeyChunk
{
	uint32		rows;
	char	   *keys;			/* key_width each; on the way down only where asked for */
	uint32	   *rids;			/* NULL: keys are all there is */
	Size		bytes;			/* that crossed the bus */
} KeyChunk;

/* Rows of a job that a chunk has room for on its way up. */
extern size_t key_chunk_rows(const DeviceJobSpec *spec);

/* An empty chunk for so many rows, which key_chunk_post() sends; false if the job is lost. */
extern bool key_chunk_next_up(DeviceJob *job, const DeviceJobSpec *spec, size_t rows,
							  KeyChunk *chunk);
extern void key_chunk_post(DeviceJob *job, const DeviceJobSpec *spec, const KeyChunk *chunk);

/*
 * The next chunk of a result of which left rows are to come, ours until
 * device_job_release(); false at its end, or if the job is lost, which it is
 * if rows are more or fewer than they should be.
 */
extern bool key_chunk_next_down(DeviceJob *job, const DeviceJobSpec *spec, size_t left,
								KeyChunk *chunk);

#endif							/* GPUSORT_KEY_CHUNKS_H */
