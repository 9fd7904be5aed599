/*
 * library.h
 *	  The file of this library, by which other processes load it.
 */
#ifndef GPUSORT_LIBRARY_H
#define GPUSORT_LIBRARY_H

/*
 * The path under which this process has loaded the library; "gpusort" if it is unknown or
 * does not fit into size bytes.
 */
extern const char *gpusort_library_name(int size);

#endif							/* GPUSORT_LIBRARY_H */
