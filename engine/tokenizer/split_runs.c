// Split patterns that isolate runs of a character set. The text between two runs is a separate piece.
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/split_stage.h"

#include <assert.h>

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

bool split_set_contains(const struct split_stage *stage, struct unicode_character character)
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

// Returns the end of a run of run_min to run_max characters at `at`; NULL: no run. Scans at most `limit`
// characters.
static const char *end_of_run(const struct split_stage *stage, const char *at, const char *end,
                              unsigned limit)
{
    unsigned n_characters = 0;
    while (limit == 0 || n_characters < limit) {
        struct unicode_character character = unicode_at(stage->table, at, end);
        if (!split_set_contains(stage, character))
            break;
        at += character.size;
        n_characters++;
    }
    return n_characters >= stage->definition.run_min ? at : NULL;
}

// Matches the run at `at`, including an optional lead character before it; NULL: no run.
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

// True for a number in GPT-2's byte alphabet, \p{N}: a digit, or one of the bytes spelled Â² Â³ Â¹ Â¼ Â½ Â¾,
// each of which is the character with its number.
static bool is_byte_number(char c)
{
    unsigned char byte = (unsigned char)c;
    return (byte >= '0' && byte <= '9') || byte == 0xB2 || byte == 0xB3 || byte == 0xB9 ||
           (byte >= 0xBC && byte <= 0xBE);
}

const char *split_byte_numbers(const struct split_stage *stage, const char *at, const char *end)
{
    bool is_number = is_byte_number(*at++);
    while (at < end && is_byte_number(*at) == is_number && !(is_number && stage->definition.run_max == 1))
        at++;
    return at;
}

// \s+$
const char *split_trailing_space(const struct split_stage *stage, const char *at, const char *end)
{
    const char *start = at;
    const char *run = NULL; // start of the white space that ends at `at`
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

// Groups numbers by three digits from the right. If the length is not a multiple of three, the piece is the
// leading one or two digits; else it is the whole number, which the next stage (split_threes) cuts. So
// "1234567" becomes 1|234567, then 1|234|567. With `ends_at_words`, a number followed by a letter, a mark or
// an underscore belongs to the surrounding text: \d{1,3}(?=(?:\d{3})*\b).
static const char *match_number(const struct split_stage *stage, const char *at, const char *end,
                                const char **after)
{
    size_t n_digits = 0;
    struct unicode_character character;
    for (*after = at; (character = unicode_at(stage->table, *after, end)).class & CLASS_NUMBER; n_digits++)
        *after += character.size;
    bool joined = stage->definition.ends_at_words &&
                  (character.class & (CLASS_LETTER | CLASS_MARK) || (*after < end && **after == '_'));
    if (n_digits == 0 || joined)
        return NULL;
    if (n_digits % 3 == 0)
        return *after;
    for (n_digits %= 3; n_digits > 0; n_digits--)
        at += unicode_at(stage->table, at, end).size;
    return at;
}

const char *split_number_from_right(const struct split_stage *stage, const char *at, const char *end)
{
    const char *after, *start = at;
    const char *match = match_number(stage, at, end, &after);
    if (match)
        return match;
    while (at < end) {
        at = after > at ? after : at + unicode_at(stage->table, at, end).size;
        if (at < end && match_number(stage, at, end, &after))
            break;
    }
    assert(at > start);
    return at;
}

// The stage after split_number_from_right. Cuts pieces that end with a digit into groups of three.
const char *split_threes(const struct split_stage *stage, const char *at, const char *end)
{
    const char *last = end - 1;
    while (last > at && ((unsigned char)*last & 0xC0) == 0x80)
        last--;
    if (!(unicode_at(stage->table, last, end).class & CLASS_NUMBER))
        return end;
    for (int i = 0; i < 3; i++)
        at += unicode_at(stage->table, at, end).size;
    return at;
}

// --- Pre-tokenizers of WordPiece and Unigram (github.com/huggingface/tokenizers, src/pre_tokenizers) ---

static bool is_punctuation(const struct split_stage *stage, struct unicode_character character)
{
    if (character.codepoint < 128)
        return stage->table->ascii[character.codepoint] & (CLASS_PUNCTUATION | CLASS_SYMBOL);
    return character.codepoint != 0xFFFD && bert_is_punctuation(character.codepoint);
}

// White space, one punctuation character, or a run of others.
const char *split_bert(const struct split_stage *stage, const char *at, const char *end)
{
    struct unicode_character character = unicode_at(stage->table, at, end);
    bool is_space = character.class & CLASS_SPACE;
    if (!is_space && is_punctuation(stage, character))
        return at + character.size;
    do {
        at += character.size;
        character = unicode_at(stage->table, at, end);
    } while (at < end && !(character.class & CLASS_SPACE) == !is_space &&
             (is_space || !is_punctuation(stage, character)));
    return at;
}

// Runs of punctuation, of one character with run_max 1, and of others.
const char *split_bert_punctuation(const struct split_stage *stage, const char *at, const char *end)
{
    struct unicode_character character = unicode_at(stage->table, at, end);
    bool is_mark = is_punctuation(stage, character);
    do {
        at += character.size;
        character = unicode_at(stage->table, at, end);
    } while (at < end && !(is_mark && stage->definition.run_max == 1) &&
             is_punctuation(stage, character) == is_mark);
    return at;
}

enum word_kind { KIND_SPACE, KIND_WORD, KIND_OTHER };

static enum word_kind kind_of(struct unicode_character character)
{
    if (character.class & (CLASS_LETTER | CLASS_MARK))
        return KIND_WORD;
    if (character.class & CLASS_SPACE)
        return KIND_SPACE;
    return bert_is_of_word(character.codepoint) ? KIND_WORD : KIND_OTHER;
}

// \w+|[^\w\s]+ and white space
const char *split_word_runs(const struct split_stage *stage, const char *at, const char *end)
{
    struct unicode_character character = unicode_at(stage->table, at, end);
    enum word_kind kind = kind_of(character);
    do {
        at += character.size;
        character = unicode_at(stage->table, at, end);
    } while (at < end && kind_of(character) == kind);
    return at;
}
