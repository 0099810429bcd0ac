#include "consumer/queue/kafka/client/control.h"

#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/cancel.h"
#include "consumer/queue/kafka/client/kafka_client.h"

struct control_reading {
    struct control *control;
    struct text topic, dataset;
};

static enum status take_search(struct control_reading *reading, const struct record *record,
                               struct error *error)
{
    struct marker_search search;
    struct arena arena = {0};
    struct control *control = reading->control;
    enum status status = marker_search_decode(record->key, record->value, &arena, &search, error);
    if (status == STATUS_OK && text_equal(search.topic, reading->topic)) {
        control->search.is_done = true;
        control->search.start = search.start;
        control->search.has_dataset = false;
        for (size_t i = 0; i < search.n_unmarked && !control->search.has_dataset; i++)
            control->search.has_dataset = text_equal(search.unmarked[i].text, reading->dataset);
    }
    arena_finish(&arena);
    return status == STATUS_REJECT ? STATUS_OK : status; // not written by sheaf
}

static enum status take_marker(struct control_reading *reading, const struct record *record,
                               struct error *error)
{
    struct marker marker;
    struct arena arena = {0};
    struct control *control = reading->control;
    enum status status = marker_decode(record->key, record->value, &arena, &marker, error);
    bool is_of_topic = status == STATUS_OK && text_equal(marker.topic, reading->topic);
    if (status == STATUS_OK && text_equal(marker.dataset, reading->dataset))
        control->created_s = marker.is_withdrawn                     ? -1
                             : marker.created_s > control->created_s ? marker.created_s
                                                                     : control->created_s;
    uint64_t n_before;
    if (is_of_topic && !occurrences_count(&control->marked, hash_dataset(marker.dataset), &n_before)) {
        arena_finish(&arena);
        return error_memory(error, STATUS_REFUSE, "the names of datasets");
    }
    if (is_of_topic && text_equal(marker.dataset, reading->dataset)) {
        arena_finish(&control->arena);
        control->arena = arena;
        control->marker = marker;
        control->has_marker = !marker.is_withdrawn;
        control->is_withdrawn = marker.is_withdrawn;
        return STATUS_OK;
    }
    arena_finish(&arena);
    return status == STATUS_REJECT ? take_search(reading, record, error) : status;
}

static enum status take_cancel(struct control_reading *reading, const struct record *record,
                               struct error *error)
{
    struct cancel cancel;
    struct arena arena = {0};
    enum status status = cancel_decode(record->key, record->value, &arena, &cancel, error);
    if (status == STATUS_OK && cancel.job_id.size == 0 && text_equal(cancel.dataset, reading->dataset))
        reading->control->is_cancelled = cancel.at_s != CANCEL_NEVER;
    arena_finish(&arena);
    return status == STATUS_REJECT ? STATUS_OK : status;
}

static enum status take_record(void *context, const struct record *record, struct error *error)
{
    struct control_reading *reading = context;
    return marker_is_key(record->key) ? take_marker(reading, record, error)
                                      : take_cancel(reading, record, error);
}

enum status control_read(struct control *control, const struct kafka_config *config, struct text dataset,
                         enum kafka_end end, struct error *error)
{
    *control = (struct control){.created_s = -1};
    struct control_reading reading = {control, text_from_string(config->topics.jobs), dataset};
    bool exists = false;
    enum status status = kafka_topic_exists(config, config->topics.control, &exists, error);
    if (status == STATUS_OK && exists)
        status = kafka_read_topic(config, config->topics.control, end, take_record, &reading, error);
    if (status != STATUS_OK)
        control_finish(control);
    return status;
}

struct marked_job {
    const struct marker *marker;
    bool is_found; // the record at the marker's place is the job
};

static enum status compare_job(void *context, const struct record *record, struct error *error)
{
    struct marked_job *job = context;
    int64_t created_s = 0;
    bool is_dated = headers_read_integer(record->headers, record->n_headers, HEADER_CREATED, &created_s);
    (void)error;
    // An aborted submission to a recreated topic may have left a job of the same dataset there, with another
    // creation time.
    job->is_found =
        text_equal(headers_find(record->headers, record->n_headers, HEADER_DATASET), job->marker->dataset) &&
        (!is_dated || created_s == job->marker->created_s);
    return STATUS_OK;
}

enum status control_check_marker(const struct control *control, const struct kafka_config *config,
                                 bool *counts, struct error *error)
{
    struct marked_job job = {.marker = &control->marker};
    enum kafka_place place;
    *counts = true;
    if (job.marker->partition < 0)
        return STATUS_OK;
    enum status status = kafka_read_place(config, config->topics.jobs, job.marker->partition,
                                          job.marker->offset, compare_job, &job, &place, error);
    *counts = status == STATUS_OK && (job.is_found || place == KAFKA_PLACE_DELETED);
    return status;
}

void control_finish(struct control *control)
{
    arena_finish(&control->arena);
    occurrences_finish(&control->marked);
    *control = (struct control){0};
}
