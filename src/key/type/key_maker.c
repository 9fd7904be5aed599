/*
 * key_maker.c
 *	  What a column's images are made with.
 *
 * A comparator with its abbreviation, an enum's order, what is known of first parts: all of
 * this points to catalogs' caches and functions of this process, so that it is kept apart
 * from the images, which others may read.
 */
#include "postgres.h"

#include "key/type/abbreviated.h"
#include "key/type/enums.h"
#include "key/type/key_maker.h"
#include "key/type/nested.h"

KeyMaker
key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind)
{
	KeyMaker	maker = NO_KEY_MAKER;

	if (kind == KEY_ABBREVIATED)
		maker.ssup = abbreviated_support(cxt, key, true);
	else if (kind == KEY_ENUM)
		maker.enum_order = enum_order_create(cxt);
	else if (key_nested(kind))
		maker.first_part = first_part_create(cxt, key->collation);
	return maker;
}

uint64
key_maker_parts(KeyKind kind, KeyMaker maker)
{
	return key_nested(kind) ? first_part_kind(maker.first_part) : 0;
}
