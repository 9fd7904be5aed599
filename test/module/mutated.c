/*
 * mutated.c
 *	  Random mutations of values of any type, for t/cpu/normalized_keys.pl.
 *
 * As a fuzzer makes its inputs: the binary form of a value (its type's send
 * function) is changed in some bytes, shortened, lengthened or joined with that
 * of another value, and read by the type's receive function.  A form that this
 * function accepts is a new value, and is mutated further.  Some values made so
 * have no text that a test would think of.
 *
 * An error of a receive function is rolled back in a subtransaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#define FORM_MAX		512		/* bytes of a binary form */
#define TRIES_PER_VALUE	6
#define CHANGES_MAX		4		/* changes of a form before it is read */

/* A value's binary form. */
typedef struct Form
{
	int			len;
	char	   *bytes;
} Form;

static pg_prng_state prng;

static int
below(int n)
{
	return n <= 0 ? 0 : (int) pg_prng_uint64_range(&prng, 0, n - 1);
}

static char
some_byte(void)
{
	static const unsigned char often[] = {0, 1, 0x7f, 0x80, 0xff, ' ', 'a', '0'};

	return below(2) == 0 ? (char) often[below(lengthof(often))] : (char) below(256);
}

/* Makes one random change; other is the form that case 5 takes the end of. */
static void
change(StringInfo form, const Form *other)
{
	int			at = below(form->len);
	int			n = 1 + below(4);

	switch (below(6))
	{
		case 0:
			if (form->len > 0)
				form->data[at] ^= (char) (1 << below(8));
			break;
		case 1:
			if (form->len > 0)
				form->data[at] = some_byte();
			break;
		case 2:					/* the last byte plus or minus one */
			if (form->len > 0)
				form->data[form->len - 1] += below(2) == 0 ? 1 : -1;
			break;
		case 3:
			n = Min(n, form->len - at);
			memmove(form->data + at, form->data + at + n, form->len - at - n);
			form->len -= n;
			break;
		case 4:
			for (int i = 0; i < n && form->len < FORM_MAX; i++)
				appendStringInfoChar(form, some_byte());
			break;
		case 5:					/* the end of the other form */
			form->len = at;
			at = Min(at, other->len);
			appendBinaryStringInfo(form, other->bytes + at, Min(other->len - at, FORM_MAX));
			break;
	}
	form->data[form->len] = '\0';
}

/*
 * Reads a form into *value, in the current memory context.  False if the
 * receive function reports an error or does not read the whole form.
 */
static bool
receive(Oid function, Oid param, StringInfo form, Datum *value)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool good = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		*value = OidReceiveFunctionCall(function, form, param, -1);
		good = form->cursor == form->len;
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return good;
}

/*
 * mutated(values anyarray, n int, seed int8): the values, and up to n mutations
 * of them.
 */
PG_FUNCTION_INFO_V1(mutated);
Datum
mutated(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	int			wanted = PG_GETARG_INT32(1);
	Oid			type = ARR_ELEMTYPE(array);
	ArrayBuildState *result = NULL;
	StringInfoData form;
	Oid			send;
	Oid			recv;
	Oid			param;
	bool		varlena;
	Datum	   *values;
	bool	   *nulls;
	Form	   *forms;
	int			n;
	int			nforms = 0;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	pg_prng_seed(&prng, (uint64) PG_GETARG_INT64(2));
	getTypeBinaryOutputInfo(type, &send, &varlena);
	getTypeBinaryInputInfo(type, &recv, &param);
	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, type, typlen, typbyval, typalign, &values, &nulls, &n);
	forms = palloc((n + wanted) * sizeof(Form));
	for (int i = 0; i < n; i++)
	{
		bytea	   *sent;

		result = accumArrayResult(result, values[i], nulls[i], type, CurrentMemoryContext);
		if (nulls[i])
			continue;
		sent = OidSendFunctionCall(send, values[i]);
		forms[nforms].len = Min(VARSIZE(sent) - VARHDRSZ, FORM_MAX);
		forms[nforms++].bytes = VARDATA(sent);
	}

	initStringInfo(&form);
	for (int tries = 0; nforms > 0 && nforms < n + wanted && tries < TRIES_PER_VALUE * wanted; tries++)
	{
		const Form *from = &forms[below(nforms)];
		Datum		value;

		CHECK_FOR_INTERRUPTS();
		resetStringInfo(&form);
		appendBinaryStringInfo(&form, from->bytes, from->len);
		for (int changes = 1 + below(CHANGES_MAX); changes > 0; changes--)
			change(&form, &forms[below(nforms)]);
		if (!receive(recv, param, &form, &value))
			continue;
		result = accumArrayResult(result, value, false, type, CurrentMemoryContext);
		forms[nforms].len = form.len;
		forms[nforms].bytes = memcpy(palloc(form.len + 1), form.data, form.len);
		nforms++;
	}
	if (result == NULL)
		PG_RETURN_ARRAYTYPE_P(array);
	PG_RETURN_DATUM(makeArrayResult(result, CurrentMemoryContext));
}
