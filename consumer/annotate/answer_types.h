// The types of the answers' columns in a Parquet file. Thread: main.
#pragma once

#include "consumer/annotate/answer_columns.h"
#include "schemas/parquet/parquet_output.h"

// The type of a column (answer_columns.h): of a scalar property the type of its schema, of figures and shares a
// number, of others text.
enum parquet_written answer_type_of(const struct answer_columns *columns, size_t column);
