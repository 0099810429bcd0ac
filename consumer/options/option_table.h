// The tables of the command line. The parser (options.c), help (option_help.c), manual pages and completion
// (manual.c) read them, so that names are defined once.
#pragma once

#include "consumer/options/options.h"

enum {
    WORK = 1 << 0,
    SUBMIT = 1 << 1,
    COLLECT = 1 << 2,
    RUN = 1 << 3,
    STATUS = 1 << 4,
    CANCEL = 1 << 5,
    INSPECT = 1 << 6,
    TOKENIZE = 1 << 7,
    TEMPLATE = 1 << 8,
    LOGITS = 1 << 9,
    BENCH = 1 << 10,
    QUANTIZE = 1 << 11,
    MIRROR = 1 << 12,
    DATASET = 1 << 13,
    GRAMMAR = 1 << 14,
    ANNOTATE = 1 << 15,
    REPORT = 1 << 16,
    EMBED = 1 << 17,
    LAG = 1 << 18,
    PERPLEXITY = 1 << 19,
    CLASSIFY = 1 << 20,
    RERANK = 1 << 21,
    // A server works too, so its command has the bit of WORK: options of workers that it has not are WORK_ALONE.
    SERVE = 1 << 22,
    WORK_ALONE = 1 << 23,
    REDRIVE = 1 << 24,
    BACKUP = 1 << 25,
    VERIFY = 1 << 26,
    ALL = (1 << 27) - 1,
    ON_KAFKA = WORK | SUBMIT | COLLECT | CANCEL | MIRROR | STATUS | ANNOTATE | EMBED | LAG | REDRIVE,
    ENGINE = WORK | RUN | ANNOTATE | LOGITS | PERPLEXITY | BENCH | EMBED | CLASSIFY | RERANK | VERIFY,
    WITH_MODEL = ENGINE | INSPECT | TOKENIZE | GRAMMAR | TEMPLATE | QUANTIZE,
};

enum { MODEL_LAST = -2 }; // the last positional, if there are several

struct command {
    const char *name;
    int mask;
    int n_min, n_max; // number of positionals, including the model
    int model_at; // index of the model among the positionals, which --model replaces; -1: no model; MODEL_LAST
    const char *usage, *does;
    const char *explains; // further lines of help; NULL: none
};

enum option_kind { FLAG, TEXT_VALUE, TEXT_LIST, INTEGER, SIZE, DURATION, PROPERTY };

enum { ONCE = 1 };

struct option {
    const char *name;
    char letter; // 0: none
    enum option_kind kind;
    int commands;  // mask
    size_t offset; // in struct settings
    // INTEGER: the range. TEXT_VALUE: `min` 1 refuses an empty value; `max` ONCE refuses a second value on
    // the command line.
    int64_t min, max;
    const char *value, *help; // the value's name; NULL: a FLAG
};

// In the order in which `sheaf help` lists them.
const struct command *option_table_commands(int *n);
// A name may have several rows, each for other commands. n may be NULL.
enum { OPTIONS_MAX = 256 };
const struct option *option_table_options(int *n);
// The command's option of that name, else another command's. NULL: none.
const struct option *option_table_find(const struct command *command, const char *name, size_t length);
const struct command *option_table_find_command(const char *name); // NULL: none
// Resets an option to the value of an absent option: zero, or no text.
void option_drop(struct settings *settings, const struct option *option);
