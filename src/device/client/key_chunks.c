/*
 * key_chunks.c
 *	  Key mode's chunks, up and down.
 */
#include "postgres.h"

#include "device/client/key_chunks.h"

size_t
key_chunk_rows(const DeviceJobSpec *spec)
{
	Size		row = spec->key_width / 8 + (spec->keys_only ? 0 : sizeof(uint32));

	return (device_shared->chunk_size - DEVICE_PART_ALIGN) / row;
}

static uint32
rids_at(const DeviceJobSpec *spec, size_t rows)
{
	return device_part((uint32) (rows * (spec->key_width / 8)));
}

bool
key_chunk_next_up(DeviceJob *job, const DeviceJobSpec *spec, size_t rows, KeyChunk *chunk)
{
	Assert(rows <= key_chunk_rows(spec));
	chunk->keys = device_job_next_up(job);
	if (chunk->keys == NULL)
		return false;
	chunk->rows = (uint32) rows;
	chunk->rids = spec->keys_only ? NULL : (uint32 *) (chunk->keys + rids_at(spec, rows));
	return true;
}

void
key_chunk_post(DeviceJob *job, const DeviceJobSpec *spec, const KeyChunk *chunk)
{
	DeviceChunkDesc desc = {0};

	desc.rows = chunk->rows;
	desc.words_at = rids_at(spec, chunk->rows);
	desc.rows_at = desc.words_at + (spec->keys_only ? 0 : chunk->rows * sizeof(uint32));
	device_job_post(job, &desc);
}

bool
key_chunk_next_down(DeviceJob *job, const DeviceJobSpec *spec, size_t left, KeyChunk *chunk)
{
	DeviceChunkDesc desc;
	char	   *start = device_job_next_down(job, &desc);

	if (start == NULL)
	{
		if (!job->lost && left > 0)
			device_job_lose(job, DEVICE_TOO_FEW_ROWS);
		return false;
	}
	if (desc.rows != Min(left, device_chunk_rows(spec)))
	{
		device_job_lose(job, "the device sent another number of rows");
		return false;
	}
	chunk->rows = desc.rows;
	chunk->keys = start;
	chunk->rids = spec->keys_only ? NULL : (uint32 *) (start + desc.words_at);
	chunk->bytes = desc.rows_at + desc.row_bytes;
	return true;
}
