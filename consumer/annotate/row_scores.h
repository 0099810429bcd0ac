// Rows that a classification head scores (--rerank, --classify): the texts of their jobs, and their results as answers
// of a generation, so that columns, evaluation and formats are common.
//
//   --rerank QUERY,DOCUMENT    {"text_1", "text_2"}           answer {"score": number}, by a schema with this property
//   --classify                 {"task": "classify", "input"}  answer the label; the probabilities are choice_logprobs
//
// Thread: main.
#pragma once

#include "consumer/table/table.h"
#include "schemas/job.h"

struct row_scores {
    enum task task; // TASK_GENERATE: the rows are chats
    // The columns of the job's texts, by name; data NULL: one text, rendered from --prompt.
    struct text columns[2];
    size_t n_columns;
    const struct text *labels; // [n_labels], TASK_CLASSIFY
    size_t n_labels;
    struct value schema; // TASK_RERANK: of the answer
    struct arena arena;
};

void row_scores_close(struct row_scores *scores);

// Appends the text of a field: strings as they are, NULL as nothing, other values as JSON. False: it has bytes that
// are no text.
bool row_scores_text(const struct value *field, struct buffer *text) WARN_UNUSED;
// Begins the record of a row's job: everything but its parameters and the closing brace. `texts` [1 or 2].
void row_scores_begin(enum task task, const struct text *texts, struct buffer *record);
// Makes the answer of a decoded result; of a failed one its error is kept. STATUS_REFUSE: out of memory.
enum status row_scores_answer(const struct row_scores *scores, struct job *job,
                              struct error *error) WARN_UNUSED;
