#include "consumer/serve/batch_check.h"

#include "consumer/command/files/input_lines.h"
#include "schemas/base/hash.h"
#include "schemas/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct line_id {
    uint64_t hash;
    int64_t line;
};

struct checking {
    struct batch_check *check;
    const char *endpoint;
    struct line_id *ids; // [n_ids]
    size_t n_ids, capacity;
};

static void add_fault(struct batch_check *check, int64_t line, const char *code, const char *param,
                      const char *format, ...) PRINTF_LIKE(5, 6);

static void add_fault(struct batch_check *check, int64_t line, const char *code, const char *param,
                      const char *format, ...)
{
    if (check->n_faults++ >= BATCH_FAULTS_MAX)
        return;
    struct batch_fault *fault = &check->faults[check->n_faults - 1];
    *fault = (struct batch_fault){.line = line, .code = code, .param = param};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->message, sizeof fault->message, format, arguments);
    va_end(arguments);
    utf8_make_printable(fault->message);
}

static bool add_id(struct checking *checking, struct text id, int64_t line)
{
    if (checking->n_ids == checking->capacity) {
        size_t capacity = checking->capacity ? 2 * checking->capacity : 1024;
        struct line_id *ids = reallocarray(checking->ids, capacity, sizeof *ids);
        if (!ids)
            return false;
        checking->ids = ids;
        checking->capacity = capacity;
    }
    checking->ids[checking->n_ids++] = (struct line_id){hash_bytes(id.data, id.size, 0), line};
    return true;
}

// False: it is no text of 1 to size_max bytes.
static bool is_text(const struct value *value, size_t size_max)
{
    return value && value->kind == VALUE_STRING && value->text.size > 0 && value->text.size <= size_max;
}

static void check_url(struct checking *checking, const struct value *object, int64_t line)
{
    const struct value *method = value_get(object, "method"), *url = value_get(object, "url"),
                       *body = value_get(object, "body");
    char description[VALUE_DESCRIPTION_BYTES];
    if (!method)
        add_fault(checking->check, line, "missing_required_parameter", "method", "method: missing");
    else if (method->kind != VALUE_STRING || !text_equals_string(method->text, "POST"))
        value_describe(method, description), add_fault(checking->check, line, "invalid_method", "method",
                                                       "method: expected \"POST\", got %s", description);
    else if (!url)
        add_fault(checking->check, line, "missing_required_parameter", "url", "url: missing");
    else if (url->kind != VALUE_STRING || !text_equals_string(url->text, checking->endpoint))
        value_describe(url, description),
            add_fault(checking->check, line, "mismatched_url", "url",
                      "url: expected the batch's endpoint \"%s\", got %s", checking->endpoint, description);
    else if (!body)
        add_fault(checking->check, line, "missing_required_parameter", "body", "body: missing");
    else if (body->kind != VALUE_OBJECT)
        value_describe(body, description), add_fault(checking->check, line, "invalid_type", "body",
                                                     "body: expected an object, got %s", description);
}

// False: out of memory.
static bool check_line(struct checking *checking, const struct input_lines *lines, struct text line)
{
    struct arena arena = {0};
    struct value object;
    struct error error;
    bool has_memory = true;
    if (line.size < lines->line_bytes) {
        add_fault(checking->check, lines->number, "line_too_large", NULL,
                  "expected at most %d bytes, got %llu", JOB_RECORD_BYTES_MAX,
                  (unsigned long long)lines->line_bytes);
        return true;
    }
    enum status status = json_decode(line, &arena, &object, &error);
    if (status != STATUS_OK) {
        add_fault(checking->check, lines->number, "invalid_json_line", NULL, "%.200s", error.text);
    } else if (object.kind != VALUE_OBJECT) {
        add_fault(checking->check, lines->number, "invalid_json_line", NULL, "expected an object, got %s",
                  value_kind_name(object.kind));
    } else {
        const struct value *id = value_get(&object, "custom_id");
        if (!id)
            add_fault(checking->check, lines->number, "missing_required_parameter", "custom_id",
                      "custom_id: missing");
        else if (!is_text(id, JOB_ID_BYTES_MAX))
            add_fault(checking->check, lines->number, "invalid_custom_id", "custom_id",
                      "custom_id: expected a text of 1 to %d bytes", JOB_ID_BYTES_MAX);
        else
            has_memory = add_id(checking, id->text, lines->number);
        check_url(checking, &object, lines->number);
    }
    arena_finish(&arena);
    return has_memory;
}

static int compare_ids(const void *a, const void *b)
{
    const struct line_id *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

// Equal hashes of different ids: 4 million lines have a pair with a probability of 4e-7.
static void find_equal_ids(struct checking *checking)
{
    if (checking->n_ids)
        qsort(checking->ids, checking->n_ids, sizeof *checking->ids, compare_ids);
    for (size_t i = 1; i < checking->n_ids; i++)
        if (checking->ids[i].hash == checking->ids[i - 1].hash)
            add_fault(checking->check, checking->ids[i].line, "duplicate_custom_id", "custom_id",
                      "custom_id: line %lld has the same", (long long)checking->ids[i - 1].line);
}

static enum status check_lines(struct checking *checking, struct input_source *source, struct error *error)
{
    struct input_lines lines;
    struct text line = {0};
    enum status status = input_lines_open(&lines, source, error);
    do {
        if (status == STATUS_OK)
            status = input_lines_next(&lines, &line, error);
        if (status != STATUS_OK || !line.data || input_line_is_blank(line))
            continue;
        checking->check->n_requests++;
        if (!check_line(checking, &lines, line))
            status = error_memory(error, STATUS_RETRY, "checking the file");
    } while (status == STATUS_OK && line.data);
    if (status == STATUS_REFUSE) {
        add_fault(checking->check, lines.number, "invalid_file", NULL, "%.200s", error->text);
        status = STATUS_OK;
    }
    input_lines_close(&lines);
    return status;
}

static int compare_faults(const void *a, const void *b)
{
    const struct batch_fault *x = a, *y = b;
    return x->line < y->line ? -1 : x->line > y->line;
}

enum status batch_check(struct batch_check *check, const char *path, const char *endpoint,
                        struct error *error)
{
    struct checking checking = {.check = check, .endpoint = endpoint};
    struct input_source source;
    *check = (struct batch_check){0};
    enum status status = input_source_open(&source, path, error);
    if (status != STATUS_OK)
        return status;
    source.name = "the input file"; // its path is no matter of the client's
    status = check_lines(&checking, &source, error);
    input_source_close(&source);
    if (status == STATUS_OK)
        find_equal_ids(&checking);
    if (status == STATUS_OK && check->n_requests == 0 && check->n_faults == 0)
        add_fault(check, 0, "empty_file", NULL, "the file has no request");
    free(checking.ids);
    qsort(check->faults, (size_t)(check->n_faults < BATCH_FAULTS_MAX ? check->n_faults : BATCH_FAULTS_MAX),
          sizeof *check->faults, compare_faults);
    return status;
}
