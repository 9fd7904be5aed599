/*
 * outlook.h
 *	  Which device a sort of this backend would get now, and what else goes on there.
 */
#ifndef GPUSORT_OUTLOOK_H
#define GPUSORT_OUTLOOK_H

#include "device/protocol.h"

typedef struct DeviceOutlook
{
	int			device;			/* index into DeviceShared.devices */
	uint64		memory;			/* of it that we could have more; 0: none, or not known */
	uint64		all_memory;		/* ... of all devices that we may use */
	double		others;			/* other backends' jobs that are under way there */
} DeviceOutlook;

extern void device_outlook(DeviceOutlook *outlook);

/* Other backends' jobs that are under way on a device. */
extern double device_others(int device);

#endif							/* GPUSORT_OUTLOOK_H */
