// The least number of tokens of a text, against the number that encoding gives: vocabularies made here, and
// the shared ones.
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/shared_data.h"
#include "tests/support/vocabulary_file.h"

#define BLANK "\xE2\x96\x81"

static size_t count_tokens(const struct tokenizer *tokenizer, struct text text, unsigned flags)
{
    struct token_array ids = {0};
    struct error error;
    assert_ok(tokenizer_encode(tokenizer, text, flags, &ids, &error), &error);
    size_t n_ids = ids.n_ids;
    token_array_finish(&ids);
    return n_ids;
}

static void check_bound(const struct tokenizer *tokenizer, struct text text)
{
    int64_t least = tokenizer_least_tokens(tokenizer, text);
    size_t n_plain = count_tokens(tokenizer, text, 0);
    size_t n_special = count_tokens(tokenizer, text, TOKENIZER_PARSE_SPECIAL);
    if (least > (int64_t)n_plain || least > (int64_t)n_special)
        fail_msg("%zu bytes, from \"%.*s\" on: %lld tokens at least, got %zu and %zu", text.size,
                 text.size < 60 ? (int)text.size : 60, text.data, (long long)least, n_plain, n_special);
}

// Texts of the vocabulary's own tokens, of what shrinks when it is normalized, and of any bytes.
static void check_random_texts(const struct tokenizer *tokenizer, int n_rounds)
{
    static const char *const parts[] = {" ",
                                        "    ",
                                        "\n",
                                        "e\xCC\x81",
                                        "\xEF\xBC\xA1",
                                        "\xE2\x84\xAA",
                                        "\xF0\x9D\x94\xB8",
                                        "\xCE\xB1\xCC\x93\xCC\x80\xCD\x85",
                                        BLANK,
                                        "aaaaaaaa"};
    uint64_t seed = random_seed(3);
    struct buffer bytes = {0};
    for (int round = 0; round < n_rounds; round++) {
        buffer_clear(&bytes);
        uint32_t kind = random_below(&seed, 4), n_parts = 1 + random_below(&seed, 40);
        const char *part = parts[random_below(&seed, sizeof parts / sizeof *parts)];
        int32_t id = (int32_t)random_below(&seed, (uint32_t)tokenizer_n_tokens(tokenizer));
        for (uint32_t i = 0; i < n_parts; i++) {
            if (kind == 0)
                buffer_add_string(&bytes, part);
            else if (kind == 1)
                tokenizer_decode(tokenizer, id, true, &bytes);
            else if (kind == 2)
                tokenizer_decode(tokenizer,
                                 (int32_t)random_below(&seed, (uint32_t)tokenizer_n_tokens(tokenizer)), true,
                                 &bytes);
            else
                buffer_add_byte(&bytes, (char)random_bits(&seed));
        }
        check_bound(tokenizer, (struct text){bytes.data ? bytes.data : "", bytes.size});
    }
    buffer_finish(&bytes);
}

TEST(text_of_the_longest_token_has_as_many_tokens_as_the_bound)
{
    struct vocabulary_file file = {0};
    struct error error;
    add_byte_alphabet(&file);
    add_token(&file, "aa", 0, TYPE_NORMAL);
    add_token(&file, "aaaa", 0, TYPE_NORMAL);
    add_token(&file, "aaaaaaaa", 0, TYPE_NORMAL);
    add_merge(&file, "a a");
    add_merge(&file, "aa aa");
    add_merge(&file, "aaaa aaaa");
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "gpt2", "gpt-2", &error);
    assert_non_null(tokenizer);
    char bytes[4096];
    memset(bytes, 'a', sizeof bytes);
    for (size_t size = 0; size <= sizeof bytes; size += 8) {
        struct text text = {bytes, size};
        assert_int_equal(tokenizer_least_tokens(tokenizer, text), size / 8);
        assert_int_equal(count_tokens(tokenizer, text, 0), size / 8);
    }
    assert_int_equal(tokenizer_least_tokens(tokenizer, (struct text){bytes, 17}), 3);
    check_random_texts(tokenizer, 2000);
    tokenizer_close(tokenizer);
}

TEST(what_the_vocabulary_lacks_counts_where_it_has_a_token)
{
    struct vocabulary_file file = {0};
    struct error error;
    add_token(&file, "a", 0, TYPE_NORMAL);
    add_token(&file, "b", 0, TYPE_NORMAL);
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "gpt2", "gpt-2", &error);
    assert_non_null(tokenizer);
    assert_int_equal(tokenizer_least_tokens(tokenizer, TEXT("cccccccccccccccccccc")), 0); // dropped
    assert_int_equal(tokenizer_least_tokens(tokenizer, TEXT("ccccabababababacccccc")), 3);
    check_random_texts(tokenizer, 2000);
    tokenizer_close(tokenizer);
    add_token(&file, "<unk>", 0, TYPE_UNKNOWN);
    add_token(&file, "a", -1, TYPE_NORMAL);
    tokenizer = vocabulary_file_open(&file, "llama", NULL, &error);
    assert_non_null(tokenizer);
    // each character is unknown; "<unk>" has 5 bytes
    assert_int_equal(tokenizer_least_tokens(tokenizer, TEXT("cccccccccccccccccccc")), 4);
    check_random_texts(tokenizer, 2000);
    tokenizer_close(tokenizer);
    add_token(&file, "?", 0, TYPE_UNKNOWN);
    add_token(&file, "??", 0, TYPE_NORMAL); // merged from two characters that it does not spell
    tokenizer = vocabulary_file_open(&file, "llama", NULL, &error);
    assert_non_null(tokenizer);
    assert_int_equal(tokenizer_least_tokens(tokenizer, TEXT("cccccccccccccccccccc")), 0);
    check_random_texts(tokenizer, 500);
    tokenizer_close(tokenizer);
}

// Its characters are none of the byte alphabet's: it has no form, and is found by its text.
TEST(a_special_token_is_as_long_as_its_text)
{
    struct vocabulary_file file = {0};
    struct error error;
    add_byte_alphabet(&file);
    add_token(&file, "<\uFF5Cend\uFF5C>", 0, TYPE_CONTROL);
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "gpt2", "gpt-2", &error);
    assert_non_null(tokenizer);
    struct text text = TEXT("<\uFF5Cend\uFF5C><\uFF5Cend\uFF5C><\uFF5Cend\uFF5C>");
    assert_int_equal(tokenizer_least_tokens(tokenizer, text), 3);
    assert_int_equal(count_tokens(tokenizer, text, TOKENIZER_PARSE_SPECIAL), 3);
    check_random_texts(tokenizer, 500);
    tokenizer_close(tokenizer);
}

static struct tokenizer *tokenizer_of_json(const char *normalizer, const char *added)
{
    struct buffer json = {0};
    struct error error;
    buffer_add_string(&json, "{\"added_tokens\":[");
    buffer_add_string(&json, added);
    buffer_add_string(&json, "],\"normalizer\":");
    buffer_add_string(&json, normalizer);
    buffer_add_string(&json, ",\"pre_tokenizer\":null,\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\","
                             "\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"a\":1,\"ab\":2,\"b\":3,\"" BLANK
                             "\":4,\"\xC3\xA9\":5},\"merges\":[\"a b\"]}}");
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    enum status status =
        vocabulary_parse_json(&vocabulary, &(struct vocabulary_json){.tokenizer = {json.data, json.size}},
                              &error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, &error);
    if (status != STATUS_OK)
        fail_msg("%s", error.text);
    vocabulary_finish(&vocabulary);
    buffer_finish(&json);
    return tokenizer;
}

TEST(normalizers_and_blanks_that_tokens_take_lower_the_bound)
{
#define REPLACE(from, to)                                                                                    \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"
#define STRIPS                                                                                               \
    "{\"id\":6,\"content\":\"<t>\",\"special\":true,\"rstrip\":true,\"lstrip\":true},"                       \
    "{\"id\":7,\"content\":\"<u>\",\"special\":false}"
    static const struct {
        const char *normalizer, *added;
        int64_t of_letters, of_blanks, of_accents; // of 100 bytes each
    } cases[] = {
        {"null", "", 20, 20, 20},
        {"{\"type\":\"NFC\"}", "", 20, 20, 2},
        {"{\"type\":\"Lowercase\"}", "", 20, 20, 5},
        {REPLACE("aaaa", "b"), "", 5, 5, 5},
        {REPLACE("aaa", "bb"), "", 10, 10, 10},
        {REPLACE("a", "bbb"), "", 20, 20, 20},
        {REPLACE("aaaa", ""), "", 0, 0, 0},
        {"{\"type\":\"Sequence\",\"normalizers\":[" REPLACE("aaaa", "\xC3\xA9") ",{\"type\":\"NFKC\"}]}", "",
         1, 1, 1},
        {"null", STRIPS, 20, 0, 20},
    };
    char letters[100], blanks[100], accents[100];
    memset(letters, 'a', sizeof letters);
    memset(blanks, ' ', sizeof blanks);
    for (size_t i = 0; i < sizeof accents; i += 2)
        memcpy(accents + i, "\xCC\x81", 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = tokenizer_of_json(cases[i].normalizer, cases[i].added);
        assert_int_equal(tokenizer_least_tokens(tokenizer, (struct text){letters, 100}), cases[i].of_letters);
        assert_int_equal(tokenizer_least_tokens(tokenizer, (struct text){blanks, 100}), cases[i].of_blanks);
        assert_int_equal(tokenizer_least_tokens(tokenizer, (struct text){accents, 100}), cases[i].of_accents);
        check_bound(tokenizer, TEXT("<t>                                                       <u>"));
        check_bound(tokenizer, (struct text){letters, 100});
        check_bound(tokenizer, (struct text){accents, 100});
        check_random_texts(tokenizer, 2000);
        tokenizer_close(tokenizer);
    }
}

// Sixteen steps, each of which may leave a sixteenth.
TEST(a_bound_that_is_too_low_to_count_is_none)
{
    struct buffer steps = {0};
    buffer_add_string(&steps, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 16; i++)
        buffer_add_string(&steps, i ? ",{\"type\":\"NFKD\"}" : "{\"type\":\"NFKD\"}");
    buffer_add_string(&steps, "]}");
    buffer_add_byte(&steps, '\0');
    struct tokenizer *tokenizer = tokenizer_of_json(steps.data, "");
    assert_int_equal(tokenizer_least_tokens(tokenizer, TEXT("\xC3\xA9")), 0);
    assert_int_equal(tokenizer_least_tokens(tokenizer, TEXT("e")), 1);
    tokenizer_close(tokenizer);
    buffer_finish(&steps);
}

TEST(the_shared_vocabularies_keep_their_bounds)
{
    static const char *const names[] = {"deepseek-coder", "deepseek-llm", "falcon", "gpt-2",    "llama-bpe",
                                        "llama-spm",      "phi-3",        "qwen2",  "starcoder"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512], relative[256];
        struct gguf *gguf;
        struct tokenizer *tokenizer;
        struct error error;
        snprintf(relative, sizeof relative, "vocab/%s.gguf", names[i]);
        if (!shared_path(path, sizeof path, relative))
            skip();
        assert_ok(gguf_open(&gguf, path, &error), &error);
        assert_ok(tokenizer_open(&tokenizer, gguf, NULL, &error), &error);
        gguf_close(gguf);
        char letters[65536];
        memset(letters, 'x', sizeof letters);
        int64_t least = tokenizer_least_tokens(tokenizer, (struct text){letters, sizeof letters});
        printf("# %s: %d bytes have %lld tokens at least\n", names[i], (int)sizeof letters, (long long)least);
        assert_true(least >= 100);
        check_random_texts(tokenizer, 1000);
        tokenizer_close(tokenizer);
    }
}
