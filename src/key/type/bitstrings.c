/*
 * bitstrings.c
 *	  Keys that are strings of bits: bit and varbit.
 *
 * PostgreSQL compares them by their bytes, then by their number of bits.  The image is
 * seven bytes, zeros behind the end, and the number of bits, which is exact for as many
 * as these hold.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "compat.h"
#include "key/type/bytes.h"
#include "key/type/traits.h"
#include "miscadmin.h"

#define IMAGE_BITS	56

uint64
bits_image(const struct StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	struct varlena *p = (struct varlena *) DatumGetPointer(value);
	void	   *copy = NULL;
	uint64		image;
	int32		bits;

	if (unlikely(VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p)))
	{
		CHECK_FOR_INTERRUPTS();
		p = copy = detoast_attr_slice(p, 0, sizeof(bits) + BYTES_WORD);
	}
	memcpy(&bits, VARDATA_ANY(p), sizeof(bits));
	image = bytes_word(VARDATA_ANY(p) + sizeof(bits), VARSIZE_ANY_EXHDR(p) - sizeof(bits));
	if (bits > IMAGE_BITS)
		*inexact = true;
	if (unlikely(copy != NULL))
		pfree(copy);
	return (image & ~UINT64CONST(0xff)) | (uint64) Min(bits, IMAGE_BITS + 1);
}
