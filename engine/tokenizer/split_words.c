// The split patterns that cut running text into words, numbers, punctuation and white space. All end with the
// alternatives \s+(?!\S)|\s+: the last white-space character of a run is left to the next word, if there is
// one. Patterns: the tokenizer.json files published with the models.
#include "engine/tokenizer/split_stage.h"

#include <string.h>

static struct unicode_character character_at(const struct split_stage *stage, const char *at, const char *end)
{
    return unicode_at(stage->table, at, end);
}

static uint64_t repeated_byte(unsigned char byte)
{
    return byte * (UINT64_MAX / 255);
}

// Sets the top bit of each of eight bytes that is not an ASCII letter (H. S. Warren, Hacker's Delight, 6-1:
// compares each byte with the bounds by an addition that carries only into its top bit).
static uint64_t no_letters(uint64_t bytes)
{
    uint64_t small = (bytes | repeated_byte(0x20)) & repeated_byte(0x7F);
    uint64_t from_a = small + repeated_byte(0x80 - 'a'), beyond_z = small + repeated_byte(0x80 - 'z' - 1);
    return (bytes | ~from_a | beyond_z) & repeated_byte(0x80);
}

// Skips ASCII letters from `at` on, eight at a time; it may stop early only when fewer than eight bytes are
// left.
static const char *skip_ascii_letters(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t bytes;
        memcpy(&bytes, at, sizeof bytes); // little-endian, like the whole engine
        uint64_t others = no_letters(bytes);
        if (others)
            return at + (unsigned)__builtin_ctzll(others) / 8;
        at += 8;
    }
    return at;
}

static const char *skip_table(const struct split_stage *stage, const char *at, const char *end,
                              unsigned classes)
{
    for (;;) {
        while (at < end && stage->table->ascii[(unsigned char)*at] & classes)
            at++;
        if (at == end || (unsigned char)*at < 128)
            return at;
        struct unicode_character character = unicode_decode(stage->table, at, end);
        if (!(character.class & classes))
            return at;
        at += character.size;
    }
}

// Returns the end of the run of characters of these classes.
static const char *skip_classes(const struct split_stage *stage, const char *at, const char *end,
                                unsigned classes)
{
    if ((classes & CLASS_LETTER) == CLASS_LETTER)
        at = skip_ascii_letters(at, end);
    return skip_table(stage, at, end, classes);
}

// Returns the end of the run of characters of no class among these.
static const char *skip_others(const struct split_stage *stage, const char *at, const char *end,
                               unsigned classes)
{
    for (struct unicode_character character; at < end; at += character.size) {
        character = character_at(stage, at, end);
        if (character.class & classes)
            break;
    }
    return at;
}

// Skips at most `limit` characters of these classes; 0: no limit.
static const char *skip_counted(const struct split_stage *stage, const char *at, const char *end,
                                unsigned classes, unsigned limit)
{
    if (limit == 0)
        return skip_classes(stage, at, end, classes);
    for (unsigned i = 0; i < limit; i++) {
        struct unicode_character character = character_at(stage, at, end);
        if (!(character.class & classes))
            break;
        at += character.size;
    }
    return at;
}

static bool is_newline(char byte)
{
    return byte == '\r' || byte == '\n';
}

// Matches \s*[\r\n]+|\s+(?!\S)|\s+ at a white-space character; without `newlines` only the last two
// alternatives.
static const char *end_of_space(const struct split_stage *stage, const char *at, const char *end,
                                bool newlines)
{
    const char *after_newline = NULL;
    const char *last = at; // the run's last character
    struct unicode_character character;
    const char *next = at;
    while ((character = character_at(stage, next, end)).class & CLASS_SPACE) {
        last = next;
        next += character.size;
        if (is_newline(*last))
            after_newline = next;
    }
    if (newlines && after_newline)
        return after_newline;
    return next == end || last == at ? next : last;
}

static char lower_case(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte + 'a' - 'A') : byte;
}

// Matches 's|'t|'re|'ve|'m|'ll|'d at `at`; returns its end, or `at` without a match.
static const char *end_of_contraction(const char *at, const char *end, bool any_case)
{
    if (end - at < 2 || *at != '\'')
        return at;
    char first = any_case ? lower_case(at[1]) : at[1];
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return at + 2;
    char second = end - at < 3 ? '\0' : any_case ? lower_case(at[2]) : at[2];
    bool two =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return two ? at + 3 : at;
}

// Returns the end of split_gpt2's match if the text does not start with ASCII letters.
static __attribute__((noinline)) const char *end_of_other(const struct split_stage *stage, const char *at,
                                                          const char *end)
{
    const char *after = end_of_contraction(at, end, false);
    if (after > at)
        return after;
    const char *body = *at == ' ' ? at + 1 : at;
    struct unicode_character character = character_at(stage, body, end);
    if (character.class & CLASS_LETTER)
        return skip_classes(stage, body + character.size, end, CLASS_LETTER);
    if (character.class & CLASS_NUMBER)
        return skip_classes(stage, body + character.size, end, CLASS_NUMBER);
    if (character.size && !(character.class & CLASS_SPACE))
        return skip_others(stage, body, end, CLASS_SPACE | CLASS_LETTER | CLASS_NUMBER);
    return end_of_space(stage, at, end, false);
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
const char *split_gpt2(const struct split_stage *stage, const char *at, const char *end)
{
    const char *body = *at == ' ' ? at + 1 : at, *after = skip_ascii_letters(body, end);
    if (after == body)
        return end_of_other(stage, at, end);
    bool is_end = after == end || ((unsigned char)*after < 128 &&
                                   !(stage->table->ascii[(unsigned char)*after] & CLASS_LETTER));
    return is_end ? after : skip_table(stage, after, end, CLASS_LETTER);
}

// Matches " ?[^\s\p{L}\p{N}]+" at `at`, with the newlines and slashes that the definition adds; returns `at`
// without a match. `others`: the classes excluded from punctuation.
static const char *end_of_punctuation(const struct split_stage *stage, const char *at, const char *end,
                                      unsigned others)
{
    const char *body = at < end && *at == ' ' ? at + 1 : at;
    const char *after = skip_others(stage, body, end, others);
    if (after == body)
        return at;
    while (stage->definition.newlines_follow && after < end &&
           (is_newline(*after) || (stage->definition.slashes_follow && *after == '/')))
        after++;
    return after;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
// In words \p{L} is definition.letters; the number of digits and the other options vary as well.
const char *split_words(const struct split_stage *stage, const char *at, const char *end)
{
    struct unicode_character character = character_at(stage, at, end);
    if (character.class & stage->definition.letters && character.class & CLASS_LETTER)
        return skip_classes(stage, at + character.size, end, stage->definition.letters);
    if (character.class & CLASS_NUMBER)
        return skip_counted(stage, at, end, CLASS_NUMBER, stage->definition.digits_max);
    if (stage->definition.contractions) {
        const char *after = end_of_contraction(at, end, true);
        if (after > at)
            return after;
    }
    if (!is_newline(*at) && character_at(stage, at + character.size, end).class & stage->definition.letters)
        return skip_classes(stage, at + character.size, end, stage->definition.letters);
    if (character.class & stage->definition.letters) // a mark without a letter after it
        return at + character.size;
    const char *after =
        end_of_punctuation(stage, at, end, CLASS_SPACE | CLASS_NUMBER | stage->definition.letters);
    return after > at ? after : end_of_space(stage, at, end, true);
}

enum {
    WORD_UPPER = CLASS_UPPER | CLASS_OTHER_LETTER | CLASS_MARK, // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
    WORD_LOWER = CLASS_LOWER | CLASS_OTHER_LETTER | CLASS_MARK, // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};

// Like character_at, but characters of a set that is apart have no class.
static struct unicode_character look_in_word(const struct split_stage *stage, const char *at, const char *end)
{
    struct unicode_character character = character_at(stage, at, end);
    if (character.codepoint >= 128 && stage->definition.set_is_apart && split_set_contains(stage, character))
        character.class = 0;
    return character;
}

static const char *skip_in_word(const struct split_stage *stage, const char *at, const char *end,
                                unsigned classes)
{
    if (!stage->definition.set_is_apart)
        return skip_classes(stage, at, end, classes);
    for (struct unicode_character character; (character = look_in_word(stage, at, end)).class & classes;)
        at += character.size;
    return at;
}

// Matches WORD_UPPER* WORD_LOWER+; returns its end, or `at` without a match. If no lower letter follows the
// upper run, the regular expression backtracks to the last character in both classes, which then matches
// WORD_LOWER+.
static const char *end_of_lower_word(const struct split_stage *stage, const char *at, const char *end)
{
    const char *after_both = NULL;
    struct unicode_character character;
    const char *next = at;
    while ((character = look_in_word(stage, next, end)).class & WORD_UPPER) {
        next += character.size;
        if (character.class & WORD_LOWER)
            after_both = next;
    }
    if (character.class & WORD_LOWER)
        return skip_in_word(stage, next, end, WORD_LOWER);
    return after_both ? after_both : at;
}

// WORD_UPPER+ WORD_LOWER*
static const char *end_of_upper_word(const struct split_stage *stage, const char *at, const char *end)
{
    const char *after = skip_in_word(stage, at, end, WORD_UPPER);
    return after == at ? at : skip_in_word(stage, after, end, WORD_LOWER);
}

// Matches [^\r\n\p{L}\p{N}]? and one of the two words, the word with lower letters first; returns `at`
// without a match.
static const char *end_of_cased_word(const struct split_stage *stage, const char *at, const char *end)
{
    struct unicode_character character = character_at(stage, at, end);
    bool leads = !is_newline(*at) && !(character.class & (CLASS_LETTER | CLASS_NUMBER));
    const char *body = at + character.size;
    const char *after;
    if (leads && (after = end_of_lower_word(stage, body, end)) > body)
        return after;
    if ((after = end_of_lower_word(stage, at, end)) > at)
        return after;
    if (leads && (after = end_of_upper_word(stage, body, end)) > body)
        return after;
    return end_of_upper_word(stage, at, end);
}

// [^\r\n\p{L}\p{N}]?UPPER*LOWER+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
// [^\r\n\p{L}\p{N}]?UPPER+LOWER*(?i:'s|'t|...)?|\p{N}{1,3}|
// \x20?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// If the set is apart, [SET]+ is the first alternative.
const char *split_cased(const struct split_stage *stage, const char *at, const char *end)
{
    if (stage->definition.set_is_apart && split_set_contains(stage, character_at(stage, at, end)))
        return split_run(stage, at, end);
    const char *after = end_of_cased_word(stage, at, end);
    if (after > at)
        return stage->definition.contractions ? end_of_contraction(after, end, true) : after;
    after = skip_counted(stage, at, end, CLASS_NUMBER, stage->definition.digits_max);
    if (after > at)
        return after;
    after = end_of_punctuation(stage, at, end, CLASS_SPACE | CLASS_LETTER | CLASS_NUMBER);
    return after > at ? after : end_of_space(stage, at, end, true);
}

static bool is_ascii_letter(const char *at, const char *end)
{
    return at < end && ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z'));
}

static bool is_ascii_punctuation(char byte)
{
    return byte > ' ' && byte < 0x7F && !(byte >= '0' && byte <= '9') && !(byte >= 'a' && byte <= 'z') &&
           !(byte >= 'A' && byte <= 'Z');
}

// Returns the end of a match of split_deepseek3 at `at`; `at` if there is none.
static const char *match_deepseek3(const struct split_stage *stage, const char *at, const char *end)
{
    enum { WORD = CLASS_LETTER | CLASS_MARK, PUNCTUATION = CLASS_PUNCTUATION | CLASS_SYMBOL };
    if (is_ascii_punctuation(*at) && is_ascii_letter(at + 1, end)) {
        const char *after = at + 1;
        while (is_ascii_letter(after, end))
            after++;
        return after;
    }
    struct unicode_character character = character_at(stage, at, end);
    bool leads = !is_newline(*at) && !(character.class & (CLASS_LETTER | PUNCTUATION));
    if (leads && character_at(stage, at + character.size, end).class & WORD)
        return skip_classes(stage, at + character.size, end, WORD);
    if (character.class & WORD)
        return skip_classes(stage, at, end, WORD);
    const char *body = *at == ' ' ? at + 1 : at;
    const char *after = skip_classes(stage, body, end, PUNCTUATION);
    if (after > body) {
        while (after < end && is_newline(*after))
            after++;
        return after;
    }
    return character.class & CLASS_SPACE ? end_of_space(stage, at, end, true) : at;
}

// [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// \x20?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// Control characters, and the numbers that an earlier stage has isolated, match nothing: runs of them are
// pieces.
const char *split_deepseek3(const struct split_stage *stage, const char *at, const char *end)
{
    const char *after = match_deepseek3(stage, at, end);
    if (after > at)
        return after;
    do
        at += character_at(stage, at, end).size;
    while (at < end && match_deepseek3(stage, at, end) == at);
    return at;
}
