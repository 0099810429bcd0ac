// The leaf of a table's row, and the text of a cell.
//
//   leaf     kind (1 byte) || row number (8 bytes) || hashes of cells, request, arithmetic, answer (32 bytes each)
//   cells    SHA-256 of the fields of the input's columns, in the certificate's order
//   request  SHA-256 of the records of the row's jobs, in the order of the questions, of each its votes
//   answer   SHA-256 of the fields of the answers' columns
//   field    number of bytes (8 bytes) || bytes
//
// Numbers are big-endian. Each part has a fixed size or its size before it, so no two rows have the same bytes.
// The last leaf, after the rows, is of the certificate's statement: the root depends on all that the certificate says.
#pragma once

#include "consumer/certificate/merkle.h"
#include "consumer/table/table.h"

enum leaf_kind {
    LEAF_STATEMENT, // number 0; `cells` is the hash of the statement
    LEAF_ROW,
    LEAF_LEFT_OUT, // a row that was not asked: it has no request, and all of its answers' cells are empty
};

struct row_leaf {
    enum leaf_kind kind;
    int64_t number; // from 1
    struct sha256 cells, request, arithmetic, answer;
};

struct sha256 row_leaf_hash(const struct row_leaf *leaf);
void row_leaf_add_field(struct buffer *fields, struct text field);
// Appends the text of a cell, as in CSV: a string as it is, NULL as nothing, bytes in base64, a list of Parquet as DuckDB
// writes it, other values as JSON.
void row_leaf_add_text(const struct value *cell, enum table_format format, struct buffer *text);
