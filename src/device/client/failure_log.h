/*
 * failure_log.h
 *	  Which failures of devices are news for the server's log.
 */
#ifndef GPUSORT_FAILURE_LOG_H
#define GPUSORT_FAILURE_LOG_H

#include "device/protocol.h"

/* A sort goes on without the GPU, and why: logged if that is news. */
extern void device_log_failure(const char *why);

#endif							/* GPUSORT_FAILURE_LOG_H */
