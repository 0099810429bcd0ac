#include "consumer/serve/answer_merge.h"

#include "consumer/serve/answer_body.h"
#include "schemas/value.h"

#include <stdlib.h>
#include <string.h>

bool answer_merge_add(struct answer_merge *merge, struct text record)
{
    if (merge->n == merge->capacity) {
        size_t capacity = merge->capacity ? 2 * merge->capacity : 4;
        size_t *ends = reallocarray(merge->ends, capacity, sizeof *ends);
        if (!ends)
            return false;
        merge->ends = ends;
        merge->capacity = capacity;
    }
    buffer_add_text(&merge->records, record);
    merge->ends[merge->n++] = merge->records.size;
    return !merge->records.failed;
}

void answer_merge_finish(struct answer_merge *merge)
{
    buffer_finish(&merge->records);
    free(merge->ends);
    *merge = (struct answer_merge){0};
}

struct usage {
    int64_t prompt, completion, reasoning, cached;
    bool has_cached;
};

static int64_t number_in(const struct value *object, const char *key)
{
    const struct value *value = object ? value_get(object, key) : NULL;
    int64_t number = 0;
    return value && value_whole_number(value, &number) ? number : 0;
}

static void add_usage(struct usage *sum, const struct value *body)
{
    const struct value *usage = value_get(body, "usage");
    if (!usage)
        return;
    const struct value *prompt = value_get(usage, "prompt_tokens_details");
    sum->prompt += number_in(usage, "prompt_tokens");
    sum->completion += number_in(usage, "completion_tokens");
    sum->reasoning += number_in(value_get(usage, "completion_tokens_details"), "reasoning_tokens");
    sum->cached += number_in(prompt, "cached_tokens");
    sum->has_cached = sum->has_cached || prompt;
}

static void add_choices(struct buffer *out, const struct value *body, int64_t *n)
{
    const struct value *choices = value_get(body, "choices");
    for (size_t i = 0; choices && choices->kind == VALUE_ARRAY && i < choices->array.n_items; i++) {
        const struct value *choice = &choices->array.items[i];
        buffer_add_format(out, *n ? ",{\"index\":%lld" : "{\"index\":%lld", (long long)*n);
        ++*n;
        for (size_t j = 0; choice->kind == VALUE_OBJECT && j < choice->object.n_members; j++) {
            const struct value_member *member = &choice->object.members[j];
            if (text_equals_string(member->key, "index"))
                continue;
            buffer_add_byte(out, ',');
            json_encode_string(member->key, out);
            buffer_add_byte(out, ':');
            json_encode(&member->value, out);
        }
        buffer_add_byte(out, '}');
    }
}

// The first body's members before "choices", with the id of the whole request: without the number after its
// last hyphen.
static void begin_body(struct buffer *out, const struct value *first)
{
    const struct value *id = value_get(first, "id");
    struct text text = id && id->kind == VALUE_STRING ? id->text : TEXT("");
    const char *hyphen = text.size ? memrchr(text.data, '-', text.size) : NULL;
    buffer_add_string(out, "{\"id\":");
    json_encode_string((struct text){text.data, hyphen ? (size_t)(hyphen - text.data) : text.size}, out);
    static const char *const keys[] = {"object", "created", "model", "system_fingerprint", "metadata"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct value *value = value_get(first, keys[i]);
        if (!value)
            continue;
        buffer_add_format(out, ",\"%s\":", keys[i]);
        json_encode(value, out);
    }
    buffer_add_string(out, ",\"choices\":[");
}

static void end_body(struct buffer *out, const struct usage *usage)
{
    buffer_add_format(out,
                      "],\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld",
                      (long long)usage->prompt, (long long)usage->completion,
                      (long long)(usage->prompt + usage->completion));
    if (usage->has_cached)
        buffer_add_format(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%lld}",
                          (long long)usage->cached);
    buffer_add_format(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%lld}}}",
                      (long long)usage->reasoning);
}

// Adds one record's choices. False: it is no result, or out of memory. *status other than 200: `out` is its
// error.
static bool merge_record(struct text record, bool is_first, struct buffer *out, struct usage *usage,
                         int64_t *n, int *status)
{
    struct buffer body = {0};
    struct arena arena = {0};
    struct value object;
    struct error error;
    bool is_read = answer_body_write(record, &body, status);
    struct text text = {body.data, body.size};
    if (is_read && *status != 200) {
        buffer_clear(out);
        buffer_add_text(out, text);
    } else if (is_read) {
        is_read = json_decode_spelled(text, &arena, &object, &error) == STATUS_OK;
        if (is_read && is_first)
            begin_body(out, &object);
        if (is_read)
            add_choices(out, &object, n);
        if (is_read)
            add_usage(usage, &object);
    }
    arena_finish(&arena);
    buffer_finish(&body);
    return is_read;
}

bool answer_merge_write(const struct answer_merge *merge, struct buffer *body, int *status)
{
    struct usage usage = {0};
    int64_t n = 0;
    if (merge->n == 0)
        return false;
    if (merge->n == 1)
        return answer_body_write((struct text){merge->records.data, merge->records.size}, body, status);
    for (size_t i = 0, begin = 0; i < merge->n; begin = merge->ends[i++]) {
        struct text record = {merge->records.data + begin, merge->ends[i] - begin};
        if (!merge_record(record, i == 0, body, &usage, &n, status))
            return false;
        if (*status != 200)
            return !body->failed;
    }
    end_body(body, &usage);
    return !body->failed;
}
