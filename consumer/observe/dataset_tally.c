#include "consumer/observe/dataset_tally.h"

#include "schemas/base/hash.h"

#include <string.h>

static uint64_t hash_name(struct text dataset)
{
    return hash_bytes(dataset.data, dataset.size, 1);
}

static struct dataset_entry *find_entry(struct dataset_tally *tally, uint64_t key)
{
    for (int i = 0; i < tally->n_entries; i++)
        if (tally->entries[i].key == key)
            return &tally->entries[i];
    return NULL;
}

static void add_counts(struct dataset_counts *to, const struct dataset_counts *from)
{
    to->n_done += from->n_done;
    to->n_failed += from->n_failed;
    to->n_cancelled += from->n_cancelled;
    to->n_dead += from->n_dead;
    to->n_tokens += from->n_tokens;
}

// A free entry; else the entry of the least recently used dataset without jobs in flight. NULL: all have some.
static struct dataset_entry *take_entry(struct dataset_tally *tally)
{
    if (tally->n_entries < DATASET_TALLY_MAX)
        return &tally->entries[tally->n_entries++];
    struct dataset_entry *oldest = NULL;
    for (int i = 0; i < tally->n_entries; i++) {
        struct dataset_entry *entry = &tally->entries[i];
        if (entry->counts.n_in_flight == 0 && (!oldest || entry->used < oldest->used))
            oldest = entry;
    }
    if (oldest)
        add_counts(&tally->others, &oldest->counts);
    return oldest;
}

// Finds or adds the dataset's counts; `others` if there is no room.
static struct dataset_counts *counts_of(struct dataset_tally *tally, struct text dataset)
{
    uint64_t key = hash_name(dataset);
    struct dataset_entry *entry = find_entry(tally, key);
    if (!entry) {
        entry = take_entry(tally);
        if (!entry)
            return &tally->others;
        *entry = (struct dataset_entry){.key = key, .counts.unfinished = -1};
        entry->name_size = dataset.size < sizeof entry->name ? dataset.size : sizeof entry->name;
        if (entry->name_size)
            memcpy(entry->name, dataset.data, entry->name_size);
    }
    entry->used = ++tally->n_used;
    return &entry->counts;
}

void dataset_tally_received(struct dataset_tally *tally, const struct job *job)
{
    counts_of(tally, job->dataset)->n_in_flight++;
}

void dataset_tally_left(struct dataset_tally *tally, const struct job *job, bool published)
{
    // a dataset without an entry then has its job in `others`, even if it has got an entry since
    struct dataset_entry *entry = find_entry(tally, hash_name(job->dataset));
    struct dataset_counts *counts = entry ? &entry->counts : &tally->others;
    (counts->n_in_flight > 0 ? counts : &tally->others)->n_in_flight--;
    if (!published)
        return;
    const struct result *result = &job->result;
    counts->n_done += result->status == RESULT_DONE;
    counts->n_failed += result->status == RESULT_FAILED;
    counts->n_cancelled += result->status == RESULT_CANCELLED;
    counts->n_dead += job->source.record.data != NULL;
    if (!job->figures.is_duplicate)
        counts->n_tokens += result->prompt_tokens - job->figures.cached_tokens + result->completion_tokens;
}

void dataset_tally_forget_unfinished(struct dataset_tally *tally)
{
    for (int i = 0; i < tally->n_entries; i++)
        tally->entries[i].counts.unfinished = -1;
}

void dataset_tally_set_unfinished(struct dataset_tally *tally, struct text dataset, int64_t n)
{
    struct dataset_counts *counts = counts_of(tally, dataset);
    if (counts != &tally->others)
        counts->unfinished = n;
}
