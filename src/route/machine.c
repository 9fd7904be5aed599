/*
 * machine.c
 *	  Names the processor; see machine.h.
 */
#include "route/machine.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* The processor's brand string, 48 bytes in three leaves; false if it has none. */
static bool
brand_string(char brand[49])
{
	unsigned	regs[4];

	if (__get_cpuid_max(0x80000000, NULL) < 0x80000004)
		return false;
	for (unsigned leaf = 0; leaf < 3; leaf++)
	{
		__get_cpuid(0x80000002 + leaf, &regs[0], &regs[1], &regs[2], &regs[3]);
		memcpy(brand + 16 * leaf, regs, 16);
	}
	brand[48] = '\0';
	return true;
}
#else
static bool
brand_string(char brand[49])
{
	(void) brand;
	return false;
}
#endif

static long
cache_kb(int name)
{
	long		size = sysconf(name);

	return size > 0 ? size / 1024 : 0;
}

void
machine_name(char name[MACHINE_NAME_SIZE])
{
	char		brand[49];
	struct utsname uts;
	const char *cpu = "unknown";
	long		l2 = 0;
	long		l3 = 0;

	if (brand_string(brand))
	{
		cpu = brand;
		while (*cpu == ' ')
			cpu++;
	}
	else if (uname(&uts) == 0)
		cpu = uts.machine;

#ifdef _SC_LEVEL2_CACHE_SIZE
	l2 = cache_kb(_SC_LEVEL2_CACHE_SIZE);
	l3 = cache_kb(_SC_LEVEL3_CACHE_SIZE);
#endif
	snprintf(name, MACHINE_NAME_SIZE, "%s, L2 %ld kB, L3 %ld kB", cpu, l2, l3);
}
