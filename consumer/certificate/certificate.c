#include "consumer/certificate/certificate.h"

#include "consumer/certificate/certificate_options.h"
#include "consumer/certificate/row_leaf.h"
#include "schemas/base/file.h"

#include <stdlib.h>
#include <string.h>

void certificate_finish(struct certificate *certificate)
{
    row_tags_finish(&certificate->tags);
    arena_finish(&certificate->arena);
    *certificate = (struct certificate){0};
}

// ---- writing ----

static void add_name(const char *name, struct buffer *out)
{
    buffer_add_format(out, ",\n \"%s\": ", name);
}

static void add_columns(const char *name, const struct table_columns *columns, struct buffer *out)
{
    add_name(name, out);
    for (size_t i = 0; i < columns->n; i++) {
        buffer_add_string(out, i ? ", " : "[");
        json_encode_string(columns->names[i], out);
    }
    buffer_add_string(out, columns->n ? "]" : "[]");
}

static void add_statement(const struct certificate *certificate, struct buffer *out)
{
    buffer_add_format(out, "{\"sheaf_certificate\": %d", CERTIFICATE_VERSION);
    add_name("rows", out);
    buffer_add_integer(out, certificate->n_rows);
    add_name("format", out);
    json_encode_string(text_from_string(table_format_name(certificate->format)), out);
    add_name("arithmetic", out);
    json_encode_string(certificate->arithmetic, out);
    add_columns("columns", &certificate->columns, out);
    add_columns("answers", &certificate->answers, out);
    add_columns("unread", &certificate->unread, out);
    add_name("options", out);
    json_encode(&certificate->options, out);
}

bool certificate_statement(const struct certificate *certificate, struct sha256 *leaf)
{
    struct buffer statement = {0};
    add_statement(certificate, &statement);
    const struct row_leaf parts = {.kind = LEAF_STATEMENT,
                                   .cells = sha256_of(statement.data, statement.size)};
    *leaf = row_leaf_hash(&parts);
    bool is_whole = !statement.failed;
    buffer_finish(&statement);
    return is_whole;
}

void certificate_encode(const struct certificate *certificate, struct buffer *out)
{
    static const char digits[] = "0123456789abcdef";
    char root[SHA256_HEX + 1];
    sha256_write_hex(&certificate->root, root);
    add_statement(certificate, out);
    add_name("root", out);
    buffer_add_format(out, "\"%s\"", root);
    add_name("tags", out);
    buffer_add_byte(out, '"');
    for (size_t i = 0; i < certificate->tags.n; i++)
        for (int shift = 12; shift >= 0; shift -= 4)
            buffer_add_byte(out, digits[certificate->tags.items[i] >> shift & 15]);
    buffer_add_string(out, "\"}\n");
}

// ---- reading ----

static enum status refuse_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "the certificate");
}

static enum status refuse_kind(const char *name, const char *expected, const struct value *got,
                               struct error *error)
{
    char shown[VALUE_DESCRIPTION_BYTES];
    value_describe(got, shown);
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected %s, got %s", name, expected, shown);
}

static enum status read_columns(struct certificate *certificate, const char *name, const struct value *list,
                                struct table_columns *columns, struct error *error)
{
    if (list->kind != VALUE_ARRAY || list->array.n_items > TABLE_COLUMNS_MAX)
        return refuse_kind(name, "a list of columns", list, error);
    columns->names =
        arena_allocate_array(&certificate->arena, list->array.n_items + 1, sizeof *columns->names);
    if (!columns->names)
        return refuse_memory(error);
    for (size_t i = 0; i < list->array.n_items; i++) {
        const struct value *item = &list->array.items[i];
        if (item->kind != VALUE_STRING)
            return refuse_kind(name, "names of columns", item, error);
        const struct table_columns *const others[] = {&certificate->columns, &certificate->answers,
                                                      &certificate->unread};
        for (size_t j = 0; j < sizeof others / sizeof *others; j++)
            if (table_columns_find(others[j], item->text) < others[j]->n)
                return refuse_kind(name, "different columns", item, error);
        columns->names[columns->n++] = item->text;
    }
    return STATUS_OK;
}

static enum status read_format(struct certificate *certificate, const struct value *value,
                               struct error *error)
{
    for (int i = TABLE_CSV; value->kind == VALUE_STRING && i <= TABLE_SQLITE; i++)
        if (text_equals_string(value->text, table_format_name((enum table_format)i))) {
            certificate->format = (enum table_format)i;
            return STATUS_OK;
        }
    return refuse_kind("format", "csv, tsv, jsonl, parquet or sqlite", value, error);
}

static enum status read_arithmetic(struct certificate *certificate, const struct value *value,
                                   struct error *error)
{
    bool is_fit = value->kind == VALUE_STRING && value->text.size <= JOB_FINGERPRINT_BYTES_MAX &&
                  !memchr(value->text.data ? value->text.data : "", 0, value->text.size);
    const char *copy = is_fit ? arena_copy(&certificate->arena, value->text.data, value->text.size) : NULL;
    if (is_fit && !copy)
        return refuse_memory(error);
    certificate->arithmetic = (struct text){copy, is_fit ? value->text.size : 0};
    return is_fit ? STATUS_OK : refuse_kind("arithmetic", "a system_fingerprint", value, error);
}

static enum status read_rows(struct certificate *certificate, const struct value *value, struct error *error)
{
    if (value->kind != VALUE_INTEGER || value->integer < 0)
        return refuse_kind("rows", "a number of rows", value, error);
    certificate->n_rows = value->integer;
    return STATUS_OK;
}

static enum status read_version(struct certificate *certificate, const struct value *value,
                                struct error *error)
{
    (void)certificate;
    if (value->kind != VALUE_INTEGER || value->integer != CERTIFICATE_VERSION)
        return refuse_kind("sheaf_certificate", "version 1", value, error);
    return STATUS_OK;
}

static enum status read_options(struct certificate *certificate, const struct value *value,
                                struct error *error)
{
    certificate->options = *value;
    return certificate_options_check(value, error);
}

static enum status read_root(struct certificate *certificate, const struct value *value, struct error *error)
{
    bool is_hash = value->kind == VALUE_STRING &&
                   sha256_read_hex(value->text.data, value->text.size, &certificate->root);
    return is_hash ? STATUS_OK : refuse_kind("root", "64 digits 0-9, a-f", value, error);
}

// Their number follows from the number of rows, which is read before.
static enum status read_tags(struct certificate *certificate, const struct value *value, struct error *error)
{
    static const char digits[] = "0123456789abcdef";
    struct row_tags *tags = &certificate->tags;
    size_t n = row_tags_count(certificate->n_rows), n_digits = n * ROW_TAG_HEX;
    if (value->kind != VALUE_STRING || value->text.size != n_digits)
        return refuse_kind("tags", "4 digits 0-9, a-f for each row", value, error);
    tags->items = calloc(n + 1, sizeof *tags->items);
    if (!tags->items)
        return refuse_memory(error);
    for (size_t i = 0; i < n_digits; i++) {
        const char *digit = value->text.data[i] ? strchr(digits, value->text.data[i]) : NULL;
        if (!digit)
            return refuse_kind("tags", "digits 0-9, a-f", value, error);
        tags->items[i / ROW_TAG_HEX] = (uint16_t)(tags->items[i / ROW_TAG_HEX] << 4 | (digit - digits));
    }
    tags->n = n;
    tags->n_rows = certificate->n_rows;
    tags->group_rows = n ? row_tags_group(certificate->n_rows) : 0;
    return STATUS_OK;
}

static enum status read_names(struct certificate *certificate, const struct value *value, struct error *error)
{
    return read_columns(certificate, "columns", value, &certificate->columns, error);
}

static enum status read_answers(struct certificate *certificate, const struct value *value,
                                struct error *error)
{
    return read_columns(certificate, "answers", value, &certificate->answers, error);
}

static enum status read_unread(struct certificate *certificate, const struct value *value,
                               struct error *error)
{
    return read_columns(certificate, "unread", value, &certificate->unread, error);
}

static const struct {
    const char *name;
    enum status (*read)(struct certificate *certificate, const struct value *value, struct error *error);
} members[] = {{"sheaf_certificate", read_version},
               {"rows", read_rows},
               {"format", read_format},
               {"arithmetic", read_arithmetic},
               {"columns", read_names},
               {"answers", read_answers},
               {"unread", read_unread},
               {"options", read_options},
               {"root", read_root},
               {"tags", read_tags}};

enum { N_MEMBERS = sizeof members / sizeof *members };

static enum status check_names(const struct value *object, struct error *error)
{
    for (size_t i = 0; i < object->object.n_members; i++) {
        struct text key = object->object.members[i].key;
        size_t j = 0;
        while (j < N_MEMBERS && !text_equals_string(key, members[j].name))
            j++;
        if (j == N_MEMBERS)
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "a certificate has no member \"%.*s\"",
                             (int)(key.size < 64 ? key.size : 64), key.data);
    }
    return STATUS_OK;
}

enum status certificate_decode(struct certificate *certificate, struct text json, struct error *error)
{
    struct value object;
    *certificate = (struct certificate){0};
    if (json_decode(json, &certificate->arena, &object, error) != STATUS_OK) {
        error->code = ERROR_FILE;
        return error->status = STATUS_REFUSE;
    }
    if (object.kind != VALUE_OBJECT)
        return refuse_kind("a certificate", "an object", &object, error);
    const struct value *version = value_get(&object, members[0].name);
    enum status status = version ? read_version(certificate, version, error) : STATUS_OK;
    if (status == STATUS_OK) // of another version other members are known
        status = check_names(&object, error);
    for (size_t i = 0; status == STATUS_OK && i < N_MEMBERS; i++) {
        const struct value *value = value_get(&object, members[i].name);
        status = value ? members[i].read(certificate, value, error)
                       : error_set(error, STATUS_REFUSE, ERROR_FILE, "a certificate without \"%s\"",
                                   members[i].name);
    }
    return status;
}

enum status certificate_read(struct certificate *certificate, const char *path, struct error *error)
{
    struct buffer content = {0};
    *certificate = (struct certificate){0};
    enum status status = file_read_text(path, CERTIFICATE_BYTES_MAX, &content, error);
    if (status != STATUS_OK)
        return status;
    struct text json = {content.data ? content.data : "", content.size};
    if (certificate_decode(certificate, json, error) != STATUS_OK)
        status = error_prefix(error, "%s", path);
    buffer_finish(&content);
    return status;
}
