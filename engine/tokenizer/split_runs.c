// The split patterns that set runs of some set of characters apart; what lies between two runs is a piece of
// its own.
#include "engine/tokenizer/split_stage.h"

static bool in_ranges(const struct split_set *set, uint32_t codepoint)
{
    size_t low = 0, high = set->n_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (set->ranges[middle].last < codepoint)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->n_ranges && set->ranges[low].first <= codepoint;
}

static bool contains(const struct split_stage *stage, struct unicode_character character)
{
    if (character.size == 0)
        return false;
    if (character.codepoint < 128)
        return stage->ascii[character.codepoint];
    const struct split_set *set = &stage->definition.set;
    return (character.class & set->classes || in_ranges(set, character.codepoint)) != set->negated;
}

void split_set_prepare(struct split_stage *stage)
{
    const struct split_set *set = &stage->definition.set;
    for (uint32_t i = 0; i < 128; i++)
        stage->ascii[i] = (stage->table->ascii[i] & set->classes || in_ranges(set, i)) != set->negated;
}

// A run of run_min to run_max characters at `at`; NULL for none. `limit` cuts the look short.
static const char *end_of_run(const struct split_stage *stage, const char *at, const char *end,
                              unsigned limit)
{
    unsigned n_characters = 0;
    while (limit == 0 || n_characters < limit) {
        struct unicode_character character = unicode_at(stage->table, at, end);
        if (!contains(stage, character))
            break;
        at += character.size;
        n_characters++;
    }
    return n_characters >= stage->definition.run_min ? at : NULL;
}

// The lead, if there is one and a run follows it, and the run.
static const char *match_run(const struct split_stage *stage, const char *at, const char *end, unsigned limit)
{
    struct unicode_character character = unicode_at(stage->table, at, end);
    bool leads = (stage->definition.lead == SPLIT_LEAD_BLANK && *at == ' ') ||
                 (stage->definition.lead == SPLIT_LEAD_SPACE && character.class & CLASS_SPACE);
    const char *after = leads ? end_of_run(stage, at + character.size, end, limit) : NULL;
    return after ? after : end_of_run(stage, at, end, limit);
}

// LEAD?[SET]{run_min,run_max}
const char *split_run(const struct split_stage *stage, const char *at, const char *end)
{
    const char *after = match_run(stage, at, end, stage->definition.run_max);
    if (after)
        return after;
    do
        at += unicode_at(stage->table, at, end).size;
    while (at < end && !match_run(stage, at, end, stage->definition.run_min));
    return at;
}

// \s+$
const char *split_trailing_space(const struct split_stage *stage, const char *at, const char *end)
{
    const char *start = at;
    const char *run = NULL; // start of the white space that `at` is in
    while (at < end) {
        struct unicode_character character = unicode_at(stage->table, at, end);
        if (!(character.class & CLASS_SPACE))
            run = NULL;
        else if (!run)
            run = at;
        at += character.size;
    }
    return run && run > start ? run : end;
}
