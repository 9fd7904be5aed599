/*
 * row_delta.c
 *	  Delta coding of sorted rows in portable C, and the choice of the implementation.
 */
#include "kernel/row_delta.h"

#include <string.h>

#include "kernel/isa.h"

const DeltaOps *
delta_ops(void)
{
#ifdef __x86_64__
	if (delta_is_fast())
		return &delta_ops_avx512;
#endif
	return &delta_ops_portable;
}

bool
delta_is_fast(void)
{
#ifdef __x86_64__
	return sort_isa() == SORT_ISA_AVX512 && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2");
#else
	return false;
#endif
}

bool
delta_record_is_whole(const char *in, const char *in_end, uint32_t len)
{
	size_t		left = (size_t) (in_end - in);
	size_t		length_size = 0;
	size_t		words;
	size_t		stored;

	if (left == 0)
		return false;
	if ((*in & DELTA_LENGTH_BITS) != 0)
	{
		length_size = sizeof(len);
		if (left < 1 + length_size)
			return false;
		len = delta_length(in + 1);
	}
	words = delta_words(len);
	if (left < length_size + words)
		return false;
	stored = (size_t) __builtin_popcount(*in & 0xf0);
	for (size_t w = 1; w < words; w++)
		stored += (size_t) __builtin_popcount((uint8_t) in[length_size + w]);
	return left - (length_size + words) >= stored;
}

static size_t
encode_portable(char *head, const char *const *rows, size_t n, DeltaIgnored ignored, char *out, char **end)
{
	size_t		i;
	bool		is_long = false;

	for (i = 0; i < n && !is_long; i++)
	{
		const char *row = rows[i];
		uint32_t	len = delta_length(row);
		size_t		words = delta_words(len);
		char	   *masks = out;
		char	   *stored;

		is_long = len > DELTA_HEAD;
		if (len != delta_length(head))
		{
			memcpy(out + 1, &len, sizeof(len));
			masks += sizeof(len);
		}
		stored = masks + words;
		for (size_t w = 0; w < words; w++)
		{
			unsigned	mask = 0;

			for (size_t b = w == 0 ? sizeof(len) : 0; b < 8; b++)
			{
				size_t		at = 8 * w + b;
				bool		differs = row[at] != head[at] && (at >= 64 || (ignored >> at & 1) == 0);

				mask |= (unsigned) differs << b;
				*stored = row[at];
				stored += differs;
			}
			if (w > 0)
				masks[w] = (char) mask;
			else
				*out = (char) (mask | (masks != out ? DELTA_LENGTH_BITS : 0));
		}
		memcpy(head, row, 8 * words);
		out = stored;
	}
	*end = out;
	return i;
}

static DeltaStop
decode_portable(DeltaDecoder *decoder)
{
	for (;;)
	{
		const char *in = decoder->in;
		char	   *head = decoder->head;
		uint32_t	len = delta_length(head);
		unsigned	first;
		const char *masks = in;
		const char *stored;
		size_t		size;
		size_t		words;

		if (decoder->in_end - in < DELTA_RECORD_MAX && !delta_record_is_whole(in, decoder->in_end, len))
			return DELTA_INPUT;
		first = (uint8_t) *in;
		if ((first & DELTA_LENGTH_BITS) != 0)
		{
			len = delta_length(in + 1);
			masks += sizeof(len);
		}
		size = delta_padded(len);
		if (len < DELTA_ROW_MIN || size > decoder->longest)
			return DELTA_CORRUPT;
		if (size > (size_t) (decoder->out_end - decoder->out))
		{
			decoder->need = size;
			return DELTA_ROOM;
		}
		words = delta_words(len);
		stored = masks + words;
		memcpy(head, &len, sizeof(len));
		for (size_t w = 0; w < words; w++)
		{
			unsigned	mask = w == 0 ? first & 0xf0 : (uint8_t) masks[w];

			for (size_t b = 0; b < 8; b++)
			{
				if ((mask >> b & 1) != 0)
					head[8 * w + b] = *stored++;
			}
		}
		memcpy(decoder->out, head, 8 * words);
		decoder->out += 8 * words;
		decoder->in = stored;
		if (len > DELTA_HEAD)
			return DELTA_LONG;
	}
}

const DeltaOps delta_ops_portable = {encode_portable, decode_portable};
