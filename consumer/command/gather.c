#include "consumer/command/gather.h"

#include "consumer/kafka/control.h"
#include "consumer/kafka/headers.h"
#include "consumer/kafka/kafka_client.h"
#include "store/gathering.h"

// One topic being read.
struct reading {
    struct text dataset;
    const char *jobs; // topic
    struct gathering *gathering;
    bool results; // else jobs
};

static enum status add(const struct reading *reading, struct text job_id, int64_t index, struct text record,
                       struct error *error)
{
    return reading->results ? gathering_add_result(reading->gathering, job_id, index, record, error)
                            : gathering_add_job(reading->gathering, job_id, error);
}

// A record that does not say beside it who it is about, and a result, whose index says where it belongs: a
// faulty one still has whatever names could be read.
static enum status receive_decoded(const struct reading *reading, const struct record *record,
                                   struct error *error)
{
    enum encoding encoding;
    struct error ignored;
    struct job *job = job_create();
    if (!job)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "collecting a result: out of memory");
    enum status status = STATUS_OK;
    if (encoding_detect(record->content_type, record->value, &encoding)) {
        enum status decoded = reading->results ? result_decode(job, record->value, encoding, &ignored)
                                               : job_decode(job, record->value, encoding, &ignored);
        (void)decoded;
        if (job->job_id.size && text_equal(job->dataset, reading->dataset))
            status = add(reading, job->job_id, job->index, record->value, error);
    }
    job_destroy(job);
    return status;
}

static enum status receive(void *context, const struct record *record, struct error *error)
{
    const struct reading *reading = context;
    if (reading->results && !headers_are_of_topic(record->headers, record->n_headers, reading->jobs))
        return STATUS_OK;
    struct text dataset = headers_find(record->headers, record->n_headers, HEADER_DATASET);
    struct text job_id = headers_find(record->headers, record->n_headers, HEADER_JOB_ID);
    if (reading->results || !dataset.size || !job_id.size)
        return receive_decoded(reading, record, error);
    return text_equal(dataset, reading->dataset) ? add(reading, job_id, -1, record->value, error) : STATUS_OK;
}

static enum status write_record(void *context, struct text record, struct error *error)
{
    return output_add(context, record, error);
}

static enum status read_topics(struct reading *reading, const struct kafka_config *config,
                               struct gathered *gathered, struct error *error)
{
    int64_t n_jobs = 0;
    enum status status =
        kafka_read_topic(config, config->jobs, KAFKA_READ_COMMITTED, receive, reading, error);
    reading->results = true;
    if (status == STATUS_OK)
        status = kafka_read_topic(config, config->results, KAFKA_READ_COMMITTED, receive, reading, error);
    if (status == STATUS_OK)
        status =
            gathering_count(reading->gathering, &n_jobs, &gathered->n_results, &gathered->n_missing, error);
    gathered->n_expected = n_jobs;
    return status;
}

// Counts the submitted jobs, including those that retention has deleted since.
static void count_submitted(const struct control *control, struct gathered *gathered)
{
    if (!control->has_marker)
        return;
    int64_t n_unanswered = control->marker.n_jobs - gathered->n_results;
    gathered->is_being_submitted = !control->marker.complete;
    if (gathered->n_expected < control->marker.n_jobs)
        gathered->n_expected = control->marker.n_jobs;
    if (gathered->n_missing < n_unanswered)
        gathered->n_missing = n_unanswered;
}

enum status gather_results(const struct kafka_config *config, struct text dataset, struct output *output,
                           struct gathered *gathered, struct error *error)
{
    struct reading reading = {.dataset = dataset, .jobs = config->jobs};
    struct control control = {0};
    *gathered = (struct gathered){0};
    enum status status = gathering_open(&reading.gathering, GATHERING_CACHE_KIB, error);
    if (status == STATUS_OK) // before the jobs: what it counts is there then
        status = control_read(&control, config, dataset, error);
    if (status == STATUS_OK)
        status = read_topics(&reading, config, gathered, error);
    count_submitted(&control, gathered);
    if (status == STATUS_OK && !control.has_marker && gathered->n_expected + gathered->n_results == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_BROKER, "topic %s: there is no dataset %.*s",
                           config->jobs, (int)dataset.size, dataset.data);
    if (status == STATUS_OK)
        status = gathering_read(reading.gathering, write_record, output, error);
    control_finish(&control);
    gathering_close(reading.gathering);
    return status;
}
