#include "consumer/table/table.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *ending;
    enum table_format format;
} endings[] = {{".csv", TABLE_CSV},        {".csv.gz", TABLE_CSV},    {".tsv", TABLE_TSV},
               {".tsv.gz", TABLE_TSV},     {".tab", TABLE_TSV},       {".jsonl", TABLE_JSONL},
               {".jsonl.gz", TABLE_JSONL}, {".ndjson", TABLE_JSONL},  {".parquet", TABLE_PARQUET},
               {".db", TABLE_SQLITE},      {".sqlite", TABLE_SQLITE}, {".sqlite3", TABLE_SQLITE}};

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

static const char *const format_names[] = {[TABLE_CSV] = "csv",
                                           [TABLE_TSV] = "tsv",
                                           [TABLE_JSONL] = "jsonl",
                                           [TABLE_PARQUET] = "parquet",
                                           [TABLE_SQLITE] = "sqlite"};

const char *table_format_name(enum table_format format)
{
    return format_names[format];
}

bool table_format_parse(const char *name, enum table_format *format)
{
    for (int i = TABLE_CSV; i <= TABLE_SQLITE; i++)
        if (strcmp(name, format_names[i]) == 0) {
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
