/*
 * library.c
 *	  The file of this library, by which other processes load it.
 *
 * A background worker or a parallel worker is started with the name of a library and of a
 * function.  The server searches a name without a directory in dynamic_library_path.
 * If the library was loaded by an absolute path, it may find no file there, or another
 * version.  So workers get the path.
 *
 * Memory policy: the dynamic loader owns the path.
 */
#include "postgres.h"

#include <dlfcn.h>

#include "library.h"

#define PLAIN_NAME	"gpusort"

const char *
gpusort_library_name(int size)
{
	Dl_info		info;

	if (dladdr((const void *) gpusort_library_name, &info) == 0 || info.dli_fname == NULL ||
		!is_absolute_path(info.dli_fname) || strlen(info.dli_fname) >= (Size) size)
		return PLAIN_NAME;
	return info.dli_fname;
}
