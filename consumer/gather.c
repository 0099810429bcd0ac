#include "consumer/gather.h"

#include "consumer/kafka_client.h"
#include "store/gathering.h"

// One topic being read.
struct reading {
    struct text dataset;
    struct gathering *gathering;
    bool results; // else jobs
};

static struct text header_of(const struct record *record, const char *name)
{
    for (int32_t i = 0; i < record->n_headers; i++)
        if (text_equals_string(record->headers[i].name, name))
            return record->headers[i].value;
    return (struct text){0};
}

static enum status add(const struct reading *reading, struct text job_id, int64_t index, struct text record,
                       struct error *error)
{
    return reading->results ? gathering_add_result(reading->gathering, job_id, index, record, error)
                            : gathering_add_job(reading->gathering, job_id, error);
}

// A record that does not say beside it who it is about, and a result, whose index says where it belongs: a faulty one still
// has whatever names could be read.
static enum status receive_decoded(const struct reading *reading, const struct record *record, struct error *error)
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
    struct text dataset = header_of(record, HEADER_DATASET), job_id = header_of(record, HEADER_JOB_ID);
    if (reading->results || !dataset.size || !job_id.size)
        return receive_decoded(reading, record, error);
    return text_equal(dataset, reading->dataset) ? add(reading, job_id, -1, record->value, error) : STATUS_OK;
}

static enum status write_record(void *context, struct text record, struct error *error)
{
    return output_add(context, record, error);
}

enum status gather_results(const struct kafka_config *config, struct text dataset, struct output *output,
                           int64_t *n_missing, struct error *error)
{
    struct reading reading = {.dataset = dataset};
    int64_t n_jobs = 0, n_results = 0;
    enum status status = gathering_open(&reading.gathering, GATHERING_CACHE_KIB, error);
    if (status == STATUS_OK)
        status = kafka_read_topic(config, config->jobs, receive, &reading, error);
    reading.results = true;
    if (status == STATUS_OK)
        status = kafka_read_topic(config, config->results, receive, &reading, error);
    if (status == STATUS_OK)
        status = gathering_count(reading.gathering, &n_jobs, &n_results, n_missing, error);
    if (status == STATUS_OK && n_jobs + n_results == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_BROKER, "topic %s: there is no dataset %.*s", config->jobs,
                           (int)dataset.size, dataset.data);
    if (status == STATUS_OK)
        status = gathering_read(reading.gathering, write_record, output, error);
    gathering_close(reading.gathering);
    return status;
}
