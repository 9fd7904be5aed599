/*
 * emulation.cc
 *	  The emulated device: threads of a block as fibers, and kernel launches.
 *
 * A fiber runs until its warp or its block must synchronize.  Then it switches
 * to the next lane of the warp, and the last lane switches to the scheduler.
 * Blocks, warps and lanes run in ascending order in one launch and in
 * descending order in the next, so that a missing barrier shows in one of the
 * two.  The program stops if not all threads of a warp or block reach the same
 * synchronization: some wait elsewhere or have ended.
 *
 * Most of the time of a test goes to switching.  So these functions are short
 * and not sanitized, and the stacks begin in different cache sets.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <map>

#include "emulation.h"

#define MOST_THREADS	1024
#define STACK_BYTES		(256 * 1024)
#define STACK_STRIDE	(STACK_BYTES + 17 * 64)	/* stacks begin in different cache sets */
#define USUAL_SHARED	(48 * 1024)		/* shared memory without cudaFuncSetAttribute() */
#define NOT_SANITIZED	__attribute__((no_sanitize("address", "undefined")))

Emulation emulation = {90, 132, 0, cudaSuccess, NULL, 0, false, {}, 0, 0, 0, 0, 0, 0, 0};

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

/* ------------------------------------------------------------------------
 * Fibers
 * ------------------------------------------------------------------------
 */
enum FiberState
{
	READY, IN_WARP, IN_BLOCK, ENDED
};

struct Fiber
{
	void	   *sp;
	FiberState	state;
	EmulatedMeeting meeting;
	uint64_t	value;
};

static Fiber fibers[MOST_THREADS];
static Fiber *running;
static bool backwards;			/* the order of warps and lanes in this launch */
static unsigned char *stacks;
static uint64_t warp_values[MOST_THREADS / 32][32];
static int	block_count;
static const std::function<void()> *block_body;
static unsigned char *dynamic_shared;

static void
run_fiber()
{
	(*block_body) ();
	running->state = ENDED;
}

NOT_SANITIZED static void
run_next(Fiber *fiber)
{
	running = fiber;
	threadIdx.x = (uint32_t) (fiber - fibers);
}

#ifdef __x86_64__

/* Saves the callee-saved registers on the stack and changes to another stack. */
extern "C" void emulation_switch(void **from, void *to);

asm(".text\n"
	"emulation_switch:\n"
	"	pushq %rbp\n	pushq %rbx\n	pushq %r12\n"
	"	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	movq %rsp, (%rdi)\n	movq %rsi, %rsp\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n"
	"	popq %r12\n	popq %rbx\n	popq %rbp\n	ret\n");

static void *scheduler_sp;

NOT_SANITIZED static void
change(Fiber *from, Fiber *to)
{
	emulation_switch(from ? &from->sp : &scheduler_sp, to ? to->sp : scheduler_sp);
}

static void
begin()
{
	run_fiber();
	change(running, NULL);
}

static void
prepare(Fiber *fiber)
{
	void	  **top = (void **) (stacks + (fiber - fibers) * STACK_STRIDE + STACK_BYTES) - 2;

	*top = (void *) begin;		/* the stack is aligned as after a call */
	fiber->sp = top - 6;
}

#else

static ucontext_t scheduler_context;
static ucontext_t contexts[MOST_THREADS];

static ucontext_t *
context_of(Fiber *fiber)
{
	return fiber ? &contexts[fiber - fibers] : &scheduler_context;
}

static void
change(Fiber *from, Fiber *to)
{
	swapcontext(context_of(from), context_of(to));
}

static void
prepare(Fiber *fiber)
{
	ucontext_t *context = context_of(fiber);

	getcontext(context);
	context->uc_stack.ss_sp = stacks + (fiber - fibers) * STACK_STRIDE;
	context->uc_stack.ss_size = STACK_BYTES;
	context->uc_link = &scheduler_context;
	makecontext(context, run_fiber, 0);
}

#endif

[[noreturn]] static void
broken(const char *what)
{
	printf("not ok: block %u of %u, thread %u: %s\n", blockIdx.x, gridDim.x,
		   (unsigned) (running - fibers), what);
	fflush(stdout);
	_Exit(1);
}

/*
 * Switches to the next lane of the warp, or to the scheduler if there is none
 * or it waits or has ended.
 */
NOT_SANITIZED static void
wait_in(FiberState state, EmulatedMeeting what, uint64_t value)
{
	Fiber	   *me = running;
	bool		last = threadIdx.x % 32 == (backwards ? 0 : 31);
	Fiber	   *next = last ? NULL : backwards ? me - 1 : me + 1;

	me->state = state;
	me->meeting = what;
	me->value = value;
	if (next && next->state != READY)
		next = NULL;
	if (next)
		run_next(next);
	change(me, next);
}

NOT_SANITIZED const uint64_t *
emulation_meet_warp(EmulatedMeeting what, uint64_t value)
{
	const uint64_t *values = warp_values[threadIdx.x / 32];

	wait_in(IN_WARP, what, value);
	return values;
}

NOT_SANITIZED int
emulation_meet_block(EmulatedMeeting what, bool value)
{
	wait_in(IN_BLOCK, what, value);
	return block_count;
}

void *
emulation_dynamic_shared(void)
{
	return dynamic_shared;
}

/* Runs a warp until it waits for the block or has ended. */
NOT_SANITIZED static void
run_warp(int warp)
{
	Fiber	   *lanes = fibers + 32 * warp;

	for (;;)
	{
		int			waiting = 0;

		for (int i = 0; i < 32; i++)
		{
			Fiber	   *lane = lanes + (backwards ? 31 - i : i);

			if (lane->state == READY)
			{
				run_next(lane);
				change(NULL, lane);
			}
		}
		for (int i = 0; i < 32; i++)
			waiting += lanes[i].state == IN_WARP;
		if (waiting == 0)
			return;
		for (int i = 0; i < 32; i++)
		{
			running = lanes + i;
			if (running->state != IN_WARP || running->meeting != lanes[0].meeting)
				broken("not all lanes of the warp reach the same synchronization");
			warp_values[warp][i] = running->value;
			running->state = READY;
		}
	}
}

NOT_SANITIZED static void
run_block(int threads)
{
	int			ended;

	for (int i = 0; i < threads; i++)
	{
		fibers[i].state = READY;
		prepare(&fibers[i]);
	}
	do
	{
		int			count = 0;

		ended = 0;
		for (int w = 0; w < threads / 32; w++)
			run_warp(backwards ? threads / 32 - 1 - w : w);
		for (int i = 0; i < threads; i++)
		{
			running = fibers + i;
			if (running->state == ENDED)
				ended++;
			else if (ended > 0 || running->meeting != fibers[0].meeting)
				broken("not all threads of the block reach the same synchronization");
			else
				count += running->value != 0;
			if (running->state == IN_BLOCK)
				running->state = READY;
		}
		block_count = count;
		if (ended > 0 && ended < threads)
			broken("the block synchronizes after some threads have ended");
	}
	while (ended == 0);
}

/* ------------------------------------------------------------------------
 * Launches
 * ------------------------------------------------------------------------
 */
static std::map<const void *, size_t> shared_allowed;

/* Shared memory of a block on sm_75; 80; 86 and 89; 90. */
size_t
emulation_most_shared()
{
	return emulation.arch < 80 ? 64 << 10 :
		emulation.arch == 80 ? 163 << 10 :
		emulation.arch < 90 ? 99 << 10 : 227 << 10;
}

cudaError_t
cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value)
{
	cudaError_t error = emulation_call();

	if (error == cudaSuccess && (value < 0 || (size_t) value > emulation_most_shared()))
		error = cudaErrorInvalidValue;
	if (error == cudaSuccess)
		shared_allowed[kernel] = (size_t) value;
	return error;
}

cudaError_t
emulation_launch(const void *kernel, dim3 blocks, dim3 threads, size_t shared_bytes,
				 const std::function<void()> &body)
{
	cudaError_t error = emulation_call();
	auto		allowed = shared_allowed.find(kernel);

	backwards = emulation.launches++ % 2 == 1;
	if (emulation.stop && emulation.launches == emulation.stop_at)
		*emulation.stop = 1;
	if (error != cudaSuccess)
		return error;
	if (blocks.x == 0 || blocks.x > INT32_MAX || threads.x == 0 || threads.x > MOST_THREADS ||
		shared_bytes > emulation_most_shared() ||
		(shared_bytes > USUAL_SHARED &&
		 (allowed == shared_allowed.end() || shared_bytes > allowed->second)))
		return emulation_error(cudaErrorInvalidValue);
	if (emulation.dry)
		return cudaSuccess;
	gridDim = blocks;
	blockDim = threads;
	block_body = &body;
	if (!stacks)
	{
		void	   *all = mmap(NULL, (size_t) MOST_THREADS * STACK_STRIDE, PROT_READ | PROT_WRITE,
							   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (all == MAP_FAILED)
			abort();
		stacks = static_cast<unsigned char *>(all);
	}
	if (posix_memalign((void **) &dynamic_shared, 16, shared_bytes) != 0)
		abort();
	for (uint32_t b = 0; b < blocks.x; b++)
	{
		blockIdx.x = backwards ? blocks.x - 1 - b : b;
		memset(dynamic_shared, EMULATED_FILL, shared_bytes);
		run_block((int) threads.x);
	}
	free(dynamic_shared);
	return cudaSuccess;
}
