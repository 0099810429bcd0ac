// tokenizer.json: how Split, ByteLevel and Digits cut a text, and how blanks and characters without a token are
// encoded. The ids are those of Hugging Face's tokenizers 0.23.3 for the same files.
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/support/cases.h"

#define M "\xE2\x96\x81" // U+2581
#define G "\xC4\xA0"     // a blank in GPT-2's byte alphabet

// Every pair of neighbours in the texts below merges, where no cut is between them.
#define BYTES_MODEL                                                                                          \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"" G                                            \
    "\":2,\"1\":3,\".\":4,\"\xC3\x82\":5,\"\xC2\xB2\":6,\"" G "a\":7,\"a" G "\":8,\"aa\":9,\"" G G           \
    "\":10,\"a1\":11,\"1a\":12,\"\xC3\x82\xC2\xB2\":13,\"\xC2\xB2"                                           \
    "a\":14,\"ab\":15,\"1" G "\":16,\"" G "1\":17},\"merges\":[\"" G " " G "\",\"a " G "\",\"" G             \
    " a\",\"a a\",\"a 1\",\"1 a\",\"\xC3\x82 \xC2\xB2\",\"\xC2\xB2 a\",\"a b\",\"1 " G "\",\"" G " 1\"]}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

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

static void assert_ids(const char *json, const char *text, const char *expected)
{
    struct token_array ids = {0};
    struct error error;
    struct buffer got = {0};
    struct tokenizer *tokenizer = create(json, &error);
    if (!tokenizer)
        fail_msg("%s: %s", json, error.text);
    assert_ok(tokenizer_encode(tokenizer, text_from_string(text), 0, &ids, &error), &error);
    for (size_t i = 0; i < ids.n_ids; i++)
        buffer_add_format(&got, i ? " %d" : "%d", ids.ids[i]);
    if (strcmp(got.data ? got.data : "", expected) != 0)
        fail_msg("%s: expected %s, got %s", json, expected, got.data ? got.data : "");
    assert_true(tokenizer_least_tokens(tokenizer, text_from_string(text)) <= (int64_t)ids.n_ids);
    buffer_finish(&got);
    token_array_finish(&ids);
    tokenizer_close(tokenizer);
}

static void assert_refused(const char *json, const char *words)
{
    struct error error;
    if (create(json, &error) || !strstr(error.text, words))
        fail_msg("%s: expected %s, got %s", json, words, error.text);
}

// {pattern, "not inverted", "inverted"} of "a  aa1 a"; an empty match cuts too.
TEST(matches_are_isolated_removed_or_merged_as_split_says)
{
    static const struct {
        const char *pattern, *behavior, *ids[2];
    } cases[] = {
        {"\"String\":\" \"", "Isolated", {"0 2 2 9 3 2 0", "0 2 2 9 3 2 0"}},
        {"\"String\":\" \"", "Removed", {"0 9 3 0", "2 2 2"}},
        {"\"String\":\" \"", "MergedWithPrevious", {"8 2 9 16 0", "0 2 7 11 7"}},
        {"\"String\":\" \"", "MergedWithNext", {"0 2 7 11 7", "8 2 9 16 0"}},
        {"\"String\":\" \"", "Contiguous", {"0 10 9 3 2 0", "0 10 9 3 2 0"}},
        {"\"Regex\":\"1*\"", "Isolated", {"0 2 2 0 0 3 2 0", "0 2 2 0 0 3 2 0"}},
        {"\"Regex\":\"1*\"", "Removed", {"0 2 2 0 0 2 0", "3"}},
        {"\"Regex\":\"1*\"", "MergedWithPrevious", {"0 2 2 0 11 2 0", "0 2 2 0 0 16 0"}},
        {"\"Regex\":\"1*\"", "MergedWithNext", {"0 2 2 0 0 16 0", "0 2 2 0 11 2 0"}},
        {"\"Regex\":\"a|1\"", "Removed", {"10 2", "0 0 0 3 0"}},
        {"\"Regex\":\"a|1\"", "MergedWithPrevious", {"0 10 0 0 3 7", "0 10 0 0 16 0"}},
        {"\"Regex\":\"a|1\"", "MergedWithNext", {"0 10 0 0 16 0", "0 10 0 0 3 7"}},
        {"\"Regex\":\"a|1\"", "Contiguous", {"0 10 9 3 2 0", "0 10 9 3 2 0"}},
        // written by hand, where nothing is between two matches or matches are isolated
        {"\"Regex\":\"\\\\p{N}\"", "Removed", {"0 10 9 7", "3"}},
        {"\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!"
         "\\\\S)|\\\\s+\"",
         "Removed",
         {"", "0 2 7 0 3 7"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int inverts = 0; inverts < 2; inverts++) {
            char json[2048];
            snprintf(
                json, sizeof json,
                "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
                "{%s},\"behavior\":\"%s\",\"invert\":%s}," BYTES "]}," BYTES_MODEL "}",
                cases[i].pattern, cases[i].behavior, inverts ? "true" : "false");
            assert_ids(json, "a  aa1 a", cases[i].ids[inverts]);
        }
}

#define AFTER_BYTES(stage)                                                                                   \
    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES "," stage "]}," BYTES_MODEL "}"

// U+00B2 is C2 B2; the byte B2 is spelled U+00B2, which is a number.
TEST(stages_after_the_bytes_cut_their_spelling)
{
    static const char text[] = "a\xC2\xB2"
                               "a11";
    for (int individual = 0; individual < 2; individual++)
        assert_ids(individual ? AFTER_BYTES("{\"type\":\"Digits\",\"individual_digits\":true}")
                              : AFTER_BYTES("{\"type\":\"Digits\",\"individual_digits\":false}"),
                   text, "0 5 6 0 3 3");
    assert_ids(
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_"
        "digits\":true}," BYTES "]}," BYTES_MODEL "}",
        text, "0 13 0 3 3");
    assert_refused(AFTER_BYTES("{\"type\":\"Punctuation\"}"), "Punctuation after ByteLevel");
    assert_refused(AFTER_BYTES(
                       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}\"},\"behavior\":\"Isolated\"}"),
                   "Split after ByteLevel");
    assert_refused(AFTER_BYTES(BYTES), "ByteLevel after ByteLevel");
}

#define FEW_BYTES(more)                                                                                      \
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true," more                      \
    "\"vocab\":{\"<unk>\":0,\"a\":1,\" \":2,\"" M "\":3,\" a\":4,\"" M "a\":5,\"<0x21>\":6},\"merges\":"     \
    "[[\" \",\"a\"],\"" M " a\"]}}"

TEST(blanks_stay_where_nothing_replaces_them)
{
    static const char list[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\" \":1,\" a\":2,\"" M
                               "\":3,\"" M "a\":4},\"merges\":[[\" \",\"a\"],[\"" M "\",\"a\"]]}}";
    assert_ids(list, "a a" M "a", "0 2 4");
    assert_refused("{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"" M "\"},\"model\":{\"type\":\"BPE\","
                   "\"vocab\":{\"a\":0},\"merges\":[]}}",
                   "Prepend of U+2581, without Replace of blanks");
    assert_refused(
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" M
        "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" M
        "\"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
        "\"merges\":[]}}",
        "Metaspace after the normalizer Prepend");
}

// An unknown token comes after the byte tokens that follow it.
TEST(a_character_is_all_byte_tokens_or_unknown_or_dropped)
{
    assert_ids(FEW_BYTES("\"fuse_unk\":true,"), "z!z!a", "6 6 0 1");
    assert_ids(FEW_BYTES(""), "z!z!a", "6 0 6 0 1");
    // blanks on both sides of a dropped character merge
    assert_ids(
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\",\"split\":false},\"model\":{"
        "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"" M "\":1,\"" M M "\":2},\"merges\":[\"" M " " M "\"]}}",
        "a z a", "0 2 0");
}

TEST(a_whole_text_without_words_is_one_token_where_merges_are_ignored)
{
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" M
        "\"},\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"" M "\":1,\"" M M
        "\":2,\"a" M M "\":3},\"merges\":[]}}";
    assert_ids(json, "a  ", "3");
    assert_ids(json, "a  a", "0 1 1 0");
}

TEST(an_added_token_with_another_id_in_the_vocabulary_is_refused)
{
    assert_refused(
        "{\"added_tokens\":[{\"id\":2,\"content\":\"b\",\"special\":false}],\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}",
        "added token \"b\" has id 2, and 1 in model.vocab");
}
