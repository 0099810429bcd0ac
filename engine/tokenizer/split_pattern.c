#include "engine/tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>
#include <string.h>

struct split_pattern {
    pcre2_code *code;
    pcre2_match_context *context;
};

// --- Translation to PCRE2 of what tokenizers mean ---

// PCRE2's \s includes U+180E, which lost the property White_Space in Unicode 6.3.
#define SPACES                                                                                               \
    "\\t-\\r\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

// \p{Name} with a script's name is Script_Extensions in PCRE2, but Script in Oniguruma and Rust.
static bool is_script(struct text name)
{
    static const char *const scripts[] = {"Arabic",     "Armenian", "Bengali",   "Bopomofo", "Cyrillic",
                                          "Devanagari", "Georgian", "Greek",     "Gujarati", "Gurmukhi",
                                          "Han",        "Hangul",   "Hebrew",    "Hiragana", "Kannada",
                                          "Katakana",   "Latin",    "Malayalam", "Myanmar",  "Sinhala",
                                          "Syriac",     "Tamil",    "Telugu",    "Thai"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (text_equals_string(name, scripts[i]))
            return true;
    return false;
}

// Translates the escape at expression.data[at]; returns its number of bytes.
static size_t rewrite_escape(struct text expression, size_t at, bool in_class, struct buffer *out)
{
    const char *escape = expression.data + at;
    size_t left = expression.size - at;
    char letter = left > 1 ? escape[1] : '\0';
    if (letter == 's' || (letter == 'S' && !in_class)) {
        buffer_add_string(out, in_class ? SPACES : letter == 's' ? "[" SPACES "]" : "[^" SPACES "]");
        return 2;
    }
    const char *close =
        (letter == 'p' || letter == 'P') && left > 2 && escape[2] == '{' ? memchr(escape, '}', left) : NULL;
    if (close) {
        struct text name = {escape + 3, (size_t)(close - escape) - 3};
        buffer_add(out, escape, 3);
        buffer_add_string(out, is_script(name) ? "sc:" : "");
        buffer_add_text(out, name);
        buffer_add_byte(out, '}');
        return (size_t)(close - escape) + 1;
    }
    size_t size = left > 1 ? 2 : 1;
    buffer_add(out, escape, size);
    return size;
}

static void rewrite_expression(struct text expression, struct buffer *out)
{
    bool in_class = false;
    size_t class_start = 0;
    for (size_t at = 0; at < expression.size;) {
        char byte = expression.data[at];
        if (byte == '\\') {
            at += rewrite_escape(expression, at, in_class, out);
            continue;
        }
        bool first =
            in_class && (at == class_start || (at == class_start + 1 && expression.data[class_start] == '^'));
        if (!in_class && byte == '[') {
            in_class = true;
            class_start = at + 1;
        } else if (in_class && byte == ']' && !first) {
            in_class = false;
        }
        buffer_add_byte(out, byte);
        at++;
    }
}

static enum status compile_expression(struct split_pattern *pattern, struct text expression,
                                      struct error *error)
{
    int code;
    size_t offset;
    pattern->code = pcre2_compile((PCRE2_SPTR)expression.data, expression.size,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &offset, NULL);
    if (!pattern->code && code == PCRE2_ERROR_HEAP_FAILED)
        return error_memory(error, STATUS_REFUSE, "a split pattern");
    if (!pattern->code) {
        char message[256];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "split pattern: %s at byte %zu", message,
                         offset);
    }
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE); // on failure matching is slower, not different
    pattern->context = pcre2_match_context_create(NULL);
    if (!pattern->context)
        return error_memory(error, STATUS_REFUSE, "a split pattern");
    pcre2_set_match_limit(pattern->context, UINT32_MAX);
    pcre2_set_depth_limit(pattern->context, UINT32_MAX);
    pcre2_set_heap_limit(pattern->context, UINT32_MAX);
    return STATUS_OK;
}

enum status split_pattern_open(struct split_pattern **pattern, struct text expression, struct error *error)
{
    *pattern = NULL;
    if (expression.size > PATTERN_BYTES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "split pattern of %zu bytes, at most %d",
                         expression.size, PATTERN_BYTES_MAX);
    struct split_pattern *opened = calloc(1, sizeof *opened);
    struct buffer rewritten = {0};
    rewrite_expression(expression, &rewritten);
    enum status status = error_memory(error, STATUS_REFUSE, "a split pattern");
    if (opened && !rewritten.failed)
        status =
            compile_expression(opened, (struct text){rewritten.data ? rewritten.data : "", rewritten.size},
                               error);
    buffer_finish(&rewritten);
    if (status == STATUS_OK)
        *pattern = opened;
    else
        split_pattern_close(opened);
    return status;
}

void split_pattern_close(struct split_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_match_context_free(pattern->context);
    pcre2_code_free(pattern->code);
    free(pattern);
}

// Returns a match, PCRE2_ERROR_NOMATCH, or a memory error. The JIT matcher has a small stack: if it
// overflows, the interpreter, which uses the heap, repeats the match.
static int match_at(const struct split_pattern *pattern, struct text text, size_t at, uint32_t options,
                    pcre2_match_data *data)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.data ? text.data : "");
    int result = pcre2_match(pattern->code, subject, text.size, at, options, data, pattern->context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(pattern->code, subject, text.size, at, options | PCRE2_NO_JIT, data,
                             pattern->context);
    return result;
}

bool split_pattern_find(const struct split_pattern *pattern, struct text text, size_t at, size_t *start,
                        size_t *end)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!data)
        return false;
    int result = match_at(pattern, text, at, 0, data);
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
