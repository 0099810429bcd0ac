// Inputs of encoders: one text or a pair, the tokens around them, their types, and what a limit cuts.
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/support/cases.h"
#include "tests/support/vocabulary_file.h"

// Tokens: 0 [C], 1 [S], 2 a, 3 b.
static struct tokenizer *create_tokenizer(const char *processor, const char *config, struct error *error)
{
    char json[4096];
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    snprintf(
        json, sizeof json,
        "{\"added_tokens\":[{\"id\":0,\"content\":\"[C]\",\"special\":true},{\"id\":1,\"content\":\"[S]\","
        "\"special\":true}],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"post_processor\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"[C]\":0,\"[S]\":1,\"a\":2,\"b\":3},"
        "\"merges\":[]}}",
        processor);
    const struct vocabulary_json files = {.tokenizer = text_from_string(json),
                                          .config = text_from_string(config)};
    enum status status = vocabulary_parse_json(&vocabulary, &files, error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, error);
    vocabulary_finish(&vocabulary);
    return tokenizer;
}

static struct tokenizer *create_or_fail(const char *processor, const char *config)
{
    struct error error;
    struct tokenizer *tokenizer = create_tokenizer(processor, config, &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    return tokenizer;
}

// Expects ids and types as "0:0 2:0 1:0", and how many tokens were cut. `second` may be NULL.
static void assert_input(const struct tokenizer *tokenizer, const char *first, const char *second,
                         size_t n_tokens_max, const char *expected, size_t n_expected)
{
    const struct tokenizer_input input = {.texts = {text_from_string(first), text_from_string(second)},
                                          .n_texts = second ? 2 : 1,
                                          .n_tokens_max = n_tokens_max};
    struct token_array ids = {0}, types = {0};
    struct error error;
    size_t n_cut, size = 0;
    char got[256] = "";
    assert_ok(tokenizer_encode_input(tokenizer, &input, TOKENIZER_ADD_SPECIAL, &ids, &types, &n_cut, &error),
              &error);
    assert_int_equal(ids.n_ids, types.n_ids);
    for (size_t i = 0; i < ids.n_ids && size < 240; i++)
        size += (size_t)snprintf(got + size, sizeof got - size, "%s%d:%d", i ? " " : "", ids.ids[i],
                                 types.ids[i]);
    assert_string_equal(got, expected);
    assert_int_equal(n_cut, n_expected);
    token_array_finish(&ids);
    token_array_finish(&types);
}

TEST(bert_gives_the_second_text_type_1)
{
    struct tokenizer *tokenizer =
        create_or_fail("{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",1],\"cls\":[\"[C]\",0]}", "");
    assert_input(tokenizer, "ab", NULL, 0, "0:0 2:0 3:0 1:0", 0);
    assert_input(tokenizer, "a", "b", 0, "0:0 2:0 1:0 3:1 1:1", 0);
    assert_input(tokenizer, "", "", 0, "0:0 1:0 1:1", 0);
    assert_int_equal(tokenizer_n_added(tokenizer, 1), 2);
    assert_int_equal(tokenizer_n_added(tokenizer, 2), 3);
    assert_int_equal(tokenizer_type_max(tokenizer), 1);
    assert_true(tokenizer_adds_bos(tokenizer) && tokenizer_adds_eos(tokenizer));
    tokenizer_close(tokenizer);
}

TEST(types_are_0_where_transformers_gives_the_model_none)
{
    static const struct {
        const char *config, *expected;
    } cases[] = {
        {"{\"model_input_names\":[\"input_ids\",\"attention_mask\"]}", "0:0 2:0 1:0 3:0 1:0"},
        {"{\"model_input_names\":[\"input_ids\",\"token_type_ids\"],\"tokenizer_class\":\"TokenizersBackend\"}",
         "0:0 2:0 1:0 3:1 1:1"},
        {"{\"tokenizer_class\":\"TokenizersBackend\"}", "0:0 2:0 1:0 3:0 1:0"},
        {"{\"tokenizer_class\":\"DistilBertTokenizer\"}", "0:0 2:0 1:0 3:0 1:0"},
        {"{\"tokenizer_class\":\"BertTokenizer\"}", "0:0 2:0 1:0 3:1 1:1"},
        {"{\"tokenizer_class\":\"AlbertTokenizer\"}", "0:0 2:0 1:0 3:1 1:1"},
        {"{\"tokenizer_class\":\"AlbertTokenizer\",\"backend\":\"tokenizers\"}", "0:0 2:0 1:0 3:0 1:0"},
        {"{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"model_input_names\":null}",
         "0:0 2:0 1:0 3:1 1:1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer =
            create_or_fail("{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",1],\"cls\":[\"[C]\",0]}",
                           cases[i].config);
        assert_input(tokenizer, "a", "b", 0, cases[i].expected, 0);
        tokenizer_close(tokenizer);
        tokenizer = create_or_fail("null", cases[i].config); // no template: as the texts
        assert_input(tokenizer, "a", "b", 0, strstr(cases[i].expected, "3:1") ? "2:0 3:1" : "2:0 3:0", 0);
        tokenizer_close(tokenizer);
    }
}

TEST(roberta_separates_a_pair_twice_and_has_one_type)
{
    struct tokenizer *tokenizer =
        create_or_fail("{\"type\":\"RobertaProcessing\",\"sep\":[\"[S]\",1],\"cls\":[\"[C]\",0],"
                       "\"trim_offsets\":true,\"add_prefix_space\":false}",
                       "");
    assert_input(tokenizer, "ab", NULL, 0, "0:0 2:0 3:0 1:0", 0);
    assert_input(tokenizer, "a", "b", 0, "0:0 2:0 1:0 1:0 3:0 1:0", 0);
    assert_int_equal(tokenizer_type_max(tokenizer), 0);
    tokenizer_close(tokenizer);
}

#define PIECE(kind, id, type) "{\"" kind "\":{\"id\":\"" id "\",\"type_id\":" type "}}"
#define TEMPLATE(single, pair)                                                                               \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single "],\"pair\":[" pair "],\"special_tokens\":{"      \
    "\"start\":{\"id\":\"start\",\"ids\":[0,1],\"tokens\":[\"[C]\",\"[S]\"]},"                               \
    "\"[S]\":{\"id\":\"[S]\",\"ids\":[1],\"tokens\":[\"[S]\"]}}}"

TEST(a_template_orders_texts_tokens_and_types)
{
    struct tokenizer *tokenizer =
        create_or_fail("{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," TEMPLATE(
                           PIECE("SpecialToken", "start",
                                 "0") "," PIECE("Sequence", "A", "0") "," PIECE("SpecialToken", "[S]", "2"),
                           PIECE("Sequence", "B", "3") "," PIECE("SpecialToken", "[S]",
                                                                 "0") "," PIECE("Sequence", "A", "1")) "]}",
                       "");
    assert_input(tokenizer, "a", NULL, 0, "0:0 1:0 2:0 1:2", 0);
    assert_input(tokenizer, "a", "b", 0, "3:3 1:0 2:1", 0);
    assert_int_equal(tokenizer_type_max(tokenizer), 3);
    tokenizer_close(tokenizer);
}

TEST(without_a_template_bos_and_eos_are_around_each_text)
{
    struct tokenizer *tokenizer = create_or_fail("null", "{\"bos_token\":\"[C]\",\"add_bos_token\":true}");
    assert_input(tokenizer, "a", "b", 0, "0:0 2:0 0:1 3:1", 0);
    tokenizer_close(tokenizer);
    tokenizer = create_or_fail("null", "");
    assert_input(tokenizer, "a", "b", 0, "2:0 3:1", 0);
    tokenizer_close(tokenizer);
}

TEST(a_limit_cuts_the_longer_text_first_and_keeps_added_tokens)
{
    struct error error;
    struct tokenizer *tokenizer =
        create_or_fail("{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",1],\"cls\":[\"[C]\",0]}", "");
    assert_input(tokenizer, "abab", NULL, 6, "0:0 2:0 3:0 2:0 3:0 1:0", 0);
    assert_input(tokenizer, "abab", NULL, 5, "0:0 2:0 3:0 2:0 1:0", 1);
    assert_input(tokenizer, "abab", NULL, 2, "0:0 1:0", 4);
    assert_input(tokenizer, "a", "bbbb", 6, "0:0 2:0 1:0 3:1 3:1 1:1", 2);
    assert_input(tokenizer, "aaaa", "b", 6, "0:0 2:0 2:0 1:0 3:1 1:1", 2);
    assert_input(tokenizer, "aaaa", "bbb", 8, "0:0 2:0 2:0 2:0 1:0 3:1 3:1 1:1", 2);
    assert_input(tokenizer, "aaa", "bbbb", 3, "0:0 1:0 1:1", 7);
    struct token_array ids = {0};
    assert_int_equal(tokenizer_encode_input(tokenizer,
                                            &(struct tokenizer_input){.n_texts = 1, .n_tokens_max = 1},
                                            TOKENIZER_ADD_SPECIAL, &ids, NULL, NULL, &error),
                     STATUS_REJECT);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    tokenizer_close(tokenizer);
}

TEST(post_processors_that_cannot_be_followed_are_refused)
{
    static const struct {
        const char *processor, *part;
    } cases[] = {
        {"{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",4],\"cls\":[\"[C]\",0]}", "not of the vocabulary"},
        {"{\"type\":\"BertProcessing\",\"sep\":\"[S]\",\"cls\":[\"[C]\",0]}", "not of the vocabulary"},
        {TEMPLATE(PIECE("Sequence", "A", "0") "," PIECE("Sequence", "A", "0"), ""), "twice"},
        {TEMPLATE(PIECE("Sequence", "B", "0"), PIECE("Sequence", "A", "0")), "the text A"},
        {TEMPLATE(PIECE("Sequence", "A", "0"), PIECE("Sequence", "A", "0")), "A and B"},
        {TEMPLATE(PIECE("Sequence", "A", "256"), ""), "at most 255"},
        {TEMPLATE(PIECE("SpecialToken", "[X]", "0"), ""), "not of the vocabulary"},
        {"{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",1],\"cls\":"
         "[\"[C]\",0]},{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",1],\"cls\":[\"[C]\",0]}]}",
         "after another one"},
        {"{\"type\":\"Other\"}", "Other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {0};
        assert_null(create_tokenizer(cases[i].processor, "", &error));
        if (!strstr(error.text, cases[i].part))
            fail_msg("%s: got \"%s\"", cases[i].processor, error.text);
    }
}

// Tokens: 0 to 255 bytes, 256 [C], 257 [S].
static struct tokenizer *open_bpe(const char *family)
{
    struct vocabulary_file file = {0};
    struct error error;
    add_byte_alphabet(&file);
    if (family)
        add_key_string(&file, "general.architecture", family);
    add_key_u32(&file, "tokenizer.ggml.bos_token_id", (uint32_t)add_token(&file, "[C]", 0, TYPE_CONTROL));
    add_key_u32(&file, "tokenizer.ggml.eos_token_id", (uint32_t)add_token(&file, "[S]", 0, TYPE_CONTROL));
    add_key_bool(&file, "tokenizer.ggml.add_bos_token", true);
    add_key_bool(&file, "tokenizer.ggml.add_eos_token", true);
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "gpt2", "gpt-2", &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    return tokenizer;
}

TEST(a_gguf_file_of_an_encoder_with_bpe_joins_a_pair_as_its_authors_do)
{
    static const struct {
        const char *family, *pair;
    } rows[] = {{"bert", "256:0 97:0 257:0 257:0 98:0 257:0"},
                {"jina-bert-v2", "256:0 97:0 257:0 257:0 98:0 257:0"},
                {"modern-bert", "256:0 97:0 257:0 98:0 257:0"},
                {"qwen2", "256:0 97:0 257:0 256:1 98:1 257:1"},
                {NULL, "256:0 97:0 257:0 256:1 98:1 257:1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tokenizer *tokenizer = open_bpe(rows[i].family);
        assert_input(tokenizer, "a", NULL, 0, "256:0 97:0 257:0", 0);
        assert_input(tokenizer, "a", "b", 0, rows[i].pair, 0);
        tokenizer_close(tokenizer);
    }
}
