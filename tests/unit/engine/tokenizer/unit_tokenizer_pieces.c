// WordPiece and Unigram: ids that the tokenizers library 0.23 gives for vocabularies made here, files that are
// refused, and all-MiniLM-L6-v2 where the shared data is.
#include "engine/file/gguf.h"
#include "engine/file/gguf_made.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "schemas/base/base64.h"
#include "schemas/value.h"
#include "tests/support/cases.h"
#include "tests/support/shared_data.h"
#include "tests/support/vocabulary_file.h"

#define BLANK "\xE2\x96\x81"

static struct tokenizer *create_tokenizer(struct text json, struct error *error)
{
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    enum status status =
        vocabulary_parse_json(&vocabulary, &(struct vocabulary_json){.tokenizer = json}, error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, error);
    assert_true(status == STATUS_OK || status == STATUS_REFUSE);
    vocabulary_finish(&vocabulary);
    return tokenizer;
}

static struct tokenizer *create_or_fail(const char *json)
{
    struct error error;
    struct tokenizer *tokenizer = create_tokenizer(text_from_string(json), &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    return tokenizer;
}

static void assert_refused(const char *json, const char *part)
{
    struct error error = {0};
    assert_null(create_tokenizer(text_from_string(json), &error));
    if (!strstr(error.text, part))
        fail_msg("expected \"%s\", got \"%s\"", part, error.text);
}

struct expected_ids {
    const char *text, *ids; // "3 17 9"
};

static void assert_ids(const struct tokenizer *tokenizer, struct text text, const char *expected)
{
    struct token_array ids = {0};
    struct error error;
    char got[256] = "";
    size_t size = 0;
    assert_ok(tokenizer_encode(tokenizer, text, TOKENIZER_PARSE_SPECIAL, &ids, &error), &error);
    for (size_t i = 0; i < ids.n_ids && size < 240; i++)
        size += (size_t)snprintf(got + size, sizeof got - size, i ? " %d" : "%d", ids.ids[i]);
    if (strcmp(got, expected) != 0)
        fail_msg("\"%.*s\": expected %s, got %s", (int)text.size, text.data, expected, got);
    assert_int_equal(tokenizer_least_tokens(tokenizer, text), 0); // no bound is known
    token_array_finish(&ids);
}

static void assert_all(const struct tokenizer *tokenizer, const struct expected_ids *cases, size_t n_cases)
{
    for (size_t i = 0; i < n_cases; i++)
        assert_ids(tokenizer, text_from_string(cases[i].text), cases[i].ids);
}

#define ASSERT_ALL(tokenizer, ...)                                                                           \
    do {                                                                                                     \
        const struct expected_ids cases[] = {__VA_ARGS__};                                                   \
        assert_all(tokenizer, cases, sizeof cases / sizeof *cases);                                          \
    } while (0)

// --- WordPiece ---

#define SPECIAL(id, text) "{\"id\":" #id ",\"content\":\"" text "\",\"normalized\":false,\"special\":true}"
#define BERT(normalizer)                                                                                                    \
    "{\"truncation\":{\"max_length\":4},\"padding\":{\"strategy\":{\"Fixed\":9},\"pad_id\":0},"                             \
    "\"added_tokens\":[" SPECIAL(0, "[PAD]") "," SPECIAL(1, "[UNK]") "," SPECIAL(2, "[CLS]") "," SPECIAL(                   \
        3,                                                                                                                  \
        "[SEP]") ",{\"id\":21,\"content\":\"Fox\",\"normalized\":true,\"special\":false}],"                                 \
                 "\"normalizer\":{\"type\":\"BertNormalizer\"," normalizer "},\"pre_tokenizer\":"                           \
                 "{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}," \
                 "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]},"            \
                 "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","          \
                 "\"max_input_chars_per_word\":6,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"un\":4,"      \
                 "\"##aff\":5,\"##able\":6,\"a\":7,\"##b\":8,\"ab\":9,\"##abc\":10,\".\":11,\"\u65e5\":12,\"e\":13,"        \
                 "\"##e\":14,\"i\":15,\"##\u0307\":16,\"\u03c3\":17,\"##\u03c3\":18,\"A\":19,\"##a\":20}}}"
#define UNCASED BERT("\"lowercase\":true,\"strip_accents\":null")

TEST(word_pieces_are_the_longest_from_left_to_right)
{
    struct tokenizer *tokenizer = create_or_fail(UNCASED);
    ASSERT_ALL(tokenizer, {"UNAFF", "4 5"}, {"unaffable", "1"}, {"ababc", "9 10"}, {"ab z ab", "9 1 9"},
               {"aaaaaa", "7 20 20 20 20 20"}, {"aaaaaaa", "1"},
               {"\u03c3\u03c3\u03c3\u03c3\u03c3\u03c3", "17 18 18 18 18 18"},
               {"\u03c3\u03c3\u03c3\u03c3\u03c3\u03c3\u03c3", "1"}, {"[SEP]a", "3 7"}, {"", ""});
    assert_string_equal(tokenizer_model_name(tokenizer), "wordpiece");
    tokenizer_close(tokenizer);
}

TEST(bert_cleans_separates_strips_and_lowers)
{
    struct tokenizer *tokenizer = create_or_fail(UNCASED);
    ASSERT_ALL(tokenizer, {"ab\u0301a", "9 20"}, {"\u65e5a\u65e5", "12 7 12"},
               {"\u00c9\u00e9 .a.", "13 14 11 7 11"}, {"a\x01\uFFFD\u200Db", "9"}, {"\u03a3\u03a3", "17 18"},
               {"\u0130", "15"}, {"a fox\u00a0ab", "7 21 9"}, {"\u3000 ", ""}, {"a\u2e43", "1"});
    tokenizer_close(tokenizer);
    tokenizer = create_or_fail(BERT("\"lowercase\":false,\"strip_accents\":null"));
    ASSERT_ALL(tokenizer, {"A a", "19 7"}, {"\u00e9", "1"}, {"Fox fox", "21 1"});
    tokenizer_close(tokenizer);
    tokenizer = create_or_fail(BERT("\"lowercase\":false,\"strip_accents\":true"));
    ASSERT_ALL(tokenizer, {"e\u0301 \u00e9", "13 13"});
    tokenizer_close(tokenizer);
}

TEST(bert_s_properties_are_described)
{
    struct tokenizer *tokenizer = create_or_fail(UNCASED);
    struct buffer out = {0};
    tokenizer_describe_case(tokenizer, &out);
    buffer_add_string(&out, "; ");
    tokenizer_describe_input(tokenizer, 2, &out);
    assert_string_equal(out.data, "uncased, accents stripped; [CLS] A [SEP] B:1 [SEP]:1");
    buffer_clear(&out);
    static const int32_t ids[] = {2, 9, 10, 11, 7, 3};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        tokenizer_decode(tokenizer, ids[i], false, &out);
    assert_string_equal(out.data, " ababc. a"); // the caller drops the first blank
    assert_true(tokenizer_strips_first_space(tokenizer));
    buffer_finish(&out);
    tokenizer_close(tokenizer);
}

TEST(a_gguf_file_marks_the_pieces_that_start_words)
{
    struct vocabulary_file file = {0};
    static const char *const tokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
    for (size_t i = 0; i < 4; i++)
        add_token(&file, tokens[i], 0, TYPE_CONTROL);
    add_token(&file, BLANK "un", 0, TYPE_NORMAL);
    add_token(&file, "aff", 0, TYPE_NORMAL);
    add_token(&file, BLANK "a", 0, TYPE_NORMAL);
    add_token(&file, "b", 0, TYPE_NORMAL);
    add_key_u32(&file, "tokenizer.ggml.unknown_token_id", 1);
    add_key_u32(&file, "tokenizer.ggml.cls_token_id", 2);
    add_key_u32(&file, "tokenizer.ggml.seperator_token_id", 3);
    struct error error;
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "bert", NULL, &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    struct buffer out = {0};
    tokenizer_describe_case(tokenizer, &out);
    assert_string_equal(out.data, "uncased, accents stripped (assumed: the file does not say)");
    buffer_clear(&out);
    tokenizer_describe_input(tokenizer, 2, &out);
    assert_string_equal(out.data, "[CLS] A [SEP] B:1 [SEP]:1");
    ASSERT_ALL(tokenizer, {"Unaff \u00e1b", "4 5 6 7"}, {"b", "1"}, {"ub", "1"}, {"[CLS]a", "2 6"});
    buffer_finish(&out);
    tokenizer_close(tokenizer);
}

// --- Unigram ---

// A map of the rules \uFF21 -> A, tab -> blank, e and U+0301 -> \u00e9, U+200B -> nothing, \uFB01 -> fi.
static const struct {
    uint32_t index, unit;
} map_units[] = {{0, 0x400},        {8, 0x509},        {9, 0x80000002}, {40, 0x80000004}, {41, 0x581},
                 {67, 0x4AC},       {83, 0x4BC},       {98, 0x480},     {100, 0x465},     {169, 0x4CC},
                 {194, 0x80000008}, {195, 0x581},      {227, 0x4E2},    {232, 0x58B},     {233, 0x80000007},
                 {238, 0x4EF},      {242, 0x80000000}, {243, 0x5A1}};
static const char map_replacements[] = "A\000 \000\303\251\000\000fi";

// Appends the map, or its first n_bytes, as base64.
static void put_map(struct buffer *out, size_t n_bytes, uint32_t changed, uint32_t unit)
{
    static unsigned char bytes[4 + 1024 + sizeof map_replacements];
    const uint32_t size = 1024;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &size, 4);
    for (size_t i = 0; i < sizeof map_units / sizeof *map_units; i++)
        memcpy(bytes + 4 + 4 * map_units[i].index, &map_units[i].unit, 4);
    if (changed)
        memcpy(bytes + 4 + 4 * changed, &unit, 4);
    memcpy(bytes + 4 + 1024, map_replacements, sizeof map_replacements);
    base64_encode((struct text){(const char *)bytes, n_bytes < sizeof bytes ? n_bytes : sizeof bytes}, out);
}

#define METASPACE(settings) "{\"type\":\"Metaspace\",\"replacement\":\"" BLANK "\"," settings "}"
#define WORDS                                                                                                \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}," METASPACE(                   \
        "\"prepend_scheme\":\"always\",\"split\":true") "]}"
#define FIRST METASPACE("\"prepend_scheme\":\"first\",\"split\":false")

static void put_unigram(struct buffer *out, const char *pre_tokenizer, bool bytes, size_t n_map_bytes,
                        uint32_t changed, uint32_t unit)
{
    buffer_add_string(
        out, "{\"added_tokens\":[" SPECIAL(1, "<s>") "," SPECIAL(
                 2, "</s>") "],\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    put_map(out, n_map_bytes, changed, unit);
    buffer_add_format(out,
                      "\"},\"pre_tokenizer\":%s,\"decoder\":" METASPACE("\"prepend_scheme\":\"always\"") ",",
                      pre_tokenizer);
    buffer_add_format(
        out,
        "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":%s,\"vocab\":[[\"<unk>\",0.0],"
        "[\"<s>\",0.0],[\"</s>\",0.0],[\"" BLANK "\",-2.0],[\"a\",-2.5],[\"b\",-2.5],[\"ab\",-4],"
        "[\"" BLANK "a\",-3.5],[\"" BLANK "ab\",-6.0],[\"A\",-3.0],[\"\u00e9\",-3.0],[\"f\",-3.0],"
        "[\"i\",-3.0],[\"aa\",-5.0],[\"zq\",-40.0]%s]}}",
        bytes ? "true" : "false", bytes ? ",[\"<0x7A>\",-9.0],[\"<0x71>\",-9.0]" : "");
}

static struct tokenizer *create_unigram(const char *pre_tokenizer, bool bytes)
{
    struct buffer json = {0};
    put_unigram(&json, pre_tokenizer, bytes, SIZE_MAX, 0, 0);
    struct tokenizer *tokenizer = create_or_fail(json.data);
    buffer_finish(&json);
    return tokenizer;
}

TEST(unigram_takes_the_pieces_with_the_highest_sum)
{
    struct tokenizer *tokenizer = create_unigram(WORDS, false);
    ASSERT_ALL(tokenizer, {"ab", "8"}, {"abab", "8 6"}, {"aa aaa", "7 4 7 13"}, {"bx x", "3 5 0 3 0"},
               {"zz z", "3 0 3 0"}, {"zq", "3 14"}, {"<s>a", "1 7"}, {BLANK "a", "7"}, {" ", ""});
    assert_string_equal(tokenizer_model_name(tokenizer), "unigram");
    tokenizer_close(tokenizer);
}

// The model's vocabulary has them, with the score 0.
TEST(unigram_takes_no_control_token_from_a_text)
{
    struct tokenizer *tokenizer = create_unigram(WORDS, false);
    static const int32_t expected[] = {7, 0, 4};
    struct token_array ids = {0};
    struct error error;
    assert_ok(tokenizer_encode(tokenizer, TEXT("a</s>a"), 0, &ids, &error), &error);
    assert_int_equal(ids.n_ids, 3);
    assert_memory_equal(ids.ids, expected, sizeof expected);
    token_array_finish(&ids);
    tokenizer_close(tokenizer);
}

TEST(a_precompiled_map_replaces_clusters_and_characters)
{
    struct tokenizer *tokenizer = create_unigram(WORDS, false);
    ASSERT_ALL(tokenizer, {"\uff21b", "3 9 5"}, {"e\u0301", "3 10"}, {"a\u200bb", "8"}, {"\ufb01", "3 11 12"},
               {"a\tb", "7 3 5"});
    tokenizer_close(tokenizer);
}

TEST(unknown_text_becomes_bytes_only_if_all_are_tokens)
{
    struct tokenizer *tokenizer = create_unigram(WORDS, true);
    ASSERT_ALL(tokenizer, {"zz", "3 15 15"}, {"zq", "3 14"}, {"zx", "3 0"}, {"xz", "3 0"});
    tokenizer_close(tokenizer);
}

TEST(metaspace_first_inserts_one_blank)
{
    struct tokenizer *tokenizer = create_unigram(FIRST, true);
    ASSERT_ALL(tokenizer, {"a b", "7 3 5"}, {"a</s>b", "7 2 5"}, {" a", "7"});
    tokenizer_close(tokenizer);
}

#define PLAIN(vocab) "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0]," vocab "]}}"

TEST(equal_sums_keep_the_first_path_with_the_library_s_numbers)
{
    struct tokenizer *tokenizer =
        create_or_fail(PLAIN("[\"a\",-0.1],[\"aa\",-0.2],[\"aaa\",-0.30000000000000004],[\"b\",-9]"));
    ASSERT_ALL(tokenizer, {"aa", "2"}, {"aaa", "3"}, {"aaaa", "1 3"}, {"aaaaa", "2 3"}, {"aaaaaa", "2 3 1"},
               {"aaaaaaaa", "2 3 2 1"});
    tokenizer_close(tokenizer);
    // exactly rounded numbers would give 3
    tokenizer = create_or_fail(
        PLAIN("[\"a\",-0.17262915075670793],[\"b\",-1.2136998677153383],[\"ab\",-1.3863290184720463]"));
    ASSERT_ALL(tokenizer, {"ab", "1 2"});
    tokenizer_close(tokenizer);
}

TEST(sentencepiece_s_unigram_is_read_from_a_gguf_file)
{
    struct vocabulary_file file = {0};
    struct error error;
    add_token(&file, "<unk>", 0, TYPE_UNKNOWN);
    add_token(&file, "<s>", 0, TYPE_CONTROL);
    add_token(&file, "</s>", 0, TYPE_CONTROL);
    add_token(&file, BLANK, -2, TYPE_NORMAL);
    add_token(&file, "a", -2.5f, TYPE_NORMAL);
    add_token(&file, BLANK "a", -3.5f, TYPE_NORMAL);
    add_token(&file, "aa", -1, TYPE_UNUSED);
    add_token(&file, "xa", 0, TYPE_USER);
    add_key_u32(&file, "tokenizer.ggml.unknown_token_id", 0);
    add_key_u32(&file, "tokenizer.ggml.eos_token_id", 2);
    add_key_bool(&file, "tokenizer.ggml.add_space_prefix", true);
    add_key_bool(&file, "tokenizer.ggml.remove_extra_whitespaces", true);
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "t5", NULL, &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    ASSERT_ALL(tokenizer, {"  a  a ", "5 5"}, {"aaa", "5 4 4"}, {"axa", "5 7"}, {"zza", "3 0 4"}, {" ", ""},
               {"\xFF", "3 0"}, {"a</s>a", "5 2 5"});
    tokenizer_close(tokenizer);
}

// --- What is refused ---

TEST(models_without_unknown_token_or_with_bad_scores_are_refused)
{
    assert_refused("{\"model\":{\"type\":\"Unigram\",\"unk_id\":null,\"vocab\":[[\"a\",0.0]]}}", "unk_id");
    assert_refused("{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0.0]]}}", "unk_id");
    assert_refused("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",\"NaN\"]]}}", "item 0");
    assert_refused("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}", "with its score");
    assert_refused("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":{\"a\":0}}}", "no array");
    assert_refused("{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"a\":0}}}",
                   "unk_token");
    assert_refused("{\"added_tokens\":[{\"id\":1,\"content\":\"[UNK]\"}],\"model\":{\"type\":\"WordPiece\","
                   "\"unk_token\":\"[UNK]\",\"vocab\":{\"a\":0}}}",
                   "unk_token");
    assert_refused("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":1048576}}}", "below 2^20");
    assert_refused("{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},"
                   "\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0}}}",
                   "UnicodeScripts");
}

TEST(charsmaps_that_are_cut_or_loop_are_refused)
{
    const struct {
        size_t n_bytes;
        uint32_t changed, unit;
        const char *part;
    } cases[] = {
        {3, 0, 0, "does not fit"},
        {500, 0, 0, "does not fit"},
        {4 + 1024, 0, 0, "outside the map"},
        {4 + 1024 + 3, 0, 0, "outside the map"},
        {SIZE_MAX, 238, 0x3BCEF, "loop"}, // the child for a byte leads back to the root's children
        {0, 0, 0, "missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer json = {0};
        put_unigram(&json, WORDS, false, cases[i].n_bytes, cases[i].changed, cases[i].unit);
        assert_refused(json.data, cases[i].part);
        buffer_finish(&json);
    }
}

// --- Published ---

static struct text read_shared(const char *relative, struct arena *arena)
{
    char path[512];
    if (!shared_path(path, sizeof path, relative))
        return (struct text){0};
    FILE *file = fopen(path, "rb");
    char *data = arena_allocate(arena, 1 << 22);
    size_t size = file ? fread(data, 1, 1 << 22, file) : 0;
    if (file)
        fclose(file);
    return (struct text){data, size};
}

static void assert_golden(const struct tokenizer *tokenizer, const struct value *item, const char *first,
                          const char *second)
{
    const struct value *ids = value_get(item, "ids"), *expected_types = value_get(item, "types");
    struct tokenizer_input input = {.texts = {value_get(item, first)->text}, .n_texts = second ? 2 : 1};
    struct token_array got = {0}, types = {0};
    struct error error;
    if (second)
        input.texts[1] = value_get(item, second)->text;
    assert_ok(tokenizer_encode_input(tokenizer, &input, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &got,
                                     &types, NULL, &error),
              &error);
    assert_int_equal(got.n_ids, ids->array.n_items);
    for (size_t i = 0; i < got.n_ids; i++) {
        assert_int_equal(got.ids[i], ids->array.items[i].integer);
        assert_int_equal(types.ids[i], expected_types ? expected_types->array.items[i].integer : 0);
    }
    token_array_finish(&got);
    token_array_finish(&types);
}

TEST(minilm_s_golden_texts_and_pairs_have_their_ids)
{
    struct arena arena = {0};
    struct error error;
    struct text json = read_shared("real/minilm/tokenizer.json", &arena);
    struct text golden = read_shared("real/minilm/golden.json", &arena);
    struct value root;
    if (!json.size || !golden.size) {
        arena_finish(&arena);
        skip();
    }
    struct tokenizer *tokenizer = create_tokenizer(json, &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    assert_ok(json_decode_document(golden, &arena, &root, &error), &error);
    static const char *const lists[] = {"texts", "tokenizer", "pairs"};
    for (size_t l = 0; l < 3; l++) {
        const struct value *list = value_get(&root, lists[l]);
        assert_true(list->array.n_items >= 4);
        for (size_t i = 0; i < list->array.n_items; i++)
            assert_golden(tokenizer, &list->array.items[i], l == 2 ? "first" : "text",
                          l == 2 ? "second" : NULL);
    }
    tokenizer_close(tokenizer);
    arena_finish(&arena);
}
