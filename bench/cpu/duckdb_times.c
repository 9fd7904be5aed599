/*
 * duckdb_times.c
 *	  Runs statements in DuckDB and prints how long each takes.
 *
 * usage: duckdb_times LIBRARY
 *
 * LIBRARY is DuckDB's shared library, libduckdb.so.  It is loaded at run time, so
 * that this program builds without DuckDB.  The database is in memory.  Reads one
 * statement a line from the standard input.  For each it prints one line: elapsed
 * milliseconds and the number of rows of the result, or "error" and the message.
 * A statement after "unread " has a streaming result: its time ends when the first
 * rows can be read, and its number of rows is 0.  The first line is the library's
 * version.
 *
 * The declarations follow the documentation of DuckDB's C interface.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* room for a duckdb_result, which has 48 bytes on 64-bit machines */
typedef union
{
	char		bytes[256];
	void	   *align;
} Result;

static const char *(*library_version) (void);
static int	(*open_database) (const char *path, void **database);
static int	(*connect_database) (void *database, void **connection);
static int	(*query) (void *connection, const char *sql, Result *result);
static const char *(*result_error) (Result *result);
static uint64_t (*row_count) (Result *result);
static void (*destroy_result) (Result *result);
static int	(*prepare) (void *connection, const char *sql, void **statement);
static void (*destroy_prepare) (void **statement);
static int	(*pending_streaming) (void *statement, void **pending);
static int	(*execute_pending) (void *pending, Result *result);
static void (*destroy_pending) (void **pending);

static void *
symbol(void *library, const char *name)
{
	void	   *address = dlsym(library, name);

	if (address == NULL)
	{
		fprintf(stderr, "duckdb_times: %s\n", dlerror());
		exit(1);
	}
	return address;
}

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* The message on one line. */
static void
print_error(const char *message)
{
	printf("error ");
	for (const char *c = message ? message : "unknown"; *c; c++)
		putchar(*c == '\n' ? ' ' : *c);
	putchar('\n');
}

/* Runs sql with a streaming result, which ends when its first rows are there.  Returns 0, or 1 for an error. */
static int
query_unread(void *connection, const char *sql, Result *result)
{
	void	   *statement = NULL,
			   *pending = NULL;
	int			failed = prepare(connection, sql, &statement) != 0 ||
		pending_streaming(statement, &pending) != 0 || execute_pending(pending, result) != 0;

	destroy_pending(&pending);
	destroy_prepare(&statement);
	return failed;
}

int
main(int argc, char **argv)
{
	void	   *library,
			   *database,
			   *connection;
	char	   *line = NULL;
	size_t		size = 0;

	if (argc != 2)
	{
		fprintf(stderr, "usage: duckdb_times LIBRARY\n");
		return 2;
	}
	if ((library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) == NULL)
	{
		fprintf(stderr, "duckdb_times: %s\n", dlerror());
		return 1;
	}
	*(void **) &library_version = symbol(library, "duckdb_library_version");
	*(void **) &open_database = symbol(library, "duckdb_open");
	*(void **) &connect_database = symbol(library, "duckdb_connect");
	*(void **) &query = symbol(library, "duckdb_query");
	*(void **) &result_error = symbol(library, "duckdb_result_error");
	*(void **) &row_count = symbol(library, "duckdb_row_count");
	*(void **) &destroy_result = symbol(library, "duckdb_destroy_result");
	*(void **) &prepare = symbol(library, "duckdb_prepare");
	*(void **) &destroy_prepare = symbol(library, "duckdb_destroy_prepare");
	*(void **) &pending_streaming = symbol(library, "duckdb_pending_prepared_streaming");
	*(void **) &execute_pending = symbol(library, "duckdb_execute_pending");
	*(void **) &destroy_pending = symbol(library, "duckdb_destroy_pending");
	if (open_database(NULL, &database) != 0 || connect_database(database, &connection) != 0)
	{
		fprintf(stderr, "duckdb_times: no database\n");
		return 1;
	}
	printf("%s\n", library_version());
	fflush(stdout);
	while (getline(&line, &size, stdin) > 0)
	{
		Result		result;
		double		start = now_ms();

		memset(&result, 0, sizeof(result));
		if (strncmp(line, "unread ", 7) == 0)
		{
			if (query_unread(connection, line + 7, &result) != 0)
				print_error("the statement failed");
			else
				printf("%.3f 0\n", now_ms() - start);
		}
		else if (query(connection, line, &result) != 0)
			print_error(result_error(&result));
		else
			printf("%.3f %llu\n", now_ms() - start, (unsigned long long) row_count(&result));
		destroy_result(&result);
		fflush(stdout);
	}
	free(line);
	return 0;
}
