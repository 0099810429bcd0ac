#include "gpu/emulation/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct emulate_clock threads[EMULATE_THREADS_MAX];
static struct emulate_clock *unused;
static bool is_kept;
static unsigned n_block_threads;
static bool is_block_watched;

// List of all clocks ever created; there are few. When a block ends, its events still refer to some clocks,
// so the next block reclaims all of them from this list.
static struct emulate_clock **all;
static size_t n_all, n_room;

void emulate_order_begin(unsigned n_threads, bool is_watched)
{
    n_block_threads = n_threads;
    is_block_watched = is_watched;
    if (!is_kept)
        return;
    is_kept = false;
    unused = NULL;
    for (size_t i = 0; i < n_all; i++) {
        all[i]->next = unused;
        unused = all[i];
    }
}

void emulate_order_start(void)
{
    if (is_kept || !is_block_watched)
        return;
    is_kept = true;
    memset(threads, 0, n_block_threads * sizeof *threads);
    for (unsigned i = 0; i < n_block_threads; i++)
        threads[i].times[i] = 1;
}

struct emulate_clock *emulate_order_now(unsigned thread)
{
    return is_kept ? &threads[thread] : NULL;
}

struct emulate_clock *emulate_clock_create(void)
{
    if (!is_kept)
        return NULL;
    if (!unused) {
        if (n_all == n_room) {
            n_room = 2 * n_room + 64;
            all = realloc(all, n_room * sizeof *all);
            assert(all);
        }
        unused = all[n_all++] = calloc(1, sizeof *unused);
        assert(unused);
    }
    struct emulate_clock *clock = unused;
    unused = clock->next;
    memset(clock, 0, sizeof *clock);
    return clock;
}

void emulate_clock_destroy(struct emulate_clock *clock)
{
    if (!clock)
        return;
    clock->next = unused;
    unused = clock;
}

void emulate_clock_join(struct emulate_clock *into, const struct emulate_clock *from)
{
    if (!into || !from)
        return;
    for (int i = 0; i < EMULATE_ACTORS; i++)
        into->times[i] = into->times[i] > from->times[i] ? into->times[i] : from->times[i];
}

void emulate_clock_meet(struct emulate_clock *into, const struct emulate_clock *with)
{
    if (!into || !with)
        return;
    for (int i = 0; i < EMULATE_ACTORS; i++)
        into->times[i] = into->times[i] < with->times[i] ? into->times[i] : with->times[i];
}

void emulate_clock_release(struct emulate_clock *into, unsigned thread)
{
    if (!is_kept)
        return;
    emulate_clock_join(into, &threads[thread]);
    threads[thread].times[thread]++;
}

void emulate_order_arrive(struct emulate_order *order, unsigned thread)
{
    if (!is_kept)
        return;
    if (!order->gathered)
        order->gathered = emulate_clock_create();
    emulate_clock_release(order->gathered, thread);
}

void emulate_order_complete(struct emulate_order *order)
{
    emulate_clock_destroy(order->complete);
    order->complete = order->gathered;
    order->gathered = NULL;
}

void emulate_order_leave(const struct emulate_order *order, unsigned thread)
{
    emulate_clock_join(emulate_order_now(thread), order->complete);
}
