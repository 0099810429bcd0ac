#include "consumer/gather.h"

#include "consumer/kafka_client.h"
#include "schemas/hash.h"

#include <stdlib.h>
#include <string.h>

struct gathered {
    uint64_t id_hash; // of the job id
    int64_t index;    // -1: none, these come last
    int64_t arrival;
    struct text record; // size 0: a job without a result
};

struct gathering {
    struct text dataset;
    struct arena arena;
    struct gathered *items;
    size_t n, capacity;
    bool keep_records;
};

static bool add(struct gathering *gathering, struct gathered item)
{
    if (gathering->n == gathering->capacity) {
        size_t capacity = gathering->capacity ? gathering->capacity * 2 : 1024;
        struct gathered *items = realloc(gathering->items, capacity * sizeof *items);
        if (!items)
            return false;
        gathering->items = items;
        gathering->capacity = capacity;
    }
    item.arrival = (int64_t)gathering->n;
    gathering->items[gathering->n++] = item;
    return true;
}

static struct text header_of(const struct record *record, const char *name)
{
    for (int32_t i = 0; i < record->n_headers; i++)
        if (text_equals_string(record->headers[i].name, name))
            return record->headers[i].value;
    return (struct text){0};
}

// Reads who the record is about: from its headers (a job that sheaf submitted), else from the record itself. False: of
// another dataset, or without a name.
static bool identify(const struct gathering *gathering, const struct record *record, struct gathered *item)
{
    struct text dataset = header_of(record, HEADER_DATASET), job_id = header_of(record, HEADER_JOB_ID);
    struct job *job = NULL;
    if (gathering->keep_records || !dataset.size || !job_id.size) {
        enum encoding encoding;
        struct error ignored;
        job = job_create();
        if (!job || !encoding_detect(record->content_type, record->value, &encoding)) {
            job_destroy(job);
            return false;
        }
        enum status status = gathering->keep_records ? result_decode(job, record->value, encoding, &ignored)
                                                     : job_decode(job, record->value, encoding, &ignored);
        (void)status; // a faulty record still has whatever names could be read
        dataset = job->dataset;
        job_id = job->job_id;
        item->index = job->index;
    }
    bool ours = job_id.size && text_equal(dataset, gathering->dataset);
    item->id_hash = hash_bytes(job_id.size ? job_id.data : "", job_id.size, 0);
    job_destroy(job);
    return ours;
}

static enum status receive(void *context, const struct record *record, struct error *error)
{
    struct gathering *gathering = context;
    struct gathered item = {.index = -1};
    if (!identify(gathering, record, &item))
        return STATUS_OK;
    if (gathering->keep_records) {
        char *copy = arena_copy(&gathering->arena, record->value.data, record->value.size);
        item.record = (struct text){copy, record->value.size};
    }
    if ((gathering->keep_records && !item.record.data) || !add(gathering, item))
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "collecting %zu results: out of memory", gathering->n);
    return STATUS_OK;
}

static int by_id(const void *a, const void *b)
{
    const struct gathered *x = a, *y = b;
    if (x->id_hash != y->id_hash)
        return x->id_hash < y->id_hash ? -1 : 1;
    return (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

static int by_index(const void *a, const void *b)
{
    const struct gathered *x = a, *y = b;
    uint64_t i = (uint64_t)x->index, j = (uint64_t)y->index; // -1 becomes the largest
    if (i != j)
        return i < j ? -1 : 1;
    return (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

// Leaves the first of each id, sorted by id.
static void drop_repeats(struct gathering *gathering)
{
    size_t n = 0;
    if (gathering->n)
        qsort(gathering->items, gathering->n, sizeof *gathering->items, by_id);
    for (size_t i = 0; i < gathering->n; i++)
        if (n == 0 || gathering->items[i].id_hash != gathering->items[n - 1].id_hash)
            gathering->items[n++] = gathering->items[i];
    gathering->n = n;
}

static int64_t count_missing(const struct gathering *jobs, const struct gathering *results)
{
    int64_t n_missing = 0;
    size_t r = 0;
    for (size_t j = 0; j < jobs->n; j++) {
        while (r < results->n && results->items[r].id_hash < jobs->items[j].id_hash)
            r++;
        n_missing += r == results->n || results->items[r].id_hash != jobs->items[j].id_hash;
    }
    return n_missing;
}

static void gathering_finish(struct gathering *gathering)
{
    free(gathering->items);
    arena_finish(&gathering->arena);
}

enum status gather_results(const struct kafka_config *config, struct text dataset, struct output *output,
                           int64_t *n_missing, struct error *error)
{
    struct gathering jobs = {.dataset = dataset}, results = {.dataset = dataset, .keep_records = true};
    enum status status = kafka_read_topic(config, config->jobs, receive, &jobs, error);
    if (status == STATUS_OK)
        status = kafka_read_topic(config, config->results, receive, &results, error);
    if (status == STATUS_OK) {
        drop_repeats(&jobs);
        drop_repeats(&results);
        *n_missing = count_missing(&jobs, &results);
        if (results.n)
            qsort(results.items, results.n, sizeof *results.items, by_index);
    }
    for (size_t i = 0; status == STATUS_OK && i < results.n; i++)
        status = output_add(output, results.items[i].record, error);
    if (status == STATUS_OK && jobs.n + results.n == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_BROKER, "topic %s: there is no dataset %.*s", config->jobs,
                           (int)dataset.size, dataset.data);
    gathering_finish(&jobs);
    gathering_finish(&results);
    return status;
}
