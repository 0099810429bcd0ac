#include "consumer/evaluate/gold_file.h"

#include "consumer/table/table_choice.h"
#include "schemas/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { NO_COLUMN = -1 };

struct gold_reading {
    struct gold_file *file;
    struct table_reader *reader;
    const char *path;
    const struct text *names; // [n_names]
    size_t n_names;
    long row, column, label; // columns of the file: the row's number, long form's column and label; NO_COLUMN
    long *golds;             // [n_names] columns of the file, wide form
    size_t *shared;          // [file->n_shared] columns of the file
};

static long find_column(const struct gold_reading *reading, struct text name)
{
    const struct table_columns *columns = table_reader_columns(reading->reader);
    size_t column = table_columns_find(columns, name);
    return column < columns->n ? (long)column : NO_COLUMN;
}

bool gold_file_is_named(const char *path)
{
    enum table_format format = table_format_of_path(path);
    return format != TABLE_UNKNOWN && format != TABLE_SQLITE;
}

// A table whose header is one name with semicolons was written with these as delimiters.
static enum status open_reader(struct gold_reading *reading, struct error *error)
{
    struct table_source source = {.path = reading->path, .format = table_format_of_path(reading->path)};
    source.delimiter = source.format == TABLE_TSV ? '\t' : ',';
    if (!gold_file_is_named(reading->path))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--gold %s: expected a file .csv, .tsv, .jsonl or .parquet; a column of the table is named by "
            "--evaluate, and that of --cascade by --gold-column",
            reading->path);
    enum status status = table_reader_open(&reading->reader, &source, error);
    if (status != STATUS_OK)
        return status;
    const struct table_columns *columns = table_reader_columns(reading->reader);
    if (source.format != TABLE_CSV || columns->n != 1 ||
        !memchr(columns->names[0].data, ';', columns->names[0].size))
        return STATUS_OK;
    table_reader_close(reading->reader);
    reading->reader = NULL;
    source.delimiter = ';';
    return table_reader_open(&reading->reader, &source, error);
}

static enum status choose_columns(struct gold_reading *reading, struct error *error)
{
    bool has_wide = false;
    reading->row = find_column(reading, TEXT("sheaf_row"));
    if (reading->row == NO_COLUMN)
        reading->row = find_column(reading, TEXT("row"));
    reading->column = find_column(reading, TEXT("sheaf_column"));
    reading->label = find_column(reading, TEXT("sheaf_gold"));
    bool has_long = reading->column != NO_COLUMN && reading->label != NO_COLUMN;
    for (size_t i = 0; i < reading->n_names; i++) {
        reading->golds[i] = has_long ? NO_COLUMN : find_column(reading, reading->names[i]);
        has_wide |= reading->golds[i] != NO_COLUMN;
    }
    if (!table_reader_columns(reading->reader)->n) // JSON lines without a line
        return STATUS_OK;
    if (reading->row == NO_COLUMN)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--gold %s: there is no column sheaf_row or row, the number of a row in the table",
                         reading->path);
    if (!has_long && !has_wide)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--gold %s: expected columns sheaf_column and sheaf_gold, or a column \"%.*s\"",
                         reading->path, (int)reading->names[0].size, reading->names[0].data);
    return STATUS_OK;
}

static void share_columns(struct gold_reading *reading, const struct table_columns *table,
                          const bool *is_readable)
{
    for (size_t i = 0; i < table->n; i++) {
        long column = find_column(reading, table->names[i]);
        bool is_own = column == reading->row || column == NO_COLUMN;
        for (size_t j = 0; j < reading->n_names; j++)
            is_own |= column == reading->golds[j];
        if (is_own || !is_readable[i])
            continue;
        reading->shared[reading->file->n_shared] = (size_t)column;
        reading->file->shared[reading->file->n_shared++] = i;
    }
}

static bool is_blank(struct text text)
{
    size_t i = 0;
    while (i < text.size && memchr(" \t\r\n", text.data[i], 4))
        i++;
    return i == text.size;
}

static bool is_empty(const struct value *field)
{
    return field->kind == VALUE_NULL || (field->kind == VALUE_STRING && is_blank(field->text));
}

static uint64_t hash_cells(const size_t *columns, size_t n, const struct value *fields)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < n; i++) {
        const struct value *field = &fields[columns[i]];
        struct buffer json = {0};
        struct text text = {0};
        if (field->kind == VALUE_STRING || field->kind == VALUE_BYTES) {
            text = field->text;
        } else if (field->kind != VALUE_NULL) {
            json_encode(field, &json);
            text = (struct text){json.data, json.size};
        }
        while (text.size && memchr(" \t\r\n", text.data[text.size - 1], 4))
            text.size--;
        hash = hash_bytes(text.data, text.size, hash + i);
        buffer_finish(&json);
    }
    return hash;
}

static enum status add_entry(struct gold_reading *reading, int64_t row, size_t gold,
                             const struct value *label, uint64_t cells, struct error *error)
{
    struct gold_file *file = reading->file;
    if (file->n == file->capacity) {
        size_t capacity = file->capacity ? 2 * file->capacity : 256;
        struct gold_entry *grown = realloc(file->entries, capacity * sizeof *grown);
        if (!grown)
            return error_memory(error, STATUS_REFUSE, "gold labels");
        file->entries = grown;
        file->capacity = capacity;
    }
    struct gold_entry *entry = &file->entries[file->n];
    *entry = (struct gold_entry){.row = row, .gold = gold, .cells = cells};
    if (!value_copy(label, &file->arena, &entry->label))
        return error_memory(error, STATUS_REFUSE, "gold labels");
    file->n++;
    return STATUS_OK;
}

static bool read_number(const struct value *field, int64_t *number)
{
    char digits[24], *end = digits;
    if (value_whole_number(field, number))
        return *number > 0;
    if (field->kind != VALUE_STRING || !field->text.size || field->text.size >= sizeof digits)
        return false;
    memcpy(digits, field->text.data, field->text.size);
    digits[field->text.size] = '\0';
    double value = strtod(digits, &end);
    *number = value >= 1 && value < 1e15 ? (int64_t)value : 0;
    while (*end == ' ')
        end++;
    return !*end && *number > 0 && (double)*number == value;
}

static enum status add_row(struct gold_reading *reading, const struct table_row *row, struct error *error)
{
    int64_t number;
    enum status status = STATUS_OK;
    if (!read_number(&row->fields[reading->row], &number))
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "--gold %s: line %lld: expected the number of a row, from 1", reading->path,
                         (long long)row->line);
    uint64_t cells = hash_cells(reading->shared, reading->file->n_shared, row->fields);
    for (size_t i = 0; i < reading->n_names && status == STATUS_OK; i++) {
        long column = reading->golds[i];
        if (column == NO_COLUMN && reading->column != NO_COLUMN) {
            const struct value *name = &row->fields[reading->column];
            bool is_name = name->kind == VALUE_STRING && text_equal(name->text, reading->names[i]);
            column = is_name ? reading->label : NO_COLUMN;
        }
        const struct value *label = column == NO_COLUMN ? NULL : &row->fields[column];
        if (label && label->kind == VALUE_STRING && !utf8_valid(label->text.data, label->text.size))
            return error_set(error, STATUS_REFUSE, ERROR_FILE,
                             "--gold %s: line %lld: a gold label that is not UTF-8: save the file as UTF-8",
                             reading->path, (long long)row->line);
        if (label && !is_empty(label))
            status = add_entry(reading, number, i, label, cells, error);
    }
    return status;
}

static int compare_entries(const void *a, const void *b)
{
    const struct gold_entry *x = a, *y = b;
    if (x->gold != y->gold)
        return x->gold < y->gold ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

// Two equal entries for a row count once.
static enum status sort_entries(struct gold_reading *reading, struct error *error)
{
    struct gold_file *file = reading->file;
    size_t n = 0;
    if (file->n)
        qsort(file->entries, file->n, sizeof *file->entries, compare_entries);
    for (size_t i = 0; i < file->n; i++) {
        struct gold_entry *last = n ? &file->entries[n - 1] : NULL;
        bool is_again = last && compare_entries(last, &file->entries[i]) == 0;
        if (is_again && !value_equal(&last->label, &file->entries[i].label))
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "--gold %s: row %lld has two gold labels",
                             reading->path, (long long)last->row);
        if (!is_again)
            file->entries[n++] = file->entries[i];
    }
    file->n = n;
    return STATUS_OK;
}

static enum status read_rows(struct gold_reading *reading, struct error *error)
{
    struct table_row row = {0};
    enum status status = STATUS_OK;
    do {
        status = table_reader_next(reading->reader, &row, error);
        if (status == STATUS_REJECT)
            status = error_set(error, STATUS_REFUSE, error->code, "--gold %s", error->text);
        if (status == STATUS_OK && row.fields)
            status = add_row(reading, &row, error);
    } while (status == STATUS_OK && row.fields);
    return status == STATUS_OK ? sort_entries(reading, error) : status;
}

enum status gold_file_read(struct gold_file *file, const char *path, const struct text *names, size_t n_names,
                           const struct table_columns *table, const bool *is_readable, struct error *error)
{
    struct gold_reading reading = {.file = file, .path = path, .names = names, .n_names = n_names};
    *file = (struct gold_file){.shared = calloc(table->n + 1, sizeof *file->shared)};
    reading.shared = calloc(table->n + 1, sizeof *reading.shared);
    reading.golds = calloc(n_names + 1, sizeof *reading.golds);
    enum status status = file->shared && reading.shared && reading.golds
                             ? open_reader(&reading, error)
                             : error_memory(error, STATUS_REFUSE, "gold labels");
    if (status == STATUS_OK)
        status = choose_columns(&reading, error);
    if (status == STATUS_OK) {
        share_columns(&reading, table, is_readable);
        status = read_rows(&reading, error);
    }
    table_reader_close(reading.reader);
    free(reading.shared);
    free(reading.golds);
    return status;
}

void gold_file_close(struct gold_file *file)
{
    free(file->entries);
    free(file->shared);
    arena_finish(&file->arena);
    *file = (struct gold_file){.n = 0};
}

const struct gold_entry *gold_file_find(const struct gold_file *file, size_t gold, int64_t row)
{
    const struct gold_entry wanted = {.row = row, .gold = gold};
    return file->n ? bsearch(&wanted, file->entries, file->n, sizeof wanted, compare_entries) : NULL;
}

void gold_file_count(struct gold_file *file, const struct gold_entry *entry, const struct value *fields)
{
    file->n_found++;
    file->n_other += file->n_shared && hash_cells(file->shared, file->n_shared, fields) != entry->cells;
}

bool gold_file_has(const struct gold_file *file, size_t gold)
{
    bool has = false;
    for (size_t i = 0; i < file->n; i++)
        has |= file->entries[i].gold == gold;
    return has;
}
