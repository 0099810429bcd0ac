#include "engine/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>

struct pattern {
    pcre2_code *code;
    pcre2_match_context *context;
};

static enum status out_of_memory(struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for a split pattern");
}

static enum status compile(struct pattern *pattern, struct text expression, struct error *error)
{
    int code;
    size_t offset;
    pattern->code = pcre2_compile((PCRE2_SPTR)expression.data, expression.size,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &offset, NULL);
    if (!pattern->code && code == PCRE2_ERROR_HEAP_FAILED)
        return out_of_memory(error);
    if (!pattern->code) {
        char message[256];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "split pattern: %s at byte %zu", message,
                         offset);
    }
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE); // without it the same matches, slower
    pattern->context = pcre2_match_context_create(NULL);
    if (!pattern->context)
        return out_of_memory(error);
    pcre2_set_match_limit(pattern->context, UINT32_MAX);
    pcre2_set_depth_limit(pattern->context, UINT32_MAX);
    pcre2_set_heap_limit(pattern->context, UINT32_MAX);
    return STATUS_OK;
}

enum status pattern_open(struct pattern **pattern, struct text expression, struct error *error)
{
    *pattern = NULL;
    if (expression.size > PATTERN_BYTES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "split pattern of %zu bytes, at most %d",
                         expression.size, PATTERN_BYTES_MAX);
    struct pattern *opened = calloc(1, sizeof *opened);
    if (!opened)
        return out_of_memory(error);
    enum status status = compile(opened, expression, error);
    if (status == STATUS_OK)
        *pattern = opened;
    else
        pattern_close(opened);
    return status;
}

void pattern_close(struct pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_match_context_free(pattern->context);
    pcre2_code_free(pattern->code);
    free(pattern);
}

// A match, PCRE2_ERROR_NOMATCH, or lack of memory. The machine-code matcher has a small stack: where it does
// not suffice the interpreter, which uses the heap, does the match over.
static int match(const struct pattern *pattern, struct text text, size_t at, uint32_t options,
                 pcre2_match_data *data)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.data ? text.data : "");
    int result = pcre2_match(pattern->code, subject, text.size, at, options, data, pattern->context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(pattern->code, subject, text.size, at, options | PCRE2_NO_JIT, data,
                             pattern->context);
    return result;
}

bool pattern_find(const struct pattern *pattern, struct text text, size_t at, size_t *start, size_t *end)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!data)
        return false;
    int result = match(pattern, text, at, PCRE2_NOTEMPTY, data);
    if (result >= 0) {
        const size_t *offsets = pcre2_get_ovector_pointer(data);
        *start = offsets[0];
        *end = offsets[1];
    } else {
        *start = *end = text.size;
    }
    pcre2_match_data_free(data);
    return result >= 0 || result == PCRE2_ERROR_NOMATCH;
}
