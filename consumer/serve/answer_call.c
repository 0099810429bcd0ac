#include "consumer/serve/answer_call.h"

#include "consumer/serve/answer_body.h"
#include "consumer/serve/answer_stream.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A stream's status line is sent with its first event; a fault that is found sooner has its own status.
enum { STREAM_BEGIN_MS = 5000 };
// A worker's own answer, that the deadline has passed, may take this long.
enum { DEADLINE_GRACE_S = 5 };

struct asked {
    bool is_chat, streams, include_usage;
    int64_t limit_s; // over Kafka: how long a result is awaited
};

// False: the reply says why.
static bool read_stream(struct call *call, const struct value *object, struct asked *asked)
{
    const struct value *stream = value_get(object, "stream"), *options = value_get(object, "stream_options");
    if (stream && stream->kind != VALUE_NULL && stream->kind != VALUE_BOOL) {
        reply_error(&call->reply, 400, "invalid_type", "stream", "stream: expected a boolean, got %s",
                    value_kind_name(stream->kind));
        return false;
    }
    asked->streams = stream && stream->kind == VALUE_BOOL && stream->boolean;
    if (!options || options->kind == VALUE_NULL)
        return true;
    const struct value *usage = value_get(options, "include_usage");
    if (!asked->streams)
        reply_error(&call->reply, 400, "invalid_value", "stream_options",
                    "stream_options: allowed only if stream is true");
    else if (options->kind != VALUE_OBJECT || (usage && usage->kind != VALUE_BOOL))
        reply_error(&call->reply, 400, "invalid_type", "stream_options",
                    "stream_options: expected an object with a boolean include_usage");
    else {
        asked->include_usage = usage && usage->boolean;
        return true;
    }
    return false;
}

// The prompts of a list that are jobs of their own; an array with one item is the prompt itself. NULL: there
// is no such list.
static const struct value *list_of_prompts(const struct value *object)
{
    const struct value *prompt = value_get(object, "prompt");
    bool is_list =
        prompt && prompt->kind == VALUE_ARRAY && prompt->array.n_items > 1 &&
        (prompt->array.items[0].kind == VALUE_STRING || prompt->array.items[0].kind == VALUE_ARRAY);
    return is_list ? prompt : NULL;
}

// Writes a job's record: the request without what concerns its transport, with a priority if it has none, and
// with `prompt` (NULL: its own).
static void write_record(const struct call *call, const char *name, const struct value *object,
                         const struct value *prompt, struct buffer *record)
{
    buffer_add_format(record, "{\"custom_id\":\"%s\",\"method\":\"POST\",\"url\":\"%s\",\"body\":{", name,
                      call->path);
    for (size_t i = 0; i < object->object.n_members; i++) {
        const struct value_member *member = &object->object.members[i];
        if (text_equals_string(member->key, "stream") || text_equals_string(member->key, "stream_options"))
            continue;
        json_encode_string(member->key, record);
        buffer_add_byte(record, ':');
        json_encode(prompt && text_equals_string(member->key, "prompt") ? prompt : &member->value, record);
        buffer_add_byte(record, ',');
    }
    if (!value_get(object, "priority"))
        buffer_add_format(record, "\"priority\":%d,", JOB_PRIORITY_MAX);
    if (call->serve->answers && !value_get(object, "deadline"))
        buffer_add_format(record, "\"deadline\":%lld,",
                          (long long)(clock_wall_us() / 1000000 + ANSWER_TOPICS_LIMIT_S));
    if (!record->failed && record->data[record->size - 1] == ',')
        record->size--;
    buffer_add_string(record, "}}");
}

// The records of a request's jobs, one after another in `bytes`; records[i] ends at ends[i].
struct records {
    struct buffer bytes;
    size_t ends[PENDING_JOBS_MAX], n;
    struct text texts[PENDING_JOBS_MAX]; // when all are written
};

// False: the reply says why.
static bool write_records(struct call *call, const char *id, const struct value *object,
                          struct records *records)
{
    const struct value *list = list_of_prompts(object);
    char name[SERVE_ID_BYTES + 24];
    records->n = list ? list->array.n_items : 1;
    records->bytes.size_max = CALL_BODY_BYTES_MAX;
    if (records->n > PENDING_JOBS_MAX) {
        reply_error(&call->reply, 400, "invalid_value", "prompt",
                    "prompt: expected at most %d prompts, got %zu", PENDING_JOBS_MAX, records->n);
        return false;
    }
    for (size_t i = 0; i < records->n; i++) {
        snprintf(name, sizeof name, list ? "%s-%zu" : "%s", id, i);
        write_record(call, name, object, list ? &list->array.items[i] : NULL, &records->bytes);
        records->ends[i] = records->bytes.size;
    }
    if (records->bytes.failed) {
        reply_error(&call->reply, 413, "request_too_large", NULL,
                    "The request's jobs have more than %d bytes.", CALL_BODY_BYTES_MAX);
        return false;
    }
    for (size_t i = 0, begin = 0; i < records->n; begin = records->ends[i++])
        records->texts[i] = (struct text){records->bytes.data + begin, records->ends[i] - begin};
    return true;
}

// Refuses at once what no worker would compute. False: the reply says why.
static bool check_record(struct call *call, const struct asked *asked, struct text record)
{
    struct error error;
    struct job *job = job_create();
    if (!job) {
        reply_error(&call->reply, 503, "out_of_memory", NULL, "reading the request: out of memory");
        return false;
    }
    bool is_good = job_decode(job, record, ENCODING_JSON, &error) == STATUS_OK;
    if (!is_good)
        answer_body_refuse(job, &error, asked->is_chat, &call->reply.body, &call->reply.status);
    job_destroy(job);
    return is_good;
}

static void ignore_model(void *context, struct text model, int64_t started_at_us)
{
    (void)context, (void)model, (void)started_at_us;
}

// A front without workers would let its clients wait for ever. False: the reply says so.
static bool check_workers(struct call *call)
{
    struct error error;
    int64_t n_alive = 0;
    if (call->serve->config.has_worker ||
        call->serve->answers) // over Kafka nobody knows them: the deadline ends it
        return true;
    enum status status = store_models(serve_lock(call->serve), ignore_model, NULL, &n_alive, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (n_alive == 0)
        reply_error(&call->reply, 503, "no_worker", NULL, "No worker serves this store.");
    return status == STATUS_OK && n_alive != 0;
}

static void refuse_end(struct call *call, enum pending_end end, const struct error *error)
{
    if (end == PENDING_FAULT)
        reply_fault(&call->reply, error);
    else if (end == PENDING_EXPIRED)
        reply_error(&call->reply, 504, "deadline_exceeded", NULL,
                    "No worker answered before the request's deadline.");
    else if (end == PENDING_GONE)
        reply_error(&call->reply, 400, "client_closed", NULL,
                    "The client closed its connection while it waited.");
    else
        reply_error(&call->reply, 503, "stopping", NULL, "The server is stopping.");
}

static void reply_answer(struct call *call, struct pending_answer *pending)
{
    buffer_finish(&call->reply.body);
    call->reply.body = pending->body;
    call->reply.status = pending->status;
    pending->body = (struct buffer){0};
}

// The stream begins with the first text or the answer, or after STREAM_BEGIN_MS without either.
static void reply_stream(struct call *call, const struct asked *asked, struct pending_answer *pending)
{
    call->reply.content_type = "text/event-stream; charset=utf-8";
    call->reply.stream = answer_stream_create(pending, asked->is_chat, asked->include_usage);
    if (!call->reply.stream)
        reply_error(&call->reply, 503, "out_of_memory", NULL, "streaming: out of memory");
}

static void wait_and_reply(struct call *call, const struct asked *asked, struct pending_answer *pending)
{
    struct error error;
    enum pending_end end = pending_answer_wait(pending, asked->streams ? STREAM_BEGIN_MS : -1, &error);
    if (end == PENDING_LATE || end == PENDING_TEXT) {
        reply_stream(call, asked, pending);
        return;
    }
    if (end != PENDING_ANSWERED) {
        refuse_end(call, end, &error);
        return;
    }
    if (asked->streams && pending->status == 200)
        reply_stream(call, asked, pending);
    else
        reply_answer(call, pending);
}

static void submit_and_reply(struct call *call, const struct asked *asked, const char *id,
                             const struct records *records)
{
    struct error error;
    struct pending_answer pending = {.serve = call->serve,
                                     .socket = call->socket,
                                     .until_ms = call->serve->answers
                                                     ? clock_ms() + (asked->limit_s + DEADLINE_GRACE_S) * 1000
                                                     : 0,
                                     .is_streamed = asked->streams && call->serve->config.has_worker};
    snprintf(pending.id, sizeof pending.id, "%s", id);
    if (pending_answer_submit(&pending, records->texts, records->n, &error) == STATUS_OK)
        wait_and_reply(call, asked, &pending);
    else
        reply_fault(&call->reply, &error);
    pending_answer_finish(&pending);
}

static int64_t limit_of(const struct value *object)
{
    const struct value *deadline = value_get(object, "deadline");
    int64_t at_s, now_s = clock_wall_us() / 1000000;
    if (!deadline || !value_whole_number(deadline, &at_s) || at_s - now_s > ANSWER_TOPICS_LIMIT_S)
        return ANSWER_TOPICS_LIMIT_S;
    return at_s > now_s ? at_s - now_s : 0;
}

static void answer_object(struct call *call, const struct value *object, const struct asked *asked,
                          struct records *records)
{
    char id[SERVE_ID_BYTES];
    if (!serve_new_id(id, "", 24)) {
        reply_error(&call->reply, 500, NULL, NULL, "no random bytes for an id");
        return;
    }
    bool is_good = write_records(call, id, object, records);
    for (size_t i = 0; is_good && i < records->n; i++)
        is_good = check_record(call, asked, records->texts[i]);
    if (is_good && check_workers(call))
        submit_and_reply(call, asked, id, records);
}

void answer_call(struct call *call)
{
    struct arena arena = {0};
    struct value object;
    struct asked asked = {.is_chat = strcmp(call->path, "/v1/chat/completions") == 0};
    struct records *records = calloc(1, sizeof *records);
    if (!records)
        reply_error(&call->reply, 503, "out_of_memory", NULL, "reading the request: out of memory");
    else if (call_read_object(call, &arena, &object) && read_stream(call, &object, &asked)) {
        asked.limit_s = limit_of(&object);
        answer_object(call, &object, &asked, records);
    }
    if (records)
        buffer_finish(&records->bytes);
    free(records);
    arena_finish(&arena);
}
