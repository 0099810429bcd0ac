#include "consumer/serve/batch_step.h"

#include "consumer/command/files/input_queue.h"
#include "consumer/command/files/output.h"
#include "consumer/observe/log.h"
#include "consumer/serve/batch_topics.h"
#include "consumer/serve/serve_folder.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void copy_text(char *to, size_t size, struct text text)
{
    snprintf(to, size, "%.*s", (int)text.size, text.data);
}

void open_batch_copy(struct open_batch *copy, const struct served_batch *batch)
{
    *copy =
        (struct open_batch){.n_requests = batch->n_requests,
                            .n_submitted = batch->jobs.n_submitted,
                            .n_ended = batch->jobs.n_done + batch->jobs.n_failed + batch->jobs.n_cancelled,
                            .output_expires_s = batch->output_expires_s,
                            .expires_at_us = batch->at_us.expires,
                            .dataset_exists = batch->jobs.exists,
                            .dataset_is_cancelled = batch->jobs.is_cancelled,
                            .is_in_progress = batch->at_us.in_progress != 0,
                            .is_cancelling = batch->at_us.cancelling != 0};
    copy_text(copy->id, sizeof copy->id, batch->id);
    copy_text(copy->owner, sizeof copy->owner, batch->owner);
    copy_text(copy->input_file, sizeof copy->input_file, batch->input_file);
    copy_text(copy->output_file, sizeof copy->output_file, batch->output_file);
    copy_text(copy->error_file, sizeof copy->error_file, batch->error_file);
}

// ---- submitting ----

static enum status fail_batch(struct store *store, const struct open_batch *batch, const char *why,
                              struct error *error)
{
    bool changed;
    const struct batch_outcome outcome = {.end = BATCH_FAILED, .failure = why};
    log_write(LOG_WARNING, "%s failed: %s", batch->id, why);
    return store_batch_end(store, text_from_string(batch->id), &outcome, &changed, error);
}

static enum status queue_lines(struct serve *serve, struct store *store, const struct open_batch *batch,
                               const char *path, struct error *error)
{
    if (serve->topics)
        return batch_topics_submit(serve->topics, text_from_string(batch->id), path, error);
    struct input input;
    size_t n_added;
    struct text dataset = text_from_string(batch->id);
    enum status status = input_open(&input, path, dataset, error);
    if (status != STATUS_OK)
        return status;
    status = input_queue(&input, store, dataset, false, &n_added, error);
    input_close(&input);
    return status;
}

static enum status submit_batch(struct serve *serve, struct store *store, const struct open_batch *batch,
                                struct error *error)
{
    char path[PATH_MAX];
    bool changed = false;
    struct text id = text_from_string(batch->id);
    if (!serve_folder_path(serve, text_from_string(batch->input_file), path) || access(path, F_OK) != 0)
        return fail_batch(store, batch, "its input file is missing", error);
    enum status status = queue_lines(serve, store, batch, path, error);
    if (status != STATUS_OK && error->code == ERROR_CANCELLED)
        return store_batch_stamp(store, id, BATCH_CANCELLING, &changed, error);
    if (status != STATUS_OK)
        return status;
    status = store_batch_stamp(store, id, BATCH_IN_PROGRESS, &changed, error);
    if (status == STATUS_OK && changed)
        log_write(LOG_INFO, "%s: %lld requests are queued", batch->id, (long long)batch->n_requests);
    return status;
}

// ---- writing its files ----

struct collecting {
    struct output output;
    bool has_expired;
};

// OpenAI's line of a request that was not computed in time.
static enum status add_expired(struct output *output, const struct job *job, struct error *error)
{
    buffer_clear(&output->line);
    buffer_add_string(&output->line, "{\"id\":\"batch_req_");
    buffer_add_text(&output->line, job->job_id); // BATCH-LINE: nothing to escape
    buffer_add_string(&output->line, "\",\"custom_id\":");
    json_encode_string(job->custom_id, &output->line);
    buffer_add_string(&output->line,
                      ",\"response\":null,\"error\":{\"code\":\"batch_expired\",\"message\":\"This request "
                      "could not be executed before the completion window expired.\"}}\n");
    output->n_results++;
    output->n_failed++;
    if (!output->line.failed &&
        fwrite(output->line.data, 1, output->line.size, output->errors.file) == output->line.size)
        return STATUS_OK;
    return error_set(error, STATUS_RETRY, ERROR_FILE, "writing an error file");
}

static enum status collect_record(void *context, struct text record, struct error *error)
{
    struct collecting *collecting = context;
    if (!collecting->has_expired)
        return output_add(&collecting->output, record, error);
    struct job *job = job_create();
    if (!job)
        return error_memory(error, STATUS_RETRY, "reading a result");
    enum status status = result_decode(job, record, ENCODING_JSON, error);
    if (status == STATUS_OK)
        status = job->result.status == RESULT_CANCELLED ? add_expired(&collecting->output, job, error)
                                                        : output_add(&collecting->output, record, error);
    job_destroy(job);
    return status;
}

// The row of a file that was written; `exists` false: it has no line, and is removed.
static void describe_file(struct served_file *file, const struct open_batch *batch, const char *id,
                          const char *path, char name[SERVE_ID_BYTES + 16], const char *suffix, bool exists)
{
    struct stat about = {0};
    int64_t now_us = clock_wall_us();
    snprintf(name, SERVE_ID_BYTES + 16, "%s_%s.jsonl", batch->id, suffix);
    if (!exists)
        unlink(path);
    else if (stat(path, &about) != 0)
        about.st_size = 0;
    *file =
        (struct served_file){.id = text_from_string(id),
                             .owner = text_from_string(batch->owner),
                             .filename = text_from_string(name),
                             .purpose = TEXT("batch_output"),
                             .n_bytes = about.st_size,
                             .created_at_us = now_us,
                             .expires_at_us =
                                 batch->output_expires_s ? now_us + batch->output_expires_s * 1000000 : 0};
}

static enum status write_files(struct serve *serve, struct store *store, const struct open_batch *batch,
                               struct collecting *collecting, const char *output_path, const char *error_path,
                               struct error *error)
{
    int64_t n_missing = 0;
    enum status status = output_open(&collecting->output, output_path, error_path, error);
    if (status != STATUS_OK)
        return status;
    if (serve->topics)
        status = batch_topics_collect(serve->topics, text_from_string(batch->id), &collecting->output, error);
    else if (batch->dataset_exists)
        status =
            store_collect(store, text_from_string(batch->id), collect_record, collecting, &n_missing, error);
    if (status == STATUS_OK)
        status = output_complete(&collecting->output, error);
    output_close(&collecting->output);
    return status;
}

static enum status end_batch(struct serve *serve, struct store *store, const struct open_batch *batch,
                             enum batch_end end, struct error *error)
{
    char output_path[PATH_MAX], error_path[PATH_MAX];
    char output_name[SERVE_ID_BYTES + 16], error_name[SERVE_ID_BYTES + 16];
    struct collecting collecting = {.has_expired = end == BATCH_EXPIRED};
    struct served_file output, errors;
    struct text id = text_from_string(batch->id);
    bool changed = false;
    enum status status = store_batch_stamp(store, id, BATCH_FINALIZING, &changed, error);
    if (status == STATUS_OK &&
        (!serve_folder_path(serve, text_from_string(batch->output_file), output_path) ||
         !serve_folder_path(serve, text_from_string(batch->error_file), error_path)))
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: its files have no path", batch->id);
    if (status == STATUS_OK)
        status = write_files(serve, store, batch, &collecting, output_path, error_path, error);
    if (status != STATUS_OK)
        return status;
    struct batch_outcome outcome = {.end = end,
                                    .n_answered = collecting.output.n_results - collecting.output.n_failed,
                                    .n_refused = collecting.output.n_failed};
    describe_file(&output, batch, batch->output_file, output_path, output_name, "output",
                  outcome.n_answered > 0);
    describe_file(&errors, batch, batch->error_file, error_path, error_name, "error", outcome.n_refused > 0);
    outcome.output = outcome.n_answered > 0 ? &output : NULL;
    outcome.errors = outcome.n_refused > 0 ? &errors : NULL;
    status = store_batch_end(store, id, &outcome, &changed, error);
    if (status == STATUS_OK && batch->dataset_exists && !serve->topics)
        status = store_collected(store, id, error);
    if (status == STATUS_OK && changed)
        log_write(LOG_INFO, "%s has ended: %lld answers, %lld errors", batch->id,
                  (long long)outcome.n_answered, (long long)outcome.n_refused);
    return status;
}

static enum status cancel_batch(struct serve *serve, struct store *store, const struct open_batch *batch,
                                struct error *error)
{
    int64_t n_cancelled;
    if (serve->topics)
        return batch_topics_cancel(serve->topics, batch->id, error);
    if (batch->dataset_is_cancelled) // each call writes, and each write wakes the keeper
        return STATUS_OK;
    return store_cancel(store, text_from_string(batch->id), &n_cancelled, error);
}

// Cancels the jobs, and waits for the running ones.
static enum status step_to_end(struct serve *serve, struct store *store, const struct open_batch *batch,
                               enum batch_end end, struct error *error)
{
    bool is_whole = batch->n_submitted >= batch->n_requests;
    int64_t n_jobs = serve->topics ? batch->n_requests : batch->n_submitted;
    // another server that submits it is refused from the cancellation on
    bool must_cancel = batch->n_ended < n_jobs || (batch->dataset_exists && !is_whole && !serve->topics);
    if (must_cancel && (serve->topics || !batch->dataset_is_cancelled || batch->n_ended < n_jobs))
        return cancel_batch(serve, store, batch, error);
    return end_batch(serve, store, batch, end, error);
}

enum status batch_step(struct serve *serve, struct store *store, const struct open_batch *batch,
                       struct error *error)
{
    bool has_expired = !batch->is_cancelling && clock_wall_us() >= batch->expires_at_us;
    bool is_ending = batch->is_cancelling || has_expired;
    // A cancellation on Kafka is of jobs that were submitted, so the batch is submitted all the same.
    if (!batch->is_in_progress && (!is_ending || serve->topics))
        return submit_batch(serve, store, batch, error);
    if (is_ending)
        return step_to_end(serve, store, batch, has_expired ? BATCH_EXPIRED : BATCH_CANCELLED, error);
    if (!serve->topics && (!batch->dataset_exists || batch->n_submitted < batch->n_requests))
        return fail_batch(store, batch, "its dataset was deleted from the store", error);
    return batch->n_ended < batch->n_requests ? STATUS_OK
                                              : end_batch(serve, store, batch, BATCH_COMPLETED, error);
}
