// One stage of a pre-tokenizer: cuts a text into pieces. Shared by split.c, split_names.c (the stages of each
// pre-tokenizer), split_words.c and split_runs.c (the hand-written stages).
#pragma once

#include "engine/tokenizer/split.h"
#include "engine/tokenizer/unicode_class.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct split_pattern;
struct split_stage;

enum { SPLIT_STAGES_MAX = 8 };

// Called for successive pieces of a text. `at` is the end of the previous piece (before `end`). Returns the
// end of this piece (after `at`).
typedef const char *split_end(const struct split_stage *stage, const char *at, const char *end);

struct split_range {
    uint32_t first, last;
};

// A set of characters: the union of classes and ranges, or its complement if negated.
struct split_set {
    unsigned classes;
    bool negated;
    const struct split_range *ranges; // ascending
    size_t n_ranges;
};

enum split_lead { SPLIT_LEAD_NONE, SPLIT_LEAD_BLANK, SPLIT_LEAD_SPACE };

// What happens to the matches of a regular expression (github.com/huggingface/tokenizers,
// SplitDelimiterBehavior). In this order: a match is a separate piece; is dropped; is joined with the
// previous piece that is not a match; with the next one; adjacent matches are joined. With `inverts` the text
// between two matches counts as the match.
enum split_behavior { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT, SPLIT_CONTIGUOUS };

// Definition of a stage, as listed in split_names.c.
struct split_definition {
    split_end *end; // NULL: `pattern` is a regular expression
    const char *pattern;
    enum split_behavior behavior;
    bool inverts;
    bool drops_space; // pieces that start with white space are dropped
    // split_words.c
    unsigned letters;     // the classes that count as letters in words
    unsigned digits_max;  // digits in one piece; 0: no limit
    bool contractions;    // 's, 'll, ...: a separate piece (words), or part of the previous word (cased)
    bool newlines_follow; // punctuation includes the newlines after it
    bool slashes_follow;  // and slashes
    bool set_is_apart;    // cased words: runs of `set` are pieces; its characters are in no word
    // split_runs.c
    struct split_set set;
    enum split_lead lead; // an optional ' ' or \s before the run
    unsigned run_min;     // minimum characters of a run
    unsigned run_max;     // maximum; 0: no limit
    bool ends_at_words;   // for split_number_from_right
};

struct split_stage {
    struct split_definition definition;
    const struct unicode_table *table;
    struct split_pattern *pattern;
    bool ascii[128]; // whether definition.set contains the ASCII character
};

struct splitter_definition {
    struct splitter_traits traits;
    const char *const *aliases; // other names for the same pre-tokenizer, NULL at the end; or NULL
    size_t n_stages;
    const struct split_definition *stages[SPLIT_STAGES_MAX];
};

extern const struct splitter_definition splitter_definitions[]; // the last one has no name
// NULL: no such pre-tokenizer. `known_name` gets the name as listed, which outlives `name`.
const struct splitter_definition *splitter_definition_named(struct text name, const char **known_name);

// Opens stages, which are copied; `name` must outlive the splitter.
enum status splitter_create(struct splitter **splitter, const struct splitter_definition *definition,
                            const char *name, struct error *error) WARN_UNUSED;
// The name of the first pre-tokenizer with exactly these stages; NULL: none.
const char *splitter_name_of(const struct splitter_definition *definition);
// True if matches cover every text from end to end, so that no text is between two matches.
bool split_matches_all(const struct split_definition *definition);
// Stages that tokenizer.json specifies by type instead of by expression.
const struct split_definition *split_digits(bool individual);
// Digits after ByteLevel: the characters that spell digit bytes in GPT-2's byte alphabet.
const struct split_definition *split_byte_digits(bool individual);
bool split_is_ascii_digits(const struct split_definition *definition); // [0-9][0-9][0-9]
const struct split_definition *split_punctuation(bool contiguous);
// The same for WordPiece and Unigram, and their other pre-tokenizers: "Punctuation", "Whitespace",
// "WhitespaceSplit", "BertPreTokenizer". NULL: the type is none of these.
const struct split_definition *split_of_type(struct text type, bool contiguous);
// Returns the hand-written stage for a regular expression; NULL: none exists.
const struct split_definition *split_of_expression(struct text expression);

// Hand-written patterns; each implementation shows its regular expression.
split_end split_gpt2;
split_end split_words;
split_end split_cased;
split_end split_deepseek3;
split_end split_run;
split_end split_bert;
split_end split_bert_punctuation;
split_end split_word_runs;
split_end split_byte_numbers;
split_end split_trailing_space;
split_end split_number_from_right;
split_end split_threes;

// Fills stage->ascii.
void split_set_prepare(struct split_stage *stage);
bool split_set_contains(const struct split_stage *stage, struct unicode_character character);
