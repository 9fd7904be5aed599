/*
 * sorter_page.h
 *	  A page of rows into a sort at once.
 */
#ifndef GPUSORT_SORTER_PAGE_H
#define GPUSORT_SORTER_PAGE_H

#include "postgres.h"

#include "node/page_scan.h"
#include "sort/sorter.h"

/* sorter_put() of all the page's rows. */
extern void sorter_put_page(Sorter *sorter, PageScan *scan);

#endif							/* GPUSORT_SORTER_PAGE_H */
