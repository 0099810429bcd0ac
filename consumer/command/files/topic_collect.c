#include "consumer/command/files/topic_collect.h"

#include "consumer/observe/log.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/control.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "consumer/queue/kafka/client/kafka_finished.h"
#include "store/spool.h"

// One topic being read.
struct collected_topic {
    struct text dataset;
    const char *jobs; // topic
    struct spool *spool;
    struct kafka_finished finished; // the group's finished jobs; read before the topics
    bool results;                   // this is the results topic, else the jobs topic
};

static enum status add_record(const struct collected_topic *reading, struct text job_id, int64_t index,
                              const struct record *record, struct error *error)
{
    if (reading->results)
        return spool_add_result(reading->spool, job_id, index, record->redriven, record->value, error);
    bool is_finished = kafka_finished_has(&reading->finished, record->partition, record->offset);
    return spool_add_job(reading->spool, job_id, is_finished, record->redriven, error);
}

// Decodes a record and adds it: a job without identity headers, or a result, whose index is needed. A faulty
// record still has the ids that could be read.
static enum status receive_decoded(const struct collected_topic *reading, const struct record *record,
                                   struct error *error)
{
    enum encoding encoding;
    struct error ignored;
    struct job *job = job_create();
    if (!job)
        return error_memory(error, STATUS_REFUSE, "collecting a result");
    enum status status = STATUS_OK;
    if (encoding_detect(record->content_type, record->value, &encoding)) {
        enum status decoded = reading->results ? result_decode(job, record->value, encoding, &ignored)
                                               : job_decode(job, record->value, encoding, &ignored);
        (void)decoded;
        if (job->job_id.size && text_equal(job->dataset, reading->dataset))
            status = add_record(reading, job->job_id, job->index, record, error);
    }
    job_destroy(job);
    return status;
}

static enum status receive_record(void *context, const struct record *record, struct error *error)
{
    const struct collected_topic *reading = context;
    if (reading->results && !headers_are_of_topic(record->headers, record->n_headers, reading->jobs))
        return STATUS_OK;
    struct text dataset = headers_find(record->headers, record->n_headers, HEADER_DATASET);
    struct text job_id = headers_find(record->headers, record->n_headers, HEADER_JOB_ID);
    if (reading->results || !dataset.size || !job_id.size)
        return receive_decoded(reading, record, error);
    return text_equal(dataset, reading->dataset) ? add_record(reading, job_id, -1, record, error) : STATUS_OK;
}

static enum status write_record(void *context, struct text record, struct error *error)
{
    return output_add(context, record, error);
}

// Reads, before the topics, which jobs the group has finished. A job's offset and result are committed in one
// transaction, so the results of these jobs are on the results topic when it is read later.
static void read_finished(struct collected_topic *reading, const struct kafka_config *config,
                          struct topic_collected *collected)
{
    struct error unknown;
    if (kafka_finished_read(&reading->finished, config, &unknown) == STATUS_OK)
        collected->group = reading->finished.has_offsets ? GROUP_WORKS : GROUP_NEW;
    else
        log_write(LOG_DEBUG, "which jobs are finished is not known: %s", unknown.text);
}

static enum status read_topics(struct collected_topic *reading, const struct kafka_config *config,
                               struct topic_collected *collected, struct error *error)
{
    struct spool_counts counts = {0};
    int32_t n_held = 0;
    read_finished(reading, config, collected);
    enum status status =
        kafka_read_topic_bounded(config, config->topics.jobs, &n_held, receive_record, reading, error);
    reading->results = true;
    if (status == STATUS_OK)
        status =
            kafka_read_topic_bounded(config, config->topics.results, &n_held, receive_record, reading, error);
    if (status == STATUS_OK)
        status = spool_count(reading->spool, &counts, error);
    collected->n_expected = counts.n_jobs;
    collected->n_results = counts.n_results;
    collected->n_missing = counts.n_missing;
    if (status == STATUS_OK && counts.n_repeated)
        log_write(LOG_WARNING,
                  "dataset %.*s: %lld results have the job_id of another one and are left out: records of one"
                  " job_id were produced with several requests, or twice",
                  (int)reading->dataset.size, reading->dataset.data, (long long)counts.n_repeated);
    collected->n_lost = n_held ? 0 : counts.n_finished; // the results may follow the open transaction
    return status;
}

// Counts the submitted jobs, including those that retention has deleted since.
static void count_submitted(const struct control *control, struct topic_collected *collected)
{
    if (!control->has_marker)
        return;
    int64_t n_unanswered = control->marker.n_jobs - collected->n_results;
    collected->is_being_submitted = !control->marker.complete;
    if (collected->n_expected < control->marker.n_jobs)
        collected->n_expected = control->marker.n_jobs;
    if (collected->n_missing < n_unanswered)
        collected->n_missing = n_unanswered;
}

// Finds out whether missing results can still arrive. A job that is not on the topic was deleted, or it
// follows an open transaction, which was logged.
static enum status explain_missing(const struct kafka_config *config, const struct control *control,
                                   int64_t n_on_topic, struct topic_collected *collected, struct error *error)
{
    int64_t jobs_start = 0, results_start = 0;
    bool counts = true;
    if (collected->n_missing == 0)
        return STATUS_OK;
    enum status status = kafka_topic_start(config, config->topics.results, &results_start, error);
    if (status == STATUS_OK && control->has_marker)
        status = control_check_marker(control, config, &counts, error);
    if (status == STATUS_OK && collected->n_missing > n_on_topic)
        status = kafka_topic_start(config, config->topics.jobs, &jobs_start, error);
    if (status != STATUS_OK)
        return status;
    collected->has_lost_results = results_start > 0;
    collected->has_other_topic = !counts;
    collected->n_gone = jobs_start > 0 ? collected->n_missing - n_on_topic : 0;
    return STATUS_OK;
}

enum status topic_collect(const struct kafka_config *config, struct text dataset, struct output *output,
                          struct topic_collected *collected, struct error *error)
{
    struct collected_topic reading = {.dataset = dataset, .jobs = config->topics.jobs};
    struct control control = {0};
    *collected = (struct topic_collected){0};
    enum status status = spool_open(&reading.spool, SPOOL_CACHE_KIB, error);
    if (status == STATUS_OK) // before the jobs, so that all counted jobs are on the topic
        status = control_read(&control, config, dataset, KAFKA_END_LOG, error);
    if (status == STATUS_OK)
        status = read_topics(&reading, config, collected, error);
    int64_t n_on_topic = collected->n_missing;
    count_submitted(&control, collected);
    if (status == STATUS_OK)
        status = explain_missing(config, &control, n_on_topic, collected, error);
    if (status == STATUS_OK && !control.has_marker && collected->n_expected + collected->n_results == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_BROKER, "topic %s: there is no dataset %.*s",
                           config->topics.jobs, (int)dataset.size, dataset.data);
    if (status == STATUS_OK)
        status = spool_read(reading.spool, write_record, output, error);
    control_finish(&control);
    kafka_finished_finish(&reading.finished);
    spool_close(reading.spool);
    return status;
}
