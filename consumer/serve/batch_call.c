#include "consumer/serve/batch_call.h"

#include "consumer/serve/batch_check.h"
#include "consumer/serve/serve_folder.h"
#include "schemas/base/clock.h"
#include "schemas/task.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    WINDOW_S = 24 * 3600,
    METADATA_MAX = 16, // OpenAI's limits
    METADATA_KEY_MAX = 64,
    METADATA_VALUE_MAX = 512,
    EXPIRES_S_MIN = 3600,
    EXPIRES_S_MAX = 2592000,
};

// ---- writing ----

static const char *status_of(const struct served_batch *batch)
{
    const struct served_batch *b = batch;
    int64_t n_ended = b->jobs.n_done + b->jobs.n_failed + b->jobs.n_cancelled;
    if (b->at_us.completed)
        return "completed";
    if (b->at_us.failed)
        return "failed";
    if (b->at_us.expired)
        return "expired";
    if (b->at_us.cancelled)
        return "cancelled";
    if (b->at_us.cancelling)
        return "cancelling";
    if (b->at_us.finalizing || (b->at_us.in_progress && n_ended == b->n_requests))
        return "finalizing";
    return b->at_us.in_progress ? "in_progress" : "validating";
}

static void add_times(struct buffer *out, const struct served_batch *batch)
{
    add_seconds(out, "created_at", batch->at_us.created);
    add_seconds(out, "in_progress_at", batch->at_us.in_progress);
    add_seconds(out, "expires_at", batch->at_us.expires);
    add_seconds(out, "finalizing_at", batch->at_us.finalizing);
    add_seconds(out, "completed_at", batch->at_us.completed);
    add_seconds(out, "failed_at", batch->at_us.failed);
    add_seconds(out, "expired_at", batch->at_us.expired);
    add_seconds(out, "cancelling_at", batch->at_us.cancelling);
    add_seconds(out, "cancelled_at", batch->at_us.cancelled);
}

static void add_batch(struct buffer *out, const struct served_batch *batch)
{
    buffer_add_byte(out, '{');
    add_text(out, "id", batch->id);
    buffer_add_string(out, ",\"object\":\"batch\",");
    add_text(out, "endpoint", batch->endpoint);
    buffer_add_string(out, ",\"errors\":");
    if (batch->failure.size) {
        buffer_add_string(out, "{\"object\":\"list\",\"data\":[{\"code\":\"invalid_file\",\"line\":null,");
        add_text(out, "message", batch->failure);
        buffer_add_string(out, ",\"param\":null}]},");
    } else {
        buffer_add_string(out, "null,");
    }
    add_text(out, "input_file_id", batch->input_file);
    buffer_add_byte(out, ',');
    add_text(out, "completion_window", batch->completion_window);
    buffer_add_format(out, ",\"status\":\"%s\",", status_of(batch));
    add_text(out, "output_file_id", batch->n_answered ? batch->output_file : (struct text){0});
    buffer_add_byte(out, ',');
    add_text(out, "error_file_id", batch->n_refused ? batch->error_file : (struct text){0});
    add_times(out, batch);
    // the dataset may have been deleted since
    int64_t n_done = batch->jobs.n_done > batch->n_answered ? batch->jobs.n_done : batch->n_answered;
    buffer_add_format(out, ",\"request_counts\":{\"total\":%lld,\"completed\":%lld,\"failed\":%lld}",
                      (long long)batch->n_requests, (long long)n_done, (long long)batch->jobs.n_failed);
    buffer_add_string(out, ",\"metadata\":");
    buffer_add_text(out, batch->metadata.size ? batch->metadata : TEXT("null"));
    buffer_add_byte(out, '}');
}

static void write_batch(void *context, const struct served_batch *batch)
{
    add_batch(context, batch);
}

// ---- creating ----

// The fields of the body. Texts point into the arena.
struct wanted {
    struct text input_file, endpoint, window;
    struct buffer metadata; // a JSON object; size 0: none
    int64_t output_expires_s;
};

static bool refuse_value(struct call *call, const char *param, const char *expected, const struct value *got)
{
    char description[VALUE_DESCRIPTION_BYTES] = "";
    if (got)
        value_describe(got, description);
    if (got)
        reply_error(&call->reply, 400, "invalid_value", param, "%s: expected %s, got %s", param, expected,
                    description);
    else
        reply_error(&call->reply, 400, "missing_required_parameter", param, "%s: missing; expected %s", param,
                    expected);
    return false;
}

static bool read_text(struct call *call, const struct value *object, const char *key, const char *expected,
                      struct text *text)
{
    const struct value *value = value_get(object, key);
    if (!value || value->kind != VALUE_STRING || value->text.size == 0)
        return refuse_value(call, key, expected, value);
    *text = value->text;
    return true;
}

static size_t n_characters(struct text text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++)
        n += (text.data[i] & 0xC0) != 0x80; // the decoder has checked that it is UTF-8
    return n;
}

static bool read_metadata(struct call *call, const struct value *object, struct buffer *metadata)
{
    const struct value *value = value_get(object, "metadata");
    if (!value || value->kind == VALUE_NULL)
        return true;
    if (value->kind != VALUE_OBJECT || value->object.n_members > METADATA_MAX)
        return refuse_value(call, "metadata", "an object of at most 16 texts", value);
    for (size_t i = 0; i < value->object.n_members; i++) {
        const struct value_member *member = &value->object.members[i];
        if (n_characters(member->key) > METADATA_KEY_MAX)
            return refuse_value(call, "metadata", "keys of at most 64 characters", value);
        if (member->value.kind != VALUE_STRING || n_characters(member->value.text) > METADATA_VALUE_MAX)
            return refuse_value(call, "metadata", "texts of at most 512 characters", &member->value);
    }
    json_encode(value, metadata);
    return true;
}

static bool read_expiry(struct call *call, const struct value *object, int64_t *expires_s)
{
    const struct value *value = value_get(object, "output_expires_after");
    if (!value || value->kind == VALUE_NULL)
        return true;
    const struct value *anchor = value_get(value, "anchor"), *seconds = value_get(value, "seconds");
    if (!anchor || anchor->kind != VALUE_STRING || !text_equals_string(anchor->text, "created_at"))
        return refuse_value(call, "output_expires_after.anchor", "\"created_at\"", anchor);
    if (!seconds || !value_whole_number(seconds, expires_s) || *expires_s < EXPIRES_S_MIN ||
        *expires_s > EXPIRES_S_MAX)
        return refuse_value(call, "output_expires_after.seconds", "a number from 3600 to 2592000", seconds);
    return true;
}

static bool check_members(struct call *call, const struct value *object)
{
    static const char *const known[] = {"input_file_id", "endpoint", "completion_window", "metadata",
                                        "output_expires_after"};
    for (size_t i = 0; i < object->object.n_members; i++) {
        struct text key = object->object.members[i].key;
        bool is_known = false;
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++)
            is_known = is_known || text_equals_string(key, known[j]);
        if (is_known)
            continue;
        reply_error(&call->reply, 400, "unknown_parameter", NULL, "Unrecognized request argument: %.*s",
                    (int)(key.size < 64 ? key.size : 64), key.data);
        return false;
    }
    return true;
}

static bool read_wanted(struct call *call, const struct value *object, struct wanted *wanted)
{
    if (!check_members(call, object) ||
        !read_text(call, object, "input_file_id", "the id of a file", &wanted->input_file) ||
        !read_text(call, object, "endpoint", "an endpoint", &wanted->endpoint) ||
        !read_text(call, object, "completion_window", "\"24h\"", &wanted->window))
        return false;
    if (task_path(wanted->endpoint) == PATH_NONE)
        return refuse_value(call, "endpoint", TASK_PATHS("or"), value_get(object, "endpoint"));
    if (!text_equals_string(wanted->window, "24h"))
        return refuse_value(call, "completion_window", "\"24h\"", value_get(object, "completion_window"));
    return read_metadata(call, object, &wanted->metadata) &&
           read_expiry(call, object, &wanted->output_expires_s);
}

static void note_purpose(void *context, const struct served_file *file)
{
    *(bool *)context = text_equals_string(file->purpose, "batch");
}

// False: the reply says why.
static bool find_input(struct call *call, struct text id)
{
    struct error error;
    bool found = false, is_for_batches = false;
    enum status status = store_file_find(serve_lock(call->serve), text_from_string(call->owner), id,
                                         note_purpose, &is_for_batches, &found, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!found)
        reply_error(&call->reply, 404, "not_found", "input_file_id", "No such File object: %.*s",
                    (int)(id.size < 100 ? id.size : 100), id.data);
    else if (!is_for_batches)
        reply_error(&call->reply, 400, "invalid_purpose", "input_file_id",
                    "input_file_id: expected a file with the purpose batch");
    return status == STATUS_OK && found && is_for_batches;
}

// An error that names the lines, with OpenAI's list of a failed batch beside it.
static void refuse_faults(struct call *call, const struct batch_check *check)
{
    struct buffer text = {0}, *out = &call->reply.body;
    int64_t n_listed = check->n_faults < BATCH_FAULTS_MAX ? check->n_faults : BATCH_FAULTS_MAX;
    for (int64_t i = 0; i < n_listed && i < 5; i++) {
        buffer_add_string(&text, i ? "; " : "");
        if (check->faults[i].line)
            buffer_add_format(&text, "line %lld: ", (long long)check->faults[i].line);
        buffer_add_string(&text, check->faults[i].message);
    }
    if (check->n_faults > 5)
        buffer_add_format(&text, "; and %lld more", (long long)check->n_faults - 5);
    reply_error(&call->reply, 400, check->faults[0].code, "input_file_id", "The input file is refused: %s",
                text.failed ? "" : text.data);
    buffer_finish(&text);
    if (out->failed || out->size == 0)
        return;
    out->size--; // the closing brace
    buffer_add_string(out, ",\"errors\":{\"object\":\"list\",\"data\":[");
    for (int64_t i = 0; i < n_listed; i++) {
        const struct batch_fault *fault = &check->faults[i];
        buffer_add_string(out, i ? ",{" : "{");
        add_text(out, "code", text_from_string(fault->code));
        buffer_add_byte(out, ',');
        add_text(out, "message", text_from_string(fault->message));
        buffer_add_byte(out, ',');
        add_text(out, "param", text_from_string(fault->param));
        if (fault->line)
            buffer_add_format(out, ",\"line\":%lld}", (long long)fault->line);
        else
            buffer_add_string(out, ",\"line\":null}");
    }
    buffer_add_string(out, "]}}");
}

// *n_requests: of the file. False: the reply says why.
static bool check_input(struct call *call, const struct wanted *wanted, int64_t *n_requests)
{
    char path[PATH_MAX], endpoint[64];
    struct error error;
    struct batch_check *check = malloc(sizeof *check);
    snprintf(endpoint, sizeof endpoint, "%.*s", (int)wanted->endpoint.size, wanted->endpoint.data);
    enum status status = STATUS_OK;
    if (!check || !serve_folder_path(call->serve, wanted->input_file, path))
        status = error_memory(&error, STATUS_RETRY, "checking the file");
    else
        status = batch_check(check, path, endpoint, &error);
    bool is_good = status == STATUS_OK && check->n_faults == 0;
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!is_good)
        refuse_faults(call, check);
    else
        *n_requests = check->n_requests;
    free(check);
    return is_good;
}

static void add_new_batch(struct call *call, const struct wanted *wanted, int64_t n_requests)
{
    char id[SERVE_ID_BYTES], output[SERVE_ID_BYTES], errors[SERVE_ID_BYTES];
    struct error error;
    bool found = false;
    if (!serve_new_id(id, "batch_", 32) || !serve_new_id(output, "file-", 24) ||
        !serve_new_id(errors, "file-", 24)) {
        reply_error(&call->reply, 500, NULL, NULL, "no random bytes for an id");
        return;
    }
    int64_t now_us = clock_wall_us();
    struct served_batch batch = {.id = text_from_string(id),
                                 .owner = text_from_string(call->owner),
                                 .input_file = wanted->input_file,
                                 .endpoint = wanted->endpoint,
                                 .completion_window = wanted->window,
                                 .metadata = {wanted->metadata.data, wanted->metadata.size},
                                 .output_file = text_from_string(output),
                                 .error_file = text_from_string(errors),
                                 .n_requests = n_requests,
                                 .output_expires_s = wanted->output_expires_s,
                                 .at_us = {.created = now_us,
                                           .expires = now_us + WINDOW_S * INT64_C(1000000)}};
    enum status status = store_batch_add(serve_lock(call->serve), &batch, &found, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!found)
        reply_error(&call->reply, 404, "not_found", "input_file_id", "No such File object: %.*s",
                    (int)wanted->input_file.size, wanted->input_file.data);
    else
        add_batch(&call->reply.body, &batch);
    store_watch_announce(&call->serve->watch);
}

void batch_call_create(struct call *call)
{
    struct arena arena = {0};
    struct value object;
    struct wanted wanted = {0};
    int64_t n_requests = 0;
    if (call_read_object(call, &arena, &object) && read_wanted(call, &object, &wanted) &&
        find_input(call, wanted.input_file) && check_input(call, &wanted, &n_requests))
        add_new_batch(call, &wanted, n_requests);
    buffer_finish(&wanted.metadata);
    arena_finish(&arena);
}

// ---- reading and cancelling ----

static void list_batch(void *context, const struct served_batch *batch)
{
    struct list_writer *list = context;
    list_next(list, batch->id);
    add_batch(list->out, batch);
}

void batch_call_list(struct call *call)
{
    struct served_page page;
    struct list_writer list;
    struct error error;
    bool found, has_more;
    if (!call_read_page(call, 20, CALL_LIST_MAX, &page))
        return;
    list_begin(&list, &call->reply.body);
    enum status status = store_batches_list(serve_lock(call->serve), text_from_string(call->owner), &page,
                                            list_batch, &list, &found, &has_more, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!found)
        reply_error(&call->reply, 400, "invalid_value", "after", "after: no batch has the id %s",
                    call->query.after);
    else
        list_end(&list, has_more);
}

// Writes the batch as the reply. False: the reply says why not.
static bool find_batch(struct call *call, struct text id)
{
    struct error error;
    bool found = false;
    buffer_clear(&call->reply.body);
    enum status status = store_batch_find(serve_lock(call->serve), text_from_string(call->owner), id,
                                          write_batch, &call->reply.body, &found, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!found)
        reply_error(&call->reply, 404, "not_found", "id", "No batch found with id '%.*s'.", (int)id.size,
                    id.data);
    return status == STATUS_OK && found;
}

void batch_call_get(struct call *call, struct text id)
{
    (void)find_batch(call, id);
}

static void note_status(void *context, const struct served_batch *batch)
{
    *(const char **)context = status_of(batch);
}

void batch_call_cancel(struct call *call, struct text id)
{
    struct error error;
    bool found = false, changed = false;
    const char *now = "";
    if (!find_batch(call, id))
        return;
    struct store *store = serve_lock(call->serve);
    enum status status = store_batch_stamp(store, id, BATCH_CANCELLING, &changed, &error);
    if (status == STATUS_OK)
        status =
            store_batch_find(store, text_from_string(call->owner), id, note_status, &now, &found, &error);
    serve_unlock(call->serve);
    store_watch_announce(&call->serve->watch);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!changed && strcmp(now, "cancelling") != 0 && strcmp(now, "cancelled") != 0)
        reply_error(&call->reply, 409, "batch_ended", "id", "Cannot cancel a batch with status '%s'.", now);
    else
        (void)find_batch(call, id);
}
