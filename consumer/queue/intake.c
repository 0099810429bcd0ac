#include "consumer/queue/intake.h"

#include "schemas/task.h"

#include <stdio.h>
#include <string.h>

static bool copy_headers(struct job *job, const struct record *record)
{
    struct job_source *source = &job->source;
    source->partition = record->partition;
    source->offset = record->offset;
    source->crashes = record->crashes;
    source->bytes.record = record->value.size;
    source->written_s = record->written_s;
    source->redriven = record->redriven;
    source->has_more_headers = record->has_more_headers;
    if (!job_set_text(job, &source->topic, record->topic) ||
        !job_set_text(job, &source->reply_topic, record->reply_topic) ||
        (record->key.data && !job_set_text(job, &source->key, record->key)))
        return false;
    source->headers = arena_allocate_array(&job->arena, (size_t)record->n_headers, sizeof *source->headers);
    if (record->n_headers && !source->headers)
        return false;
    for (int32_t i = 0; i < record->n_headers; i++)
        if (!job_set_text(job, &source->headers[i].name, record->headers[i].name) ||
            !job_set_text(job, &source->headers[i].value, record->headers[i].value))
            return false;
    source->n_headers = record->n_headers;
    return true;
}

// A name that is too long or not UTF-8, so that no result could have it, counts as not given.
static struct text valid_name(struct text name, size_t bytes_max)
{
    return name.size <= bytes_max && utf8_valid(name.data, name.size) ? name : (struct text){0};
}

// The identity takes precedence over the record: the submitter wrote both, from the same line.
static bool set_identity(struct job *job, const struct record *record)
{
    const struct job_identity *identity = &record->identity;
    struct text dataset = valid_name(identity->dataset, JOB_DATASET_BYTES_MAX);
    struct text job_id = valid_name(identity->job_id, JOB_ID_BYTES_MAX);
    struct text custom_id = valid_name(identity->custom_id, JOB_ID_BYTES_MAX);
    if (identity->has_index)
        job->index = identity->index;
    if (identity->has_created)
        job->created_s = identity->created_s;
    if (dataset.size && !job_set_text(job, &job->dataset, dataset))
        return false;
    if (job_id.size && !job_set_id(job, job_id))
        return false;
    if (custom_id.size && !job_set_text(job, &job->custom_id, custom_id))
        return false;
    // `submit` may repeat the job_id as custom_id: then the line decides (job_decode)
    if (custom_id.size && (job->index < 0 || !text_equal(custom_id, job_id)))
        job->naming = JOB_NAMED_BY_CUSTOM_ID;
    else if (job_id.size && job->naming == JOB_NAMED_BY_PLACE)
        job->naming = JOB_NAMED_BY_ID;
    if (job->job_id.size == 0) {
        char name[JOB_ID_BYTES_MAX];
        int n = snprintf(name, sizeof name, "%.*s-%d-%lld",
                         (int)(record->topic.size < 200 ? record->topic.size : 200),
                         record->topic.size ? record->topic.data : "", record->partition,
                         (long long)record->offset);
        if (!job_set_id(job, (struct text){name, (size_t)n}))
            return false;
    }
    return job->custom_id.size || job_set_text(job, &job->custom_id, job->job_id);
}

static enum status decode_record(struct job *job, const struct record *record, struct error *error)
{
    struct text cut = valid_name(record->cut, ERROR_TEXT_BYTES);
    enum encoding encoding = ENCODING_JSON;
    if (record->unreadable.size)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "%.*s", (int)record->unreadable.size,
                         record->unreadable.data);
    if (cut.size)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "only the beginning of the job was submitted: %.*s", (int)cut.size, cut.data);
    if (!encoding_detect(record->content_type, record->value, &encoding))
        return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING,
                         "record: expected a JSON object or a msgpack map, got %s of %zu bytes",
                         record->value.size ? "something else" : "nothing", record->value.size);
    return job_decode(job, record->value, encoding, error);
}

// The model and the arithmetic of the job's answer.
static bool name_answer(struct job *job, const struct result_names *names)
{
    const struct adapter_name *adapter =
        job->adapter_set ? &names->answers_to.adapters[job->adapter_set - 1] : NULL;
    return job_set_text(job, &job->result.model, adapter ? adapter->name : names->model) &&
           job_set_text(job, &job->result.system_fingerprint,
                        adapter ? text_from_string(adapter->system_fingerprint) : names->system_fingerprint);
}

struct job *intake_job(const struct record *record, const struct result_names *names,
                       struct job_reserve *reserve)
{
    struct job *job = job_reserve_take(reserve);
    if (!job)
        return NULL;
    struct error error = {0};
    enum status status = decode_record(job, record, &error);
    if (status == STATUS_OK)
        status = task_check(names->task, job, &error);
    if (status == STATUS_OK)
        status = model_names_check(&names->answers_to, job, &error);
    if (status == STATUS_OK && record->refused.size)
        status = error_set(&error, STATUS_REJECT, ERROR_INVALID_FIELD, "%.*s", (int)record->refused.size,
                           record->refused.data);
    bool complete = copy_headers(job, record) && set_identity(job, record) && name_answer(job, names);
    job->result.reports_cached_tokens = names->cached_tokens;
    job->figures.attempts = record->attempts + 1;
    complete = complete && status != STATUS_RETRY; // memory ran out while decoding: no fault of the record
    struct sampling *sampling = &job->request.sampling;
    if (status == STATUS_OK && !sampling->seed_given) {
        // after set_identity: the seed depends on the job's names
        sampling->seed = names->same_draws ? job_prompt_seed(job) : job_default_seed(job);
        sampling->seed_given = names->same_draws;
    }
    if (status == STATUS_REJECT) {
        complete = complete && job_set_text(job, &job->source.record, record->value);
        job_fail(job, &error);
    }
    if (!complete) {
        job_reserve_give(reserve, job);
        return NULL;
    }
    return job;
}
