#include "batching/window.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// ---- levels ----

static int64_t deadline_minute(const struct job *job)
{
    return job->deadline_s ? job->deadline_s / 60 : INT64_MAX;
}

static bool is_more_urgent(const struct window_level *level, int32_t priority, int64_t minute)
{
    return level->priority != priority ? level->priority > priority : level->minute < minute;
}

// Finds or creates the level. NULL: out of memory.
static struct window_level *level_of(struct window *window, const struct job *job)
{
    int64_t minute = deadline_minute(job);
    int32_t low = 0, high = window->n_levels;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (is_more_urgent(window->levels[middle], job->priority, minute))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < window->n_levels && window->levels[low]->priority == job->priority &&
        window->levels[low]->minute == minute)
        return window->levels[low];
    if (window->n_levels == window->levels_capacity) {
        int32_t capacity = window->levels_capacity ? window->levels_capacity * 2 : 8;
        struct window_level **levels = realloc(window->levels, (size_t)capacity * sizeof *levels);
        if (!levels)
            return NULL;
        window->levels = levels;
        window->levels_capacity = capacity;
    }
    struct window_level *level = calloc(1, sizeof *level);
    if (!level)
        return NULL;
    *level = (struct window_level){.priority = job->priority, .minute = minute};
    struct window_level **place = &window->levels[low];
    memmove(place + 1, place, (size_t)(window->n_levels - low) * sizeof *place);
    window->n_levels++;
    return *place = level;
}

static void drop_level(struct window *window, struct window_level *level)
{
    int32_t i = 0;
    while (window->levels[i] != level)
        i++;
    memmove(&window->levels[i], &window->levels[i + 1],
            (size_t)(window->n_levels - i - 1) * sizeof *window->levels);
    window->n_levels--;
    if (window->offered == level)
        window->offered = NULL;
    free(level);
}

void window_finish(struct window *window)
{
    assert(window->n_levels == 0);
    free(window->levels);
    *window = (struct window){0};
}

// ---- the level offered to the tree search ----

static void offer(struct sequence *sequence)
{
    struct prefix_node *node = sequence->node;
    sequence->node_next = NULL;
    sequence->node_previous = node->sequences_last;
    if (node->sequences_last)
        ((struct sequence *)node->sequences_last)->node_next = sequence;
    else
        node->sequences_first = sequence;
    node->sequences_last = sequence;
    prefix_offer(node);
}

static void withdraw(struct sequence *sequence)
{
    struct prefix_node *node = sequence->node;
    if (sequence->node_previous)
        sequence->node_previous->node_next = sequence->node_next;
    else
        node->sequences_first = sequence->node_next;
    if (sequence->node_next)
        sequence->node_next->node_previous = sequence->node_previous;
    else
        node->sequences_last = sequence->node_previous;
    sequence->node_next = sequence->node_previous = NULL;
    prefix_withdraw(node);
}

// Offers the most urgent level, unless it is small and another one is offered already.
static void choose_offered(struct window *window)
{
    struct window_level *top = window->n_levels ? window->levels[0] : NULL;
    if (!top || top == window->offered || (window->offered && top->n_waiting <= WINDOW_SCAN_MAX))
        return;
    for (struct sequence *s = window->offered ? window->offered->oldest : NULL; s; s = s->level_younger)
        withdraw(s);
    window->offered = top;
    for (struct sequence *s = top->oldest; s; s = s->level_younger)
        offer(s);
}

// ---- adding ----

static struct prefix_node *wait_for_path(struct window *window, const struct sequence *sequence)
{
    // The last prompt token is never taken from the cache: its logits give the first token of the answer.
    const struct token_array *tokens = &sequence->prompt->tokens;
    int32_t n_pages = ((int32_t)tokens->n_ids - 1) / window->tree->page_positions;
    return prefix_wait(window->tree, tokens->ids, n_pages, sequence->prompt->long_context);
}

static void append_by_age(struct window *window, struct window_level *level, struct sequence *sequence)
{
    sequence->younger = sequence->level_younger = NULL;
    sequence->older = window->youngest;
    if (window->youngest)
        window->youngest->younger = sequence;
    else
        window->oldest = sequence;
    window->youngest = sequence;
    sequence->level_older = level->youngest;
    if (level->youngest)
        level->youngest->level_younger = sequence;
    else
        level->oldest = sequence;
    level->youngest = sequence;
    level->n_waiting++;
    window->n_waiting++;
}

bool window_add(struct window *window, struct sequence *sequence)
{
    struct prefix_node *node = wait_for_path(window, sequence);
    if (!node)
        return false;
    struct window_level *level = level_of(window, sequence->prompt->job);
    if (!level) {
        prefix_unwait(window->tree, node);
        return false;
    }
    sequence->node = node;
    sequence->level = level;
    sequence->arrival = window->n_admitted;
    append_by_age(window, level, sequence);
    if (level == window->offered)
        offer(sequence);
    else
        choose_offered(window);
    return true;
}

bool window_add_preempted(struct window *window, struct sequence *sequence)
{
    struct prefix_node *node = wait_for_path(window, sequence);
    if (!node)
        return false;
    sequence->node = node;
    struct sequence **link = &window->preempted;
    while (*link && (*link)->admission < sequence->admission)
        link = &(*link)->younger;
    sequence->younger = *link;
    *link = sequence;
    window->n_waiting++;
    return true;
}

static bool is_preempted(const struct window *window, const struct sequence *sequence)
{
    for (const struct sequence *s = window->preempted; s; s = s->younger)
        if (s == sequence)
            return true;
    return false;
}

// ---- choosing ----

static bool is_blocked(const struct sequence *sequence)
{
    bool blocked;
    prefix_ready(sequence->node, &blocked);
    return blocked;
}

// The first sequence at or below a node that does not wait for a page another sequence is computing. Skips at
// most one child per sequence that is prefilling. Recursion depth is the number of branches, so a long prompt
// needs no stack.
static struct sequence *next_under(const struct prefix_node *node)
{
    while (!node->sequences_first && node->offer_first && node->offer_first == node->offer_last) {
        node = node->offer_first;
        if (node->owner)
            return NULL;
    }
    if (node->sequences_first)
        return node->sequences_first;
    for (const struct prefix_node *child = node->offer_first; child; child = child->offer_next) {
        struct sequence *sequence = child->owner ? NULL : next_under(child);
        if (sequence)
            return sequence;
    }
    return NULL;
}

// The nearest sequence: below the node, else below its parent, and so on up to the root.
static struct sequence *next_from(const struct prefix_node *node)
{
    for (; node; node = node->parent) {
        struct sequence *sequence = node->n_offered ? next_under(node) : NULL;
        if (sequence && !is_blocked(sequence))
            return sequence;
    }
    return NULL;
}

static struct sequence *next_offered(const struct window *window)
{
    struct sequence *sequence = next_from(window->tree->cursor);
    for (int i = 0; i < 2 && !sequence; i++)
        sequence = next_from(window->tree->roots[i]);
    return sequence;
}

// Of the WINDOW_SCAN_MAX oldest sequences, the one with the most cached pages.
static struct sequence *next_scanned(const struct window_level *level)
{
    struct sequence *best = NULL;
    int32_t most = -1, n_looked_at = 0;
    for (struct sequence *s = level->oldest; s && n_looked_at < WINDOW_SCAN_MAX;
         s = s->level_younger, n_looked_at++) {
        bool blocked;
        int32_t n_ready = prefix_ready(s->node, &blocked);
        if (!blocked && n_ready > most) {
            best = s;
            most = n_ready;
        }
    }
    return best;
}

static struct sequence *next_of_level(const struct window *window, const struct window_level *level)
{
    struct sequence *oldest = level->oldest;
    if (window->n_admitted - oldest->arrival > WINDOW_PASSED_MAX && !is_blocked(oldest))
        return oldest;
    return level == window->offered ? next_offered(window) : next_scanned(level);
}

static bool is_share_due(const struct window *window)
{
    const struct sequence *oldest = window->oldest;
    return oldest->level != window->levels[0] && window->n_since_share >= WINDOW_SHARE - 1 &&
           window->n_admitted - oldest->arrival >= WINDOW_SHARE - 1 && !is_blocked(oldest);
}

struct sequence *window_next(const struct window *window)
{
    if (window->preempted)
        return is_blocked(window->preempted) ? NULL : window->preempted;
    if (!window->oldest)
        return NULL;
    if (is_share_due(window))
        return window->oldest;
    // A less urgent sequence takes the slot while the more urgent ones wait for a prefix that is being
    // computed.
    struct sequence *sequence = NULL;
    for (int32_t i = 0; !sequence && i < window->n_levels && i < WINDOW_SCAN_MAX; i++)
        sequence = next_of_level(window, window->levels[i]);
    return sequence;
}

// ---- removing ----

static void unlink_by_age(struct window *window, struct sequence *sequence)
{
    struct window_level *level = sequence->level;
    if (sequence->older)
        sequence->older->younger = sequence->younger;
    else
        window->oldest = sequence->younger;
    if (sequence->younger)
        sequence->younger->older = sequence->older;
    else
        window->youngest = sequence->older;
    if (sequence->level_older)
        sequence->level_older->level_younger = sequence->level_younger;
    else
        level->oldest = sequence->level_younger;
    if (sequence->level_younger)
        sequence->level_younger->level_older = sequence->level_older;
    else
        level->youngest = sequence->level_older;
    level->n_waiting--;
}

static void take_out(struct window *window, struct sequence *sequence)
{
    struct window_level *level = sequence->level;
    if (level == window->offered)
        withdraw(sequence);
    unlink_by_age(window, sequence);
    if (level->n_waiting == 0)
        drop_level(window, level);
    choose_offered(window);
}

void window_remove(struct window *window, struct sequence *sequence, bool admitted)
{
    bool preempted = is_preempted(window, sequence);
    if (admitted) {
        window->n_since_share = sequence == window->oldest ? 0 : window->n_since_share + !preempted;
        window->n_admitted++;
        window->tree->cursor = sequence->node;
    }
    if (preempted) {
        struct sequence **link = &window->preempted;
        while (*link != sequence)
            link = &(*link)->younger;
        *link = sequence->younger;
    } else {
        take_out(window, sequence);
    }
    sequence->level = NULL;
    sequence->older = sequence->younger = sequence->level_older = sequence->level_younger = NULL;
    window->n_waiting--;
    prefix_unwait(window->tree, sequence->node);
}
