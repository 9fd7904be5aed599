/*
 * alphabet.h
 *	  Images of strings by the ranks of their bytes.
 *
 * A byte of an image has 256 values, but at each place only so many occur: ten
 * digits, sixteen of a hexadecimal number, some sixty letters and digits.  The rank
 * among those that do, place by place, is a digit of a number in mixed radix, whose
 * order is the strings': 32 bits for eight hexadecimal digits, where leaving out
 * bits that all have in common comes to 48.  Making it takes eight look-ups a row,
 * and finding out what occurs eight more, so it is for keys that do not fit otherwise.
 */
#ifndef GPUSORT_ALPHABET_H
#define GPUSORT_ALPHABET_H

#include "postgres.h"

#include "key/stage.h"

typedef struct Alphabets
{
	uint64		digit[BYTES_WORD][256]; /* of the image's bytes, the lowest first */
} Alphabets;

/*
 * The alphabets of a column's n images.  False if numbers made by them would take as
 * many bits as this, or more.
 */
extern bool alphabets_make(Alphabets *alphabets, const StageColumn *col, size_t n, int bits);

static inline uint64
alphabets_number(const Alphabets *alphabets, uint64 image)
{
	uint64		number = 0;

	for (int i = 0; i < BYTES_WORD; i++)
		number += alphabets->digit[i][(image >> (8 * i)) & 0xff];
	return number;
}

#endif							/* GPUSORT_ALPHABET_H */
