/*
 * tie_letters.c
 *	  Hints for strings of which only the comparator knows how letters sort.
 *
 * ICU compares two strings that part early in a few nanoseconds, and takes ten times
 * that to make a key of one.  So its order of single characters is learnt by comparing
 * them, those of ASCII at first and others when they are met, and the next few characters
 * of each string, by their places in it, are the string's hint (tie_hints.c).  Characters
 * that differ in case or accents alone share a place, for what comes behind them counts
 * more than that.  What this leaves out (contractions, ignored characters, numbers by
 * value) makes hints that are wrong, which the comparator tells.
 *
 * A place is a byte: ASCII has the even ones, what sorts between two of it the odd one
 * between.  Characters of three bytes and more have the last.
 *
 * Memory policy: a byte for each character of two bytes, as long as the sort's node.
 */
#include "postgres.h"

#include "compat.h"
#include "key/tie/tie_rows.h"

#define LETTERS_ASCII		128
#define LETTERS				2048	/* what two bytes of UTF-8 make */
#define PLACE_UNKNOWN		0
#define PLACE_LAST			255

struct TieLetters
{
	SortSupport ssup;
	KeyKind		kind;			/* how strings lie */
	int			n;				/* different places of ASCII */
	uint8		first[LETTERS_ASCII];	/* a character of each */
	uint8		places[LETTERS];
};

/* A string of a few bytes as a value. */
typedef union LetterString
{
	char		varlena[VARHDRSZ + 8];
	NameData	name;
	int32		align;
} LetterString;

static Datum
make_string(KeyKind kind, LetterString *s, const char *p, int len, char behind)
{
	memset(s, 0, sizeof(*s));
	if (kind == KEY_NAME)
	{
		memcpy(s->name.data, p, len);
		s->name.data[len] = behind;
	}
	else
	{
		memcpy(VARDATA(s->varlena), p, len);
		VARDATA(s->varlena)[len] = behind;
		SET_VARSIZE(s->varlena, VARHDRSZ + len + 1);
	}
	return PointerGetDatum(s);
}

/* How a character with one behind it sorts to another with one. */
static int
compare_letters(const TieLetters *letters, const char *a, int alen, char abehind,
				const char *b, int blen, char bbehind)
{
	LetterString x;
	LetterString y;

	return letters->ssup->comparator(make_string(letters->kind, &x, a, alen, abehind),
									 make_string(letters->kind, &y, b, blen, bbehind),
									 letters->ssup);
}

/* < 0, > 0, and 0 if what is behind them counts more. */
static int
compare_places(const TieLetters *letters, const char *a, int alen, const char *b, int blen)
{
	int			ab = compare_letters(letters, a, alen, 'a', b, blen, 'b');
	int			ba = compare_letters(letters, a, alen, 'b', b, blen, 'a');

	return ab < 0 && ba > 0 ? 0 : ab;
}

/* The place of a character among those of ASCII. */
static uint8
find_place(TieLetters *letters, const char *p, int len)
{
	int			from = 0;
	int			to = letters->n;

	while (from < to)
	{
		int			mid = (from + to) / 2;
		int			cmp = compare_places(letters, p, len, (char *) &letters->first[mid], 1);

		if (cmp == 0)
			return 2 * mid + 2;
		if (cmp > 0)
			from = mid + 1;
		else
			to = mid;
	}
	/* nothing sorts before a string's end, but the first may be odd all the same */
	return 2 * from + 1;
}

TieLetters *
tie_letters_create(MemoryContext cxt, SortSupport ssup, KeyKind kind)
{
	TieLetters *letters = MemoryContextAllocZero(cxt, sizeof(TieLetters));

	letters->ssup = ssup;
	letters->kind = kind;
	/* the places of those so far, and the new one's among them */
	for (int c = 1; c < LETTERS_ASCII; c++)
	{
		char		letter = (char) c;
		int			place = find_place(letters, &letter, 1);

		if (place % 2 == 0)
			continue;
		place /= 2;
		memmove(letters->first + place + 1, letters->first + place, letters->n - place);
		letters->first[place] = c;
		letters->n++;
	}
	return letters;
}

static inline uint8
place_of(TieLetters *letters, const char *p, int len, int letter)
{
	if (unlikely(letters->places[letter] == PLACE_UNKNOWN))
		letters->places[letter] = find_place(letters, p, len);
	return letters->places[letter];
}

uint64
tie_letters_hint(TieLetters *letters, const char *p, size_t len)
{
	const char *end = p + len;
	uint64		hint = 0;

	for (int shift = 56; shift >= 0 && p < end; shift -= 8)
	{
		uint8		c = (uint8) *p;
		uint8		place = PLACE_LAST;
		int			bytes = 1;

		if (likely(c < 0x80))
			place = place_of(letters, p, 1, c);
		else if (c < 0xE0 && end - p >= 2)
		{
			bytes = 2;
			place = place_of(letters, p, 2, (c & 0x1F) << 6 | ((uint8) p[1] & 0x3F));
		}
		else
			bytes = c < 0xF0 ? 3 : 4;
		hint |= (uint64) place << shift;
		p += bytes;
	}
	return hint;
}
