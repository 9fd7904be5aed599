/*
 * leader_rows.c
 *	  Cost of a row in the leader of a parallel sort, by design.
 *
 *		rids	all rows lie in shared arenas; the leader has an array of rids
 *		ranges	workers sort ranges of keys; the leader reads blocks in sequence
 *		streams	N workers write sorted blocks of rows and keys; the leader merges
 *				them with a loser tree
 *
 * Rows have 32 bytes with 64-bit keys, blocks 64 kB, streams equal numbers of
 * rows.  Everything runs in one process, so the cost of reading lines from
 * another core's cache is missing; it is equal for all designs.
 *
 * usage: cc -O2 -o leader_rows bench/cpu/leader_rows.c && ./leader_rows [rows in millions]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROW			32
#define AHEAD		64

typedef struct Stream
{
	char	   *row;
	const uint64_t *key;
	size_t		left;
} Stream;

typedef struct Node
{
	uint64_t	key;
	uint64_t	stream;
} Node;

static size_t n;
static char *rows;
static uint64_t *keys;
static uint64_t sum;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static uint64_t
next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* The use of a row: reads its length and a column. */
static inline void
give(const char *row)
{
	sum += *(const uint32_t *) row + *(const uint64_t *) (row + 24);
}

static void
by_rids(void)
{
	uint32_t   *order = malloc(n * sizeof(uint32_t));
	uint64_t	x = 7;
	double		t;

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t) i;
	for (size_t i = n - 1; i > 0; i--)
	{
		size_t		j = next_random(&x) % (i + 1);
		uint32_t	o = order[i];

		order[i] = order[j];
		order[j] = o;
	}
	t = now();
	for (size_t i = 0; i < n; i++)
	{
		if (i + AHEAD < n)
			__builtin_prefetch(rows + (size_t) order[i + AHEAD] * ROW);
		give(rows + (size_t) order[i] * ROW);
	}
	printf("rids            %5.1f ns a row\n", (now() - t) / n);
	free(order);
}

static void
by_ranges(void)
{
	double		t = now();

	for (const char *row = rows; row < rows + n * ROW; row += *(const uint32_t *) row)
		give(row);
	printf("ranges          %5.1f ns a row\n", (now() - t) / n);
}

static void
swap_if(int so, Node *a, Node *b)
{
	uint64_t	key = (a->key ^ b->key) & -(uint64_t) so;
	uint64_t	stream = (a->stream ^ b->stream) & -(uint64_t) so;

	a->key ^= key;
	b->key ^= key;
	a->stream ^= stream;
	b->stream ^= stream;
}

static Node
advance(Stream *streams, uint64_t s)
{
	Stream	   *stream = &streams[s];
	Node		node = {UINT64_MAX, s};

	if (stream->left == 0)
		return node;
	stream->left--;
	node.key = *stream->key++;
	return node;
}

static Node
play(Stream *streams, Node *losers, int k, int node)
{
	Node		a;
	Node		b;

	if (node >= k)
		return advance(streams, node - k);
	a = play(streams, losers, k, 2 * node);
	b = play(streams, losers, k, 2 * node + 1);
	swap_if(b.key < a.key, &a, &b);
	losers[node] = b;
	return a;
}

static void
by_streams(int k)
{
	Stream		streams[64];
	Node		losers[64];
	uint64_t	x = 3;
	Node		w;
	double		t;

	for (int s = 0; s < k; s++)
	{
		size_t		from = n / k * s;

		streams[s] = (Stream)
		{
			rows + from * ROW, keys + from, n / k
		};
		/* sorted keys with random distances */
		for (size_t i = 0, key = 0; i < n / k; i++)
			keys[from + i] = key += next_random(&x) >> 32;
	}
	t = now();
	w = play(streams, losers, k, 1);
	for (size_t i = 0; i < n / k * k; i++)
	{
		Stream	   *stream = &streams[w.stream];

		give(stream->row);
		__builtin_prefetch(stream->row + 256);
		stream->row += *(const uint32_t *) stream->row;
		w = advance(streams, w.stream);
		for (int node = (int) (k + w.stream) / 2; node > 0; node /= 2)
			swap_if(losers[node].key < w.key, &losers[node], &w);
	}
	printf("streams, %2d     %5.1f ns a row\n", k, (now() - t) / n);
}

int
main(int argc, char **argv)
{
	n = (argc > 1 ? atof(argv[1]) : 10) * 1e6;
	rows = aligned_alloc(64, n * ROW);
	keys = malloc(n * sizeof(uint64_t));
	for (size_t i = 0; i < n; i++)
	{
		*(uint32_t *) (rows + i * ROW) = ROW;
		*(uint64_t *) (rows + i * ROW + 24) = i;
		keys[i] = 0;
	}
	for (int again = 0; again < 2; again++)
	{
		by_rids();
		by_ranges();
		by_streams(2);
		by_streams(3);
		by_streams(9);
		by_streams(17);
	}
	return sum == 0;
}
