// Reads, writes and compares the bytes of job records.
#include "schemas/encoding.h"
#include "schemas/request.h"
#include "schemas/schema_annotations.h"

#include <stdalign.h>

enum { FIRST_BYTES = 4096 }; // suffices for the value tree of a job of 1 KB

// True if random draws decide the answer. A temperature of 0 is greedy.
static bool draws_tokens(const struct request *request, const struct sampling *defaults)
{
    const struct sampling *given = &request->sampling;
    if (request->task != TASK_GENERATE)
        return false;
    bool is_default = !(given->given & SAMPLING_TEMPERATURE) && (defaults->given & SAMPLING_TEMPERATURE);
    return (is_default ? defaults->temperature : given->temperature) > 0;
}

// Removes annotations from the schema of `constraint`. A text that is not JSON stays unchanged; it is refused
// when it is compiled. False: out of memory.
static bool strip_schema(struct constraint *constraint, struct arena *arena)
{
    struct value schema, bare;
    struct error ignored;
    struct buffer text = {0};
    if (constraint->kind != CONSTRAINT_JSON_SCHEMA ||
        json_decode(constraint->source, arena, &schema, &ignored) != STATUS_OK)
        return true;
    bool complete = schema_without_annotations(&schema, arena, &bare);
    if (complete)
        json_encode(&bare, &text);
    const char *copy = complete && !text.failed ? arena_copy(arena, text.data, text.size) : NULL;
    if (copy)
        constraint->source = (struct text){copy, text.size};
    buffer_finish(&text);
    return copy != NULL;
}

static bool is_open(const struct request *request)
{
    return request->task == TASK_GENERATE && !request->constraint.closes &&
           request->best_of <= (request->n > 0 ? request->n : 1);
}

bool job_hash_request(struct job *job, const struct sampling *defaults, bool time_is_read)
{
    const struct request *request = &job->request;
    bool is_drawn = draws_tokens(request, defaults);
    if ((is_drawn && !request->sampling.seed_given) || request->tools.choice != TOOLS_NONE)
        return true;
    struct job hashed = *job;
    hashed.request.sampling.seed_given = is_drawn; // a seed has no effect on greedy answers
    hashed.request.stop.max_tokens = -1;
    alignas(16) unsigned char first[FIRST_BYTES];
    struct arena arena;
    struct value object;
    struct buffer bytes = {0};
    arena_init_within(&arena, first, sizeof first);
    bool complete =
        strip_schema(&hashed.request.constraint, &arena) && request_encode_alone(&hashed, &arena, &object);
    if (complete)
        msgpack_encode(&object, &bytes);
    for (int32_t i = 0; i < job->result.n_warnings; i++) { // warnings are part of the result
        buffer_add_byte(&bytes, '\0');
        buffer_add_text(&bytes, job->result.warnings[i]);
    }
    if (time_is_read && request->prompt.kind == PROMPT_MESSAGES)
        buffer_add_format(&bytes, "%c%lld", '\0', (long long)job_submitted_s(job));
    if (complete && !bytes.failed && is_open(request))
        job->open_hash = digest_of(bytes.data, bytes.size);
    buffer_add_format(&bytes, "%cmax_tokens %d", '\0', request->stop.max_tokens);
    complete = complete && !bytes.failed;
    if (complete)
        job->request_hash = digest_of(bytes.data, bytes.size);
    buffer_finish(&bytes);
    arena_finish(&arena);
    return complete;
}

static enum status decode_root(struct decoding *decoding, struct text record, enum encoding encoding,
                               struct value *root)
{
    struct arena *arena = &decoding->job->arena;
    if (record.size > JOB_RECORD_BYTES_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "record: expected at most %d bytes, got %zu%s", JOB_RECORD_BYTES_MAX, record.size,
                         // `sheaf submit` truncates a record to this size.
                         record.size == JOB_RECORD_BYTES_MAX + 1 ? " or more" : "");
    enum status status = encoding == ENCODING_JSON
                             ? json_decode(encoding_body(record), arena, root, decoding->error)
                             : msgpack_decode(record, arena, root, decoding->error);
    if (status == STATUS_OK && root->kind != VALUE_OBJECT)
        return decoding_expected(decoding, "record", "an object", root);
    return status;
}

enum status job_decode(struct job *job, struct text record, enum encoding encoding, struct error *error)
{
    struct decoding decoding = request_decoding(job, error);
    struct value root;
    job->source.encoding = encoding;
    enum status status = decode_root(&decoding, record, encoding, &root);
    if (status != STATUS_OK)
        return status;
    if (value_get(&root, "body"))
        return openai_line_decode(&decoding, &root);
    decoding.is_line = value_get(&root, "custom_id") || value_get(&root, "url") || value_get(&root, "method");
    status = request_collect(&decoding, &root, COLLECT_ALL);
    if (status == STATUS_OK)
        status = request_decode_identity(&decoding);
    return status == STATUS_OK ? request_decode(&decoding) : status;
}

void job_encode(const struct job *job, enum encoding encoding, struct buffer *out)
{
    alignas(16) unsigned char first[FIRST_BYTES];
    struct arena arena;
    struct value object;
    arena_init_within(&arena, first, sizeof first);
    if (!request_encode(job, &arena, &object))
        out->failed = true;
    else if (encoding == ENCODING_JSON)
        json_encode(&object, out);
    else
        msgpack_encode(&object, out);
    arena_finish(&arena);
}

// Encodes the part of a record that the answer depends on. False: the record is not a job, or memory ran out.
static bool encode_request(struct text record, enum encoding encoding, struct buffer *bytes)
{
    struct job *job = job_create();
    struct arena arena = {0};
    struct value object;
    struct error ignored;
    bool complete = job && job_decode(job, record, encoding, &ignored) == STATUS_OK &&
                    request_encode_alone(job, &arena, &object);
    if (complete)
        msgpack_encode(&object, bytes);
    if (complete)
        msgpack_encode(&job->metadata, bytes); // of the result, not of the answer
    for (int32_t i = 0; complete && i < job->result.n_warnings; i++) {
        buffer_add_byte(bytes, '\0');
        buffer_add_text(bytes, job->result.warnings[i]);
    }
    if (complete)
        buffer_add_format(bytes, "%c%d", '\0', job->naming);
    arena_finish(&arena);
    job_destroy(job);
    return complete && !bytes->failed;
}

bool job_records_equal(struct text a, struct text b, enum encoding encoding)
{
    struct buffer bytes[2] = {{0}};
    bool are = text_equal(a, b) ||
               (encode_request(a, encoding, &bytes[0]) && encode_request(b, encoding, &bytes[1]) &&
                text_equal((struct text){bytes[0].data, bytes[0].size},
                           (struct text){bytes[1].data, bytes[1].size}));
    for (int i = 0; i < 2; i++)
        buffer_finish(&bytes[i]);
    return are;
}
