/*
 * sort.h
 *	  The sort engine: a sorter takes rows, a result returns them in order.
 *
 * Other rooms include this header.  Each subject has a header of its own.  A header
 * whose inline functions call a source file is apart from that file's types.
 */
#ifndef GPUSORT_SORT_SORT_H
#define GPUSORT_SORT_SORT_H

#include "sort/distinct_test.h"
#include "sort/key_reader.h"
#include "sort/key_taker.h"
#include "sort/merge_tree_next.h"
#include "sort/result_next.h"
#include "sort/returned_rows.h"
#include "sort/row_page.h"
#include "sort/sort_report.h"
#include "sort/sort_spec.h"
#include "sort/sorter.h"
#include "sort/threads.h"

#endif							/* GPUSORT_SORT_SORT_H */
