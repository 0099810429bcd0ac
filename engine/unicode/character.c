#include "engine/unicode/character.h"
#include "engine/unicode/character_tables.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// Format, control, private and separating characters (Unicode's categories Cc, Cf, Co, Zl, Zp, Zs).
static const struct codepoint_range unprintable[] = {
    {0x00, 0x1F},       {0x7F, 0xA0},       {0xAD, 0xAD},         {0x600, 0x605},     {0x61C, 0x61C},
    {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},       {0x8E2, 0x8E2},     {0x1680, 0x1680},
    {0x180E, 0x180E},   {0x2000, 0x200F},   {0x2028, 0x202F},     {0x205F, 0x2064},   {0x2066, 0x206F},
    {0x3000, 0x3000},   {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF},     {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
    {0x110CD, 0x110CD}, {0x13430, 0x13438}, {0x1BCA0, 0x1BCA3},   {0x1D173, 0x1D17A}, {0xE0001, 0xE0001},
    {0xE0020, 0xE007F}, {0xF0000, 0xFFFFD}, {0x100000, 0x10FFFD},
};

static bool is_in(const struct codepoint_range *ranges, size_t n_ranges, uint32_t codepoint)
{
    for (size_t i = 0; i < n_ranges && ranges[i].first <= codepoint; i++)
        if (codepoint <= ranges[i].last)
            return true;
    return false;
}

bool character_is_of_name(uint32_t codepoint, bool is_first)
{
    bool is_letter = (codepoint >= 'a' && codepoint <= 'z') || (codepoint >= 'A' && codepoint <= 'Z');
    if (codepoint < 0x80)
        return is_letter || codepoint == '_' || (!is_first && codepoint >= '0' && codepoint <= '9');
    return is_in(of_names, COUNT(of_names), codepoint) &&
           !(is_first && is_in(inside_names, COUNT(inside_names), codepoint));
}

bool character_is_line_break(uint32_t codepoint)
{
    return (codepoint >= 10 && codepoint <= 13) || (codepoint >= 28 && codepoint <= 30) ||
           codepoint == 0x85 || codepoint == 0x2028 || codepoint == 0x2029;
}

bool character_is_printable(uint32_t codepoint)
{
    return !is_in(unprintable, COUNT(unprintable), codepoint);
}

// Returns the number of codepoints written; 0: the codepoint has no expansion.
static size_t find_expansion(uint32_t codepoint, const struct case_expansion *expansions, size_t n_expansions,
                             uint32_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_expansions && expansions[i].codepoint <= codepoint; i++)
        for (; expansions[i].codepoint == codepoint && n < CHARACTER_EXPANSION_MAX; n++) {
            if (!expansions[i].mapped[n])
                return n;
            out[n] = expansions[i].mapped[n];
        }
    return n;
}

static size_t map_case(uint32_t codepoint, const struct case_run *runs, size_t n_runs,
                       const struct case_expansion *expansions, size_t n_expansions, uint32_t *out)
{
    size_t n = find_expansion(codepoint, expansions, n_expansions, out);
    if (n)
        return n;
    out[0] = codepoint;
    size_t low = 0, high = n_runs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct case_run *run = &runs[middle];
        if (codepoint > run->first + (run->n - 1u) * run->stride) {
            low = middle + 1;
        } else if (codepoint < run->first) {
            high = middle;
        } else {
            if ((codepoint - run->first) % run->stride == 0)
                out[0] = (uint32_t)((int32_t)codepoint + run->delta);
            break;
        }
    }
    return 1;
}

size_t character_upper(uint32_t codepoint, uint32_t *out)
{
    out[0] = codepoint >= 'a' && codepoint <= 'z' ? codepoint - 32 : codepoint;
    return codepoint < 128 ? 1
                           : map_case(codepoint, upper_runs, COUNT(upper_runs), upper_expansions,
                                      COUNT(upper_expansions), out);
}

size_t character_lower(uint32_t codepoint, uint32_t *out)
{
    out[0] = codepoint >= 'A' && codepoint <= 'Z' ? codepoint + 32 : codepoint;
    return codepoint < 128 ? 1
                           : map_case(codepoint, lower_runs, COUNT(lower_runs), lower_expansions,
                                      COUNT(lower_expansions), out);
}

size_t character_title(uint32_t codepoint, uint32_t *out)
{
    size_t n = find_expansion(codepoint, title_expansions, COUNT(title_expansions), out);
    return n ? n : character_upper(codepoint, out);
}

bool character_is_cased(uint32_t codepoint)
{
    uint32_t upper[CHARACTER_EXPANSION_MAX], lower[CHARACTER_EXPANSION_MAX];
    bool is_mapped = character_upper(codepoint, upper) > 1 || character_lower(codepoint, lower) > 1 ||
                     upper[0] != codepoint || lower[0] != codepoint;
    return is_mapped || is_in(cased_alone, COUNT(cased_alone), codepoint);
}

static bool is_of_class(const struct codepoint_range *ranges, size_t n_ranges, uint32_t codepoint,
                        bool in_ascii)
{
    return codepoint < 0x80 ? in_ascii : is_in(ranges, n_ranges, codepoint);
}

bool character_is_letter(uint32_t codepoint)
{
    uint32_t lower = codepoint | 32;
    return is_of_class(letters, COUNT(letters), codepoint, lower >= 'a' && lower <= 'z');
}

bool character_is_decimal(uint32_t codepoint)
{
    return is_of_class(decimals, COUNT(decimals), codepoint, codepoint >= '0' && codepoint <= '9');
}

// Every range holds whole tens of digits.
int character_decimal(uint32_t codepoint)
{
    if (codepoint < 0x80)
        return character_is_decimal(codepoint) ? (int)codepoint - '0' : -1;
    for (size_t i = 0; i < COUNT(decimals) && decimals[i].first <= codepoint; i++)
        if (codepoint <= decimals[i].last)
            return (int)((codepoint - decimals[i].first) % 10);
    return -1;
}

bool character_is_digit(uint32_t codepoint)
{
    return character_is_decimal(codepoint) || is_of_class(digits, COUNT(digits), codepoint, false);
}

bool character_is_numeric(uint32_t codepoint)
{
    return character_is_digit(codepoint) || is_of_class(numerics, COUNT(numerics), codepoint, false);
}

bool character_is_of_word(uint32_t codepoint)
{
    return codepoint == '_' || character_is_letter(codepoint) || character_is_numeric(codepoint);
}

// Whether the codepoint has another form in the `other` case and is itself in the `same` case.
static bool is_of_pair(uint32_t codepoint, size_t (*other)(uint32_t codepoint, uint32_t *out),
                       size_t (*same)(uint32_t codepoint, uint32_t *out))
{
    uint32_t to_other[CHARACTER_EXPANSION_MAX], to_same[CHARACTER_EXPANSION_MAX];
    bool is_changed = other(codepoint, to_other) > 1 || to_other[0] != codepoint;
    return is_changed && same(codepoint, to_same) == 1 && to_same[0] == codepoint;
}

bool character_is_lower(uint32_t codepoint)
{
    return is_of_pair(codepoint, character_upper, character_lower) !=
           is_of_class(lower_otherwise, COUNT(lower_otherwise), codepoint, false);
}

bool character_is_upper(uint32_t codepoint)
{
    return is_of_pair(codepoint, character_lower, character_upper) !=
           is_of_class(upper_otherwise, COUNT(upper_otherwise), codepoint, false);
}

bool character_is_title(uint32_t codepoint)
{
    return is_of_class(titles, COUNT(titles), codepoint, false);
}

bool character_is_ignorable(uint32_t codepoint)
{
    return is_of_class(ignorable, COUNT(ignorable), codepoint,
                       codepoint == '\'' || codepoint == '.' || codepoint == ':' || codepoint == '^' ||
                           codepoint == '`');
}

size_t character_fold(uint32_t codepoint, uint32_t *out)
{
    size_t n = codepoint < 128 ? 0 : find_expansion(codepoint, fold_expansions, COUNT(fold_expansions), out);
    return n ? n : character_lower(codepoint, out);
}
