#include "engine/template/provenance.h"
#include "engine/template/rendering.h"

enum { PAGE_BYTES = 1024, WORDS = PAGE_BYTES / 64, SLOTS_FIRST = 64 };

struct provenance_page {
    uintptr_t number; // address / PAGE_BYTES
    uint64_t marks[WORDS];
    uint32_t source;   // source of all marked bytes, unless `sources` is set
    uint32_t *sources; // [PAGE_BYTES] if the page has several sources; else NULL
};

static size_t slot_of(const struct provenance *provenance, uintptr_t number)
{
    size_t slot = (size_t)((uint64_t)number * 0x9E3779B97F4A7C15u >> 32) &
                  provenance->mask; // Knuth, vol. 3, section 6.4
    while (provenance->slots[slot] && provenance->slots[slot]->number != number)
        slot = (slot + 1) & provenance->mask;
    return slot;
}

// Grows the table when more than half of its slots would be used.
static void make_room(struct rendering *rendering, struct provenance *provenance)
{
    size_t n_slots = provenance->slots ? provenance->mask + 1 : 0;
    if (2 * (provenance->n_pages + 1) <= n_slots)
        return;
    struct provenance larger = {.n_pages = provenance->n_pages,
                                .mask = (n_slots ? 2 * n_slots : SLOTS_FIRST) - 1};
    larger.slots = rendering_allocate_array(rendering, larger.mask + 1, sizeof(struct provenance_page *));
    for (size_t i = 0; i < n_slots; i++)
        if (provenance->slots[i])
            larger.slots[slot_of(&larger, provenance->slots[i]->number)] = provenance->slots[i];
    *provenance = larger;
}

static struct provenance_page *page_for(struct rendering *rendering, uintptr_t number)
{
    struct provenance *provenance = &rendering->provenance;
    make_room(rendering, provenance);
    struct provenance_page **slot = &provenance->slots[slot_of(provenance, number)];
    if (!*slot) {
        *slot = rendering_allocate(rendering, sizeof **slot);
        (*slot)->number = number;
        provenance->n_pages++;
    }
    return *slot;
}

// Returns a mask of the bits low to high - 1 of a word; high is at most 64.
static uint64_t bits_between(size_t low, size_t high)
{
    uint64_t below = high >= 64 ? UINT64_MAX : (1ull << high) - 1;
    return below & ~((1ull << low) - 1);
}

// Records the source of bytes that are about to be marked.
static void set_source(struct rendering *rendering, struct provenance_page *page, size_t start, size_t end,
                       uint32_t source, bool is_new)
{
    if (is_new)
        page->source = source;
    if (!page->sources && page->source == source)
        return;
    if (!page->sources) {
        page->sources = rendering_allocate_array(rendering, PAGE_BYTES, sizeof *page->sources);
        for (size_t i = 0; i < PAGE_BYTES; i++)
            page->sources[i] = page->source;
    }
    for (size_t i = start; i < end; i++)
        page->sources[i] = source;
}

static void mark_page(struct provenance_page *page, size_t start, size_t end)
{
    for (size_t at = start; at < end;) {
        size_t word = at / 64, stop = (word + 1) * 64 < end ? (word + 1) * 64 : end;
        page->marks[word] |= bits_between(at % 64, stop - word * 64);
        at = stop;
    }
}

void provenance_mark(struct rendering *rendering, const char *data, size_t size, uint32_t source)
{
    uintptr_t at = (uintptr_t)data, end = at + size;
    while (at < end) {
        size_t n_pages = rendering->provenance.n_pages;
        struct provenance_page *page = page_for(rendering, at / PAGE_BYTES);
        bool is_new = rendering->provenance.n_pages > n_pages;
        uintptr_t first = at / PAGE_BYTES * PAGE_BYTES,
                  stop = first + PAGE_BYTES < end ? first + PAGE_BYTES : end;
        set_source(rendering, page, at - first, stop - first, source, is_new);
        mark_page(page, at - first, stop - first);
        at = stop;
    }
}

// Returns the first address in [at, end) whose mark equals `wanted`, or `end`.
static uintptr_t find_boundary(const struct provenance *provenance, uintptr_t at, uintptr_t end, bool wanted)
{
    while (at < end) {
        const struct provenance_page *page = provenance->slots[slot_of(provenance, at / PAGE_BYTES)];
        uintptr_t first = at / PAGE_BYTES * PAGE_BYTES, after = first + PAGE_BYTES;
        for (size_t word = (at - first) / 64; at < end && at < after; word++) {
            uint64_t marks = page ? page->marks[word] : 0;
            uint64_t found = (wanted ? marks : ~marks) & bits_between(at % 64, 64);
            if (found) {
                at = first + word * 64 + (uintptr_t)__builtin_ctzll(found);
                return at < end ? at : end;
            }
            at = first + (word + 1) * 64;
        }
    }
    return end;
}

static uint32_t source_at(const struct provenance_page *page, size_t at)
{
    return page->sources ? page->sources[at] : page->source;
}

// Returns the end of the run of marked bytes of `source` that starts at `at`. It scans only this run. If each
// call scanned all adjacent runs too, the time would be quadratic.
static uintptr_t find_run_end(const struct provenance *provenance, uintptr_t at, uintptr_t end,
                              uint32_t source)
{
    while (at < end) {
        const struct provenance_page *page = provenance->slots[slot_of(provenance, at / PAGE_BYTES)];
        uintptr_t first = at / PAGE_BYTES * PAGE_BYTES,
                  after = first + PAGE_BYTES < end ? first + PAGE_BYTES : end;
        if (!page || source_at(page, at - first) != source)
            return at;
        uintptr_t stop = find_boundary(provenance, at, after, false);
        if (page->sources)
            while (at < stop && page->sources[at - first] == source)
                at++;
        else
            at = stop;
        if (at < after)
            return at;
    }
    return end;
}

bool provenance_next(const struct provenance *provenance, struct text text, size_t from,
                     struct text_span *run)
{
    if (!provenance->slots || from >= text.size)
        return false;
    uintptr_t data = (uintptr_t)text.data, end = data + text.size;
    uintptr_t start = find_boundary(provenance, data + from, end, true);
    if (start == end)
        return false;
    const struct provenance_page *page = provenance->slots[slot_of(provenance, start / PAGE_BYTES)];
    uint32_t source = source_at(page, start % PAGE_BYTES);
    *run = (struct text_span){start - data, find_run_end(provenance, start, end, source) - data, source};
    return true;
}
