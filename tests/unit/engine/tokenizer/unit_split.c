// Hand-written pre-tokenizers against the regular expressions they implement, on random text: the same
// pieces.
#include "engine/tokenizer/split_pattern.h"
#include "engine/tokenizer/split.h"
#include "engine/tokenizer/split_stage.h"
#include "engine/tokenizer/unicode_class.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <time.h>

enum { STAGES_MAX = 6 };

#define CONTRACTIONS "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
#define GPT2         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits)                                                                                        \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                                              \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(after, digits)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" after "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" after   \
    "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HAN_CASED(upper, lower)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?(?:(?!\\p{Han})" UPPER ")" upper "(?:(?!\\p{Han})" LOWER ")" lower                \
    "(?:" CONTRACTIONS ")?"
#define DEEPSEEK3                                                                                            \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"      \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM   " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define SCRIPTS "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

static const struct {
    const char *name;
    const char *expressions[STAGES_MAX];
} originals[] = {
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2", {GPT2}},
    {"llama-bpe", {WORDS("{1,3}")}},
    {"dbrx", {WORDS("{1,3}")}},
    {"minicpm5", {"\\p{N}{1,3}", WORDS("+")}},
    {"qwen2", {WORDS("")}},
    {"qwen35",
     {CONTRACTIONS
      "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
      "|\\s+(?!\\S)|\\s+"}},
    {"laguna", {"[^\\n]+|[\\n]+", WORDS("")}},
    {"seed-coder",
     {CONTRACTIONS
      "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)"
      "|\\s+"}},
    // [A-Za-z...] of deepseek-llm: its letters below U+0250 only, and the test's text keeps to those.
    {"deepseek-llm",
     {"[\\r\\n]",
      "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"
      "\\x{391}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{410}-\\x{481}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}]+",
      "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+", "\\s+\\z",
      SCRIPTS, "\\p{N}+"}},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", SCRIPTS, "\\p{N}"}},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", DEEPSEEK3}},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"starcoder", {"\\p{N}", GPT2}},
    {"kimi-k2",
     {"\\p{Han}+|" HAN_CASED("*", "+") "|" HAN_CASED(
         "+", "*") "|\\p{N}{1,3}"
                   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"tiny_aya",
     {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?![\\p{N}\\p{L}\\p{M}_]))", CASED("(?:" CONTRACTIONS ")?", "{1,3}")}},
    {"superbpe", {"\\p{N}+", "\\p{N}{1,3}(?=(?:\\p{N}{3})*\\z)"}},
    {"afmoe",
     {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
      "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}"
      "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}"
      "\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+",
      DEEPSEEK3}},
    {"exaone-moe",
     {CONTRACTIONS
      "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?"
      "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"bloom", {BLOOM}},
    {"viking", {BLOOM, "\\p{N}"}},
    {"tekken", {CASED("", "")}},
    {"gpt-4o", {CASED("(?:" CONTRACTIONS ")?", "{1,3}")}},
};

enum { ORIGINAL_COUNT = sizeof originals / sizeof *originals };

// Ends of pieces, as offsets.
struct pieces {
    const char *text;
    size_t ends[4096];
    size_t n_ends;
};

static void add_piece(void *context, const char *data, size_t size)
{
    struct pieces *pieces = context;
    size_t start = pieces->n_ends ? pieces->ends[pieces->n_ends - 1] : 0;
    assert_true(size > 0 && data == pieces->text + start && pieces->n_ends < 4096);
    pieces->ends[pieces->n_ends++] = start + size;
}

static void add_pieces(void *context, const char *data, const size_t *sizes, size_t n_pieces)
{
    assert_in_range(n_pieces, 1, SPLIT_WORDS_MAX);
    for (size_t i = 0; i < n_pieces; data += sizes[i++])
        add_piece(context, data, sizes[i]);
}

static void cut_text(struct split_pattern **patterns, size_t n_patterns, const char *data, size_t size,
                     struct pieces *pieces)
{
    if (n_patterns == 0) {
        add_piece(pieces, data, size);
        return;
    }
    size_t at = 0;
    while (at < size) {
        size_t start, end;
        assert_true(split_pattern_find(patterns[0], (struct text){data, size}, at, &start, &end));
        if (start > at)
            cut_text(patterns + 1, n_patterns - 1, data + at, start - at, pieces);
        if (end > start)
            cut_text(patterns + 1, n_patterns - 1, data + start, end - start, pieces);
        at = end;
    }
}

static uint64_t random_state;

// Characters that the patterns distinguish.
// clang-format off
static const char *const alphabet[] = {
    " ", " ", "  ", "\n", "\r", "\r\n", "\t", "a", "b", "Z", "A", "'s", "'S", "'ll", "'LL", "'re", "'vE",
    "'", "'d", "'m", "'t", "1", "22", "999", "0", ".", ",", "!", "/", "//", "(", "|", "_", "-", "$", "+",
    "~", "`", "<", "=", "^", "\x01", "\x7f", "é", "É", "ß", "µ", "ǅ", "λ", "Ω", "я", "Д",
    "中", "文", "。", "〇", "⼀", "々", "1234567", "๐", "เ",
    "，", "、", "…", "—", "「", "ア", "ん", "한", "글", "ª", "ʰ", "́", "̈", "ा", "½", "²", "٣", "Ⅳ", "№", "€",
    "\xC2\xA0", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\x83", "\xE3\x80\x80", "\xF0\x9F\x98\x80",
    "\xE2\x80\x8D", "،", "۔", "।", "’", "！", "Ａ", "１", "hello", " world", "Word", "camelCase", "ABCdef",
    "don't", "I'LL", "\xEF\xBF\xBF",
};
// clang-format on

// Some of them, now and then repeated.
static void make_text(struct buffer *out)
{
    unsigned n_units = 1 + random_below(&random_state, 24);
    buffer_clear(out);
    for (unsigned i = 0; i < n_units; i++) {
        const char *unit = alphabet[random_below(&random_state, sizeof alphabet / sizeof *alphabet)];
        for (unsigned repeats = random_below(&random_state, 5) ? 1 : 1 + random_below(&random_state, 5);
             repeats > 0; repeats--)
            buffer_add_string(out, unit);
    }
}

static void assert_same(const char *name, const struct pieces *got, const struct pieces *expected,
                        size_t round)
{
    if (got->n_ends == expected->n_ends &&
        !memcmp(got->ends, expected->ends, got->n_ends * sizeof *got->ends))
        return;
    struct buffer message = {0};
    buffer_add_format(&message, "%s, text %zu: \"%s\", got ends", name, round, got->text);
    for (size_t i = 0; i < got->n_ends; i++)
        buffer_add_format(&message, " %zu", got->ends[i]);
    buffer_add_string(&message, ", expected");
    for (size_t i = 0; i < expected->n_ends; i++)
        buffer_add_format(&message, " %zu", expected->ends[i]);
    fail_msg("%s", message.data);
}

TEST(hand_written_patterns_cut_as_their_regular_expressions)
{
    for (size_t o = 0; o < ORIGINAL_COUNT; o++) {
        struct error error;
        struct splitter *splitter;
        struct split_pattern *patterns[STAGES_MAX];
        size_t n_patterns = 0;
        assert_ok(splitter_open(&splitter, text_from_string(originals[o].name), &error), &error);
        for (; n_patterns < STAGES_MAX && originals[o].expressions[n_patterns]; n_patterns++)
            if (split_pattern_open(&patterns[n_patterns],
                                   text_from_string(originals[o].expressions[n_patterns]), &error))
                fail_msg("%s: %s", originals[o].name, error.text);
        struct buffer text = {0};
        random_state = random_seed(7);
        for (size_t round = 0; round < 3000; round++) {
            make_text(&text);
            struct pieces got = {.text = text.data}, expected = {.text = text.data};
            assert_true(splitter_run(splitter, (struct text){text.data, text.size}, add_pieces, &got));
            cut_text(patterns, n_patterns, text.data, text.size, &expected);
            assert_same(originals[o].name, &got, &expected, round);
        }
        buffer_finish(&text);
        for (size_t i = 0; i < n_patterns; i++)
            split_pattern_close(patterns[i]);
        splitter_close(splitter);
    }
}

TEST(every_hand_written_pre_tokenizer_is_tested_here)
{
    for (const struct splitter_definition *definition = splitter_definitions; definition->traits.name;
         definition++) {
        bool written_by_hand = true, tested = false;
        for (size_t j = 0; j < definition->n_stages; j++)
            written_by_hand &= definition->stages[j]->end != NULL;
        for (size_t o = 0; o < ORIGINAL_COUNT; o++)
            tested |= !strcmp(originals[o].name, definition->traits.name);
        if (written_by_hand && !tested)
            fail_msg("%s is written by hand and has no test", definition->traits.name);
    }
}

// Pieces of `text` joined by '|'.
static void assert_cut(const char *name, const char *text, const char *joined)
{
    struct splitter *splitter;
    struct error error;
    struct pieces pieces = {.text = text};
    struct buffer got = {0};
    assert_ok(splitter_open(&splitter, text_from_string(name), &error), &error);
    assert_true(splitter_run(splitter, text_from_string(text), add_pieces, &pieces));
    for (size_t i = 0, start = 0; i < pieces.n_ends; start = pieces.ends[i++])
        buffer_add_format(&got, "%s%.*s", i ? "|" : "", (int)(pieces.ends[i] - start), text + start);
    assert_string_equal(got.data, joined);
    buffer_finish(&got);
    splitter_close(splitter);
}

TEST(known_texts_are_cut_as_published)
{
    assert_cut("gpt-2", "I'll pay  10000 now\n\nOK ", "I|'ll| pay| | 10000| now|\n|\n|OK| ");
    assert_cut("llama-bpe", "I'LL pay  10000 now\n\nOK ", "I|'LL| pay| | |100|00| now|\n\n|OK| ");
    assert_cut("qwen2", "x=314;\n  y", "x|=|3|1|4|;\n| | y");
    assert_cut("gpt-4o", "HelloWorld's /a\n/b", "Hello|World's| /|a|\n|/b");
    assert_cut("tekken", "HTTPServer's 12", "HTTPServer|'s| |1|2");
    assert_cut("deepseek-v3", "f(x) 1234 日本语abc", "f|(x|)| |123|4| |日本语|abc");
    assert_cut("deepseek-llm", "Hi there, 12 中文 ", "Hi| there|,| |12| |中文| ");
    assert_cut("deepseek-llm", "Հայ հայ ", "Հ|այ հայ| "); // no small Armenian letters
    assert_cut("falcon", "a+b 12345", "a|+|b| |123|45");
    assert_cut("starcoder", "a 12", "a| |1|2");
    assert_cut("viking", "ab 12.", "ab| |1|2|.");
    assert_cut("chameleon", "IMGIMGABZ<sentinel:12> a1", "IMGIMGABZ|<|sentinel|:|1|2|>| a|1");
    assert_cut("youtu", "한국，中文 Abc", "한국|，|中文| Abc");
    assert_cut("jais-2", "a       b", "a|    |  | b");
}

TEST(aliases_mean_the_same_and_unknown_names_are_refused)
{
    static const char *const names[] = {"default",   "gpt-2",        "llama-bpe",      "llama3",
                                        "qwen2",     "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                        "falcon",    "starcoder",    "refact",         "mpt",
                                        "gpt-4o",    "tekken",       "smollm",         "olmo",
                                        "stablelm2", "command-r",    "bloom",          "viking",
                                        "dbrx",      "llama4",       "exaone",         "chatglm-bpe"};
    struct splitter *splitter;
    struct error error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_ok(splitter_open(&splitter, text_from_string(names[i]), &error), &error);
        splitter_close(splitter);
    }
    assert_int_equal(splitter_open(&splitter, TEXT("klingon"), &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_UNKNOWN_TYPE);
    assert_string_equal(error.text, "unknown pre-tokenizer \"klingon\"");
    assert_null(splitter);
}

TEST(invalid_utf_8_is_cut_into_whole_bytes)
{
    random_state = random_seed(11);
    for (const struct splitter_definition *definition = splitter_definitions; definition->traits.name;
         definition++) {
        struct splitter *splitter;
        struct error error;
        assert_ok(splitter_open(&splitter, text_from_string(definition->traits.name), &error), &error);
        for (int round = 0; round < 500; round++) {
            char bytes[64];
            size_t size = random_below(&random_state, sizeof bytes);
            for (size_t j = 0; j < size; j++)
                bytes[j] = (char)(random_below(&random_state, 3) ? 0x80 + random_below(&random_state, 128)
                                                                 : random_below(&random_state, 128));
            struct pieces pieces = {.text = bytes};
            assert_true(splitter_run(splitter, (struct text){bytes, size}, add_pieces, &pieces));
            assert_true(size == 0 ? pieces.n_ends == 0 : pieces.ends[pieces.n_ends - 1] == size);
        }
        splitter_close(splitter);
    }
}

static void count_pieces(void *context, const char *data, const size_t *sizes, size_t n_pieces)
{
    *(size_t *)context += n_pieces;
}

TEST(long_texts_of_anything_are_cut_in_one_pass)
{
    static const char *const units[] = {"a",   "A",  " ",   "\n", "1",    "'",  ".",   "中",
                                        "中A", " a", "\n ", "́",   "\xFF", "'s", "\x01"};
    enum { SIZE = 1 << 18 };
    struct buffer text = {0};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        buffer_clear(&text);
        while (text.size < SIZE)
            buffer_add_string(&text, units[u]);
        for (const struct splitter_definition *definition = splitter_definitions; definition->traits.name;
             definition++) {
            struct splitter *splitter;
            struct error error;
            size_t n_pieces = 0;
            assert_ok(splitter_open(&splitter, text_from_string(definition->traits.name), &error), &error);
            clock_t start = clock();
            assert_true(splitter_run(splitter, (struct text){text.data, text.size}, count_pieces, &n_pieces));
            double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > 5) // one pass takes some milliseconds, two nested ones an hour
                fail_msg("%s needs %.1f s for %d bytes of \"%s\"", definition->traits.name, seconds, SIZE,
                         units[u]);
            splitter_close(splitter);
        }
    }
    buffer_finish(&text);
}

TEST(a_pattern_is_limited_and_a_wrong_one_refused)
{
    struct split_pattern *pattern;
    struct error error;
    assert_int_equal(split_pattern_open(&pattern, TEXT("a(b"), &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "split pattern: missing closing parenthesis at byte 3"));
    struct buffer expression = {0};
    for (size_t i = 0; i < PATTERN_BYTES_MAX; i++)
        buffer_add_byte(&expression, 'a');
    assert_ok(split_pattern_open(&pattern, (struct text){expression.data, expression.size}, &error), &error);
    split_pattern_close(pattern);
    buffer_add_byte(&expression, 'a');
    assert_int_equal(split_pattern_open(&pattern, (struct text){expression.data, expression.size}, &error),
                     STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    buffer_finish(&expression);
}

// Where PCRE2 by itself reads an expression otherwise than the tokenizers' own matchers.
TEST(white_space_and_scripts_are_unicode_s)
{
    static const struct {
        const char *expression, *text;
        size_t start, end;
    } cases[] = {{"\\s+", "a \xE1\xA0\x8E ", 1, 2}, {"[\\s]+", "\xE1\xA0\x8E\t\xE3\x80\x80", 3, 7},
                 {"\\S", " \xE1\xA0\x8E", 1, 4},    {"[^\\s]", "\n\xE1\xA0\x8E", 1, 4},
                 {"\\p{Han}+", "、漢字、", 3, 9},   {"[^\\p{Han}]+", "漢、", 3, 6},
                 {"[]\\s]+", "a] ]", 1, 4},         {"[^]\\s]+", "] a", 2, 3},
                 {"\\\\s", "s\\s", 1, 3},           {"\\s", "\xC2\x85", 0, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct split_pattern *pattern;
        struct error error;
        size_t start, end;
        assert_ok(split_pattern_open(&pattern, text_from_string(cases[i].expression), &error), &error);
        assert_true(split_pattern_find(pattern, text_from_string(cases[i].text), 0, &start, &end));
        if (start != cases[i].start || end != cases[i].end)
            fail_msg("%s: matches %zu..%zu, expected %zu..%zu", cases[i].expression, start, end,
                     cases[i].start, cases[i].end);
        split_pattern_close(pattern);
    }
}

TEST(a_pattern_beyond_the_fast_matcher_s_stack_still_matches)
{
    struct split_pattern *pattern;
    struct error error;
    struct buffer text = {0};
    size_t start, end;
    for (int i = 0; i < 200000; i++)
        buffer_add_string(&text, "ab");
    assert_ok(split_pattern_open(&pattern, TEXT("(?:(a)|(b))+"), &error), &error);
    assert_true(split_pattern_find(pattern, (struct text){text.data, text.size}, 0, &start, &end));
    assert_true(start == 0 && end == text.size);
    split_pattern_close(pattern);
    buffer_finish(&text);
}

// The expected hash is of the ranges as make_unicode_ranges.py writes them, looked up one codepoint after another.
TEST(every_codepoint_has_its_class)
{
    struct unicode_table *table = unicode_table_create();
    uint64_t hash = 0;
    assert_non_null(table);
    for (uint32_t codepoint = 0; codepoint < 0x110000; codepoint++)
        hash = (hash ^ unicode_class_of(table, codepoint)) * 0x100000001B3u;
    for (int byte = 0; byte < 256; byte++)
        hash = (hash ^ table->ascii[byte]) * 0x100000001B3u;
    assert_true(hash == 0x333D8BB2B51DD188u);
    unicode_table_destroy(table);
}
