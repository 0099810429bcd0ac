// mbarriers and bulk copies of emulated kernels (PTX ISA 8, mbarrier and cp.async.bulk).
//
// A barrier's word in shared memory holds only a mark, which shows that the memory was not overwritten. The
// barrier's state is kept in this file. A phase completes when all arrivals and all expected bytes have
// arrived.
//
// Bulk copies are performed as late as possible, when no thread can run; with emulate_reverse at once. Late
// copies expose loads that do not wait for them, early copies expose memory that is still in use.
#include "gpu/emulation/order.h"
#include "gpu/emulation/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ARRIVALS_MAX = (1 << 20) - 1, BYTES_MAX = (1 << 20) - 1 };

struct barrier {
    struct emulate_event phase; // first member; its generation is the number of completed phases
    uint64_t *word;
    uint32_t n_arrivals, n_missing; // arrivals in a phase; arrivals missing in the current one
    int64_t n_bytes;                // bytes that the current phase still expects
    int n_copies;                   // copies issued and not performed yet
    unsigned thread, n_barriers;    // the initializing thread, and how many __syncthreads it had passed
    bool fenced;
    struct emulate_order order;
    uint32_t copy_time; // time of the last bulk copy
};

struct bulk_copy {
    struct barrier *barrier;
    void *to;
    const void *from;
    uint32_t n_bytes;
    struct emulate_asynchronous by;
    struct emulate_clock *clock; // the clock of actor `by`
};

static struct barrier barriers[EMULATE_BARRIERS_MAX]; // barriers of the running block
static int n_barriers;
static struct bulk_copy *copies; // copies not performed yet, in order of issue
static int n_copies, n_copies_room;

static uint64_t mark_of(const uint64_t *word)
{
    return 0x6261727269657200u ^ (uint64_t)(uintptr_t)word << 8;
}

void emulate_barriers_begin(void)
{
    n_barriers = n_copies = 0;
}

void emulate_barriers_end(void)
{
    assert(n_copies == 0 && "a block ended before its bulk copies arrived");
    free(copies);
    copies = NULL;
    n_copies_room = 0;
}

static struct barrier *find_barrier(const uint64_t *word)
{
    for (int i = 0; i < n_barriers; i++)
        if (barriers[i].word == word)
            return &barriers[i];
    return NULL;
}

static struct barrier *barrier_of(uint64_t *word)
{
    struct barrier *barrier = find_barrier(word);
    struct emulate_block block = emulate_block_now();
    assert(barrier && "a barrier is not initialized");
    assert(*word == mark_of(word) && "a barrier is overwritten");
    assert((barrier->thread == block.thread || (barrier->fenced && barrier->n_barriers < block.n_barriers)) &&
           "a barrier's initialization is not visible: barrier_init_fence(), then __syncthreads()");
    emulate_watch_access(word, sizeof *word, EMULATE_UPDATES);
    return barrier;
}

void emulate_barrier_init(uint64_t *word, uint32_t n_arrivals)
{
    struct emulate_block block = emulate_block_now();
    assert((uintptr_t)word % 8 == 0 && n_arrivals > 0 && n_arrivals <= ARRIVALS_MAX);
    assert(n_barriers < EMULATE_BARRIERS_MAX && !find_barrier(word) && "a barrier is initialized twice");
    emulate_order_start();
    emulate_watch_access(word, sizeof *word, EMULATE_STORES);
    *word = mark_of(word);
    barriers[n_barriers++] = (struct barrier){.word = word,
                                              .n_arrivals = n_arrivals,
                                              .n_missing = n_arrivals,
                                              .thread = block.thread,
                                              .n_barriers = block.n_barriers};
}

void emulate_barrier_init_fence(void)
{
    for (int i = 0; i < n_barriers; i++)
        if (barriers[i].thread == emulate_block_now().thread)
            barriers[i].fenced = true;
}

static void complete_phase(struct barrier *barrier)
{
    if (barrier->n_missing > 0 || barrier->n_bytes != 0)
        return;
    assert(barrier->n_copies == 0 && "a phase completes before a bulk copy whose bytes it does not expect");
    emulate_order_complete(&barrier->order);
    barrier->n_missing = barrier->n_arrivals;
    barrier->phase.generation++;
}

static void arrive_at(struct barrier *barrier)
{
    assert(barrier->n_missing > 0 && "more arrivals in a phase than its barrier counts");
    emulate_order_arrive(&barrier->order, emulate_block_now().thread);
    barrier->n_missing--;
    complete_phase(barrier);
}

void emulate_barrier_arrive(uint64_t *word)
{
    arrive_at(barrier_of(word));
}

void emulate_barrier_expect(uint64_t *word, uint32_t n_bytes)
{
    struct barrier *barrier = barrier_of(word);
    assert(barrier->n_bytes + n_bytes <= BYTES_MAX && "a phase expects too many bytes");
    assert(barrier->n_missing > 0 && "more arrivals in a phase than its barrier counts");
    barrier->n_bytes += n_bytes;
    arrive_at(barrier);
}

void emulate_barrier_wait(uint64_t *word, uint32_t parity)
{
    struct barrier *barrier = barrier_of(word);
    assert(parity < 2 && "a phase's parity is 0 or 1");
    unsigned n_complete = barrier->phase.generation;
    if ((n_complete & 1) == parity) {
        emulate_wait_for(&barrier->phase);
        assert(barrier->phase.generation == n_complete + 1 && "a phase completed and was missed");
    }
    emulate_order_leave(&barrier->order, emulate_block_now().thread);
}

static void perform_copy(const struct bulk_copy *copy)
{
    emulate_watch_asynchronous(&copy->by, copy->to, copy->n_bytes, EMULATE_STORES);
    emulate_watch_asynchronous(&copy->by, copy->from, copy->n_bytes, EMULATE_LOADS);
    emulate_clock_destroy(copy->clock);
    memcpy(copy->to, copy->from, copy->n_bytes);
    copy->barrier->n_bytes -= copy->n_bytes;
    assert(copy->barrier->n_bytes >= -BYTES_MAX);
    copy->barrier->n_copies--;
    complete_phase(copy->barrier);
}

bool emulate_barriers_deliver(const struct emulate_event *event)
{
    for (int i = 0; i < n_copies; i++)
        if (&copies[i].barrier->phase == event) {
            struct bulk_copy copy = copies[i];
            memmove(copies + i, copies + i + 1, (size_t)(n_copies - i - 1) * sizeof *copies);
            n_copies--;
            perform_copy(&copy);
            return true;
        }
    return false;
}

// From this call until its phase completes, the copy may store at any time.
static void issue_copy(struct bulk_copy *copy)
{
    struct barrier *barrier = copy->barrier;
    struct emulate_block block = emulate_block_now();
    unsigned actor = EMULATE_ACTOR_COPIES + (unsigned)(barrier - barriers);
    copy->clock = emulate_clock_create();
    copy->by = (struct emulate_asynchronous){actor, ++barrier->copy_time, block.n_barriers, copy->clock,
                                             emulate_fiber_now()->early};
    emulate_clock_release(copy->clock, block.thread);
    emulate_watch_asynchronous(&copy->by, copy->to, copy->n_bytes, EMULATE_STORES);
    if (copy->by.early)
        emulate_watch_asynchronous(&copy->by, copy->from, copy->n_bytes, EMULATE_LOADS);
    copy->by.early = false; // early loads have been checked above
    if (!copy->clock)
        return;
    copy->clock->times[actor] = barrier->copy_time;
    if (!barrier->order.gathered)
        barrier->order.gathered = emulate_clock_create();
    emulate_clock_join(barrier->order.gathered, copy->clock);
}

void emulate_copy_bulk(void *shared, const void *global, uint32_t n_bytes, uint64_t *word)
{
    struct barrier *barrier = barrier_of(word);
    struct emulate_block block = emulate_block_now();
    assert(((uintptr_t)shared | (uintptr_t)global | n_bytes) % 16 == 0 && n_bytes > 0 &&
           "a bulk copy is not aligned to 16 bytes");
    assert(n_bytes <= BYTES_MAX && barrier->fenced);
    assert((unsigned char *)shared >= block.shared &&
           (unsigned char *)shared + n_bytes <= block.shared + block.shared_bytes &&
           "a bulk copy is outside of dynamic shared memory");
    barrier->n_copies++;
    struct bulk_copy copy = {barrier, shared, global, n_bytes, {0}, NULL};
    issue_copy(&copy);
    if (block.reverse) {
        perform_copy(&copy);
        return;
    }
    if (n_copies == n_copies_room) {
        n_copies_room = 2 * n_copies_room + 16;
        copies = realloc(copies, (size_t)n_copies_room * sizeof *copies);
        assert(copies);
    }
    copies[n_copies++] = copy;
}

void emulate_barriers_print(const struct emulate_event *event)
{
    for (int i = 0; i < n_barriers; i++)
        if (event == &barriers[i].phase)
            emulate_report(
                "barrier %d of the block, at %p: phase %u lacks %u of %u arrivals and %lld bytes\n", i,
                (void *)barriers[i].word, barriers[i].phase.generation, barriers[i].n_missing,
                barriers[i].n_arrivals, (long long)barriers[i].n_bytes);
}
