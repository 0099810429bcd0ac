// Counts the rows of each label in the table that annotate writes, for `sheaf report`: in columns whose
// labels are known, and in columns with at most LABEL_VALUES_MAX distinct values. Thread: main.
#pragma once

#include "consumer/annotate/row_answer.h"
#include "store/report.h"

enum { LABEL_VALUES_MAX = REPORT_LABELS };

struct label_counts {
    struct label_column *columns; // [n_columns] of all answers
    size_t n_columns;
    int64_t n_rows;
    struct arena arena;
    bool failed; // out of memory
};

// answers: [n]. False: out of memory.
bool label_counts_open(struct label_counts *counts, const struct row_answer *answers, size_t n);
void label_counts_close(struct label_counts *counts);
// Counts the row that the answers took last: [n], as given to label_counts_open. An answer that failed is not
// counted.
void label_counts_add(struct label_counts *counts, const struct row_answer *answers, size_t n);
// Replaces the dataset's labels in the store.
enum status label_counts_store(const struct label_counts *counts, struct store *store, struct text dataset,
                               struct error *error) WARN_UNUSED;
