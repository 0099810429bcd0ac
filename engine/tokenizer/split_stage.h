// One stage of a pre-tokenizer: cuts a text into pieces. Shared by split.c, split_names.c (what is called
// what), split_words.c and split_runs.c (the hand-written stages).
#pragma once

#include "engine/tokenizer/split.h"
#include "engine/tokenizer/unicode_class.h"
#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct split_pattern;
struct split_stage;

enum { SPLIT_STAGES_MAX = 8 };

// The pieces of a text are asked for one after the other: `at` is where the one before ended (at < end of the
// text); returns where this one ends (beyond `at`).
typedef const char *split_end(const struct split_stage *stage, const char *at, const char *end);

struct split_range {
    uint32_t first, last;
};

// A set of characters: classes and ranges together, or all others.
struct split_set {
    unsigned classes;
    bool negated;
    const struct split_range *ranges; // ascending
    size_t n_ranges;
};

enum split_lead { SPLIT_LEAD_NONE, SPLIT_LEAD_BLANK, SPLIT_LEAD_SPACE };

// Definition of a stage, as listed by split_names.c.
struct split_definition {
    split_end *end; // NULL: `pattern` is a regular expression
    const char *pattern;
    // split_words.c
    unsigned letters;     // classes of the letters of words
    unsigned digits_max;  // digits in one piece; 0: no limit
    bool contractions;    // 's, 'll, ... are pieces (words) or belong to the word before (cased)
    bool newlines_follow; // newlines right after punctuation belong to it
    bool slashes_follow;  // and slashes
    bool set_is_apart;    // cased words: runs of `set` are pieces and its characters in no word
    // split_runs.c
    struct split_set set;
    enum split_lead lead; // an optional ' ' or \s before the run
    unsigned run_min;     // characters of a run
    unsigned run_max;     // 0: no limit
    bool ends_at_words;   // split_number_from_right
};

struct split_stage {
    struct split_definition definition;
    const struct unicode_table *table;
    struct split_pattern *pattern;
    bool ascii[128]; // which of them definition.set holds
};

struct splitter_definition {
    struct splitter_traits traits;
    const char *const *aliases; // further names that mean the same, NULL at the end; or NULL
    size_t n_stages;
    const struct split_definition *stages[SPLIT_STAGES_MAX];
};

extern const struct splitter_definition splitter_definitions[]; // the last has no name
// NULL: no such pre-tokenizer. `known_name` gets the name as listed, which outlives `name`.
const struct splitter_definition *splitter_definition_named(struct text name, const char **known_name);

// Opens stages that need not outlive the call; `name` must.
enum status splitter_create(struct splitter **splitter, const struct splitter_definition *definition,
                            const char *name, struct error *error) WARN_UNUSED;
// The name of the first pre-tokenizer of exactly these stages; NULL: none.
const char *splitter_name_of(const struct splitter_definition *definition);
// Stages that tokenizer.json names otherwise than by its expression's text.
const struct split_definition *split_digits(bool individual);
const struct split_definition *split_punctuation(bool contiguous);
// The stage of a regular expression; NULL: none is written by hand.
const struct split_definition *split_of_expression(struct text expression);

// Hand-written patterns; each implementation shows its regular expression.
split_end split_gpt2;
split_end split_words;
split_end split_cased;
split_end split_deepseek3;
split_end split_run;
split_end split_trailing_space;
split_end split_number_from_right;
split_end split_threes;

// Fills stage->ascii.
void split_set_prepare(struct split_stage *stage);
bool split_set_contains(const struct split_stage *stage, struct unicode_character character);
