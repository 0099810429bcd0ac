// The pre-tokenizers by name: the split patterns, in the order of their stages, from the tokenizer.json files
// published with the models. Names: github.com/ggml-org/llama.cpp, src/llama-vocab.cpp (values of
// tokenizer.ggml.pre).
#include "engine/tokenizer/split_stage.h"

#include <string.h>

#define RANGES(array) (array), sizeof(array) / sizeof *(array)

// --- Stages ---

static const struct split_definition gpt2 = {.end = split_gpt2};
static const struct split_definition deepseek3 = {.end = split_deepseek3};

// (?i:'s|'t|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
#define WORDS(digits)                                                                                        \
    {                                                                                                        \
        .end = split_words, .letters = CLASS_LETTER, .digits_max = digits, .contractions = true,             \
        .newlines_follow = true                                                                              \
    }
static const struct split_definition words_1 = WORDS(1);
static const struct split_definition words_3 = WORDS(3);
static const struct split_definition words_any = WORDS(0);
static const struct split_definition words_1_marks = {.end = split_words,
                                                      .letters = CLASS_LETTER | CLASS_MARK,
                                                      .digits_max = 1,
                                                      .contractions = true,
                                                      .newlines_follow = true};
static const struct split_definition words_1_no_newlines = {
    .end = split_words, .letters = CLASS_LETTER, .digits_max = 1, .contractions = true};

static const struct split_definition cased_1 = {
    .end = split_cased, .digits_max = 1, .newlines_follow = true, .slashes_follow = true};
static const struct split_definition cased_1_contractions = {.end = split_cased,
                                                             .digits_max = 1,
                                                             .contractions = true,
                                                             .newlines_follow = true,
                                                             .slashes_follow = true};
static const struct split_definition cased_3_contractions = {.end = split_cased,
                                                             .digits_max = 3,
                                                             .contractions = true,
                                                             .newlines_follow = true,
                                                             .slashes_follow = true};

// The script Han (Unicode 15.1, Scripts.txt).
static const struct split_range han_ranges[] = {
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},   {0x3007, 0x3007},
    {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},
    {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3}, {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739},
    {0x2B740, 0x2B81D}, {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A}, {0x31350, 0x323AF}};
static const struct split_definition cased_3_han = {.end = split_cased,
                                                    .digits_max = 3,
                                                    .contractions = true,
                                                    .newlines_follow = true,
                                                    .set_is_apart = true,
                                                    .set = {0, false, RANGES(han_ranges)},
                                                    .run_min = 1};

#define RUN .end = split_run, .run_min = 1
static const struct split_definition number = {RUN, .set.classes = CLASS_NUMBER, .run_max = 1};
static const struct split_definition numbers_3 = {RUN, .set.classes = CLASS_NUMBER, .run_max = 3};
static const struct split_definition numbers = {RUN, .set.classes = CLASS_NUMBER};

static const struct split_range digits[] = {{'0', '9'}};
static const struct split_definition three_digits = { // [0-9][0-9][0-9]
    .end = split_run,
    .set = {.ranges = digits, .n_ranges = 1},
    .run_min = 3,
    .run_max = 3};

static const struct split_range newline_ranges[] = {{'\n', '\n'}, {'\r', '\r'}};
static const struct split_definition newline = {RUN, .set = {0, false, RANGES(newline_ranges)}, .run_max = 1};
static const struct split_definition lines = {RUN, .set = {0, true, newline_ranges, 1}}; // [^\n]+|\n+

// [\p{P}$+<=>^~|]+; falcon adds `
static const struct split_range default_symbols[] = {{'$', '$'}, {'+', '+'}, {'<', '>'},
                                                     {'^', '^'}, {'|', '|'}, {'~', '~'}};
static const struct split_range falcon_symbols[] = {{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'},
                                                    {'`', '`'}, {'|', '|'}, {'~', '~'}};
static const struct split_definition default_punctuation = {RUN, .set = {CLASS_PUNCTUATION, false,
                                                                         RANGES(default_symbols)}};
static const struct split_definition falcon_punctuation = {RUN, .set = {CLASS_PUNCTUATION, false,
                                                                        RANGES(falcon_symbols)}};

// " ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+": the parentheses and the bar are members of the
// class.
static const struct split_range bloom_stops[] = {{'!', '!'},       {'(', ')'},       {',', ','},
                                                 {'.', '.'},       {'?', '?'},       {'|', '|'},
                                                 {0x60C, 0x60C},   {0x6D4, 0x6D4},   {0x964, 0x964},
                                                 {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}};
static const struct split_definition bloom_words = {RUN, .set = {CLASS_SPACE, true, RANGES(bloom_stops)},
                                                    .lead = SPLIT_LEAD_BLANK};

// Letters with case as listed by the authors of deepseek-llm (without Armenian and Georgian small letters).
static const struct split_range deepseek_letters[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},
    {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
    {0x376, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
    {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
    {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},
    {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
    {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},
    {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
    {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};
static const struct split_range deepseek_marks[] =
    { // [!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]
        {'!', '/'}, {':', '~'}, {0x2018, 0x201F}, {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
static const struct split_range deepseek_scripts[] = { // Chinese, U+0800 to U+4E00 ("Japanese"), Korean
    {0x800, 0x9FA5},
    {0xAC00, 0xD7FF}};
static const struct split_definition deepseek_words = {RUN, .set = {0, false, RANGES(deepseek_letters)},
                                                       .lead = SPLIT_LEAD_SPACE};
static const struct split_definition deepseek_punctuation = {RUN, .set = {0, false, RANGES(deepseek_marks)},
                                                             .lead = SPLIT_LEAD_SPACE};
static const struct split_definition deepseek_script = {RUN, .set = {0, false, RANGES(deepseek_scripts)}};
static const struct split_definition coder_words = {RUN, .set.classes = CLASS_LETTER,
                                                    .lead = SPLIT_LEAD_SPACE};
static const struct split_definition coder_punctuation = {RUN, .set.classes = CLASS_PUNCTUATION,
                                                          .lead = SPLIT_LEAD_SPACE};
static const struct split_definition trailing_space = {.end = split_trailing_space};

static const struct split_range han_kana_ranges[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
static const struct split_definition han_kana = {RUN, .set = {0, false, RANGES(han_kana_ranges)}};

static const struct split_definition number_from_right = {.end = split_number_from_right};
static const struct split_definition threes = {.end = split_threes};
static const struct split_definition number_from_right_alone = {.end = split_number_from_right,
                                                                .ends_at_words = true};

// Chinese, Japanese, Thai, Lao, Khmer, Burmese, Korean
static const struct split_range asian_ranges[] = {{0xE40, 0xE7F},   {0xE80, 0xEFF},   {0x1000, 0x109F},
                                                  {0x1100, 0x11FF}, {0x1780, 0x17FF}, {0x2F00, 0x2FDF},
                                                  {0x3040, 0x30FF}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF},
                                                  {0xA9E0, 0xA9FF}, {0xAA60, 0xAA7F}, {0xAC00, 0xD7AF},
                                                  {0xF900, 0xFAFF}, {0xFF65, 0xFF9F}};
static const struct split_definition asian = {RUN, .set = {0, false, RANGES(asian_ranges)}};

// Words of letters with marks, joined by single blanks. Possessive quantifiers, no backtracking: linear.
static const struct split_definition exaone_moe = {
    .pattern =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}\\p{M}*+(?: ?+\\p{L}\\p{M}*+)*+|\\p{N}|"
        " ?[^\\s\\p{L}\\p{N}]++[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"};

static const struct split_definition jais2 = {
    .pattern =
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|"
        "\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"};
static const struct split_definition youtu_scripts =
    { // Korean | punctuation | Bopomofo | Chinese and Japanese
        .pattern =
            "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|"
            "[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}"
            "\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"
            "[\\x{3105}-\\x{312F}]+|[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+"};
static const struct split_definition chameleon_sentinel = {.pattern = "<sentinel:[0-9]+>"};
static const struct split_definition chameleon_image = {.pattern = "IMGIMG[A-I]{1,4}Z"};
static const struct split_definition chameleon_space = {.pattern = "[\\t\\n]|    |  "};
static const struct split_definition chameleon_mark = {.pattern = "[\\p{P}!-/:-@\\[-`{-~]"};

// --- Names ---

#define ALIASES(...)                                                                                         \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }
#define STAGES_1(a)                                                                                          \
    1,                                                                                                       \
    {                                                                                                        \
        &a                                                                                                   \
    }
#define STAGES_2(a, b)                                                                                       \
    2,                                                                                                       \
    {                                                                                                        \
        &a, &b                                                                                               \
    }
#define STAGES_3(a, b, c)                                                                                    \
    3,                                                                                                       \
    {                                                                                                        \
        &a, &b, &c                                                                                           \
    }

const struct splitter_definition splitter_definitions[] = {
    {{"default", false, false}, NULL, 4, {&default_punctuation, &gpt2, &numbers, &three_digits}},
    {{"gpt-2", false, false},
     ALIASES("mpt", "olmo", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v1-en",
             "jina-v2-code", "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert", "jais",
             "trillion", "granite-docling", "exaone4"),
     STAGES_1(gpt2)},
    {{"llama-bpe", true, true},
     ALIASES("llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
     STAGES_1(words_3)},
    {{"dbrx", false, false}, ALIASES("smaug-bpe", "chatglm-bpe", "glm4"), STAGES_1(words_3)},
    {{"minicpm5", true, false}, NULL, STAGES_2(numbers_3, words_any)},
    {{"qwen2", false, false},
     ALIASES("stablelm2", "openpangu", "deepseek-r1-qwen", "megrez", "hunyuan", "solar-open", "kormo",
             "f2llmv2", "grok-2", "bailingmoe", "bailingmoe2", "llada-moe"),
     STAGES_1(words_1)},
    {{"qwen35", false, false}, NULL, STAGES_1(words_1_marks)},
    {{"laguna", false, false}, NULL, STAGES_2(lines, words_1)},
    {{"seed-coder", false, false}, NULL, STAGES_1(words_1_no_newlines)},
    {{"deepseek-llm", false, false},
     NULL,
     6,
     {&newline, &deepseek_words, &deepseek_punctuation, &trailing_space, &deepseek_script, &numbers}},
    {{"deepseek-coder", false, false},
     NULL,
     5,
     {&newline, &coder_words, &coder_punctuation, &deepseek_script, &number}},
    {{"deepseek-v3", false, false},
     ALIASES("hunyuan-dense", "joyai-llm", "hy_v4"),
     STAGES_3(numbers_3, han_kana, deepseek3)},
    {{"falcon", false, false}, NULL, STAGES_3(falcon_punctuation, gpt2, three_digits)},
    {{"starcoder", false, false},
     ALIASES("refact", "command-r", "cohere2_moe", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"),
     STAGES_2(number, gpt2)},
    {{"bloom", false, false}, ALIASES("poro-chat", "gpt3-finnish"), STAGES_1(bloom_words)},
    {{"viking", false, false}, NULL, STAGES_2(bloom_words, number)},
    {{"tekken", true, true}, NULL, STAGES_1(cased_1)},
    {{"gpt-4o", false, false},
     ALIASES("llama4", "kanana2", "talkie", "minimax-m2"),
     STAGES_1(cased_3_contractions)},
    {{"kimi-k2", false, false}, NULL, STAGES_1(cased_3_han)},
    {{"tiny_aya", false, false}, NULL, STAGES_3(number_from_right_alone, threes, cased_3_contractions)},
    {{"superbpe", false, false}, NULL, STAGES_2(number_from_right, threes)},
    {{"afmoe", false, false}, NULL, 4, {&number_from_right, &threes, &asian, &deepseek3}},
    {{"exaone-moe", false, false}, NULL, STAGES_1(exaone_moe)},
    {{"youtu", true, false}, NULL, STAGES_2(youtu_scripts, cased_1_contractions)},
    {{"jais-2", false, false}, NULL, STAGES_1(jais2)},
    {{"chameleon", false, true},
     NULL,
     6,
     {&chameleon_sentinel, &chameleon_image, &chameleon_space, &number, &chameleon_mark, &gpt2}},
    {{NULL, false, false}, NULL, 0, {NULL}},
};

const struct splitter_definition *splitter_definition_named(struct text name, const char **known_name)
{
    for (const struct splitter_definition *definition = splitter_definitions; definition->traits.name;
         definition++) {
        *known_name = definition->traits.name;
        if (text_equals_string(name, *known_name))
            return definition;
        for (const char *const *alias = definition->aliases; alias && *alias; alias++) {
            *known_name = *alias;
            if (text_equals_string(name, *alias))
                return definition;
        }
    }
    return NULL;
}

const char *splitter_name_of(const struct splitter_definition *definition)
{
    for (const struct splitter_definition *named = splitter_definitions; named->traits.name; named++)
        if (named->n_stages == definition->n_stages &&
            named->traits.ignores_merges == definition->traits.ignores_merges &&
            memcmp(named->stages, definition->stages, definition->n_stages * sizeof *definition->stages) == 0)
            return named->traits.name;
    return NULL;
}

// --- Expressions of tokenizer.json ---

static const struct split_definition one_punctuation = {
    RUN, .set = {CLASS_PUNCTUATION, false, RANGES(falcon_symbols)}, .run_max = 1};

const struct split_definition *split_digits(bool individual)
{
    return individual ? &number : &numbers;
}

const struct split_definition *split_byte_digits(bool individual)
{
    static const struct split_definition byte_number = {.end = split_byte_numbers, .run_max = 1},
                                         byte_numbers = {.end = split_byte_numbers};
    return individual ? &byte_number : &byte_numbers;
}

bool split_is_ascii_digits(const struct split_definition *definition)
{
    return definition == &three_digits;
}

bool split_matches_all(const struct split_definition *definition)
{
    return definition->end == split_gpt2 || definition->end == split_words || definition->end == split_cased;
}

// char::is_ascii_punctuation or general category P: the same set as falcon_punctuation.
const struct split_definition *split_punctuation(bool contiguous)
{
    return contiguous ? &falcon_punctuation : &one_punctuation;
}

const struct split_definition *split_of_type(struct text type, bool contiguous)
{
    static const struct split_definition space = {RUN, .set = {CLASS_SPACE, false, NULL, 0},
                                                  .drops_space = true},
                                         words = {.end = split_word_runs, .drops_space = true},
                                         bert = {.end = split_bert, .drops_space = true},
                                         marks = {.end = split_bert_punctuation},
                                         mark = {.end = split_bert_punctuation, .run_max = 1};
    if (text_equals_string(type, "WhitespaceSplit"))
        return &space;
    if (text_equals_string(type, "Whitespace"))
        return &words;
    if (text_equals_string(type, "BertPreTokenizer"))
        return &bert;
    if (text_equals_string(type, "Punctuation"))
        return contiguous ? &marks : &mark;
    return NULL;
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST         "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER_SET    "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER_SET    "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define UPPER        "[" UPPER_SET "]"
#define LOWER        "[" LOWER_SET "]"
#define NO_HAN(set)  "[" set "&&[^\\p{Han}]]"
#define LEAD         "[^\\r\\n\\p{L}\\p{N}]?"

static const struct {
    const char *expression;
    const struct split_definition *definition;
} expressions[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", &gpt2},
    {CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST, &words_3},
    {CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST, &words_1},
    {CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST, &words_any},
    {LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS
                "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" REST,
     &cased_3_contractions},
    {LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" REST,
     &cased_1},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*|" REST,
     &deepseek3},
    {CONTRACTIONS "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" REST,
     &words_1_marks},
    {CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" REST, &words_1_no_newlines},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
     "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     &words_1},
    {CONTRACTIONS "|" LEAD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
                  "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     &exaone_moe},
    {"[\\p{Han}]+|" LEAD NO_HAN(UPPER_SET) "*" NO_HAN(LOWER_SET) "+" CONTRACTIONS "?|" LEAD NO_HAN(
         UPPER_SET) "+" NO_HAN(LOWER_SET) "*" CONTRACTIONS
                                          "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" REST,
     &cased_3_han},
    {"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", &deepseek_script},
    {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", &han_kana},
    {"\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", &deepseek_punctuation},
    {"\\p{N}", &number},
    {"\\p{N}{1,3}", &numbers_3},
    {"\\p{N}+", &numbers},
    {"[0-9][0-9][0-9]", &three_digits},
    {"[\\r\\n]", &newline},
    {"\\s?\\p{L}+", &coder_words},
    {"\\s?\\p{P}+", &coder_punctuation},
    {"\\s+$", &trailing_space},
};

// Line ends in `expression` may be unescaped.
static bool same_expression(struct text expression, const char *known)
{
    for (size_t i = 0; i < expression.size; i++) {
        char byte = expression.data[i];
        if (byte == '\r' || byte == '\n') {
            if (*known++ != '\\')
                return false;
            byte = byte == '\r' ? 'r' : 'n';
        }
        if (*known++ != byte)
            return false;
    }
    return *known == '\0';
}

const struct split_definition *split_of_expression(struct text expression)
{
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        if (same_expression(expression, expressions[i].expression))
            return expressions[i].definition;
    return NULL;
}
