/*
 * settings.c
 *	  The configuration parameters of the extension.
 */
#include "postgres.h"

#include <limits.h>

#include "compat.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "settings.h"
#include "utils/guc.h"

/* Value of gpusort.algorithm for "auto"; not an AlgorithmId */
#define ALGORITHM_AUTO			(-1)

bool		gpusort_enable = true;
bool		gpusort_index_builds = true;
int			gpusort_index_builds_min_size = 8;
bool		gpusort_plan_grouping = true;
int			gpusort_plan_grouping_min_rows = 10000;
bool		gpusort_windows = true;
bool		gpusort_aggregates = true;
bool		gpusort_merge_joins = true;
int			gpusort_min_rows = 32;
int			gpusort_threads = 1;
int			gpusort_max_threads = -1;
bool		gpusort_verify = false;
int			gpusort_compress_runs = COMPRESS_AUTO;
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
int			gpusort_device_patience = 10000;
int			gpusort_device_timeout = 120000;

static const struct config_enum_entry compress_options[] = {
	{"auto", COMPRESS_AUTO, false},
	{"on", COMPRESS_ON, false},
	{"off", COMPRESS_OFF, false},
	{"true", COMPRESS_ON, true},
	{"false", COMPRESS_OFF, true},
	{"yes", COMPRESS_ON, true},
	{"no", COMPRESS_OFF, true},
	{"1", COMPRESS_ON, true},
	{"0", COMPRESS_OFF, true},
	{NULL, 0, false}
};

static int	forced_algorithm = ALGORITHM_AUTO;

#define DEVICE_LIBRARY_DEFAULT	"$libdir/libgpusort_cuda"

/* "auto", every algorithm, and an empty last entry */
static struct config_enum_entry algorithm_options[ALGORITHM_COUNT + 2];

bool
gpusort_device_library_set(void)
{
	return strcmp(gpusort_device_library, DEVICE_LIBRARY_DEFAULT) != 0;
}

/* Parses "auto", "off" or a list of device numbers into a mask. */
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
fill_algorithm_options(void)
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

/* Settings whose default is the initial value of their variable. */
typedef struct BoolSetting
{
	const char *name;
	bool	   *variable;
	GucContext	context;
	int			flags;
	const char *says;
	const char *says_more;
} BoolSetting;

typedef struct IntSetting
{
	const char *name;
	int		   *variable;
	int			least;
	int			most;
	GucContext	context;
	int			flags;
	const char *says;
	const char *says_more;
} IntSetting;

static const BoolSetting bool_settings[] = {
	{"gpusort.enable", &gpusort_enable, PGC_USERSET, GUC_EXPLAIN,
		"Lets plans sort with GpuSort nodes instead of Sort nodes."},
	{"gpusort.plan_grouping", &gpusort_plan_grouping, PGC_USERSET, GUC_EXPLAIN,
		"Compares sorted with hashed groups and joins by predicted times.",
		"If off, PostgreSQL compares them by the costs of its own Sort."},
	{"gpusort.windows", &gpusort_windows, PGC_USERSET, GUC_EXPLAIN,
		"Lets plans have GpuSort Window nodes instead of WindowAgg nodes."},
	{"gpusort.aggregates", &gpusort_aggregates, PGC_USERSET, GUC_EXPLAIN,
		"Lets plans aggregate sorted rows with GpuSort Aggregate nodes.",
		"If off, aggregates with DISTINCT or an order sort by themselves."},
	{"gpusort.merge_joins", &gpusort_merge_joins, PGC_USERSET, GUC_EXPLAIN,
		"Lets plans join sorted rows with GpuSort Join nodes."},
	{"gpusort.index_builds", &gpusort_index_builds, PGC_USERSET, 0,
		"Lets gpusort build btree indexes.",
		"It applies while gpusort.enable is on.  The index is the same either way."},
	{"gpusort.verify", &gpusort_verify, PGC_USERSET, 0,
		"Checks the order and completeness of every sorted result.",
		"A wrong result of a CPU algorithm is an error; after a wrong result of a GPU the CPU sorts."},
	{"gpusort.device_allowed", &gpusort_device_allowed, PGC_SUSET, GUC_EXPLAIN,
		"Lets sorts use the GPUs that gpusort.device names.",
		"Only a superuser can change it."},
	{"gpusort.device_learn", &gpusort_device_learn, PGC_SIGHUP, 0,
		"Measures GPUs and CPU, and corrects predictions by the times of sorts.",
		"If off, the built-in cost models are used without correction."},
};

static const IntSetting int_settings[] = {
	{"gpusort.plan_grouping_min_rows", &gpusort_plan_grouping_min_rows, 0, INT_MAX, PGC_USERSET, GUC_EXPLAIN,
		"Sets the minimum estimated number of rows for gpusort.plan_grouping.",
		"Groupings and joins of fewer rows are not worth the planner's time."},
	{"gpusort.min_rows", &gpusort_min_rows, 0, INT_MAX, PGC_USERSET, GUC_EXPLAIN,
		"Sets the minimum estimated number of rows for a GpuSort node.",
		"A GpuSort node takes about 0.1 microseconds more to start than a Sort."},
	{"gpusort.index_builds_min_size", &gpusort_index_builds_min_size, 0, INT_MAX, PGC_USERSET, GUC_UNIT_BLOCKS,
		"Sets the minimum size of a table for gpusort.index_builds.",
		"PostgreSQL builds the indexes of smaller tables as fast."},
	{"gpusort.threads", &gpusort_threads, 1, 64, PGC_USERSET, GUC_EXPLAIN,
		"Sets the number of threads that sort in one backend."},
	{"gpusort.max_threads", &gpusort_max_threads, -1, 65536, PGC_SIGHUP, 0,
		"Sets the maximum number of additional sort threads of all sessions.",
		"-1 uses max_worker_processes."},
	{"gpusort.device_share", &gpusort_device_share, 1, 100, PGC_SUSET, 0,
		"Sets the share of a GPU's memory that one session may use, in percent."},
	{"gpusort.device_memory", &gpusort_device_memory, 0, INT_MAX / 2, PGC_POSTMASTER, GUC_UNIT_MB,
		"Sets the memory that sorts may use on each GPU.",
		"0 uses the free memory except for a reserve."},
	{"gpusort.device_idle_blocks", &gpusort_device_idle_blocks, 0, INT_MAX / 2000, PGC_SIGHUP, GUC_UNIT_S,
		"Sets how long an unused GPU keeps its memory blocks.",
		"0 keeps them."},
	{"gpusort.device_idle_context", &gpusort_device_idle_context, 0, INT_MAX / 2000, PGC_SIGHUP, GUC_UNIT_S,
		"Sets after how long without sorts the GPUs are released.",
		"The next sort that gains from a GPU opens them again.  0 keeps them."},
	{"gpusort.staging_memory", &gpusort_staging_memory, -1, 65536, PGC_POSTMASTER, GUC_UNIT_MB,
		"Sets the shared memory for transfers to and from GPUs.",
		"-1 uses 256MB if there is a GPU driver; 0 disables GPUs."},
	{"gpusort.run_rows", &gpusort_run_rows, 0, INT_MAX, PGC_SUSET, GUC_NOT_IN_SAMPLE,
		"Sets the maximum number of rows of a run, for tests.",
		"0 sets no limit."},
	{"gpusort.device_patience", &gpusort_device_patience, 0, INT_MAX, PGC_SUSET, GUC_UNIT_MS | GUC_NOT_IN_SAMPLE,
		"Sets how long a sort waits for a GPU if gpusort.algorithm asks for one."},
	{"gpusort.device_timeout", &gpusort_device_timeout, 100, INT_MAX, PGC_SUSET, GUC_UNIT_MS | GUC_NOT_IN_SAMPLE,
		"Sets after how long without progress a GPU counts as hanging."},
};

/*
 * The service starts with the settings of PGC_POSTMASTER.  A session that loads the library
 * later has no service.  It defines these settings all the same, so that they may stand in a
 * configuration file.
 */
static GucContext
context_now(GucContext context)
{
	return context == PGC_POSTMASTER && !process_shared_preload_libraries_in_progress ? PGC_SIGHUP : context;
}

void
gpusort_settings_init(void)
{
	for (const BoolSetting *set = bool_settings; set < bool_settings + lengthof(bool_settings); set++)
		DefineCustomBoolVariable(set->name, set->says, set->says_more, set->variable, *set->variable,
								 context_now(set->context), set->flags, NULL, NULL, NULL);
	for (const IntSetting *set = int_settings; set < int_settings + lengthof(int_settings); set++)
		DefineCustomIntVariable(set->name, set->says, set->says_more, set->variable, *set->variable,
								set->least, set->most, context_now(set->context), set->flags, NULL, NULL, NULL);
	fill_algorithm_options();
	DefineCustomEnumVariable("gpusort.algorithm",
							 "Forces a sort algorithm where it can apply.",
							 "If it cannot, EXPLAIN's Sort Route shows the reason.",
							 &forced_algorithm, ALGORITHM_AUTO, algorithm_options,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable("gpusort.compress_runs",
							 "Stores rows in temporary files as differences to the row before.",
							 "\"auto\" does so if the processor has fast instructions for it and the files become "
							 "smaller.",
							 &gpusort_compress_runs, COMPRESS_AUTO, compress_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("gpusort.device",
							   "Sets the GPUs that sorts may use: auto, off, or a list of numbers.",
							   "The server's configuration decides which GPUs are opened.",
							   &gpusort_device, "auto",
							   PGC_USERSET, GUC_EXPLAIN, check_device, assign_device, NULL);
	DefineCustomStringVariable("gpusort.device_library",
							   "Names the library that drives the GPUs.",
							   NULL,
							   &gpusort_device_library, DEVICE_LIBRARY_DEFAULT,
							   context_now(PGC_POSTMASTER), GUC_SUPERUSER_ONLY | GUC_NOT_IN_SAMPLE,
							   NULL, NULL, NULL);
	MarkGUCPrefixReserved("gpusort");
}
