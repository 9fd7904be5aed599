/*
 * formats_template.h
 *	  Includes a template once for each record format.
 *
 * The includer defines FORMAT_TEMPLATE, the template's path.  The template uses
 *		FORMAT(name)		name of a function of this format
 *		REC					record type
 *		REC_WINDOW, REC_LESS, REC_BEFORE, REC_DIFFER	as in rec.h
 */
#define REC_WINDOW		REC_MACRO(WINDOW)
#define REC_LESS		REC_MACRO(LESS)
#define REC_BEFORE		REC_MACRO(BEFORE)
#define REC_DIFFER		REC_MACRO(DIFFER)

#define FORMAT(name)	packed_##name
#define REC				uint64_t
#define REC_MACRO(name)	PACKED_##name
#include FORMAT_TEMPLATE
#undef FORMAT
#undef REC
#undef REC_MACRO

#define FORMAT(name)	rec64_##name
#define REC				SortRec64
#define REC_MACRO(name)	REC64_##name
#include FORMAT_TEMPLATE
#undef FORMAT
#undef REC
#undef REC_MACRO

#define FORMAT(name)	rec128_##name
#define REC				SortRec128
#define REC_MACRO(name)	REC128_##name
#include FORMAT_TEMPLATE

/* Calls the function of this name that the template has for a record format. */
#define CALL_FORMAT(format, name, ...) \
	((format) == SORT_REC_PACKED ? packed_##name(__VA_ARGS__) : \
	 (format) == SORT_REC_64 ? rec64_##name(__VA_ARGS__) : rec128_##name(__VA_ARGS__))
