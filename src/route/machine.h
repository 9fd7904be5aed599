/*
 * machine.h
 *	  Names the processor, so that measured constants are not used on another.
 */
#ifndef GPUSORT_MACHINE_H
#define GPUSORT_MACHINE_H

#define MACHINE_NAME_SIZE	128

/*
 * One line of text without a newline: the processor's name and the sizes of its
 * L2 and L3 caches, as far as the system tells them.
 */
extern void machine_name(char name[MACHINE_NAME_SIZE]);

#endif							/* GPUSORT_MACHINE_H */
