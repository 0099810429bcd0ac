#include "batching/window.h"

#include "schemas/base/hash.h"

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

static bool is_as_urgent(const struct window_level *level, int32_t priority, int64_t minute)
{
    return level->priority == priority && level->minute == minute;
}

static bool are_as_urgent(const struct window_level *a, const struct window_level *b)
{
    return is_as_urgent(a, b->priority, b->minute);
}

static uint64_t hash_dataset(const struct job *job)
{
    return hash_bytes(job->dataset.data, job->dataset.size, 1);
}

// Returns the index of the job's level. *exists false: it has none, and a new one belongs at this index.
static int32_t find_level(const struct window *window, const struct job *job, bool *exists)
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
    uint64_t dataset = hash_dataset(job);
    *exists = false;
    for (; low < window->n_levels && is_as_urgent(window->levels[low], job->priority, minute); low++) {
        *exists = window->levels[low]->dataset == dataset;
        if (*exists)
            break;
    }
    return low;
}

static bool reserve_level(struct window *window)
{
    if (window->n_levels < window->levels_capacity)
        return true;
    int32_t capacity = window->levels_capacity ? window->levels_capacity * 2 : 8;
    struct window_level **levels = realloc(window->levels, (size_t)capacity * sizeof *levels);
    if (!levels)
        return false;
    window->levels = levels;
    window->levels_capacity = capacity;
    return true;
}

static struct window_account *find_account(struct window *window, uint64_t dataset)
{
    for (int32_t i = 0; i < WINDOW_ACCOUNTS; i++)
        if (window->accounts[i].dataset == dataset)
            return &window->accounts[i];
    return NULL;
}

static void save_account(struct window *window, const struct window_level *level)
{
    struct window_account *account = find_account(window, level->dataset);
    if (!account) {
        account = &window->accounts[window->next_account];
        window->next_account = (window->next_account + 1) % WINDOW_ACCOUNTS;
    }
    *account = (struct window_account){level->dataset, level->n_tokens_left, window->n_admitted};
}

// Tokens that a new level may admit before other levels; at 0 or less its turn is over.
static int64_t account_left(struct window *window, uint64_t dataset, int64_t quantum)
{
    const struct window_account *account = find_account(window, dataset);
    if (!account || window->n_admitted - account->n_admitted > WINDOW_PASSED_MAX)
        return quantum;
    return account->n_tokens_left < quantum ? account->n_tokens_left : quantum;
}

// The place of a new level among the levels of its urgency, which end at index `end`: after other new ones and
// before the rest, or if its turn is over, at the end.
static int32_t choose_place(const struct window *window, struct window_level *level, int32_t end)
{
    int32_t first = end;
    while (first > 0 && are_as_urgent(window->levels[first - 1], level))
        first--;
    if (first == end) // no other dataset waits
        level->n_tokens_left = level->quantum;
    level->is_new = first < end && level->n_tokens_left > 0 && window->n_new < WINDOW_NEW_MAX;
    if (level->n_tokens_left <= 0)
        level->n_tokens_left += level->quantum;
    while (level->is_new && first < end && window->levels[first]->is_new)
        first++;
    return level->is_new ? first : end;
}

// Finds or creates the level. NULL: out of memory.
static struct window_level *level_of(struct window *window, const struct job *job)
{
    bool exists;
    int32_t i = find_level(window, job, &exists);
    if (exists)
        return window->levels[i];
    struct window_level *level = reserve_level(window) ? calloc(1, sizeof *level) : NULL;
    if (!level)
        return NULL;
    double weight = window->shares ? dataset_share_of(window->shares, job->dataset).weight : 1;
    int64_t quantum = (int64_t)(WINDOW_QUANTUM * weight);
    *level = (struct window_level){.priority = job->priority,
                                   .minute = deadline_minute(job),
                                   .dataset = hash_dataset(job),
                                   .quantum = quantum,
                                   .n_tokens_left = account_left(window, hash_dataset(job), quantum)};
    i = choose_place(window, level, i);
    struct window_level **place = &window->levels[i];
    memmove(place + 1, place, (size_t)(window->n_levels - i) * sizeof *place);
    window->n_levels++;
    return *place = level;
}

// ---- turns ----

// Moves levels that have used up their tokens to the end of their urgency, until the first of this
// urgency has tokens left.
static void pass_turns(struct window *window, const struct window_level *urgency)
{
    if (urgency->n_tokens_left > 0)
        return;
    struct window_level **first = window->levels, **end = window->levels + window->n_levels;
    while (!are_as_urgent(*first, urgency))
        first++;
    for (struct window_level **last = end; last > first && !are_as_urgent(last[-1], urgency); last--)
        end = last - 1;
    if (end - first == 1)
        (*first)->n_tokens_left = (*first)->quantum; // no other dataset waits: it owes nothing
    while ((*first)->n_tokens_left <= 0) {
        struct window_level *level = *first;
        memmove(first, first + 1, (size_t)(end - first - 1) * sizeof *first);
        end[-1] = level;
        level->n_tokens_left += level->quantum;
        level->is_new = false;
    }
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
    struct window_level *top = window->n_levels ? window->levels[0] : NULL;
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
    const struct token_array *tokens = &sequence->prompt->tokens;
    return prefix_wait(window->tree, tokens->ids, (int32_t)tokens->n_ids - 1, sequence->prompt->long_context);
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
    struct window_level *level = level_of(window, sequence->prompt->job);
    if (!level) {
        prefix_unwait(window->tree, node);
        return false;
    }
    sequence->node = node;
    sequence->wait.level = level;
    sequence->wait.arrival = window->n_admitted;
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
    for (int i = 0; i < 2 && !sequence; i++)
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
    return !are_as_urgent(oldest->wait.level, window->levels[0]) &&
           window->n_since_oldest >= WINDOW_OLDEST_EVERY - 1 &&
           window->n_admitted - oldest->wait.arrival >= WINDOW_OLDEST_EVERY - 1 &&
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
    for (int32_t i = 0; !sequence && i < window->n_levels && i < WINDOW_SCAN_MAX; i++)
        sequence = next_of_level(window, window->levels[i]);
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
        save_account(window, level);
        drop_level(window, level);
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
    window->n_admitted++;
    window->tree->cursor = sequence->node;
    if (preempted) {
        list_remove(&window->preempted, &sequence->wait.window_link);
    } else {
        struct window_level *level = sequence->wait.level;
        sequence->wait.n_charged = n_tokens;
        level->n_admitted++;
        window->n_new = level->is_new ? window->n_new + 1 : 0;
        level->n_tokens_left -= n_tokens;
        if (level->n_waiting > 1)
            pass_turns(window, level);
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
    bool exists;
    int32_t i = find_level(window, sequence->prompt->job, &exists);
    int64_t n_more = n_tokens - sequence->wait.n_charged;
    if (!exists) {
        struct window_account *account = find_account(window, hash_dataset(sequence->prompt->job));
        if (account)
            account->n_tokens_left -= n_more;
        return;
    }
    struct window_level *level = window->levels[i];
    level->n_tokens_left -= n_more;
    if (level->n_tokens_left > level->quantum)
        level->n_tokens_left = level->quantum;
    pass_turns(window, level);
    choose_offered(window);
}
