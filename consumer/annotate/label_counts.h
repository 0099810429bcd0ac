// Counts the rows of each label in the table that annotate writes, for `sheaf report`: in columns whose
// labels are known, and in columns with at most LABEL_VALUES_MAX distinct values. Thread: main.
#pragma once

#include "consumer/annotate/row_answer.h"
#include "store/report.h"

enum { LABEL_VALUES_MAX = REPORT_LABELS };

struct label_counts {
    struct label_column *columns; // [n_columns] of the answer
    size_t n_columns;
    int64_t n_rows;
    struct arena arena;
    bool failed; // out of memory
};

bool label_counts_open(struct label_counts *counts, const struct row_answer *answer); // false: out of memory
void label_counts_close(struct label_counts *counts);
// Counts the row that `answer` took last. A row without an answer is counted in n_rows only.
void label_counts_add(struct label_counts *counts, const struct row_answer *answer);
// Replaces the dataset's labels in the store.
enum status label_counts_store(const struct label_counts *counts, struct store *store, struct text dataset,
                               struct error *error) WARN_UNUSED;
