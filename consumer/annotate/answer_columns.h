// The columns that annotate adds to a table, in this order:
//
//   columns of each answer (row_answer.h), without its thoughts
//   label_model            with --cascade: the model that gave the answer
//   sheaf_prompt_tokens, sheaf_completion_tokens, sheaf_reasoning_tokens    with --figures: of all answers
//   the thoughts of each answer                                             with --thoughts
//   sheaf_finish_reason    of the first answer that failed, else of the first that was cut, else of the first
//   sheaf_error            why answers failed; of named questions "NAME: why", separated by "; "
//
// Thread: main.
#pragma once

#include "consumer/annotate/row_answer.h"

// The name of the last column, after the prefix: a table that has it was made by annotate.
#define ANSWER_COLUMNS_MARKER "sheaf_error"

#define ANSWER_COLUMNS_MODEL "label_model"

struct answer_columns {
    struct row_answer *answers; // [n_answers], borrowed
    size_t n_answers;
    struct table_columns names;
    struct value *fields; // [names.n] of the row
    bool *is_given; // [names.n]: the answer has this value, which may be null; true for the other columns
    // the first of them; the next begin where there are none
    size_t model_column, figures_column, thoughts_column;
    // this row
    struct text model;      // set by the caller before answer_columns_take; data NULL: none
    size_t n_failed, n_cut; // answers that failed; of these, because max_tokens ended them
    bool is_limited;        // some answer is a free text that max_tokens ended
    struct buffer failure;  // text of sheaf_error
    struct arena arena;
};

struct answer_columns_options {
    bool has_model, has_figures;
};

// The options of the first answer hold for the columns of all. STATUS_REFUSE: the input has a column of the
// same name, or two added columns have one name.
enum status answer_columns_open(struct answer_columns *columns, struct row_answer *answers, size_t n_answers,
                                const struct answer_columns_options *options,
                                const struct table_columns *input, struct error *error) WARN_UNUSED;
void answer_columns_close(struct answer_columns *columns);
// Fills the fields after each answer has taken its votes (row_answer_take). STATUS_REFUSE: out of memory.
enum status answer_columns_take(struct answer_columns *columns, struct error *error) WARN_UNUSED;
// Finds the column of a property of an answer, by its name in `names` or the property's: its answer, and *column of
// that answer. NULL: there is none.
struct row_answer *answer_columns_find_label(const struct answer_columns *columns, struct text name,
                                             size_t *column);
