#include "engine/template/character.h"
#include "engine/template/character_tables.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct case_table {
    const struct case_run *runs;
    size_t n_runs;
    const struct case_expansion *expansions;
    size_t n_expansions;
};

uint32_t character_classes(uint32_t codepoint)
{
    size_t low = 0, high = COUNT(class_changes);
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (class_changes[middle] >> 11 <= codepoint)
            low = middle;
        else
            high = middle;
    }
    return class_changes[low] & 0x7FF;
}

bool character_is_space(uint32_t codepoint)
{
    if (codepoint < 128)
        return codepoint == ' ' || (codepoint >= 9 && codepoint <= 13) ||
               (codepoint >= 28 && codepoint <= 31);
    return character_classes(codepoint) & CHARACTER_SPACE;
}

bool character_is_line_break(uint32_t codepoint)
{
    return (codepoint >= 10 && codepoint <= 13) || (codepoint >= 28 && codepoint <= 30) ||
           codepoint == 0x85 || codepoint == 0x2028 || codepoint == 0x2029;
}

int character_number_level(uint32_t codepoint)
{
    return (int)((character_classes(codepoint) & CHARACTER_NUMERIC) >> CHARACTER_NUMBER_SHIFT);
}

static size_t expand(const struct case_expansion *expansion, uint32_t *out)
{
    size_t n = 0;
    while (n < CHARACTER_EXPANSION_MAX && expansion->mapped[n]) {
        out[n] = expansion->mapped[n];
        n++;
    }
    return n;
}

static size_t map(const struct case_table *table, uint32_t codepoint, uint32_t *out)
{
    size_t low = 0, high = table->n_expansions;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->expansions[middle].codepoint == codepoint)
            return expand(&table->expansions[middle], out);
        if (table->expansions[middle].codepoint < codepoint)
            low = middle + 1;
        else
            high = middle;
    }
    out[0] = codepoint;
    low = 0;
    high = table->n_runs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct case_run *run = &table->runs[middle];
        if (codepoint < run->first) {
            high = middle;
        } else if (codepoint > run->last) {
            low = middle + 1;
        } else {
            if ((codepoint - run->first) % run->stride == 0)
                out[0] = (uint32_t)((int32_t)codepoint + run->delta);
            return 1;
        }
    }
    return 1;
}

#define CASE_FUNCTION(name, ascii)                                                                           \
    size_t character_##name(uint32_t codepoint, uint32_t *out)                                               \
    {                                                                                                        \
        static const struct case_table table = {name##_runs, COUNT(name##_runs), name##_expansions,          \
                                                COUNT(name##_expansions)};                                   \
        if (codepoint < 128) {                                                                               \
            out[0] = ascii;                                                                                  \
            return 1;                                                                                        \
        }                                                                                                    \
        return map(&table, codepoint, out);                                                                  \
    }

#define ASCII_UPPER (codepoint >= 'a' && codepoint <= 'z' ? codepoint - 32 : codepoint)
#define ASCII_LOWER (codepoint >= 'A' && codepoint <= 'Z' ? codepoint + 32 : codepoint)

CASE_FUNCTION(upper, ASCII_UPPER)
CASE_FUNCTION(lower, ASCII_LOWER)
CASE_FUNCTION(title, ASCII_UPPER)
CASE_FUNCTION(fold, ASCII_LOWER)
