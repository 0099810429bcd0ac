#include "consumer/command/files/split_job.h"

#include "consumer/command/files/input_ids.h"
#include "schemas/base/file.h"
#include "schemas/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct splitting {
    const char *name; // of the input
    struct text dataset;
    int64_t n_inputs_max;
    FILE *file;
    struct buffer line;
};

// ---- places ----

// Reads the decimal number at the end of *text, after `mark`, and cuts both off.
static bool take_number(struct text *text, char mark, int64_t *number)
{
    size_t begin = text->size;
    *number = 0;
    while (begin > 0 && text->data[begin - 1] >= '0' && text->data[begin - 1] <= '9')
        begin--;
    size_t n_digits = text->size - begin;
    if (n_digits == 0 || n_digits > 9 || begin == 0 || text->data[begin - 1] != mark)
        return false;
    for (size_t i = begin; i < text->size; i++)
        *number = 10 * *number + (text->data[i] - '0');
    text->size = begin - 1;
    return true;
}

bool split_place_read(struct text custom_id, struct split_place *place)
{
    static const char mark[] = "#inputs";
    const size_t n = sizeof mark - 1;
    struct text id = custom_id;
    if (!take_number(&id, '/', &place->n_all) || !take_number(&id, '-', &place->last) ||
        !take_number(&id, '=', &place->first) || id.size <= n || memcmp(id.data + id.size - n, mark, n) != 0)
        return false;
    place->id = (struct text){id.data, id.size - n};
    return place->first <= place->last && place->last < place->n_all;
}

// ---- lines ----

static enum status refuse_line(const struct splitting *splitting, int64_t number, const char *what,
                               struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: line %lld: --split: %s", splitting->name,
                     (long long)number, what);
}

static enum status write_line(struct splitting *splitting, struct error *error)
{
    struct buffer *line = &splitting->line;
    buffer_add_byte(line, '\n');
    if (line->failed)
        return error_memory(error, STATUS_REFUSE, "%s: reading", splitting->name);
    bool is_written = fwrite(line->data, 1, line->size, splitting->file) == line->size;
    buffer_clear(line);
    return is_written ? STATUS_OK
                      : error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s",
                                  file_temporary_folder(), strerror(errno));
}

// The line as it is, with an id if it has none.
static enum status write_whole(struct splitting *splitting, struct text line, const char *id,
                               struct error *error)
{
    struct text rest = text_trim_start((struct text){line.data + 1, line.size - 1});
    if (id) {
        buffer_add_format(&splitting->line, "{\"custom_id\":");
        json_encode_string(text_from_string(id), &splitting->line);
        buffer_add_string(&splitting->line, rest.size && rest.data[0] == '}' ? "" : ",");
        line = rest;
    }
    buffer_add_text(&splitting->line, line);
    return write_line(splitting, error);
}

static struct value *find_member(struct value *object, const char *key)
{
    for (size_t i = 0; object->kind == VALUE_OBJECT && i < object->object.n_members; i++)
        if (text_equals_string(object->object.members[i].key, key))
            return &object->object.members[i].value;
    return NULL;
}

// The list of inputs of an embedding job; NULL: it is another job, or has one input.
static struct value *find_inputs(struct value *line)
{
    const struct value *url = value_get(line, "url");
    struct value *body = find_member(line, "body"), *input = find_member(body ? body : line, "input");
    if (url && (url->kind != VALUE_STRING || !text_equals_string(url->text, "/v1/embeddings")))
        return NULL;
    if (!input || input->kind != VALUE_ARRAY || !input->array.n_items)
        return NULL;
    enum value_kind kind = input->array.items[0].kind; // numbers are the tokens of one input
    return kind == VALUE_STRING || kind == VALUE_ARRAY ? input : NULL;
}

static void add_part(struct splitting *splitting, const struct value *line, struct text id,
                     const struct split_place *place)
{
    struct buffer *out = &splitting->line, name = {0};
    char at[SPLIT_PLACE_BYTES];
    snprintf(at, sizeof at, "#inputs=%lld-%lld/%lld", (long long)place->first, (long long)place->last,
             (long long)place->n_all);
    buffer_add_text(&name, id);
    buffer_add_string(&name, at);
    buffer_add_string(out, "{\"custom_id\":");
    json_encode_string((struct text){name.data, name.size}, out);
    for (size_t i = 0; i < line->object.n_members; i++) {
        const struct value_member *member = &line->object.members[i];
        if (text_equals_string(member->key, "custom_id") || text_equals_string(member->key, "job_id"))
            continue;
        buffer_add_byte(out, ',');
        json_encode_string(member->key, out);
        buffer_add_byte(out, ':');
        json_encode(&member->value, out);
    }
    buffer_add_byte(out, '}');
    out->failed |= name.failed;
    buffer_finish(&name);
}

static enum status write_parts(struct splitting *splitting, const struct value *line, struct value *input,
                               struct text id, struct error *error)
{
    const struct value whole = *input;
    int64_t n = (int64_t)whole.array.n_items, n_max = splitting->n_inputs_max;
    enum status status = STATUS_OK;
    for (int64_t first = 0; first < n && status == STATUS_OK; first += n_max) {
        int64_t n_part = n - first < n_max ? n - first : n_max;
        const struct split_place place = {.first = first, .last = first + n_part - 1, .n_all = n};
        input->array.items = whole.array.items + first;
        input->array.n_items = (size_t)n_part;
        add_part(splitting, line, id, &place);
        status = write_line(splitting, error);
    }
    return status;
}

static enum status split_line(struct splitting *splitting, struct text line, int64_t number,
                              struct arena *arena, struct error *error)
{
    struct value value;
    struct error ignored; // a faulty line is a job that fails
    struct text id;
    char made[JOB_DATASET_BYTES_MAX + 32];
    snprintf(made, sizeof made, "%.*s-%lld", (int)splitting->dataset.size, splitting->dataset.data,
             (long long)number);
    bool has_id = input_ids_find(line, arena, &id);
    bool is_job =
        json_decode_spelled(line, arena, &value, &ignored) == STATUS_OK && value.kind == VALUE_OBJECT;
    struct value *input = is_job ? find_inputs(&value) : NULL;
    if (!input || (int64_t)input->array.n_items <= splitting->n_inputs_max)
        return write_whole(splitting, line, has_id ? NULL : made, error);
    id = has_id ? id : text_from_string(made);
    if (id.size + SPLIT_PLACE_BYTES > JOB_ID_BYTES_MAX)
        return refuse_line(splitting, number, "the custom_id is too long for its parts", error);
    return write_parts(splitting, &value, input, id, error);
}

static enum status split_lines(struct splitting *splitting, struct input_lines *lines, struct error *error)
{
    struct text line;
    enum status status;
    while ((status = input_lines_next(lines, &line, error)) == STATUS_OK && line.data) {
        struct arena arena = {0};
        struct text trimmed = text_trim(line);
        if (!trimmed.size)
            continue;
        if (trimmed.data[0] != '{')
            return refuse_line(splitting, lines->number, "expected a JSON object", error);
        if (line.size > JOB_RECORD_BYTES_MAX)
            return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                             "%s: line %lld: --split: expected at most %d bytes, got %llu", splitting->name,
                             (long long)lines->number, JOB_RECORD_BYTES_MAX,
                             (unsigned long long)lines->line_bytes);
        status = split_line(splitting, trimmed, lines->number, &arena, error);
        arena_finish(&arena);
        if (status != STATUS_OK)
            return status;
    }
    return status;
}

enum status split_jobs(FILE **lines, const char *path, struct text dataset, int64_t n_inputs_max,
                       struct error *error)
{
    struct input_source source;
    struct input_lines read = {0};
    enum status status = input_source_open(&source, path, error);
    if (status != STATUS_OK)
        return status;
    struct splitting splitting = {.name = source.name, .dataset = dataset, .n_inputs_max = n_inputs_max};
    int fd = file_open_temporary(file_temporary_folder());
    splitting.file = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!splitting.file)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s",
                           file_temporary_folder(), strerror(errno));
    if (fd >= 0 && !splitting.file)
        close(fd);
    if (status == STATUS_OK)
        status = input_lines_open(&read, &source, error);
    if (status == STATUS_OK)
        status = split_lines(&splitting, &read, error);
    if (status == STATUS_OK && (fflush(splitting.file) != 0 || fseek(splitting.file, 0, SEEK_SET) != 0))
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s",
                           file_temporary_folder(), strerror(errno));
    input_lines_close(&read);
    input_source_close(&source);
    buffer_finish(&splitting.line);
    if (status != STATUS_OK && splitting.file)
        fclose(splitting.file);
    *lines = status == STATUS_OK ? splitting.file : NULL;
    return status;
}
