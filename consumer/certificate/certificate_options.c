#include "consumer/certificate/certificate_options.h"

#include "consumer/annotate/question_list.h"
#include "consumer/annotate/row_answer.h"
#include "consumer/annotate/row_prompt.h"
#include "schemas/base/file.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { IS_TEXT, IS_FILE, IS_JSON_FILE, IS_QUESTIONS, IS_LIST, IS_INTEGER, IS_FLAG };

#define AT(field) offsetof(struct settings, field)

static const struct option_value {
    const char *name;
    enum kind kind;
    size_t offset; // in struct settings
    int64_t max;   // IS_INTEGER
} rows[] = {
    {"prompt", IS_FILE, AT(annotate.prompt.file)},
    {"system", IS_FILE, AT(annotate.prompt.system)},
    {"messages", IS_FILE, AT(annotate.prompt.messages)},
    {"parameters", IS_JSON_FILE, AT(annotate.prompt.parameters)},
    {"schema", IS_JSON_FILE, AT(annotate.schema)},
    {"questions", IS_QUESTIONS, AT(annotate.questions)},
    {"choice", IS_LIST, AT(grammar.choices)},
    {"max_tokens", IS_INTEGER, AT(sampling.max_tokens_default), JOB_MAX_TOKENS_MAX},
    {"temperature", IS_TEXT, AT(sampling.temperature)},
    {"top_p", IS_TEXT, AT(sampling.top_p)},
    {"top_k", IS_TEXT, AT(sampling.top_k)},
    {"min_p", IS_TEXT, AT(sampling.min_p)},
    {"presence_penalty", IS_TEXT, AT(sampling.presence_penalty)},
    {"frequency_penalty", IS_TEXT, AT(sampling.frequency_penalty)},
    {"repetition_penalty", IS_TEXT, AT(sampling.repetition_penalty)},
    {"thinking_token_budget", IS_TEXT, AT(sampling.thinking_token_budget)},
    {"reasoning_effort", IS_TEXT, AT(sampling.reasoning_effort)},
    {"votes", IS_INTEGER, AT(annotate.votes), ROW_VOTES_MAX},
    {"same_draws", IS_FLAG, AT(annotate.prompt.same_draws)},
    {"probabilities", IS_FLAG, AT(annotate.output.probabilities)},
    {"figures", IS_FLAG, AT(annotate.output.figures)},
    {"thoughts", IS_TEXT, AT(annotate.output.thoughts)},
    {"prefix", IS_TEXT, AT(annotate.output.prefix)},
    {"truncate_prompt", IS_INTEGER, AT(annotate.prompt.truncate), 1 << 24},
    {"truncate", IS_TEXT, AT(embed.truncate)},
    {"rerank", IS_TEXT, AT(annotate.scores.rerank)},
    {"classify", IS_FLAG, AT(annotate.scores.classify)},
    {"column", IS_TEXT, AT(embed.column)},
    {"max_length", IS_INTEGER, AT(embed.max_length), INT32_MAX},
    {"activation", IS_TEXT, AT(score.activation)},
    {"answers", IS_TEXT, AT(score.answers)},
    {"instruct", IS_TEXT, AT(score.instruct)},
    {"chat_template", IS_FILE, AT(model.chat_template)},
    // how the table is written
    {"delimiter", IS_TEXT, AT(annotate.input.delimiter)},
    {"no_header", IS_FLAG, AT(annotate.input.no_header)},
    {"no_quotes", IS_FLAG, AT(annotate.input.no_quotes)},
    {"table", IS_TEXT, AT(annotate.input.table)},
};

enum { N_ROWS = sizeof rows / sizeof *rows, LIST_MAX = 4096 };

static enum status refuse_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "the certificate's options");
}

// ---- from the command line ----

static const void *field_of(const struct settings *settings, const struct option_value *row)
{
    return (const char *)settings + row->offset;
}

static enum status take_file(const char *path, bool is_json, struct arena *arena, struct value *value,
                             struct error *error)
{
    struct buffer content = {0};
    enum status status = file_read_text(path, PROMPT_FILE_BYTES_MAX, &content, error);
    struct text text = {content.data ? content.data : "", content.size};
    if (status == STATUS_OK && is_json) {
        status = json_decode(text, arena, value, error);
    } else if (status == STATUS_OK) {
        *value = value_string((struct text){arena_copy(arena, text.data, text.size), text.size});
        status = value->text.data ? STATUS_OK : refuse_memory(error);
    }
    buffer_finish(&content);
    return status == STATUS_REJECT ? error_prefix(error, "%s", path) : status;
}

static enum status take_list(char *const *items, struct arena *arena, struct value *value,
                             struct error *error)
{
    size_t n = 0;
    while (items[n])
        n++;
    if (!value_array_create(arena, n, value))
        return refuse_memory(error);
    for (size_t i = 0; i < n; i++)
        value->array.items[i] = value_string(text_from_string(items[i]));
    return STATUS_OK;
}

static enum status take_text(const struct option_value *row, const char *text, struct arena *arena,
                             struct value *value, struct error *error)
{
    bool is_prompt = row->offset == AT(annotate.prompt.file) && row_prompt_is_text(text);
    *value = value_string(text_from_string(text));
    if (row->kind == IS_QUESTIONS)
        return question_list_read_value(text, arena, value, error);
    return row->kind == IS_TEXT || is_prompt
               ? STATUS_OK
               : take_file(text, row->kind == IS_JSON_FILE, arena, value, error);
}

enum status certificate_options_take(const struct settings *settings, struct arena *arena,
                                     struct value *options, struct error *error)
{
    enum status status = value_object_create(arena, N_ROWS, options) ? STATUS_OK : refuse_memory(error);
    for (size_t i = 0; status == STATUS_OK && i < N_ROWS; i++) {
        const void *field = field_of(settings, &rows[i]);
        struct value value = {.kind = VALUE_NULL};
        if (rows[i].kind == IS_FLAG && *(const bool *)field)
            value = value_bool(true);
        else if (rows[i].kind == IS_INTEGER && *(const int64_t *)field)
            value = value_integer(*(const int64_t *)field);
        else if (rows[i].kind == IS_LIST && *(char *const *const *)field)
            status = take_list(*(char *const *const *)field, arena, &value, error);
        else if (rows[i].kind < IS_LIST && *(const char *const *)field)
            status = take_text(&rows[i], *(const char *const *)field, arena, &value, error);
        if (status == STATUS_OK && value.kind != VALUE_NULL)
            value_put(options, rows[i].name, value);
    }
    return status;
}

// ---- from a certificate ----

static enum status refuse_option(const char *name, const char *expected, const struct value *got,
                                 struct error *error)
{
    char shown[VALUE_DESCRIPTION_BYTES];
    value_describe(got, shown);
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "options: %s: expected %s, got %s", name, expected,
                     shown);
}

static bool is_text(const struct value *value)
{
    return value->kind == VALUE_STRING &&
           !memchr(value->text.data ? value->text.data : "", 0, value->text.size);
}

static enum status check_option(const struct option_value *row, const struct value *value,
                                struct error *error)
{
    switch (row->kind) {
    case IS_TEXT:
    case IS_FILE:
        return is_text(value) ? STATUS_OK : refuse_option(row->name, "a text", value, error);
    case IS_JSON_FILE:
        return value->kind == VALUE_OBJECT ? STATUS_OK : refuse_option(row->name, "an object", value, error);
    case IS_INTEGER:
        return value->kind == VALUE_INTEGER && value->integer > 0 && value->integer <= row->max
                   ? STATUS_OK
                   : refuse_option(row->name, "a number above 0 within its range", value, error);
    case IS_FLAG:
        return value->kind == VALUE_BOOL && value->boolean ? STATUS_OK
                                                           : refuse_option(row->name, "true", value, error);
    case IS_QUESTIONS:
    case IS_LIST:
        break;
    }
    if (value->kind != VALUE_ARRAY || !value->array.n_items || value->array.n_items > LIST_MAX)
        return refuse_option(row->name, "a list", value, error);
    for (size_t i = 0; row->kind == IS_LIST && i < value->array.n_items; i++)
        if (!is_text(&value->array.items[i]))
            return refuse_option(row->name, "a list of texts", &value->array.items[i], error);
    return STATUS_OK;
}

enum status certificate_options_check(const struct value *options, struct error *error)
{
    if (options->kind != VALUE_OBJECT)
        return refuse_option("they", "an object", options, error);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < options->object.n_members; i++) {
        const struct value_member *member = &options->object.members[i];
        size_t j = 0;
        while (j < N_ROWS && !text_equals_string(member->key, rows[j].name))
            j++;
        status = j < N_ROWS
                     ? check_option(&rows[j], &member->value, error)
                     : error_set(error, STATUS_REFUSE, ERROR_FILE, "options: no option is named \"%.*s\"",
                                 (int)(member->key.size < 64 ? member->key.size : 64), member->key.data);
    }
    return status;
}

static enum status refuse_file(struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s", file_temporary_folder(),
                     strerror(errno));
}

// Writes the contents of an option's file to an unnamed file, whose path the option gets.
static enum status put_file(struct certified_settings *certified, const struct value *value, char **path,
                            struct error *error)
{
    struct buffer content = {0};
    int fd = certified->n_files < CERTIFICATE_FILES_MAX ? file_open_temporary(file_temporary_folder()) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!file && fd >= 0)
        close(fd);
    if (!file)
        return refuse_file(error);
    certified->files[certified->n_files++] = file;
    if (value->kind == VALUE_STRING)
        buffer_add_text(&content, value->text);
    else
        json_encode(value, &content);
    bool is_written = !content.failed &&
                      fwrite(content.data ? content.data : "", 1, content.size, file) == content.size &&
                      fflush(file) == 0;
    buffer_finish(&content);
    char name[32];
    int size = snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    *path = arena_copy(&certified->arena, name, (size_t)size);
    return !is_written ? refuse_file(error) : *path ? STATUS_OK : refuse_memory(error);
}

static enum status put_list(struct certified_settings *certified, const struct value *list, char ***items,
                            struct error *error)
{
    *items = arena_allocate_array(&certified->arena, list->array.n_items + 1, sizeof **items);
    for (size_t i = 0; *items && i < list->array.n_items; i++) {
        struct text text = list->array.items[i].text;
        (*items)[i] = arena_copy(&certified->arena, text.data ? text.data : "", text.size);
        if (!(*items)[i])
            return refuse_memory(error);
    }
    return *items ? STATUS_OK : refuse_memory(error);
}

// An option of the command line, such as a chat template, has precedence over the certificate's.
static bool is_given(const void *field, enum kind kind)
{
    return kind == IS_INTEGER ? *(const int64_t *)field != 0
           : kind == IS_FLAG  ? *(const bool *)field
                              : *(const char *const *)field != NULL;
}

static enum status put_option(struct certified_settings *certified, const struct option_value *row,
                              const struct value *value, struct error *error)
{
    void *field = (char *)&certified->settings + row->offset;
    if (is_given(field, row->kind))
        return STATUS_OK;
    if (row->kind == IS_FILE || row->kind == IS_JSON_FILE)
        return put_file(certified, value, field, error);
    if (row->kind == IS_LIST)
        return put_list(certified, value, field, error);
    if (row->kind == IS_INTEGER)
        *(int64_t *)field = value->integer;
    else if (row->kind == IS_FLAG)
        *(bool *)field = true;
    if (row->kind == IS_INTEGER || row->kind == IS_FLAG)
        return STATUS_OK;
    if (row->kind == IS_QUESTIONS)
        certified->questions = value;
    struct text text = row->kind == IS_QUESTIONS ? TEXT("questions") : value->text;
    char **string = field;
    *string = arena_copy(&certified->arena, text.data ? text.data : "", text.size);
    return *string ? STATUS_OK : refuse_memory(error);
}

enum status certified_settings_open(struct certified_settings *certified, const struct settings *settings,
                                    const struct value *options, struct error *error)
{
    *certified = (struct certified_settings){.settings = *settings};
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < N_ROWS; i++) {
        const struct value *value = value_get(options, rows[i].name);
        if (value)
            status = put_option(certified, &rows[i], value, error);
    }
    return status;
}

void certified_settings_close(struct certified_settings *certified)
{
    for (size_t i = 0; i < certified->n_files; i++)
        fclose(certified->files[i]);
    arena_finish(&certified->arena);
    *certified = (struct certified_settings){0};
}

// ---- the arithmetic ----

static const struct {
    const char *name;
    enum kind kind;
    size_t offset;
} parts[] = {
    {"kv-type", IS_TEXT, AT(engine.kv_type)},
    {"activation-bits", IS_INTEGER, AT(engine.activation_bits)},
    {"placement", IS_TEXT, AT(engine.gpu.placement)},
    {"quantize", IS_TEXT, AT(model.quantize)},
    {"pre", IS_TEXT, AT(model.pre)},
    {"tool-format", IS_TEXT, AT(model.tool_format)},
    {"special-in-content", IS_FLAG, AT(model.special_in_content)},
    {"same-draws", IS_FLAG, AT(worker.same_draws)},
    {"temperature", IS_TEXT, AT(sampling.temperature)},
    {"top-p", IS_TEXT, AT(sampling.top_p)},
    {"top-k", IS_TEXT, AT(sampling.top_k)},
    {"min-p", IS_TEXT, AT(sampling.min_p)},
    {"presence-penalty", IS_TEXT, AT(sampling.presence_penalty)},
    {"frequency-penalty", IS_TEXT, AT(sampling.frequency_penalty)},
    {"repetition-penalty", IS_TEXT, AT(sampling.repetition_penalty)},
    {"thinking-token-budget", IS_TEXT, AT(sampling.thinking_token_budget)},
    {"reasoning-effort", IS_TEXT, AT(sampling.reasoning_effort)},
    {"max-tokens", IS_INTEGER, AT(sampling.max_tokens_default)},
};

static enum status put_part(struct certified_settings *certified, struct text part, struct error *error)
{
    const char *equals = memchr(part.data, '=', part.size);
    if (!equals)
        return STATUS_OK;
    struct text name = {part.data, (size_t)(equals - part.data)};
    char *value = arena_copy(&certified->arena, equals + 1, part.size - name.size - 1);
    if (!value)
        return refuse_memory(error);
    if (text_equals_string(part, "backend=cpu") && !certified->settings.engine.backend)
        certified->settings.engine.backend = arena_copy(&certified->arena, "cpu", 3);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        void *field = (char *)&certified->settings + parts[i].offset;
        if (!text_equals_string(name, parts[i].name))
            continue;
        // the only types that the option takes; f32 is the default of models in f32
        bool is_refused =
            parts[i].offset == AT(engine.kv_type) && strcmp(value, "f16") != 0 && strcmp(value, "q8_0") != 0;
        if (is_refused || is_given(field, parts[i].kind))
            break;
        if (parts[i].kind == IS_FLAG)
            *(bool *)field = true;
        else if (parts[i].kind == IS_INTEGER)
            *(int64_t *)field = strtoll(value, NULL, 10);
        else
            *(char **)field = value;
    }
    return STATUS_OK;
}

enum status certified_settings_require(struct certified_settings *certified, struct text arithmetic,
                                       struct error *error)
{
    static char none[] = "none"; // the arithmetic has the model's too
    struct sampling_options *sampling = &certified->settings.sampling, of_requests = *sampling;
    enum status status = STATUS_OK;
    *sampling = (struct sampling_options){.defaults = none};
    for (size_t at = 0; status == STATUS_OK && at < arithmetic.size;) {
        const char *blank = memchr(arithmetic.data + at, ' ', arithmetic.size - at);
        size_t end = blank ? (size_t)(blank - arithmetic.data) : arithmetic.size;
        status = put_part(certified, (struct text){arithmetic.data + at, end - at}, error);
        at = end + 1;
    }
    certified->defaults = *sampling;
    *sampling = of_requests;
    char *required = arena_copy(&certified->arena, arithmetic.data ? arithmetic.data : "", arithmetic.size);
    if (status == STATUS_OK && !required)
        return refuse_memory(error);
    if (arithmetic.size)
        certified->settings.worker.require_arithmetic = required;
    return status;
}
