/*
 * store_text.c
 *	  The text of the file of correction factors.
 *
 * It begins with a line for its kind and version, and a line for the machine.  Then
 * come lines of a name and numbers.  One function describes each group of lines: it
 * writes them or reads them.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cost/cost_internal.h"

/* Upper limit of a number of jobs or seconds. */
#define COUNT_MOST		1e15

/* ------------------------------------------------------------------------
 * Lines
 * ------------------------------------------------------------------------
 */

/* Writes like printf().  Text that does not fit is cut off. */
static void
__attribute__((format(printf, 2, 3)))
put(StoreText *text, const char *format,...)
{
	size_t		room = text->end - text->out;
	va_list		args;
	int			len;

	va_start(args, format);
	len = vsnprintf(text->out, room, format, args);
	va_end(args);
	text->out += (size_t) len < room ? (size_t) len : room;
}

/* Reads past this prefix; false if it is missing. */
static bool
skip(StoreText *text, const char *prefix)
{
	size_t		len = strlen(prefix);

	if (strncmp(text->in, prefix, len) != 0)
		return false;
	text->in += len;
	return true;
}

/* Writes a space and a number: a whole one with all its digits, any other with six. */
static void
put_number(StoreText *text, double value)
{
	put(text, value == rint(value) && fabs(value) <= COUNT_MOST ? " %.0f" : " %.6g", value);
}

/* Reads a space and a number; false if it is not within the bounds. */
static bool
read_number(StoreText *text, const double bounds[2], double *value)
{
	char	   *end;

	if (*text->in != ' ')
		return false;
	*value = strtod(text->in, &end);
	/* this form of the condition also rejects a NaN */
	if (end == text->in || !(*value >= bounds[0] && *value <= bounds[1]))
		return false;
	text->in = end;
	return true;
}

/* A line of a name and n numbers, each within its bounds. */
static bool
text_line(StoreText *text, const char *name, int n, const double (*bounds)[2], double *values)
{
	if (text->in == NULL)
	{
		put(text, "%s", name);
		for (int i = 0; i < n; i++)
			put_number(text, values[i]);
		put(text, "\n");
		return true;
	}
	if (!skip(text, name))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (!read_number(text, bounds[i], &values[i]))
			return false;
	}
	return skip(text, "\n");
}

StoreTextStatus
text_head(StoreText *text, const char *head)
{
	char		machine[MACHINE_NAME_SIZE];

	machine_name(machine);
	if (text->in == NULL)
	{
		put(text, "%s%s\n", head, machine);
		return STORE_TEXT_OK;
	}
	if (!skip(text, head))
		return STORE_TEXT_BAD;
	return skip(text, machine) && skip(text, "\n") ? STORE_TEXT_OK : STORE_TEXT_OTHER_MACHINE;
}

/* ------------------------------------------------------------------------
 * Correction factors
 * ------------------------------------------------------------------------
 */

/* A line of a name and a factor. */
static bool
factor_text(StoreText *text, const char *name, Factor *factor)
{
	/* numbers in the text are rounded */
	const double low = log(FACTOR_MIN) - 0.001;
	const double high = log(FACTOR_MAX) + 0.001;
	const double bounds[][2] = {{low, high}, {0, 1}, {low, high}, {0, UINT32_MAX}, {0, COUNT_MOST}};
	double		values[5] = {0};

	/* a factor that is read has no value yet */
	if (text->in == NULL)
	{
		values[0] = factor->log;
		values[1] = factor->is_measured;
		values[2] = factor->measured;
		values[3] = factor->jobs;
		values[4] = (double) factor->seen;
	}
	if (!text_line(text, name, 5, bounds, values))
		return false;
	factor->log = values[0];
	factor->is_measured = values[1] != 0;
	factor->measured = values[2];
	factor->jobs = (uint32_t) values[3];
	factor->seen = (int64_t) values[4];
	return true;
}

bool
cpu_learn_text(StoreText *text, Factor *cpu)
{
	return factor_text(text, "cpu", cpu);
}

/* Names of the sort's parts are repeated for each size. */
const char *const gpu_part_names[GPU_PARTS] = {
	"hand_over", "up", "down",
	"sort_32", "sort_32", "sort_32", "sort_32",
	"sort_64", "sort_64", "sort_64", "sort_64",
	"sort_128", "sort_128", "sort_128", "sort_128"
};

_Static_assert(GPU_SORT_SIZES == 4, "names of the sort's parts");

bool
gpu_learn_text(StoreText *text, GpuLearned *learned)
{
	const double bounds[][2] = {{0, GPU_LOAD_MAX}, {0, UINT32_MAX}, {0, COUNT_MOST}};
	double		load[] = {learned->load, learned->load_jobs, (double) learned->jobs};

	if (!text_line(text, "load", 3, bounds, load))
		return false;
	learned->load = load[0];
	learned->load_jobs = (uint32_t) load[1];
	learned->jobs = (uint64_t) load[2];
	for (int p = 0; p < GPU_PARTS; p++)
	{
		if (!factor_text(text, gpu_part_names[p], &learned->part[p]))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * First lines of devices
 * ------------------------------------------------------------------------
 */
void
gpu_learn_name(const char *name, char kept[GPU_LEARN_NAME])
{
	snprintf(kept, GPU_LEARN_NAME, "%s", name);
	for (char *c = kept; *c != '\0'; c++)
		*c = *c == '\n' ? ' ' : *c;
}

/* The name is the rest of the line after one space.  It may be empty or have spaces. */
bool
gpu_section_text(StoreText *text, GpuLearnedOf *of)
{
	unsigned long long memory = of->memory;
	int			len;
	const char *end;

	if (text->in == NULL)
	{
		put(text, "device %d %llu %s\n", of->number, memory, of->name);
		return true;
	}
	if (sscanf(text->in, "device %d %llu%n", &of->number, &memory, &len) != 2 || text->in[len] != ' ')
		return false;
	of->memory = memory;
	text->in += len + 1;
	end = strchr(text->in, '\n');
	if (end == NULL || end - text->in >= GPU_LEARN_NAME)
		return false;
	memcpy(of->name, text->in, end - text->in);
	of->name[end - text->in] = '\0';
	text->in = end + 1;
	return true;
}

/* ------------------------------------------------------------------------
 * Identity of the processor
 * ------------------------------------------------------------------------
 */

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

/* Size of a cache that sysconf() names; 0: unknown. */
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
