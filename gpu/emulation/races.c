#include "gpu/emulation/races.h"

#include "gpu/emulation/order.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

// When a byte was accessed, and by which thread or other actor.
struct touch {
    uint32_t launch; // 0: never
    uint32_t block, n_barriers, n_warp_syncs, time;
    union {
        uint32_t n_fences;   // of a store: n_fences of its thread
        uint32_t other_time; // of a load: the time of actor `other`
    };
    uint16_t thread, other; // actors (gpu/emulation/order.h); with clocks, two actors that loaded
    uint8_t access;
    uint8_t crowd; // loads: 0 by one thread, 1 by one warp, 2 by several warps
};

enum { NO_OTHER = UINT16_MAX };

struct byte_touches {
    struct touch store, loads;
};

enum { PAGE_BYTES = 256, PAGES_LEAST = 1 << 12 };

struct page {
    uintptr_t number; // address / PAGE_BYTES; 0: an empty slot
    struct byte_touches *bytes;
};

static struct page *pages; // hash table with open addressing; its size is a power of 2, at most half full
static size_t n_pages, n_places;
static void (*receive_race)(const struct emulate_race *race);

void emulate_races_report_to(void (*receive)(const struct emulate_race *race))
{
    receive_race = receive;
}

static size_t place_of(uintptr_t number)
{
    size_t at = (size_t)(number * 0x9E3779B97F4A7C15u >> 20) & (n_places - 1);
    while (pages[at].number && pages[at].number != number)
        at = (at + 1) & (n_places - 1);
    return at;
}

static void grow_table(void)
{
    struct page *old = pages;
    size_t n_old = n_places;
    n_places = n_old ? 2 * n_old : PAGES_LEAST;
    pages = calloc(n_places, sizeof *pages);
    assert(pages && "no memory to look for races");
    for (size_t i = 0; i < n_old; i++)
        if (old[i].number)
            pages[place_of(old[i].number)] = old[i];
    free(old);
}

static struct byte_touches *touches_of(uintptr_t address)
{
    static struct page last; // caches the last page found: accesses are mostly to the same page
    uintptr_t number = address / PAGE_BYTES;
    if (last.number == number)
        return &last.bytes[address % PAGE_BYTES];
    if (2 * n_pages >= n_places)
        grow_table();
    struct page *page = &pages[place_of(number)];
    if (!page->number) {
        *page = (struct page){number, calloc(PAGE_BYTES, sizeof *page->bytes)};
        assert(page->bytes && "no memory to look for races");
        n_pages++;
    }
    last = *page;
    return &last.bytes[address % PAGE_BYTES];
}

enum { WARP = 32 };

// For blocks that keep clocks: true if an actor's access at `time` happened before `now`. Accesses made
// before the clocks started have time 1; the __syncwarp count orders these.
static bool is_ordered(const struct touch *before, unsigned actor, uint32_t time, const struct touch *now,
                       const struct emulate_clock *clock)
{
    return clock->times[actor] >= time ||
           (time <= 1 && actor < EMULATE_THREADS_MAX && actor / WARP == now->thread / WARP &&
            before->n_warp_syncs < now->n_warp_syncs);
}

static bool is_race(const struct touch *before, const struct touch *now, const struct emulate_moment *moment)
{
    if (before->launch != now->launch ||
        (before->access == EMULATE_UPDATES && now->access == EMULATE_UPDATES))
        return false;
    if (before->block != now->block)
        return !moment->shared; // a later block has other shared memory at the same address
    if (moment->clock && before->n_barriers >= moment->n_barriers_issued)
        return !is_ordered(before, before->thread, before->time, now, moment->clock) ||
               (before->other != NO_OTHER &&
                !is_ordered(before, before->other, before->other_time, now, moment->clock));
    if ((before->thread == now->thread && before->crowd == 0) || before->n_barriers != now->n_barriers)
        return false;
    bool one_warp = before->crowd < 2 && before->thread / WARP == now->thread / WARP;
    return !(one_warp && before->n_warp_syncs < now->n_warp_syncs);
}

// True if an access comes before its thread's launch_wait and conflicts with an earlier launch, which may
// still load what this access stores, or store what it loads.
static bool is_early(const struct touch *store, const struct touch *now, const struct emulate_moment *moment)
{
    return moment->early && !moment->shared &&
           (now->access != EMULATE_LOADS || (store->launch > moment->n_ended && store->launch < now->launch));
}

static void report_race(const struct touch *before, const struct touch *now, uintptr_t address, bool early)
{
    struct emulate_race race = {(const void *)address, before->access, now->access, before->thread,
                                now->thread,           before->block,  now->block,  early};
    assert((receive_race || !early) && "a thread touches memory of launches before it called launch_wait");
    assert(receive_race && "threads touch the same memory without an order: a debugger shows `race`");
    receive_race(&race);
}

// Keeps two loads that are not ordered: the first one that did not happen before a later one, and the last
// one of the others.
static void add_load_by_clock(struct touch *loads, const struct touch *now, const struct emulate_clock *clock)
{
    bool has_other = loads->other != NO_OTHER && loads->other != now->thread &&
                     !is_ordered(loads, loads->other, loads->other_time, now, clock);
    struct touch before = *loads;
    if (before.thread == now->thread || is_ordered(&before, before.thread, before.time, now, clock)) {
        *loads = *now;
        loads->other = has_other ? before.other : (uint16_t)NO_OTHER;
        loads->other_time = before.other_time;
    } else {
        loads->other = now->thread;
        loads->other_time = now->time;
    }
}

// A later store must follow all recorded loads. A load that no barrier separates from the recorded ones joins
// them as a crowd; else it replaces them.
static void add_load(struct touch *loads, const struct touch *now, const struct emulate_moment *moment)
{
    bool together =
        loads->launch == now->launch && loads->block == now->block && loads->n_barriers == now->n_barriers;
    if (together && moment->clock) {
        add_load_by_clock(loads, now, moment->clock);
        return;
    }
    bool one_warp = loads->thread / WARP == now->thread / WARP && loads->crowd < 2;
    if (!together || (one_warp && loads->n_warp_syncs < now->n_warp_syncs)) {
        *loads = *now;
        return;
    }
    if (loads->thread != now->thread)
        loads->crowd = one_warp ? 1 : 2;
    if (one_warp)
        loads->n_warp_syncs = now->n_warp_syncs;
}

// True if a wgmma loads memory that a thread stored ordinarily, and the thread has not called
// shared_fence_async() since.
static bool is_unfenced(const struct touch *before, const struct touch *now,
                        const struct emulate_moment *moment)
{
    return now->thread >= EMULATE_ACTOR_WGMMA && before->thread < EMULATE_THREADS_MAX &&
           before->launch == now->launch && before->block == now->block &&
           before->n_fences == emulate_fences_of(before->thread) && moment->shared;
}

static void note_access(const void *memory, size_t size, enum emulate_access access)
{
    struct emulate_moment moment;
    if (!emulate_moment_of(memory, &moment))
        return;
    struct touch now = {.launch = moment.launch,
                        .block = moment.block,
                        .n_barriers = moment.n_barriers,
                        .n_warp_syncs = moment.n_warp_syncs,
                        .n_fences = moment.n_fences,
                        .time = moment.time,
                        .thread = (uint16_t)moment.thread,
                        .other = NO_OTHER,
                        .access = (uint8_t)access};
    bool is_reported = false;
    for (uintptr_t at = (uintptr_t)memory; at < (uintptr_t)memory + size; at++) {
        struct byte_touches *touches = touches_of(at);
        bool race = is_race(&touches->store, &now, &moment) || is_unfenced(&touches->store, &now, &moment);
        bool early = is_early(&touches->store, &now, &moment);
        const struct touch *before = &touches->store;
        if (!race && access != EMULATE_LOADS) {
            race = is_race(&touches->loads, &now, &moment);
            before = &touches->loads;
        }
        if ((race || early) && !is_reported)
            report_race(before, &now, at, !race);
        is_reported |= race || early;
        if (access == EMULATE_LOADS)
            add_load(&touches->loads, &now, &moment);
        else
            touches->store = now;
    }
}

// --- Thread sanitizer interface, called by compiled code (LLVM, compiler-rt/lib/tsan/rtl/tsan_interface.h)
// ---

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);
void __tsan_vptr_update(void **vptr, void *value);
void __tsan_read_range(void *address, unsigned long size);
void __tsan_write_range(void *address, unsigned long size);

#define ACCESSES(size)                                                                                       \
    void __tsan_read##size(void *address);                                                                   \
    void __tsan_write##size(void *address);                                                                  \
    void __tsan_unaligned_read##size(void *address);                                                         \
    void __tsan_unaligned_write##size(void *address);                                                        \
    void __tsan_read##size(void *address)                                                                    \
    {                                                                                                        \
        note_access(address, size, EMULATE_LOADS);                                                           \
    }                                                                                                        \
    void __tsan_write##size(void *address)                                                                   \
    {                                                                                                        \
        note_access(address, size, EMULATE_STORES);                                                          \
    }                                                                                                        \
    void __tsan_unaligned_read##size(void *address)                                                          \
    {                                                                                                        \
        note_access(address, size, EMULATE_LOADS);                                                           \
    }                                                                                                        \
    void __tsan_unaligned_write##size(void *address)                                                         \
    {                                                                                                        \
        note_access(address, size, EMULATE_STORES);                                                          \
    }

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *address, unsigned long size)
{
    note_access(address, size, EMULATE_LOADS);
}

void __tsan_write_range(void *address, unsigned long size)
{
    note_access(address, size, EMULATE_STORES);
}

void __tsan_init(void)
{
    emulate_watch(note_access);
}

void __tsan_func_entry(void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void) {}

void __tsan_vptr_update(void **vptr, void *value)
{
    (void)vptr;
    (void)value;
}
