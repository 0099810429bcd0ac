// tokenizer.json: small files part by part, and the shared vocabularies turned into such files, which must
// give the same ids as the GGUF files they are made of.
#include "engine/file/gguf.h"
#include "engine/file/gguf_made.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "schemas/value.h"
#include "tests/support/cases.h"
#include "tests/support/shared_data.h"

#define BLANK "\xE2\x96\x81"

static struct tokenizer *create_tokenizer(struct text json, struct text config, struct error *error)
{
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    enum status status =
        vocabulary_parse_json(&vocabulary, &(struct vocabulary_json){.tokenizer = json, .config = config},
                              error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, error);
    assert_true(status == STATUS_OK || status == STATUS_REFUSE);
    vocabulary_finish(&vocabulary);
    return tokenizer;
}

static struct tokenizer *create_or_fail(const char *json, const char *config)
{
    struct error error;
    struct tokenizer *tokenizer = create_tokenizer(text_from_string(json), text_from_string(config), &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    return tokenizer;
}

// Ids as "3 17 9".
static void assert_ids(const struct tokenizer *tokenizer, const char *text, unsigned flags,
                       const char *expected)
{
    struct token_array ids = {0};
    struct error error;
    char got[256] = "";
    size_t size = 0;
    assert_ok(tokenizer_encode(tokenizer, text_from_string(text), flags, &ids, &error), &error);
    for (size_t i = 0; i < ids.n_ids && size < 240; i++)
        size += (size_t)snprintf(got + size, sizeof got - size, i ? " %d" : "%d", ids.ids[i]);
    if (strcmp(got, expected) != 0)
        fail_msg("\"%s\": expected %s, got %s", text, expected, got);
    assert_true(tokenizer_least_tokens(tokenizer, text_from_string(text)) <= (int64_t)ids.n_ids);
    token_array_finish(&ids);
}

#define BOTH (TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL)

#define PLAIN_MODEL                                                                                          \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,"     \
    "\"<s>\":1,\"</s>\":2,\"<0x21>\":3,\"" BLANK "\":4,\"a\":5,\"b\":6,\"ab\":7,\"" BLANK "ab\":8,\"" BLANK  \
    "a\":9,\"" BLANK BLANK "\":10,\"\xC3\xA9\":11},\"merges\":[\"a b\",\"" BLANK " ab\",\"" BLANK            \
    " a\",\"" BLANK " " BLANK "\"]}"
#define PLAIN_ADDED                                                                                          \
    "\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,\"content\":\"</s>\","      \
    "\"special\":true,\"rstrip\":true},{\"id\":14,\"content\":\"[T]\",\"special\":false,\"lstrip\":true}],"

TEST(prepended_blanks_and_byte_tokens_make_llama_s_vocabulary)
{
    struct tokenizer *tokenizer = create_or_fail(
        "{" PLAIN_ADDED
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" BLANK
        "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" BLANK
        "\"}]},\"pre_tokenizer\":null,"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
        "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]}," PLAIN_MODEL "}",
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\"}");
    assert_ids(tokenizer, "ab a!", BOTH, "1 8 9 3");
    assert_ids(tokenizer, " ab", 0, "4 8"); // two blanks; "ab" takes one before they could merge
    assert_ids(tokenizer, "ab</s>  ab [T]b", BOTH, "1 8 2 8 14 4 6"); // each part gets its blank
    assert_ids(tokenizer, "z", 0, "4 0");
    assert_int_equal(tokenizer_n_tokens(tokenizer), 15);
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), 2);
    assert_true(tokenizer_ends_generation(tokenizer, 2));
    assert_true(tokenizer_strips_first_space(tokenizer));
    tokenizer_close(tokenizer);
}

static struct tokenizer *metaspace(const char *settings)
{
    char json[2048];
    snprintf(json, sizeof json,
             "{%s\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" BLANK "\",%s},%s}",
             PLAIN_ADDED, settings, PLAIN_MODEL);
    return create_or_fail(json, "");
}

TEST(metaspace_prepends_as_its_scheme_says)
{
    struct tokenizer *tokenizer = metaspace("\"prepend_scheme\":\"always\",\"split\":false");
    assert_ids(tokenizer, "ab[T]ab", 0, "8 14 8");
    assert_ids(tokenizer, " ab", 0, "8"); // there is a blank
    tokenizer_close(tokenizer);
    tokenizer = metaspace("\"prepend_scheme\":\"first\",\"split\":false");
    assert_ids(tokenizer, "ab[T]ab", 0, "8 14 7");
    assert_ids(tokenizer, "a  b", 0, "9 10 6");
    tokenizer_close(tokenizer);
    tokenizer = metaspace("\"prepend_scheme\":\"never\",\"split\":true");
    assert_ids(tokenizer, "ab ab", 0, "7 8");
    assert_ids(tokenizer, "a  b", 0, "5 4 4 6"); // blanks never merge
    tokenizer_close(tokenizer);
    tokenizer = metaspace("\"add_prefix_space\":false,\"split\":false");
    assert_ids(tokenizer, "ab", 0, "7");
    tokenizer_close(tokenizer);
}

#define BYTES_MODEL                                                                                          \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xC4\xA0\":2,\"ab\":3,\"\xC4\xA0"              \
    "ab\":4,\"\xC3\x83\":5,\"\xC2\xA9\":6,\"\xC3\x83\xC2\xA9\":7,\"1\":8,\"11\":9,\"A\":10},"                \
    "\"merges\":[[\"a\",\"b\"],[\"\xC4\xA0\",\"ab\"],[\"\xC3\x83\",\"\xC2\xA9\"],[\"1\",\"1\"]]}"

TEST(unicode_forms_case_and_replacements_come_before_everything)
{
    struct tokenizer *tokenizer =
        create_or_fail("{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_"
                       "prefix_space\":false}," BYTES_MODEL "}",
                       "");
    assert_ids(tokenizer, "\xC3\xA9", 0, "7");
    assert_ids(tokenizer, "\x65\xCC\x81", 0, "7"); // e and a combining accent
    tokenizer_close(tokenizer);
    tokenizer = create_or_fail(
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"}"
        ",{\"type\":"
        "\"Replace\",\"pattern\":{\"String\":\"11\"},\"content\":\"ab\"}]},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}," BYTES_MODEL "}",
        "");
    assert_ids(tokenizer, "AB", 0, "4"); // a blank precedes it
    assert_ids(tokenizer, " AB", 0, "4");
    assert_ids(tokenizer, "11 \xEF\xBC\x91", 0, "4 2 8"); // a full-width 1
    tokenizer_close(tokenizer);
}

TEST(splits_digits_and_strings_are_stages)
{
    struct tokenizer *tokenizer = create_or_fail(
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_"
        "digits\":true},"
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(?=b)\"},\"behavior\":\"Isolated\",\"invert\":false},"
        "{\"type\":\"Split\",\"pattern\":{\"String\":\"A\"},\"behavior\":\"Isolated\"},"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}," BYTES_MODEL "}",
        "");
    assert_ids(tokenizer, "11abA", 0, "8 8 0 1 10");
    assert_string_equal(tokenizer_pre_name(tokenizer), "tokenizer.json");
    tokenizer_close(tokenizer);
    // each character of a string is itself: "bA" and nothing shorter or longer
    tokenizer = create_or_fail(
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":{\"String\":\"bA\"},\"behavior\":\"Isolated\"},"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}," BYTES_MODEL "}",
        "");
    assert_ids(tokenizer, "ab", 0, "3");
    assert_ids(tokenizer, "abA", 0, "0 1 10");
    tokenizer_close(tokenizer);
}

// Llama 3's expression is dbrx's too: they differ in whether a word that is a token needs merges.
TEST(the_same_words_have_another_name_where_merges_do_not_matter)
{
    for (int ignores = 0; ignores < 2; ignores++) {
        char json[1024];
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\":{\"type\":\"Sequence\","
                 "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                 "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
                 "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
                 "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                 "\"use_regex\":false}]},\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\"vocab\":{\"a\":0,"
                 "\"b\":1,\"ab\":2},\"merges\":[]}}",
                 ignores ? "true" : "false");
        struct tokenizer *tokenizer = create_or_fail(json, "");
        assert_string_equal(tokenizer_pre_name(tokenizer), ignores ? "llama-bpe" : "dbrx");
        assert_ids(tokenizer, "ab", 0, ignores ? "2" : "0 1");
        tokenizer_close(tokenizer);
    }
}

TEST(what_is_not_known_is_refused_by_name)
{
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"", "\"model\" is missing"},
        {"[", "JSON"},
        {"{\"model\":{\"type\":\"WordLevel\"}}", "WordLevel"},
        {"{\"model\":{\"end_of_word_suffix\":\"</w>\"}}", "end_of_word_suffix"},
        {"{\"model\":{\"vocab\":{}}}", "empty"},
        {"{\"model\":{\"vocab\":{\"a\":-1}}}", "whole number"},
        {"{\"model\":{\"vocab\":{\"a\":1048576}}}", "whole number"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0}}}", "same id"},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", "merges"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", "item 0"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"\"]]}}", "item 0"},
        {"{\"normalizer\":{\"type\":\"ByteLevel\"}," BYTES_MODEL "}", "ByteLevel"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}," BYTES_MODEL
         "}",
         "parenthesis"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}," BYTES_MODEL "}", "BertPreTokenizer"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":\"Merged\"}"
         "," BYTES_MODEL "}",
         "Merged"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}"
         "," BYTES_MODEL "}",
         "ByteLevel"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
         "\"Regex\":\"(\"},"
         "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}," BYTES_MODEL "}",
         "parenthesis"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\"}," BYTES_MODEL "}", "BertProcessing"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"a\",\"single_word\":true}]," BYTES_MODEL "}",
         "single_word"},
        {"{\"added_tokens\":[{\"id\":0}]," BYTES_MODEL "}", "content"},
        {"{\"added_tokens\":[7]," BYTES_MODEL "}", "whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {0};
        struct tokenizer *tokenizer =
            create_tokenizer(text_from_string(cases[i].json), (struct text){0}, &error);
        if (tokenizer || !strstr(error.text, cases[i].words))
            fail_msg("case %zu: expected \"%s\" in: %s", i, cases[i].words, error.text);
    }
}

TEST(the_symbols_of_a_merge_are_limited)
{
    for (int i = 0; i < 8; i++) { // as two strings or one; left or right; at the limit or a byte beyond
        bool is_pair = i & 1, is_left = i & 2, is_beyond = i & 4;
        int n_left = is_left ? VOCABULARY_TOKEN_BYTES_MAX + is_beyond : 1;
        int n_right = is_left ? 1 : VOCABULARY_TOKEN_BYTES_MAX + is_beyond;
        struct buffer json = {0};
        buffer_add_string(&json, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                                 "\"model\":{\"vocab\":{\"x\":0},\"merges\":[");
        buffer_add_string(&json, is_pair ? "[\"" : "\"");
        for (int j = 0; j < n_left; j++)
            buffer_add_byte(&json, 'x');
        buffer_add_string(&json, is_pair ? "\",\"" : " ");
        for (int j = 0; j < n_right; j++)
            buffer_add_byte(&json, 'x');
        buffer_add_string(&json, is_pair ? "\"]]}}" : "\"]}}");
        struct error error = {0};
        struct tokenizer *tokenizer =
            create_tokenizer((struct text){json.data, json.size}, (struct text){0}, &error);
        if (tokenizer || !strstr(error.text, is_beyond ? "item 0 is not two symbols" : "\" is no token"))
            fail_msg("case %d: %s", i, error.text);
        tokenizer_close(tokenizer);
        buffer_finish(&json);
    }
}

// --- The shared vocabularies ---

struct source {
    struct gguf_array tokens, types, merges, scores;
    bool spm, phi;
};

static void put_added(const struct source *source, struct buffer *json)
{
    const char *separator = "";
    buffer_add_string(json, "\"added_tokens\":[");
    for (size_t i = 0; i < source->tokens.n_items; i++) {
        int64_t type = gguf_array_integer(&source->types, i);
        struct text text = source->tokens.strings[i];
        bool control = type == 2 || type == 3;
        if (!control && type != 4)
            continue;
        bool strips = source->phi && !text_equals_string(text, "<unk>") && !text_equals_string(text, "<s>") &&
                      !text_equals_string(text, "<|endoftext|>");
        buffer_add_format(json, "%s{\"id\":%zu,\"special\":%s,\"rstrip\":%s,\"content\":", separator, i,
                          control ? "true" : "false", strips ? "true" : "false");
        json_encode_string(text, json);
        buffer_add_string(json, "}");
        separator = ",";
    }
    buffer_add_string(json, "],");
}

// Tokens by text: ids sorted.
static const struct source *sorting;

static int compare_tokens(const void *a, const void *b)
{
    struct text left = sorting->tokens.strings[*(const int32_t *)a],
                right = sorting->tokens.strings[*(const int32_t *)b];
    int order = memcmp(left.data, right.data, left.size < right.size ? left.size : right.size);
    return order ? order : (left.size > right.size) - (left.size < right.size);
}

static int32_t find_token(const int32_t *sorted, size_t n, struct text text)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct text other = sorting->tokens.strings[sorted[middle]];
        int order = memcmp(text.data, other.data, text.size < other.size ? text.size : other.size);
        order = order ? order : (text.size > other.size) - (text.size < other.size);
        if (order == 0)
            return sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

struct pair {
    int32_t merged;
    uint32_t left_size;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *left = a, *right = b;
    double x = gguf_array_number(&sorting->scores, (size_t)left->merged);
    double y = gguf_array_number(&sorting->scores, (size_t)right->merged);
    if (x != y)
        return x > y ? -1 : 1;
    if (left->merged != right->merged)
        return left->merged < right->merged ? -1 : 1;
    return (left->left_size < right->left_size) - (left->left_size > right->left_size);
}

// SentencePiece's scores as merges: every way to cut a token into two tokens, the highest score first.
static void put_scored_merges(const struct source *source, struct buffer *json)
{
    size_t n = source->tokens.n_items, n_pairs = 0, capacity = 1 << 20;
    int32_t *sorted = malloc(n * sizeof *sorted);
    struct pair *pairs = malloc(capacity * sizeof *pairs);
    sorting = source;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (int32_t)i;
    qsort(sorted, n, sizeof *sorted, compare_tokens);
    for (size_t i = 0; i < n; i++) {
        struct text text = source->tokens.strings[i];
        if (gguf_array_integer(&source->types, i) != 1)
            continue;
        for (size_t at = 1; at < text.size; at++)
            if (find_token(sorted, n, (struct text){text.data, at}) >= 0 &&
                find_token(sorted, n, (struct text){text.data + at, text.size - at}) >= 0 &&
                n_pairs < capacity)
                pairs[n_pairs++] = (struct pair){(int32_t)i, (uint32_t)at};
    }
    qsort(pairs, n_pairs, sizeof *pairs, compare_pairs);
    for (size_t i = 0; i < n_pairs; i++) {
        struct text text = source->tokens.strings[pairs[i].merged];
        buffer_add_string(json, i ? ",[" : "[");
        json_encode_string((struct text){text.data, pairs[i].left_size}, json);
        buffer_add_byte(json, ',');
        json_encode_string((struct text){text.data + pairs[i].left_size, text.size - pairs[i].left_size},
                           json);
        buffer_add_byte(json, ']');
    }
    free(sorted);
    free(pairs);
}

#define SPLIT(regex)                                                                                         \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},"
#define SEQUENCE(parts, bytes)                                                                               \
    "{\"type\":\"Sequence\",\"pretokenizers\":[" parts                                                       \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false," bytes "}]}"
#define BYTES_ONLY "\"use_regex\":false"
#define REST       "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define WORDS(digits)                                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits                           \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" REST

// As their authors publish them.
static const struct {
    const char *name, *pre, *pre_tokenizer;
} published[] = {
    {"gpt-2", "gpt-2", SEQUENCE("", "\"use_regex\":true")},
    {"llama-bpe", "llama-bpe", SEQUENCE(SPLIT(WORDS("\\\\p{N}{1,3}")), BYTES_ONLY)},
    {"qwen2", "qwen2", SEQUENCE(SPLIT(WORDS("\\\\p{N}")), BYTES_ONLY)},
    {"starcoder", "starcoder",
     SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true},", "\"use_regex\":true")},
    {"falcon", "falcon", // what its GGUF vocabulary does; cut before the bytes are spelled
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"},{"
     "\"type\":"
     "\"ByteLevel\",\"add_prefix_space\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9][0-9][0-9]"
     "\"},"
     "\"behavior\":\"Isolated\"}]}"},
    {"deepseek-coder", "deepseek-coder",
     SEQUENCE(SPLIT("[\\r\\n]") SPLIT("\\\\s?\\\\p{L}+") SPLIT("\\\\s?\\\\p{P}+")
                  SPLIT("[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+") "{\"type\":\"Digits\","
                                                                            "\"individual_digits\":true},",
              BYTES_ONLY)},
};

static const char *pre_tokenizer_of(const char *name)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].name, name) == 0)
            return published[i].pre_tokenizer;
    return NULL;
}

static void put_model(const struct source *source, bool ignores_merges, struct buffer *json)
{
    buffer_add_format(json,
                      "\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\"byte_fallback\":%s,\"vocab\":{",
                      ignores_merges ? "true" : "false", source->spm ? "true" : "false");
    const char *separator = "";
    for (size_t i = 0; i < source->tokens.n_items; i++) {
        int64_t type = gguf_array_integer(&source->types, i);
        if (type != 1 && type != 6)
            continue;
        buffer_add_string(json, separator);
        json_encode_string(source->tokens.strings[i], json);
        buffer_add_format(json, ":%zu", i);
        separator = ",";
    }
    buffer_add_string(json, "},\"merges\":[");
    for (size_t i = 0; i < source->merges.n_items; i++) {
        if (i)
            buffer_add_byte(json, ',');
        json_encode_string(source->merges.strings[i], json);
    }
    if (source->spm)
        put_scored_merges(source, json);
    buffer_add_string(json, "]}}");
}

static void put_json(const char *name, struct buffer *json)
{
    char path[512], relative[256];
    struct gguf *gguf;
    struct error error;
    struct source source = {.phi = strcmp(name, "phi-3") == 0};
    snprintf(relative, sizeof relative, "vocab/%s.gguf", name);
    assert_true(shared_path(path, sizeof path, relative));
    assert_ok(gguf_open(&gguf, path, &error), &error);
    assert_ok(gguf_array(gguf, "tokenizer.ggml.tokens", &source.tokens, NULL, &error), &error);
    assert_ok(gguf_array(gguf, "tokenizer.ggml.token_type", &source.types, NULL, &error), &error);
    assert_ok(gguf_array(gguf, "tokenizer.ggml.merges", &source.merges, NULL, &error), &error);
    assert_ok(gguf_array(gguf, "tokenizer.ggml.scores", &source.scores, NULL, &error), &error);
    source.spm = source.merges.n_items == 0;
    buffer_add_string(json, "{");
    put_added(&source, json);
    if (source.spm)
        buffer_add_string(
            json, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
                  "\"" BLANK "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" BLANK
                  "\"}]},");
    else
        buffer_add_format(json, "\"pre_tokenizer\":%s,", pre_tokenizer_of(name));
    put_model(&source, strcmp(name, "llama-bpe") == 0, json);
    gguf_close(gguf);
}

static struct tokenizer *convert(const char *name)
{
    struct buffer json = {0};
    struct error error;
    put_json(name, &json);
    struct tokenizer *tokenizer =
        create_tokenizer((struct text){json.data, json.size}, (struct text){0}, &error);
    if (!tokenizer)
        fail_msg("%s: %s", name, error.text);
    buffer_finish(&json);
    return tokenizer;
}

// As `sheaf quantize` writes it for others: the keys tokenizer.ggml.* made from tokenizer.json, and those
// alone.
static struct tokenizer *convert_and_write(const char *name, const char *pre)
{
    static const char config[] = "{\"pad_token\":{\"content\":\"!\"}}";
    struct buffer json = {0};
    struct error error;
    struct gguf *gguf;
    struct text text;
    struct vocabulary_gaps gaps;
    struct tokenizer *tokenizer;
    struct gguf_writer source = {0}, keys = {0};
    put_json(name, &json);
    gguf_writer_text(&source, "tokenizer.huggingface.json", (struct text){json.data, json.size});
    gguf_writer_text(&source, "tokenizer.huggingface.config", text_from_string(config));
    assert_ok(gguf_create(&gguf, "source", &source, NULL, 0, (struct gguf_source){0}, &error), &error);
    assert_ok(vocabulary_write_ggml(gguf, &keys, &gaps, &error), &error);
    assert_int_equal(gaps.unknown.size, 0);
    gguf_close(gguf);
    assert_ok(gguf_create(&gguf, "written", &keys, NULL, 0, (struct gguf_source){0}, &error), &error);
    assert_false(gguf_has(gguf, "tokenizer.huggingface.json"));
    assert_true(gguf_has(gguf, "tokenizer.ggml.padding_token_id"));
    assert_ok(gguf_text(gguf, "tokenizer.ggml.pre", &text, NULL, &error), &error);
    if (!text_equals_string(text, pre))
        fail_msg("%s: expected pre-tokenizer %s, got %.*s", name, pre, (int)text.size, text.data);
    if (tokenizer_open(&tokenizer, gguf, NULL, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.text);
    gguf_close(gguf);
    gguf_writer_finish(&source);
    gguf_writer_finish(&keys);
    buffer_finish(&json);
    return tokenizer;
}

// ---- keys for other engines ----

// "key=value", in the order that is asked for.
static void add_key(const struct gguf *gguf, const char *key, struct buffer *out)
{
    struct error error;
    struct gguf_array array = {0};
    struct text text;
    uint32_t number;
    bool flag, found;
    buffer_add_format(out, "%s=", key);
    if (!gguf_has(gguf, key))
        buffer_add_string(out, "none");
    else if (gguf_array(gguf, key, &array, &found, &error) == STATUS_OK)
        for (size_t i = 0; i < array.n_items; i++) {
            buffer_add_string(out, i ? "," : "");
            if (array.kind == GGUF_STRING)
                buffer_add_text(out, array.strings[i]);
            else
                buffer_add_format(out, "%g", gguf_array_number(&array, i));
        }
    else if (gguf_text(gguf, key, &text, &found, &error) == STATUS_OK)
        buffer_add_text(out, text);
    else if (gguf_bool(gguf, key, &flag, &found, &error) == STATUS_OK)
        buffer_add_string(out, flag ? "true" : "false");
    else if (gguf_u32(gguf, key, &number, &found, &error) == STATUS_OK)
        buffer_add_format(out, "%u", number);
    else
        fail_msg("%s: %s", key, error.text);
    buffer_add_string(out, "\n");
}

static void assert_written(const char *json, const char *config, const char *expected)
{
    static const char *const names[] = {
        "model",         "pre",           "tokens",          "token_type",       "merges",
        "scores",        "bos_token_id",  "eos_token_id",    "unknown_token_id", "padding_token_id",
        "add_bos_token", "add_eos_token", "add_space_prefix"};
    struct gguf_writer source = {0}, keys = {0};
    struct buffer out = {0};
    struct error error;
    struct gguf *gguf;
    struct vocabulary_gaps gaps;
    gguf_writer_text(&source, "tokenizer.huggingface.json", text_from_string(json));
    gguf_writer_text(&source, "tokenizer.huggingface.config", text_from_string(config));
    assert_ok(gguf_create(&gguf, "source", &source, NULL, 0, (struct gguf_source){0}, &error), &error);
    assert_ok(vocabulary_write_ggml(gguf, &keys, &gaps, &error), &error);
    gguf_close(gguf);
    assert_ok(gguf_create(&gguf, "written", &keys, NULL, 0, (struct gguf_source){0}, &error), &error);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s", names[i]);
        add_key(gguf, key, &out);
    }
    assert_string_equal(out.data, expected);
    buffer_finish(&out);
    gguf_close(gguf);
    gguf_writer_finish(&source);
    gguf_writer_finish(&keys);
}

TEST(the_eos_that_is_named_ends_an_answer_beside_one_that_the_template_appends)
{
    struct tokenizer *tokenizer = create_or_fail(
        "{" PLAIN_ADDED "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":"
        "{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}]}," PLAIN_MODEL "}",
        "{\"eos_token\":\"</s>\"}");
    assert_ids(tokenizer, "ab", BOTH, "7 1");
    assert_true(tokenizer_ends_generation(tokenizer, 1));
    assert_true(tokenizer_ends_generation(tokenizer, 2));
    assert_false(tokenizer_ends_generation(tokenizer, 14));
    tokenizer_close(tokenizer);
}

#define FALLBACK_MODEL(fallback, merges)                                                                     \
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true}],\"model\":{\"type\":\"BPE\","     \
    "\"unk_token\":\"<unk>\"," fallback "\"vocab\":{\"<unk>\":0,\"<0x21>\":1,\"a\":2,\"b\":3,\"ab\":4},"     \
    "\"merges\":[" merges "]}}"

TEST(byte_tokens_are_a_fallback_only_where_the_model_says_so)
{
    static const struct {
        const char *json, *ids;
    } cases[] = {{FALLBACK_MODEL("\"byte_fallback\":true,", "\"a b\""), "4 1"},
                 {FALLBACK_MODEL("\"byte_fallback\":false,", "\"a b\""), "4 0"},
                 {FALLBACK_MODEL("", "\"a b\""), "4 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = create_or_fail(cases[i].json, "{}");
        assert_ids(tokenizer, "ab!", 0, cases[i].ids);
        tokenizer_close(tokenizer);
    }
}

TEST(a_setting_that_other_readers_of_the_gguf_ignore_is_named)
{
    static const struct {
        const char *json, *ignored;
    } cases[] = {
        {FALLBACK_MODEL("\"byte_fallback\":false,", "\"a b\""), "byte_fallback false of the tokenizer"},
        {FALLBACK_MODEL("\"byte_fallback\":true,", "\"a b\""), ""},
        {"{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "the normalizer of tokenizer.json"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_writer source = {0}, keys = {0};
        struct vocabulary_gaps gaps;
        struct error error;
        struct gguf *gguf;
        gguf_writer_text(&source, "tokenizer.huggingface.json", text_from_string(cases[i].json));
        assert_ok(gguf_create(&gguf, "source", &source, NULL, 0, (struct gguf_source){0}, &error), &error);
        assert_ok(vocabulary_write_ggml(gguf, &keys, &gaps, &error), &error);
        assert_int_equal(gaps.unknown.size, 0);
        assert_true(text_equals_string(gaps.ignored, cases[i].ignored));
        gguf_close(gguf);
        gguf_writer_finish(&source);
        gguf_writer_finish(&keys);
    }
}

TEST(a_merge_of_what_is_no_token_is_refused)
{
    static const struct {
        const char *merges, *named;
    } cases[] = {{FALLBACK_MODEL("", "\"b a\""),
                  "model.merges: item 0: \"b\" and \"a\" merge into \"ba\", which is no token"},
                 {FALLBACK_MODEL("", "\"a b\",\"c a\""), "model.merges: item 1: \"c\" is no token"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error;
        assert_null(create_tokenizer(text_from_string(cases[i].merges), text_from_string("{}"), &error));
        if (!strstr(error.text, cases[i].named))
            fail_msg("expected %s in: %s", cases[i].named, error.text);
    }
}

// A score is minus the rank of the first merge that gives the token, from 1.
TEST(a_vocabulary_of_blanks_is_written_with_scores)
{
    assert_written(
        "{" PLAIN_ADDED "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
        "\"prepend\":\"" BLANK "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
        "\"content\":\"" BLANK "\"}]},\"pre_tokenizer\":null,"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
        "{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]}," PLAIN_MODEL "}",
        "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}",
        "tokenizer.ggml.model=llama\ntokenizer.ggml.pre=default\n"
        "tokenizer.ggml.tokens=<unk>,<s>,</s>,<0x21>," BLANK ",a,b,ab," BLANK "ab," BLANK "a," BLANK BLANK
        ",\xC3\xA9,[PAD12],[PAD13],[T]\n"
        "tokenizer.ggml.token_type=2,3,3,6,1,1,1,1,1,1,1,1,5,5,4\ntokenizer.ggml.merges=none\n"
        "tokenizer.ggml.scores=0,0,0,0,0,0,0,-1,-2,-3,-4,0,0,0,0\n"
        "tokenizer.ggml.bos_token_id=1\ntokenizer.ggml.eos_token_id=2\n"
        "tokenizer.ggml.unknown_token_id=0\ntokenizer.ggml.padding_token_id=none\n"
        "tokenizer.ggml.add_bos_token=true\ntokenizer.ggml.add_eos_token=false\n"
        "tokenizer.ggml.add_space_prefix=true\n");
}

TEST(a_vocabulary_of_bytes_is_written_with_its_merges)
{
    assert_written(
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<end>\",\"special\":true}],"
        "\"pre_tokenizer\":" SEQUENCE(
            "",
            "\"use_regex\":true") ","
                                  "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"aab\":3},"
                                  "\"merges\":[\"a b\",\"a ab\"]}}",
        "{\"eos_token\":\"<end>\",\"pad_token\":\"<end>\"}",
        "tokenizer.ggml.model=gpt2\ntokenizer.ggml.pre=gpt-2\n"
        "tokenizer.ggml.tokens=a,b,ab,aab,<end>\ntokenizer.ggml.token_type=1,1,1,1,3\n"
        "tokenizer.ggml.merges=a b,a ab\ntokenizer.ggml.scores=none\n"
        "tokenizer.ggml.bos_token_id=none\ntokenizer.ggml.eos_token_id=4\n"
        "tokenizer.ggml.unknown_token_id=none\ntokenizer.ggml.padding_token_id=4\n"
        "tokenizer.ggml.add_bos_token=false\ntokenizer.ggml.add_eos_token=false\n"
        "tokenizer.ggml.add_space_prefix=false\n");
}

static size_t compare_with(struct tokenizer *tokenizer, const char *name, const struct value *cases)
{
    const struct value *texts = value_get(cases, "texts");
    size_t n_different = 0;
    for (int special = 0; special < 2; special++) {
        const struct value *expected = value_get(value_get(cases, special ? "ids_special" : "ids"), name);
        for (size_t i = 0; i < texts->array.n_items; i++) {
            struct token_array ids = {0};
            struct error error;
            struct text text = texts->array.items[i].text;
            const struct value *wanted = &expected->array.items[i];
            assert_ok(tokenizer_encode(tokenizer, text, special ? TOKENIZER_PARSE_SPECIAL : 0, &ids, &error),
                      &error);
            bool same = ids.n_ids == wanted->array.n_items;
            for (size_t j = 0; same && j < ids.n_ids; j++)
                same = ids.ids[j] == wanted->array.items[j].integer;
            if (!same)
                print_message("%s: text %zu differs: %.60s\n", name, i, text.data);
            n_different += !same;
            token_array_finish(&ids);
        }
    }
    tokenizer_close(tokenizer);
    return n_different;
}

TEST(the_shared_vocabularies_as_tokenizer_json_give_the_same_ids)
{
    char path[512];
    if (!shared_path(path, sizeof path, "vocab/cases.json"))
        skip();
    FILE *file = fopen(path, "rb");
    struct buffer json = {0};
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        buffer_add(&json, block, n);
    fclose(file);
    struct arena arena = {0};
    struct value cases;
    struct error error;
    assert_ok(json_decode((struct text){json.data, json.size}, &arena, &cases, &error), &error);
    size_t n_different = 0;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        n_different += compare_with(convert(published[i].name), published[i].name, &cases);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        n_different +=
            compare_with(convert_and_write(published[i].name, published[i].pre), published[i].name, &cases);
    n_different += compare_with(convert("llama-spm"), "llama-spm", &cases);
    n_different += compare_with(convert_and_write("llama-spm", "default"), "llama-spm", &cases);
    n_different += compare_with(convert("phi-3"), "phi-3", &cases);
    n_different += compare_with(convert_and_write("phi-3", "default"), "phi-3", &cases);
    assert_int_equal(n_different, 0);
    arena_finish(&arena);
    buffer_finish(&json);
}

static void assert_unk_token(const char *config, const char *expected)
{
    struct tokenizer *tokenizer = create_or_fail("{" PLAIN_ADDED PLAIN_MODEL "}", config);
    struct text text = tokenizer_token_text(tokenizer, tokenizer_unk_token(tokenizer));
    if (!text_equals_string(text, expected))
        fail_msg("%s: expected \"%s\", got \"%.*s\"", config, expected, (int)text.size,
                 text.data ? text.data : "");
    assert_ids(tokenizer, "z", 0, "0"); // encoding uses the model's
    tokenizer_close(tokenizer);
}

TEST(templates_see_the_unknown_token_of_the_configuration_before_the_model_s)
{
    assert_unk_token("", "<unk>");
    assert_unk_token("{}", "<unk>");
    assert_unk_token("{\"unk_token\":\"</s>\"}", "</s>");
    assert_unk_token("{\"unk_token\":{\"content\":\"<s>\"}}", "<s>");
    assert_unk_token("{\"unk_token\":null}", "");
    assert_unk_token("{\"unk_token\":\"no token\"}", "");
}
