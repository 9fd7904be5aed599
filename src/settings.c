/*
 * settings.c
 *	  Every GUC of the extension.
 */
#include "postgres.h"

#include <limits.h>

#include "compat.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "settings.h"
#include "utils/guc.h"

/* No algorithm is forced: a value that is no AlgorithmId. */
#define ALGORITHM_AUTO			(-1)

bool		gpusort_enable = true;
int			gpusort_min_rows = 32;
int			gpusort_threads = 1;
int			gpusort_max_threads = -1;
bool		gpusort_verify = false;
int			gpusort_run_rows = 0;
char	   *gpusort_device = NULL;
uint64		gpusort_device_mask = 0;
bool		gpusort_device_allowed = true;
int			gpusort_device_share = 50;
int			gpusort_device_memory = 0;
bool		gpusort_device_learn = true;
int			gpusort_device_idle_blocks = 10;
int			gpusort_device_idle_context = 300;
int			gpusort_staging_memory = -1;
char	   *gpusort_device_library = NULL;
int			gpusort_device_fault = DEVICE_FAULT_NONE;

static int	forced_algorithm = ALGORITHM_AUTO;

#define DEVICE_LIBRARY_DEFAULT	"$libdir/libgpusort_cuda"

/* "auto" and every algorithm, by its id; the last entry stays empty. */
static struct config_enum_entry algorithm_options[ALGORITHM_COUNT + 2];

static const struct config_enum_entry device_fault_options[] = {
	{"none", DEVICE_FAULT_NONE, false},
	{"memory_start", DEVICE_FAULT_MEMORY_START, false},
	{"memory_sort", DEVICE_FAULT_MEMORY_SORT, false},
	{"error_up", DEVICE_FAULT_ERROR_UP, false},
	{"error_sort", DEVICE_FAULT_ERROR_SORT, false},
	{"error_down", DEVICE_FAULT_ERROR_DOWN, false},
	{"kill_up", DEVICE_FAULT_KILL_UP, false},
	{"kill_sort", DEVICE_FAULT_KILL_SORT, false},
	{"kill_down", DEVICE_FAULT_KILL_DOWN, false},
	{"hang_up", DEVICE_FAULT_HANG_UP, false},
	{"hang_sort", DEVICE_FAULT_HANG_SORT, false},
	{"hang_down", DEVICE_FAULT_HANG_DOWN, false},
	{"stall", DEVICE_FAULT_STALL, false},
	{"freeze", DEVICE_FAULT_FREEZE, false},
	{"corrupt", DEVICE_FAULT_CORRUPT, false},
	{"corrupt_size", DEVICE_FAULT_CORRUPT_SIZE, false},
	{"corrupt_bit", DEVICE_FAULT_CORRUPT_BIT, false},
	{"corrupt_place", DEVICE_FAULT_CORRUPT_PLACE, false},
	{"corrupt_count", DEVICE_FAULT_CORRUPT_COUNT, false},
	{"corrupt_late", DEVICE_FAULT_CORRUPT_LATE, false},
	{"patient", DEVICE_FAULT_PATIENT, false},
	{"linger", DEVICE_FAULT_LINGER, false},
	{"hold_lock", DEVICE_FAULT_HOLD_LOCK, false},
	{"late_leader", DEVICE_FAULT_LATE_LEADER, false},
	{"impatient", DEVICE_FAULT_IMPATIENT, false},
	{NULL, 0, false}
};

bool
gpusort_device_library_set(void)
{
	return strcmp(gpusort_device_library, DEVICE_LIBRARY_DEFAULT) != 0;
}

/* "auto", "off", or device numbers separated by commas. */
static bool
check_device(char **newval, void **extra, GucSource source)
{
	uint64		mask = 0;
	const char *p = *newval;

	if (strcmp(p, "auto") == 0)
		mask = ~UINT64CONST(0);
	else if (strcmp(p, "off") != 0)
	{
		for (;;)
		{
			char	   *end;
			long		device = strtol(p, &end, 10);

			if (end == p || device < 0 || device > 63)
			{
				GUC_check_errdetail("Valid values are \"auto\", \"off\", and a list of device numbers.");
				return false;
			}
			mask |= UINT64CONST(1) << device;
			while (*end == ' ')
				end++;
			if (*end == '\0')
				break;
			if (*end != ',')
			{
				GUC_check_errdetail("Device numbers must be separated by commas.");
				return false;
			}
			p = end + 1;
		}
	}
	*extra = compat_guc_malloc(sizeof(mask));
	if (*extra == NULL)
		return false;
	memcpy(*extra, &mask, sizeof(mask));
	return true;
}

static void
assign_device(const char *newval, void *extra)
{
	memcpy(&gpusort_device_mask, extra, sizeof(gpusort_device_mask));
}

const struct Algorithm *
gpusort_forced_algorithm(void)
{
	return forced_algorithm == ALGORITHM_AUTO ? NULL : &sort_algorithms[forced_algorithm];
}

static void
list_algorithms(void)
{
	struct config_enum_entry *option = algorithm_options;

	option->name = "auto";
	option->val = ALGORITHM_AUTO;
	FOR_EACH_ALGORITHM(a)
	{
		option++;
		option->name = a->name;
		option->val = a->id;
	}
}

void
gpusort_settings_init(void)
{
	/*
	 * What the service is started with.  A session that loads the library later
	 * has no service; there the settings are known, so that a configuration
	 * file may have them, but nothing reads them.
	 */
	GucContext	server_start = process_shared_preload_libraries_in_progress ?
		PGC_POSTMASTER : PGC_SIGHUP;

	list_algorithms();
	DefineCustomBoolVariable("gpusort.enable",
							 "Lets plans sort with GpuSort nodes instead of Sort nodes.",
							 NULL,
							 &gpusort_enable, true,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable("gpusort.algorithm",
							 "Forces a sort algorithm where it can apply.",
							 "Where it cannot, EXPLAIN's Sort Route says why.",
							 &forced_algorithm, ALGORITHM_AUTO, algorithm_options,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.min_rows",
							"Sets the planner's row estimate below which Sort nodes stay.",
							"A GpuSort node takes about 0.1 microseconds more to start than a Sort.",
							&gpusort_min_rows, 32, 0, INT_MAX,
							PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.threads",
							"Sets the number of threads that sort in one backend.",
							NULL,
							&gpusort_threads, 1, 1, 64,
							PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.max_threads",
							"Sets how many threads all sessions together may sort with, beside themselves.",
							"-1 is as many as max_worker_processes.",
							&gpusort_max_threads, -1, -1, 65536,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("gpusort.verify",
							 "Checks the order and completeness of every sorted result.",
							 "A wrong result of a CPU algorithm is an error, "
							 "one of a GPU is sorted again on the CPU.",
							 &gpusort_verify, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("gpusort.device",
							   "Sets the GPUs that sorts may use: auto, off, or a list of numbers.",
							   "The server's own value decides which GPUs are opened.",
							   &gpusort_device, "auto",
							   PGC_USERSET, GUC_EXPLAIN, check_device, assign_device, NULL);
	DefineCustomBoolVariable("gpusort.device_allowed",
							 "Lets sorts use the GPUs that gpusort.device names.",
							 "For administrators: a role cannot undo it.",
							 &gpusort_device_allowed, true,
							 PGC_SUSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.device_share",
							"Sets how much of a GPU's memory one session may have, in percent.",
							NULL,
							&gpusort_device_share, 50, 1, 100,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.device_memory",
							"Sets the memory that sorts may take on each GPU.",
							"0 is all that other programs leave free, less a reserve.",
							&gpusort_device_memory, 0, 0, INT_MAX / 2,
							server_start, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomBoolVariable("gpusort.device_learn",
							 "Measures GPUs and processor, and lets sorts correct what is predicted of them.",
							 "Otherwise what the library says of GPUs, and the model of the CPU, holds.",
							 &gpusort_device_learn, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.device_idle_blocks",
							"Sets for how long a GPU without sorts keeps memory for the next.",
							"0 keeps it.",
							&gpusort_device_idle_blocks, 10, 0, INT_MAX / 2000,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.device_idle_context",
							"Sets after how long without sorts the GPUs are given back.",
							"The next sort that is to gain from one has them back.  0 keeps them.",
							&gpusort_device_idle_context, 300, 0, INT_MAX / 2000,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.staging_memory",
							"Sets the shared memory that rows pass through on their way to GPUs.",
							"-1 is 256MB where there is a GPU driver; 0 does without GPUs.",
							&gpusort_staging_memory, -1, -1, 65536,
							server_start, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomStringVariable("gpusort.device_library",
							   "Names the library that drives the GPUs.",
							   NULL,
							   &gpusort_device_library, DEVICE_LIBRARY_DEFAULT,
							   server_start, GUC_SUPERUSER_ONLY | GUC_NOT_IN_SAMPLE,
							   NULL, NULL, NULL);
	DefineCustomIntVariable("gpusort.run_rows",
							"Sets how many rows are sorted at once, the others in runs, for tests.",
							"0 is as many as can be counted.",
							&gpusort_run_rows, 0, 0, INT_MAX,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomEnumVariable("gpusort.device_fault",
							 "Orders a fault of the GPU service, for tests.",
							 NULL,
							 &gpusort_device_fault, DEVICE_FAULT_NONE, device_fault_options,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	MarkGUCPrefixReserved("gpusort");
}
