// The answer to one question about a row, and the columns that annotate adds for it, in this order, each name
// after the prefix:
//
//   PROPERTY ...            with a schema: one for each of its properties (schema_columns.h)
//   answer                  the whole answer; not if its properties are all that it can hold. Named label
//                           with --choice, and answer_json if a property is named answer
//   CHOICE ..., margin      with --probabilities; of each property that enumerates its values PROPERTY_VALUE ...,
//                           PROPERTY_margin
//   agreement               with several votes and without properties
//   agreement_PROPERTY ...  with several votes: one for each property that is voted on (row_vote.h)
//   logprobs                if --parameters asks for them (row_logprobs.h)
//   THOUGHTS                with --thoughts THOUGHTS: of the draw that gives the answer
//
// The whole answer to a named question (--questions) has the column NAME; its other columns are NAME_PROPERTY,
// NAME_CHOICE, NAME_margin and so on. answer_columns.h has the columns of all answers to a row.
//
// Thread: main.
#pragma once

#include "consumer/annotate/enum_choices.h"
#include "consumer/annotate/label_set.h"
#include "consumer/annotate/row_vote.h"
#include "consumer/annotate/schema_columns.h"
#include "consumer/table/table.h"

enum {
    ROW_VOTES_MAX = 64,
    ROW_CLASSES_MAX = 1024, // of one answer
    ROW_FIGURES = 3,
};

struct row_answer_options {
    const char *prefix;         // of the columns; NULL: none
    struct text name;           // of the question; size 0: none
    const struct value *schema; // VALUE_NULL: none
    const struct text *choices; // [n_choices]
    size_t n_choices;
    const struct enum_choices *enum_choices; // the choices are answers of the schema; NULL: they are labels
    const struct property_choices_list *scored; // properties of the schema with probabilities; NULL: none
    bool is_constrained;                        // by schema, choices, or a parameter of all rows
    int32_t n_votes;
    bool probabilities;   // of the choices
    const char *thoughts; // name of their column; NULL: none
    bool logprobs;        // of the answer's tokens
};

struct row_answer {
    struct row_answer_options options;
    struct table_columns columns;
    struct value *fields; // [columns.n] of the row
    bool *is_given; // [columns.n]: the answer has this value, which may be null; true for the other columns
    struct schema_columns properties; // the first columns
    bool has_whole;                   // then a column of the whole answer
    size_t n_answers;                 // columns that hold the answer
    struct label_set *label_sets;     // [n_answers]
    struct vote_rule *vote_rules;     // [properties.n]
    size_t n_voted;                   // properties that are voted on; 0: the whole answer is
    size_t scored_column;             // first column of options.scored
    size_t agreement_column;          // the first agreement column
    size_t logprobs_column;           // with options.logprobs
    size_t thoughts_column;           // the last; columns.n: without options.thoughts
    int64_t figures[ROW_FIGURES];     // tokens of all votes: of prompts, of answers, of thoughts
    struct text finish_reason;        // of this row, as the column sheaf_finish_reason has it
    struct text failure;              // why the row has no answer; size 0: it has one
    bool failed;                      // this row
    bool was_cut;                     // failed because max_tokens ended the answer
    bool is_limited;                  // has an answer, a free text that max_tokens ended
    struct error fault;               // why a text is not a valid answer
    struct arena arena;               // of the columns
    struct arena row_arena;           // of the fields
};

// STATUS_REFUSE: the input has a column of the same name, or two columns of the answers have one name.
enum status row_answer_open(struct row_answer *answer, const struct row_answer_options *options,
                            const struct table_columns *input, struct error *error) WARN_UNUSED;
void row_answer_close(struct row_answer *answer);
// Fills the fields from the decoded results of the row's votes, which must live as long as the fields are
// used. STATUS_REFUSE: out of memory.
enum status row_answer_take(struct row_answer *answer, struct job *const *votes,
                            struct error *error) WARN_UNUSED;
// Refuses a column's name because the input has it.
enum status row_answer_refuse_column(struct text column, struct error *error);
// Finds the column that is compared with gold labels: the schema's property of that name; of a named question
// the column NAME or NAME_PROPERTY. False: there is none, and *column is the first.
bool row_answer_find_label(const struct row_answer *answer, struct text property, size_t *column);
// The value of one of the first n_answers columns. NULL: the row has no answer, or its answer lacks the property.
const struct value *row_answer_label(const struct row_answer *answer, size_t column);
// The probability of the row's choice, or of its value of a property, in one of the first n_answers columns. NAN: it is
// not known.
double row_answer_probability(const struct row_answer *answer, size_t column);
