// The columns that a row's answers give: the text, the label, or a column a property of the schema and, where
// an answer may hold more than these, one of the whole; with several votes the agreement, of a schema one for
// each property that is voted on (row_vote.h); figures; the reason it finished and the error. Thread: main.
#pragma once

#include "consumer/table/label_set.h"
#include "consumer/table/row_vote.h"
#include "consumer/table/schema_columns.h"
#include "consumer/table/table.h"

enum {
    ROW_VOTES_MAX = 64,
    ROW_CLASSES_MAX = 1024, // of one answer
};

// The name of the last column, behind the prefix: a table that has it was made by annotate.
#define ROW_ANSWER_MARKER "sheaf_error"

struct row_answer_options {
    const char *prefix;         // of the columns; NULL: none
    const struct value *schema; // VALUE_NULL: none
    const struct text *choices; // [n_choices]
    size_t n_choices;
    bool is_constrained; // by these, or by a parameter of all rows
    int32_t n_votes;
    bool probabilities; // of the choices
    bool figures;
    bool logprobs; // of the answer's tokens
};

struct row_answer {
    struct row_answer_options options;
    struct table_columns columns;
    struct value *fields; // [columns.n] of the row
    bool *is_given; // [columns.n] the answer has that value, which may be null; the columns beside are given
    struct schema_columns properties; // the first columns
    bool has_whole;                   // then one of the whole answer: of the schema there may be more
    size_t n_answers;                 // columns that hold the answer
    struct label_set *label_sets;     // [n_answers]
    size_t label_column;              // that gold labels are compared with
    struct vote_rule *vote_rules;     // [properties.n] of several votes
    size_t n_voted;                   // properties that are voted on; 0: the whole answer is
    size_t agreement_column;          // the first of them
    size_t logprobs_column;           // with options.logprobs
    bool failed;                      // this row
    bool was_cut;                     // failed, because the answer ended before it was whole
    struct error fault;               // of a text that is no answer
    struct arena arena;               // of the columns
    struct arena row_arena;           // of the fields
};

// STATUS_REFUSE: a column of that name is among the input's.
enum status row_answer_open(struct row_answer *answer, const struct row_answer_options *options,
                            const struct table_columns *input, struct error *error) WARN_UNUSED;
void row_answer_close(struct row_answer *answer);
// Fills the fields from the decoded results of the row's votes, which must live as long as the fields are
// used. STATUS_REFUSE: out of memory.
enum status row_answer_take(struct row_answer *answer, struct job *const *votes,
                            struct error *error) WARN_UNUSED;
// Chooses the column that gold labels are compared with: the schema's property of that name. False: there is
// none, and it is the first column.
bool row_answer_choose_label(struct row_answer *answer, struct text property);
// The value to compare with a gold label. NULL: the row has no answer, or the answer not that property.
const struct value *row_answer_label(const struct row_answer *answer);
