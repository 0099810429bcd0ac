// Computes random rows of a certified table again and compares their cells with the table's. Thread: main.
#pragma once

#include "consumer/certificate/certified_table.h"
#include "consumer/certificate/row_sample.h"

enum { SAMPLED_ROWS_DEFAULT = 300 };

struct sampled_rows {
    struct row_sample sample; // of the rows that were asked
    int64_t n_different;
    struct buffer first; // the first row that differs: its number, column and byte
};

// settings: of the command. The rows are computed with the model and the arithmetic of the certificate. STATUS_REFUSE:
// this is another model or arithmetic; STATUS_RETRY: stopped by a signal. sampled_rows_finish also after an error.
enum status sampled_rows_check(struct sampled_rows *rows, struct certified_table *table,
                               struct error *error) WARN_UNUSED;
void sampled_rows_finish(struct sampled_rows *rows);
