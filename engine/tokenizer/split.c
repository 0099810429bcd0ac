#include "engine/tokenizer/split.h"

#include "engine/tokenizer/split_pattern.h"
#include "engine/tokenizer/split_stage.h"

#include <stdlib.h>

struct splitter {
    const struct splitter_definition *definition;
    struct splitter_traits traits; // `name` is the name it was opened by
    struct unicode_table *table;
    struct split_stage stages[SPLIT_STAGES_MAX];
    size_t n_stages;
};

static enum status open_stages(struct splitter *splitter, struct error *error)
{
    splitter->table = unicode_table_create();
    if (!splitter->table)
        return error_memory(error, STATUS_REFUSE, "the table of characters");
    for (size_t i = 0; i < splitter->definition->n_stages; i++) {
        struct split_stage *stage = &splitter->stages[splitter->n_stages++];
        stage->definition = *splitter->definition->stages[i];
        stage->table = splitter->table;
        split_set_prepare(stage);
        if (stage->definition.end)
            continue;
        enum status status =
            split_pattern_open(&stage->pattern, text_from_string(stage->definition.pattern), error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status splitter_create(struct splitter **splitter, const struct splitter_definition *definition,
                            const char *name, struct error *error)
{
    *splitter = NULL;
    struct splitter *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, STATUS_REFUSE, "a pre-tokenizer");
    opened->definition = definition;
    opened->traits = definition->traits;
    opened->traits.name = name;
    enum status status = open_stages(opened, error);
    opened->definition = NULL; // may be the caller's memory
    if (status == STATUS_OK)
        *splitter = opened;
    else
        splitter_close(opened);
    return status;
}

enum status splitter_open(struct splitter **splitter, struct text name, struct error *error)
{
    *splitter = NULL;
    const char *known_name;
    const struct splitter_definition *definition = splitter_definition_named(name, &known_name);
    if (!definition)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "unknown pre-tokenizer \"%.*s\"",
                         name.size < 100 ? (int)name.size : 100, name.data ? name.data : "");
    return splitter_create(splitter, definition, known_name, error);
}

void splitter_close(struct splitter *splitter)
{
    if (!splitter)
        return;
    for (size_t i = 0; i < splitter->n_stages; i++)
        split_pattern_close(splitter->stages[i].pattern);
    unicode_table_destroy(splitter->table);
    free(splitter);
}

const struct splitter_traits *splitter_traits(const struct splitter *splitter)
{
    return &splitter->traits;
}

bool splitter_drops(const struct splitter *splitter)
{
    bool drops = false;
    for (size_t i = 0; splitter && i < splitter->n_stages; i++)
        drops |= splitter->stages[i].definition.behavior == SPLIT_REMOVED ||
                 splitter->stages[i].definition.drops_space;
    return drops;
}

struct split_run {
    const struct splitter *splitter;
    take_words *words;
    void *context;
    bool failed;
};

static void run_stage(struct split_run *run, size_t index, const char *at, const char *end);

// Segments of a text: matches and the text between them, joined according to the stage's behavior.
struct segments {
    struct split_run *run;
    size_t index;
    const char *data;
    size_t start, end; // range of the joined segments; empty: none
    bool was_match;
};

static void end_piece(struct segments *segments)
{
    if (segments->end > segments->start)
        run_stage(segments->run, segments->index + 1, segments->data + segments->start,
                  segments->data + segments->end);
    segments->start = segments->end;
}

static bool joins_last(enum split_behavior behavior, bool is_match, bool was_match)
{
    switch (behavior) {
    case SPLIT_WITH_PREVIOUS:
        return is_match && !was_match;
    case SPLIT_WITH_NEXT:
        return !is_match && was_match;
    case SPLIT_CONTIGUOUS:
        return is_match == was_match;
    default:
        return false;
    }
}

static void add_segment(struct segments *segments, size_t start, size_t end, bool is_match)
{
    const struct split_definition *definition = &segments->run->splitter->stages[segments->index].definition;
    is_match ^= definition->inverts;
    if (!joins_last(definition->behavior, is_match, segments->was_match))
        end_piece(segments);
    segments->was_match = is_match;
    if (segments->start == segments->end)
        segments->start = start;
    segments->end = end;
    if (definition->behavior == SPLIT_REMOVED && is_match)
        segments->start = end;
}

// An empty match cuts the text, except where the previous match ended (as in onig's FindMatches, which
// tokenizers uses).
static void run_pattern(struct split_run *run, size_t index, const char *data, size_t size)
{
    struct segments segments = {.run = run, .index = index, .data = data};
    size_t at = 0, from = 0, start, end;
    bool follows = false; // a match ends at `at`
    while (from < size) {
        if (!split_pattern_find(run->splitter->stages[index].pattern, (struct text){data, size}, from, &start,
                                &end)) {
            run->failed = true;
            return;
        }
        if (start == size)
            break;
        if (start == end && follows && start == at) {
            for (from++; from < size && ((unsigned char)data[from] & 0xC0) == 0x80; from++)
                ;
            continue;
        }
        if (start > at)
            add_segment(&segments, at, start, false);
        add_segment(&segments, start, end, true);
        at = from = end;
        follows = true;
    }
    if (at < size)
        add_segment(&segments, at, size, false);
    end_piece(&segments);
}

static bool drops_piece(const struct split_stage *stage, const char *at, const char *end)
{
    return stage->definition.drops_space && unicode_at(stage->table, at, end).class & CLASS_SPACE;
}

// Passes pieces in batches, because a call for each piece would cost as much as encoding it, in most cases.
static void run_last_stage(struct split_run *run, const struct split_stage *stage, const char *at,
                           const char *end)
{
    split_end *end_of_piece = stage->definition.end;
    while (at < end) {
        if (drops_piece(stage, at, end)) {
            at = end_of_piece(stage, at, end);
            continue;
        }
        const char *first = at;
        size_t sizes[SPLIT_WORDS_MAX], n_words = 0;
        do {
            const char *next = end_of_piece(stage, at, end);
            sizes[n_words++] = (size_t)(next - at);
            at = next;
        } while (at < end && n_words < SPLIT_WORDS_MAX && !drops_piece(stage, at, end));
        run->words(run->context, first, sizes, n_words);
    }
}

static void run_stage(struct split_run *run, size_t index, const char *at, const char *end)
{
    if (index == run->splitter->n_stages) {
        size_t size = (size_t)(end - at);
        run->words(run->context, at, &size, 1);
        return;
    }
    const struct split_stage *stage = &run->splitter->stages[index];
    if (!stage->definition.end) {
        run_pattern(run, index, at, (size_t)(end - at));
    } else if (index + 1 == run->splitter->n_stages) {
        run_last_stage(run, stage, at, end);
    } else {
        for (const char *next; at < end; at = next) {
            next = stage->definition.end(stage, at, end);
            if (!drops_piece(stage, at, end))
                run_stage(run, index + 1, at, next);
        }
    }
}

bool splitter_run(const struct splitter *splitter, struct text text, take_words *words, void *context)
{
    struct split_run run = {splitter, words, context, false};
    if (text.size)
        run_stage(&run, 0, text.data, text.data + text.size);
    return !run.failed;
}
