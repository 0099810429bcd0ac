#include "batching/lists/turns.h"

#include "schemas/base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// ---- levels ----

static int64_t deadline_minute(const struct job *job)
{
    return job->deadline_s ? job->deadline_s / 60 : INT64_MAX;
}

static bool is_more_urgent(const struct turn_level *level, int32_t priority, int64_t minute)
{
    return level->priority != priority ? level->priority > priority : level->minute < minute;
}

static bool is_as_urgent(const struct turn_level *level, int32_t priority, int64_t minute)
{
    return level->priority == priority && level->minute == minute;
}

bool turns_are_as_urgent(const struct turn_level *a, const struct turn_level *b)
{
    return is_as_urgent(a, b->priority, b->minute);
}

static uint64_t hash_dataset(const struct job *job)
{
    return hash_bytes(job->dataset.data, job->dataset.size, 1);
}

// Returns the index of the job's level. *exists false: it has none, and a new one belongs at this index.
static int32_t find_level(const struct turns *turns, const struct job *job, bool *exists)
{
    int64_t minute = deadline_minute(job);
    int32_t low = 0, high = turns->n_levels;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (is_more_urgent(turns->levels[middle], job->priority, minute))
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t dataset = hash_dataset(job);
    *exists = false;
    for (; low < turns->n_levels && is_as_urgent(turns->levels[low], job->priority, minute); low++) {
        *exists = turns->levels[low]->dataset == dataset;
        if (*exists)
            break;
    }
    return low;
}

static bool reserve_level(struct turns *turns)
{
    if (turns->n_levels < turns->levels_capacity)
        return true;
    int32_t capacity = turns->levels_capacity ? turns->levels_capacity * 2 : 8;
    struct turn_level **levels = realloc(turns->levels, (size_t)capacity * sizeof *levels);
    if (!levels)
        return false;
    turns->levels = levels;
    turns->levels_capacity = capacity;
    return true;
}

static struct turn_account *find_account(struct turns *turns, uint64_t dataset)
{
    for (int32_t i = 0; i < TURNS_ACCOUNTS; i++)
        if (turns->accounts[i].dataset == dataset)
            return &turns->accounts[i];
    return NULL;
}

static void save_account(struct turns *turns, const struct turn_level *level)
{
    struct turn_account *account = find_account(turns, level->dataset);
    if (!account) {
        account = &turns->accounts[turns->next_account];
        turns->next_account = (turns->next_account + 1) % TURNS_ACCOUNTS;
    }
    *account = (struct turn_account){level->dataset, level->n_tokens_left, turns->n_admitted};
}

// Tokens that a new level may admit before other levels; at 0 or less its turn is over.
static int64_t account_left(struct turns *turns, uint64_t dataset, int64_t quantum)
{
    const struct turn_account *account = find_account(turns, dataset);
    if (!account || turns->n_admitted - account->n_admitted > TURNS_REMEMBERED)
        return quantum;
    return account->n_tokens_left < quantum ? account->n_tokens_left : quantum;
}

// The place of a new level among the levels of its urgency, which end at index `end`: after other new ones and
// before the rest, or if its turn is over, at the end.
static int32_t choose_place(const struct turns *turns, struct turn_level *level, int32_t end)
{
    int32_t first = end;
    while (first > 0 && turns_are_as_urgent(turns->levels[first - 1], level))
        first--;
    if (first == end) // no other dataset waits
        level->n_tokens_left = level->quantum;
    level->is_new = first < end && level->n_tokens_left > 0 && turns->n_new < TURNS_NEW_MAX;
    if (level->n_tokens_left <= 0)
        level->n_tokens_left += level->quantum;
    while (level->is_new && first < end && turns->levels[first]->is_new)
        first++;
    return level->is_new ? first : end;
}

struct turn_level *turns_level_of(struct turns *turns, const struct job *job, size_t size)
{
    bool exists;
    int32_t i = find_level(turns, job, &exists);
    if (exists)
        return turns->levels[i];
    assert(size >= sizeof(struct turn_level));
    struct turn_level *level = reserve_level(turns) ? calloc(1, size) : NULL;
    if (!level)
        return NULL;
    double weight = turns->shares ? dataset_share_of(turns->shares, job->dataset).weight : 1;
    int64_t quantum = (int64_t)(TURN_QUANTUM * weight);
    *level = (struct turn_level){.priority = job->priority,
                                 .minute = deadline_minute(job),
                                 .dataset = hash_dataset(job),
                                 .quantum = quantum,
                                 .n_tokens_left = account_left(turns, hash_dataset(job), quantum)};
    i = choose_place(turns, level, i);
    struct turn_level **place = &turns->levels[i];
    memmove(place + 1, place, (size_t)(turns->n_levels - i) * sizeof *place);
    turns->n_levels++;
    return *place = level;
}

// ---- turns ----

// Moves levels that have used up their tokens to the end of their urgency, until the first of this
// urgency has tokens left.
static void pass_turns(struct turns *turns, const struct turn_level *urgency)
{
    if (urgency->n_tokens_left > 0)
        return;
    struct turn_level **first = turns->levels, **end = turns->levels + turns->n_levels;
    while (!turns_are_as_urgent(*first, urgency))
        first++;
    for (struct turn_level **last = end; last > first && !turns_are_as_urgent(last[-1], urgency); last--)
        end = last - 1;
    if (end - first == 1)
        (*first)->n_tokens_left = (*first)->quantum; // no other dataset waits: it owes nothing
    while ((*first)->n_tokens_left <= 0) {
        struct turn_level *level = *first;
        memmove(first, first + 1, (size_t)(end - first - 1) * sizeof *first);
        end[-1] = level;
        level->n_tokens_left += level->quantum;
        level->is_new = false;
    }
}

void turns_drop(struct turns *turns, struct turn_level *level)
{
    int32_t i = 0;
    while (turns->levels[i] != level)
        i++;
    save_account(turns, level);
    memmove(&turns->levels[i], &turns->levels[i + 1],
            (size_t)(turns->n_levels - i - 1) * sizeof *turns->levels);
    turns->n_levels--;
    free(level);
}

void turns_admit(struct turns *turns, struct turn_level *level, int64_t n_tokens, bool more_wait)
{
    turns->n_admitted++;
    turns->n_new = level->is_new ? turns->n_new + 1 : 0;
    level->n_tokens_left -= n_tokens;
    if (more_wait)
        pass_turns(turns, level);
}

void turns_charge(struct turns *turns, const struct job *job, int64_t n_tokens)
{
    bool exists;
    int32_t i = find_level(turns, job, &exists);
    if (!exists) {
        struct turn_account *account = find_account(turns, hash_dataset(job));
        if (account)
            account->n_tokens_left -= n_tokens;
        return;
    }
    struct turn_level *level = turns->levels[i];
    level->n_tokens_left -= n_tokens;
    if (level->n_tokens_left > level->quantum)
        level->n_tokens_left = level->quantum;
    pass_turns(turns, level);
}

void turns_finish(struct turns *turns)
{
    assert(turns->n_levels == 0);
    free(turns->levels);
}
