#include "consumer/worker/dead_share.h"

#include "schemas/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum kind { OF_DATASET, OF_KEY, OF_PARTITION, OF_FEW };

enum { SHOWN_NAME_BYTES = 60 };

struct producer {
    enum kind kind;
    struct text name; // the dataset or key
};

static struct producer find_producer(const struct record *record)
{
    struct text dataset = record->identity.dataset;
    if (dataset.size)
        return (struct producer){OF_DATASET, dataset};
    if (record->key.size)
        return (struct producer){OF_KEY, record->key};
    return (struct producer){OF_PARTITION, {0}};
}

static uint64_t hash_producer(const struct producer *producer, int32_t partition)
{
    uint64_t hash = producer->kind == OF_PARTITION
                        ? hash_bytes(&partition, sizeof partition, OF_PARTITION)
                        : hash_bytes(producer->name.data, producer->name.size, (uint64_t)producer->kind);
    return hash ? hash : 1;
}

// The producer's counts. If it has none, empty counts replace the counts of the set's producer with the fewest
// records.
static struct producer_counts *find_counts(struct dead_share *shares, uint64_t name)
{
    struct producer_counts *set = shares->producers[name % DEAD_SHARE_SETS], *least = set;
    for (int i = 0; i < DEAD_SHARE_WAYS; i++) {
        if (set[i].name == name)
            return &set[i];
        if (set[i].n < least->n)
            least = &set[i];
    }
    *least = (struct producer_counts){.name = name};
    return least;
}

static void count_record(struct producer_counts *counts, bool is_dead)
{
    if (counts->n >= DEAD_SHARE_SPAN) {
        counts->n /= 2;
        counts->n_dead /= 2;
    }
    counts->n++;
    counts->n_dead += is_dead;
}

static bool exceeds(const struct producer_counts *counts, int32_t least, int32_t percent)
{
    return counts->n >= least && (int64_t)counts->n_dead * 100 > (int64_t)counts->n * percent;
}

// Subtracts the first records of a producer from the sum, because it is judged by itself from now on.
static void take_from_few(struct producer_counts *few, const struct producer_counts *counts)
{
    few->n = few->n > counts->n ? few->n - counts->n : 0;
    few->n_dead = few->n_dead > counts->n_dead ? few->n_dead - counts->n_dead : 0;
    few->n_dead = few->n_dead > few->n ? few->n : few->n_dead; // the counts were halved at different times
}

static void write_report(const struct producer *producer, const struct record *record,
                         const struct producer_counts *counts, int32_t percent, char report[ERROR_TEXT_BYTES])
{
    char whose[SHOWN_NAME_BYTES + 48];
    int n = (int)(producer->name.size < SHOWN_NAME_BYTES ? producer->name.size : SHOWN_NAME_BYTES);
    if (producer->kind == OF_DATASET)
        snprintf(whose, sizeof whose, " of dataset \"%.*s\"", n, producer->name.data);
    else if (producer->kind == OF_KEY)
        snprintf(whose, sizeof whose, " with the key \"%.*s\"", n, producer->name.data);
    else
        snprintf(whose, sizeof whose, "%s", producer->kind == OF_FEW ? " with rare keys" : " without a key");
    snprintf(report, ERROR_TEXT_BYTES,
             "topic %.*s partition %" PRId32 ": %" PRId32 " of the last %" PRId32
             " records%s are not jobs, more than --dead-share %" PRId32 " %%. From offset %" PRId64
             " on such records stay in quarantine, neither answered nor dead letters, and jobs are answered "
             "as before (ops/RUNBOOK.md: \"Quarantine\")",
             (int)(record->topic.size < 200 ? record->topic.size : 200), record->topic.data,
             record->partition, counts->n_dead, counts->n, whose, percent, record->offset);
}

bool dead_share_exceeds(struct dead_share *shares, const struct record *record, bool is_dead, int32_t percent,
                        char report[ERROR_TEXT_BYTES])
{
    struct producer producer = find_producer(record);
    struct producer_counts *few = &shares->few[(uint32_t)record->partition % DEAD_SHARE_PARTITIONS];
    struct producer_counts *counts = find_counts(shares, hash_producer(&producer, record->partition));
    bool is_few = counts->n < DEAD_SHARE_LEAST - 1;
    report[0] = '\0';
    if (counts->n == DEAD_SHARE_LEAST - 1)
        take_from_few(few, counts);
    count_record(counts, is_dead);
    if (is_few) {
        count_record(few, is_dead);
        producer.kind = OF_FEW;
        counts = few;
    }
    if (!is_dead || !exceeds(counts, is_few ? DEAD_SHARE_LEAST_OF_FEW : DEAD_SHARE_LEAST, percent))
        return false;
    if (!counts->is_reported)
        write_report(&producer, record, counts, percent, report);
    counts->is_reported = true;
    return true;
}
