#include "consumer/table/table.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *ending;
    enum table_format format;
} endings[] = {{".csv", TABLE_CSV},        {".csv.gz", TABLE_CSV},    {".tsv", TABLE_TSV},
               {".tsv.gz", TABLE_TSV},     {".tab", TABLE_TSV},       {".jsonl", TABLE_JSONL},
               {".jsonl.gz", TABLE_JSONL}, {".ndjson", TABLE_JSONL},  {".db", TABLE_SQLITE},
               {".sqlite", TABLE_SQLITE},  {".sqlite3", TABLE_SQLITE}};

enum table_format table_format_of(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i].ending);
        if (length > n && strcasecmp(path + length - n, endings[i].ending) == 0)
            return endings[i].format;
    }
    return TABLE_UNKNOWN;
}

bool table_format_parse(const char *name, enum table_format *format)
{
    static const char *const names[] = {
        [TABLE_CSV] = "csv", [TABLE_TSV] = "tsv", [TABLE_JSONL] = "jsonl", [TABLE_SQLITE] = "sqlite"};
    for (int i = TABLE_CSV; i <= TABLE_SQLITE; i++)
        if (strcmp(name, names[i]) == 0) {
            *format = (enum table_format)i;
            return true;
        }
    return false;
}

size_t table_columns_find(const struct table_columns *columns, struct text name)
{
    size_t i = 0;
    while (i < columns->n && !text_equal(columns->names[i], name))
        i++;
    return i;
}

enum { NEAREST_BYTES_MAX = 64 };

// Levenshtein's distance of names of at most NEAREST_BYTES_MAX bytes.
static size_t edit_distance(struct text a, struct text b)
{
    size_t row[NEAREST_BYTES_MAX + 1];
    for (size_t j = 0; j <= b.size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            size_t replaced = diagonal + (a.data[i - 1] != b.data[j - 1]);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[b.size];
}

struct text table_columns_nearest(const struct table_columns *columns, struct text name)
{
    struct text nearest = {0};
    size_t best = name.size / 2 + 1; // fewer than half of the letters are others
    if (name.size > NEAREST_BYTES_MAX)
        return nearest;
    for (size_t i = 0; i < columns->n; i++) {
        if (columns->names[i].size > NEAREST_BYTES_MAX)
            continue;
        size_t d = edit_distance(name, columns->names[i]);
        if (d < best) {
            best = d;
            nearest = columns->names[i];
        }
    }
    return nearest;
}
