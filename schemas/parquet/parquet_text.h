// A stored value as a value of the program. What a table's text shows is what DuckDB's CSV of the table has:
// dates and times in ISO 8601, decimals with all digits of their scale, times of UTC with "+00". Thread: any.
#pragma once

#include "schemas/parquet/parquet_schema.h"
#include "schemas/value.h"

enum { PARQUET_TEXT_BYTES = 64 };

// bytes: as parquet_values_next gives them. Numbers are VALUE_INTEGER or VALUE_FLOAT; those that no double or
// int64 holds, and decimals, have digits. Dates, times, UUIDs, infinities and NaN are texts. The value points
// into `bytes` or `scratch`. False: the value is not one of its type (a decimal of more than 128 bits).
bool parquet_value_read(const struct parquet_leaf *leaf, struct text bytes, char scratch[PARQUET_TEXT_BYTES],
                        struct value *value);
// A list's text: [a, NULL, 'with, comma']. Other values are left out.
void parquet_list_text(const struct value *list, struct buffer *out);
