// tokenizer.json: added tokens in normalized text, and how tokens become text. The ids and texts are those of
// Hugging Face's tokenizers 0.23.3 for the same files.
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/support/cases.h"

#define M "\xE2\x96\x81" // U+2581

#define MODEL(more)                                                                                          \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true," more                       \
    "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"<0x21>\":3,\"" M "\":4,\"a\":5,\"b\":6,\"ab\":7,\"" M     \
    "ab\":8,\"" M "a\":9,\"" M M "\":10,\"\xC3\xA9\":11,\"<\":12,\"t\":13,\">\":14,\"c\":15},\"merges\":["   \
    "\"a b\",\"" M " ab\",\"" M " a\",\"" M " " M "\"]}"
#define ADDED                                                                                                \
    "\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true,\"normalized\":true},{\"id\":16,"      \
    "\"content\":\"<t>\",\"special\":false,\"normalized\":true},{\"id\":17,\"content\":\"ab>\",\"special\":" \
    "false,\"normalized\":false}],"
#define BLANKS "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" M "\"}"
#define LLAMA                                                                                                \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" M          \
    "\"}," BLANKS "]},"

static struct tokenizer *create(const char *json, struct error *error)
{
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    struct vocabulary_json files = {.tokenizer = text_from_string(json)};
    enum status status = vocabulary_parse_json(&vocabulary, &files, error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, error);
    vocabulary_finish(&vocabulary);
    return tokenizer;
}

static struct tokenizer *create_or_fail(const char *json)
{
    struct error error;
    struct tokenizer *tokenizer = create(json, &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    return tokenizer;
}

// add_prefix_space of tokenizer_config.json counts before tokenizer.json's, where ByteLevel is alone.
TEST(the_configuration_says_whether_a_blank_is_put_before_bytes)
{
    static const char words[] = "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\xC4\xA0\":1,\"\xC4\xA0"
                                "a\":2},\"merges\":[\"\xC4\xA0 a\"]}}",
                      alone[] = "", listed[] = "{\"type\":\"Sequence\",\"pretokenizers\":[";
    static const struct {
        const char *before, *file, *config;
        int32_t id;
    } cases[] = {
        {alone, "false", "{}", 0},
        {alone, "false", "{\"add_prefix_space\":true}", 2},
        {alone, "true", "{\"add_prefix_space\":false}", 0},
        {alone, "true", "{\"add_prefix_space\":null}", 2},
        {listed, "false", "{\"add_prefix_space\":true}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary vocabulary = {0};
        struct tokenizer *tokenizer = NULL;
        struct token_array ids = {0};
        struct error error;
        struct buffer json = {0};
        buffer_add_format(&json, "{\"pre_tokenizer\":%s{\"type\":\"ByteLevel\",\"add_prefix_space\":%s}%s,%s",
                          cases[i].before, cases[i].file, cases[i].before == alone ? "" : "]}", words);
        struct vocabulary_json files = {.tokenizer = {json.data, json.size},
                                        .config = text_from_string(cases[i].config)};
        assert_ok(vocabulary_parse_json(&vocabulary, &files, &error), &error);
        assert_ok(tokenizer_create(&tokenizer, &vocabulary, &error), &error);
        assert_ok(tokenizer_encode(tokenizer, TEXT("a"), 0, &ids, &error), &error);
        assert_int_equal(ids.n_ids, 1);
        assert_int_equal(ids.ids[0], cases[i].id);
        token_array_finish(&ids);
        tokenizer_close(tokenizer);
        vocabulary_finish(&vocabulary);
        buffer_finish(&json);
    }
}

TEST(an_expression_that_transformers_would_replace_is_refused)
{
    static const char fixed[] =
        "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}"
        "\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}"
        "\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
        "\\\\s+";
    for (int i = 0; i < 4; i++) {
        struct vocabulary vocabulary = {0};
        struct error error = {0};
        struct buffer json = {0};
        buffer_add_format(
            &json,
            "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
            "\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
            "\"use_regex\":false}]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
            i & 1 ? fixed : "a+");
        struct vocabulary_json files = {.tokenizer = {json.data, json.size},
                                        .config = text_from_string(i & 2 ? "{\"fix_mistral_regex\":true}"
                                                                         : "{\"fix_mistral_regex\":false}")};
        enum status status = vocabulary_parse_json(&vocabulary, &files, &error);
        assert_int_equal(status, i == 2 ? STATUS_REFUSE : STATUS_OK);
        assert_true(i != 2 || strstr(error.text, "fix_mistral_regex with another first expression"));
        vocabulary_finish(&vocabulary);
        buffer_finish(&json);
    }
}

static void show(const struct token_array *ids, char out[256])
{
    out[0] = 0;
    for (size_t i = 0; i < ids->n_ids; i++)
        snprintf(out + strlen(out), 256 - strlen(out), i ? " %d" : "%d", ids->ids[i]);
}

// The text's tokens; in the parts `plain` (may be NULL) control tokens are text.
static void assert_ids(const struct tokenizer *tokenizer, const char *text, const struct text_spans *plain,
                       const char *expected)
{
    struct token_array ids = {0};
    struct error error;
    char got[256];
    assert_ok(tokenizer_encode_around(tokenizer, text_from_string(text), plain, TOKENIZER_PARSE_SPECIAL, &ids,
                                      &error),
              &error);
    show(&ids, got);
    if (strcmp(got, expected) != 0)
        fail_msg("\"%s\": expected %s, got %s", text, expected, got);
    assert_true(tokenizer_least_tokens(tokenizer, text_from_string(text)) <= (int64_t)ids.n_ids);
    token_array_finish(&ids);
}

struct added_case {
    const char *text, *ids;
};

static void assert_cases(const char *json, const struct added_case *cases, size_t n_cases)
{
    struct tokenizer *tokenizer = create_or_fail(json);
    for (size_t i = 0; i < n_cases; i++)
        assert_ids(tokenizer, cases[i].text, NULL, cases[i].ids);
    tokenizer_close(tokenizer);
}

#define CASES(json, ...)                                                                                     \
    do {                                                                                                     \
        static const struct added_case cases[] = {__VA_ARGS__};                                              \
        assert_cases(json, cases, sizeof cases / sizeof *cases);                                             \
    } while (0)

TEST(tokens_are_found_where_the_normalizer_has_written_their_blanks)
{
    CASES("{" ADDED LLAMA MODEL("") "}", {"a <t>ab", "9 16 7"}, {"<t>", "16"}, {"a<t>", "9 12 13 14"},
          {" <s>a<s>", "4 1 5 12 0 14"}, {"<s> <s>", "1 1"}, {"a  <t>", "9 4 16"},
          {"ab>b <tab>", "17 4 6 4 12 13 17"});
    CASES("{" ADDED "\"normalizer\":" BLANKS "," MODEL("") "}", {"a <t>ab", "5 4 16 7"}, {"<t>", "16"},
          {"a<t>", "5 16"}, {" <s>a<s>", "4 1 5 1"}, {"<s> <s>", "1 4 1"}, {"a  <t>", "5 10 16"},
          {"ab>b <tab>", "17 6 4 12 13 17"});
    CASES("{" ADDED "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" M
          "\",\"prepend_scheme\":\"always\",\"split\":true}," MODEL("") "}",
          {"a <t>ab", "9 4 16 8"}, {"<t>", "16"}, {"a<t>", "9 16"}, {" <s>a<s>", "4 1 9 1"},
          {"<s> <s>", "1 4 1"}, {"a  <t>", "9 4 4 16"}, {"ab>b <tab>", "17 4 6 4 12 13 17"});
}

TEST(tokens_are_found_in_the_text_that_a_normalizer_made)
{
    CASES(
        "{\"added_tokens\":[{\"id\":16,\"content\":\"<T>\",\"normalized\":true},{\"id\":17,\"content\":\"<C>\","
        "\"normalized\":false}],\"normalizer\":{\"type\":\"Lowercase\"}," MODEL("") "}",
        {"a<t>a", "5 16 5"}, {"<T>A", "16 5"}, {"<c><C>", "12 15 14 17"}, {"Ab", "7"});
}

TEST(tokens_of_the_given_text_come_before_those_of_the_normalized)
{
    CASES(
        "{\"added_tokens\":[{\"id\":16,\"content\":\"ab<\",\"normalized\":true},{\"id\":17,\"content\":\"<t>\","
        "\"normalized\":false}]," MODEL("") "}",
        {"ab<t>ab<", "7 17 16"}, {"ab<t", "16 13"});
}

TEST(white_space_of_any_script_is_taken_away)
{
    CASES("{\"added_tokens\":[{\"id\":16,\"content\":\"<t>\",\"lstrip\":true,\"rstrip\":true}]," MODEL(
              "") "}",
          {"a\xE3\x80\x80\xC2\xA0\n<t>\xE2\x80\x83\xE1\x9A\x80"
           "a",
           "5 16 5"},
          {"a\x1F<t>", "5 0 16"});
}

TEST(unknown_characters_in_a_row_are_one_token_where_they_are_fused)
{
    CASES("{" LLAMA MODEL("") "}", {"xyza xx", "4 0 0 0 5 4 0 0"}, {"\xC3\xA9x y", "4 11 0 4 0"});
    CASES("{" LLAMA MODEL("\"fuse_unk\":true,") "}", {"xyza xx", "4 0 5 4 0"}, {"\xC3\xA9x y", "4 11 0 4 0"});
}

// "<s>" of a message is text, in the normalized text too; what stands around it is found.
TEST(a_message_s_control_tokens_stay_text_in_normalized_text)
{
    static const char text[] = "a b <s>a <s> b <s>"; // the message is "b <s>a"
    struct text_spans plain = {0};
    struct tokenizer *tokenizer = create_or_fail("{" ADDED LLAMA MODEL("") "}");
    assert_ids(tokenizer, text, NULL, "9 4 6 1 5 1 4 6 1");
    text_spans_add(&plain, 2, 8);
    assert_ids(tokenizer, text, &plain, "9 4 6 4 12 0 14 5 1 4 6 1");
    text_spans_finish(&plain);
    plain = (struct text_spans){0};
    text_spans_add(&plain, 0, 13); // its last blank belongs to the token after it
    assert_ids(tokenizer, "a b <s>a <s> <s>", &plain, "9 4 6 4 12 0 14 5 4 12 0 14 1");
    text_spans_finish(&plain);
    tokenizer_close(tokenizer);
    tokenizer = create_or_fail("{" ADDED MODEL("") "}");
    plain = (struct text_spans){0};
    text_spans_add(&plain, 4, 8);
    assert_ids(tokenizer, "<s>b<s>a<s>", &plain, "1 6 12 0 14 5 1");
    text_spans_finish(&plain);
    tokenizer_close(tokenizer);
}

static void assert_text(const struct tokenizer *tokenizer, const char *ids, const char *expected)
{
    struct buffer text = {0};
    for (char *end; *ids; ids = end)
        tokenizer_decode(tokenizer, (int32_t)strtol(ids, &end, 10), true, &text);
    size_t first = tokenizer_strips_first_space(tokenizer) && text.size && text.data[0] == ' ';
    if (text.size - first != strlen(expected) || memcmp(text.data + first, expected, strlen(expected)) != 0)
        fail_msg("expected \"%s\", got \"%.*s\"", expected, (int)(text.size - first), text.data + first);
    buffer_finish(&text);
}

#define REPLACE(from, to)                                                                                    \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"
#define STRIP(text, start, stop)                                                                             \
    "{\"type\":\"Strip\",\"content\":\"" text "\",\"start\":" start ",\"stop\":" stop "}"
#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"decoders\":[" steps "]}"
#define FALLBACK        "{\"type\":\"ByteFallback\"}"
#define FUSE            "{\"type\":\"Fuse\"}"
#define METASPACE(scheme)                                                                                    \
    "{\"type\":\"Metaspace\",\"replacement\":\"" M "\",\"prepend_scheme\":\"" scheme "\",\"split\":true}"

TEST(tokens_become_text_as_the_decoder_says)
{
    static const struct {
        const char *decoder, *texts[3]; // of "ab a!", "  ab" and "a <t>"
    } cases[] = {
        {SEQUENCE(REPLACE(M, " ") "," FALLBACK "," FUSE "," STRIP(" ", "1", "0")),
         {"ab a!", "  ab", "a <t>"}},
        {SEQUENCE(REPLACE(M, " ") "," FALLBACK "," FUSE), {" ab a!", "   ab", " a <t>"}},
        {SEQUENCE(REPLACE(M, " ") "," FUSE), {" ab a<0x21>", "   ab", " a <t>"}},
        {SEQUENCE(REPLACE(M, " ") "," FALLBACK "," STRIP("b", "0", "1")), {" a a!", "   a", " a <t>"}},
        {METASPACE("never"), {" ab a<0x21>", "   ab", " a <t>"}},
        {METASPACE("first"), {"ab a<0x21>", "  ab", "a <t>"}},
        {SEQUENCE(REPLACE("ab", "<ab>") "," FALLBACK "," REPLACE(M, " ") "," FUSE),
         {" <ab> a!", "   <ab>", " a <t>"}},
        {"null", {"ab a!", "  ab", "a<t>"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[2048];
        snprintf(json, sizeof json, "{%s%s\"decoder\":%s,%s}", ADDED, LLAMA, cases[i].decoder, MODEL(""));
        struct tokenizer *tokenizer = create_or_fail(json);
        assert_text(tokenizer, "8 9 3", cases[i].texts[0]);
        assert_text(tokenizer, "10 8", cases[i].texts[1]);
        assert_text(tokenizer, "9 16", cases[i].texts[2]);
        tokenizer_close(tokenizer);
    }
}

#define BYTE_LEVEL                                                                                           \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"              \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}"

TEST(what_is_not_built_is_refused_by_name)
{
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"{\"decoder\":{\"type\":\"CTC\"}," MODEL("") "}", "decoder \"CTC\""},
        {"{\"decoder\":{\"type\":\"ByteLevel\"}," MODEL("") "}",
         "ByteLevel with tokens that are not of bytes"},
        {"{\"decoder\":" FUSE "," BYTE_LEVEL "}", "other than ByteLevel"},
        {"{\"decoder\":" SEQUENCE("{\"type\":\"ByteLevel\"}," STRIP(" ", "1", "0")) "," BYTE_LEVEL "}",
         "others beside it"},
        {"{\"decoder\":" SEQUENCE(FUSE "," STRIP(" ", "2", "0")) "," MODEL("") "}", "Strip after Fuse"},
        {"{\"decoder\":" SEQUENCE(FUSE "," REPLACE("a", "b")) "," MODEL("") "}", "Replace after Fuse"},
        {"{\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"\"}," MODEL("") "}",
         "a+"},
        {"{\"surprise\":1," MODEL("") "}", "key \"surprise\""},
        {"{" LLAMA BYTE_LEVEL "}", "U+2581 for blanks, before ByteLevel"},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" BLANKS
         ",{\"type\":\"NFC\"}]}," MODEL("") "}",
         "after that of blanks"},
        {"{\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":16,\"content\":\"<T>\",\"special\":true,"
         "\"normalized\":true}]," MODEL("") "}",
         "special token \"<T>\": it is found in normalized text, and the normalizer changes it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {0};
        struct tokenizer *tokenizer = create(cases[i].json, &error);
        if (tokenizer || !strstr(error.text, cases[i].words))
            fail_msg("case %zu: expected \"%s\" in: %s", i, cases[i].words, error.text);
    }
}
