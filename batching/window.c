#include "batching/window.h"

#include <stdlib.h>

static struct window_level *first_level(const struct window *window)
{
    return window->turns.n_levels ? (struct window_level *)window->turns.levels[0] : NULL;
}

void window_finish(struct window *window)
{
    turns_finish(&window->turns);
}

// ---- the level offered to the tree search ----

static void offer_sequence(struct sequence *sequence)
{
    list_append(&sequence->node->sequences, &sequence->wait.node_link);
    prefix_offer(sequence->node);
}

static void withdraw_sequence(struct sequence *sequence)
{
    list_remove(&sequence->node->sequences, &sequence->wait.node_link);
    prefix_withdraw(sequence->node);
}

// Offers the most urgent level to the tree search. A small level does not replace one that is offered
// already.
static void choose_offered(struct window *window)
{
    struct window_level *top = first_level(window);
    if (!top || top == window->offered || (window->offered && top->n_waiting <= WINDOW_SCAN_MAX))
        return;
    if (window->offered)
        LIST_EACH (struct sequence, s, &window->offered->sequences, wait.level_link)
            withdraw_sequence(s);
    window->offered = top;
    LIST_EACH (struct sequence, s, &top->sequences, wait.level_link)
        offer_sequence(s);
}

// ---- adding ----

static struct prefix_node *wait_for_path(struct window *window, const struct sequence *sequence)
{
    // The last prompt token is never taken from the cache: its logits give the first token of the answer.
    const struct prompt *prompt = sequence->prompt;
    return prefix_wait(window->tree, prompt->tokens.ids, (int32_t)prompt->tokens.n_ids - 1,
                       prefix_root(prompt->job->adapter_set, prompt->long_context));
}

static void append_by_age(struct window *window, struct window_level *level, struct sequence *sequence)
{
    list_append(&window->waiting, &sequence->wait.window_link);
    list_append(&level->sequences, &sequence->wait.level_link);
    level->n_waiting++;
    window->n_waiting++;
}

static struct sequence *oldest_of(const struct list *list) // a window's
{
    return LIST_ITEM(list->first, struct sequence, wait.window_link);
}

bool window_add(struct window *window, struct sequence *sequence)
{
    struct prefix_node *node = wait_for_path(window, sequence);
    if (!node)
        return false;
    struct window_level *level = (struct window_level *)turns_level_of(&window->turns, sequence->prompt->job,
                                                                       sizeof(struct window_level));
    if (!level) {
        prefix_unwait(window->tree, node);
        return false;
    }
    sequence->node = node;
    sequence->wait.level = level;
    sequence->wait.arrival = window->turns.n_admitted;
    sequence->wait.level_arrival = level->n_admitted;
    append_by_age(window, level, sequence);
    if (level == window->offered)
        offer_sequence(sequence);
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
    struct list_link *younger = window->preempted.first, *older = NULL;
    while (younger &&
           LIST_ITEM(younger, struct sequence, wait.window_link)->admission < sequence->admission) {
        older = younger;
        younger = younger->next;
    }
    list_insert(&window->preempted, older, &sequence->wait.window_link);
    window->n_waiting++;
    return true;
}

static bool is_preempted(const struct window *window, const struct sequence *sequence)
{
    for (struct list_link *link = window->preempted.first; link; link = link->next)
        if (link == &sequence->wait.window_link)
            return true;
    return false;
}

// ---- choosing ----

static bool is_blocked(const struct window *window, const struct sequence *sequence)
{
    return prefix_find(window->tree, sequence->node, INT32_MAX).blocked;
}

// The first sequence at or below a node that does not wait for tokens which another sequence is computing.
// Skips at most one child per prefilling sequence. The recursion depth is the number of branches, so a long
// prompt needs no stack.
static struct sequence *next_under(const struct prefix_node *node)
{
    while (!node->sequences.first && node->offered.first && node->offered.first == node->offered.last) {
        node = LIST_ITEM(node->offered.first, struct prefix_node, offer_link);
        if (node->run.owner)
            return NULL;
    }
    if (node->sequences.first)
        return LIST_ITEM(node->sequences.first, struct sequence, wait.node_link);
    for (struct list_link *link = node->offered.first; link; link = link->next) {
        const struct prefix_node *child = LIST_ITEM(link, struct prefix_node, offer_link);
        struct sequence *sequence = child->run.owner ? NULL : next_under(child);
        if (sequence)
            return sequence;
    }
    return NULL;
}

// The nearest sequence: below the node, then below its parent, and so on up to n_tokens from the root.
static struct sequence *next_from(const struct window *window, const struct prefix_node *node,
                                  int32_t n_tokens)
{
    for (; node && node->depth >= n_tokens; node = node->parent) {
        struct sequence *sequence = node->n_offered ? next_under(node) : NULL;
        if (sequence && !is_blocked(window, sequence))
            return sequence;
    }
    return NULL;
}

// Prompts that share fewer than WINDOW_PREFIX_LEAST tokens run in order of arrival: unrelated prompts may
// share a first word.
static struct sequence *next_offered(const struct window *window)
{
    struct sequence *sequence = next_from(window, window->tree->cursor, WINDOW_PREFIX_LEAST);
    struct list_link *link = window->offered->sequences.first;
    for (int i = 0; i < WINDOW_OLDEST_MAX && link && !sequence; i++, link = link->next) {
        struct sequence *oldest = LIST_ITEM(link, struct sequence, wait.level_link);
        sequence = is_blocked(window, oldest) ? NULL : oldest;
    }
    for (int32_t i = 0; i < window->tree->n_roots && !sequence; i++)
        sequence = next_from(window, window->tree->roots[i], 0);
    return sequence;
}

// The sequence with the most cached tokens among the WINDOW_SCAN_MAX oldest ones.
static struct sequence *next_scanned(const struct window *window, const struct window_level *level)
{
    struct sequence *best = NULL;
    int32_t most = -1, n_looked_at = 0;
    for (struct list_link *link = level->sequences.first; link && n_looked_at < WINDOW_SCAN_MAX;
         link = link->next, n_looked_at++) {
        struct sequence *s = LIST_ITEM(link, struct sequence, wait.level_link);
        struct prefix_found found = prefix_find(window->tree, s->node, INT32_MAX);
        if (!found.blocked && found.n_computed > most) {
            best = s;
            most = found.n_computed;
        }
    }
    return best;
}

static struct sequence *next_of_level(const struct window *window, const struct window_level *level)
{
    struct sequence *oldest = LIST_ITEM(level->sequences.first, struct sequence, wait.level_link);
    if (level->n_admitted - oldest->wait.level_arrival > WINDOW_PASSED_MAX && !is_blocked(window, oldest))
        return oldest;
    return level == window->offered ? next_offered(window) : next_scanned(window, level);
}

static bool is_oldest_due(const struct window *window)
{
    const struct sequence *oldest = oldest_of(&window->waiting);
    return !turns_are_as_urgent(&oldest->wait.level->turn, window->turns.levels[0]) &&
           window->n_since_oldest >= WINDOW_OLDEST_EVERY - 1 &&
           window->turns.n_admitted - oldest->wait.arrival >= WINDOW_OLDEST_EVERY - 1 &&
           !is_blocked(window, oldest);
}

struct sequence *window_next(const struct window *window)
{
    struct sequence *preempted = oldest_of(&window->preempted);
    if (preempted)
        return is_blocked(window, preempted) ? NULL : preempted;
    if (!window->waiting.first)
        return NULL;
    if (is_oldest_due(window))
        return oldest_of(&window->waiting);
    // A less urgent sequence is admitted while the more urgent ones wait for a prefix that is being computed.
    struct sequence *sequence = NULL;
    for (int32_t i = 0; !sequence && i < window->turns.n_levels && i < WINDOW_SCAN_MAX; i++)
        sequence = next_of_level(window, (const struct window_level *)window->turns.levels[i]);
    return sequence;
}

// ---- removing ----

static void take_out(struct window *window, struct sequence *sequence)
{
    struct window_level *level = sequence->wait.level;
    if (level == window->offered)
        withdraw_sequence(sequence);
    list_remove(&window->waiting, &sequence->wait.window_link);
    list_remove(&level->sequences, &sequence->wait.level_link);
    if (--level->n_waiting == 0) {
        window->offered = window->offered == level ? NULL : window->offered;
        turns_drop(&window->turns, &level->turn);
    }
    choose_offered(window);
}

// Ends the wait of a sequence that is in no list any more.
static void end_wait(struct window *window, struct sequence *sequence)
{
    sequence->wait.level = NULL;
    window->n_waiting--;
    prefix_unwait(window->tree, sequence->node);
}

void window_admit(struct window *window, struct sequence *sequence, int64_t n_tokens)
{
    bool preempted = is_preempted(window, sequence);
    window->n_since_oldest =
        &sequence->wait.window_link == window->waiting.first ? 0 : window->n_since_oldest + !preempted;
    window->tree->cursor = sequence->node;
    if (preempted) {
        list_remove(&window->preempted, &sequence->wait.window_link);
        window->turns.n_admitted++;
    } else {
        struct window_level *level = sequence->wait.level;
        sequence->wait.n_charged = n_tokens;
        level->n_admitted++;
        turns_admit(&window->turns, &level->turn, n_tokens, level->n_waiting > 1);
        take_out(window, sequence);
    }
    end_wait(window, sequence);
}

void window_remove(struct window *window, struct sequence *sequence)
{
    if (is_preempted(window, sequence))
        list_remove(&window->preempted, &sequence->wait.window_link);
    else
        take_out(window, sequence);
    end_wait(window, sequence);
}

void window_settle(struct window *window, const struct sequence *sequence, int64_t n_tokens)
{
    turns_charge(&window->turns, sequence->prompt->job, n_tokens - sequence->wait.n_charged);
    choose_offered(window);
}
