// What a classification head reads: a text or a pair as the tokenizer or a template joins it, what a limit cuts, and
// which inputs are rejected.
#include "tests/unit/batching/embedding/classifier_fixture.h"

// Expects the ids, with the types "ids/types" where the model has them. `second` may be NULL.
static void assert_tokens(const struct input_fixture *fixture, const char *first, const char *second,
                          const char *expected, size_t n_expected)
{
    const struct text texts[2] = {text_from_string(first), text_from_string(second)};
    struct token_array ids = {0}, types = {0};
    struct error error;
    size_t n_cut, size = 0;
    char got[256] = "";
    token_array_add(&ids, 99); // what is there before stays
    token_array_add(&types, 99);
    assert_ok(classifier_input_encode(&fixture->reader, texts, second ? 2 : 1, &ids, &types, &n_cut, &error),
              &error);
    for (size_t i = 1; i < ids.n_ids && size < 240; i++)
        size += (size_t)snprintf(got + size, sizeof got - size, "%s%d", i > 1 ? " " : "", ids.ids[i]);
    for (size_t i = 1; i < types.n_ids && size < 240; i++)
        size += (size_t)snprintf(got + size, sizeof got - size, "%s%d", i > 1 ? " " : "/", types.ids[i]);
    assert_string_equal(got, expected);
    assert_int_equal(n_cut, n_expected);
    assert_int_equal(ids.ids[0], 99);
    token_array_finish(&ids);
    token_array_finish(&types);
}

static void assert_rejected(const struct input_fixture *fixture, const char *first, const char *second,
                            enum error_code code, const char *expected)
{
    const struct text texts[2] = {text_from_string(first), text_from_string(second)};
    struct token_array ids = {0}, types = {0};
    struct error error;
    size_t n_cut;
    token_array_add(&ids, 99);
    assert_int_equal(classifier_input_encode(&fixture->reader, texts, second ? 2 : 1, &ids, &types, &n_cut,
                                             &error),
                     STATUS_REJECT);
    assert_int_equal(error.code, code);
    if (!strstr(error.text, expected))
        fail_msg("expected \"%s\" in: %s", expected, error.text);
    assert_true(ids.n_ids == 1 && types.n_ids == 0);
    token_array_finish(&ids);
    token_array_finish(&types);
}

TEST(a_pair_is_joined_as_the_post_processor_says)
{
    struct input_fixture fixture;
    open_fixture(&fixture, "");
    assert_tokens(&fixture, "ab", NULL, "0 2 3 1/0 0 0 0", 0);
    assert_tokens(&fixture, "ab", "c", "0 2 3 1 4 1/0 0 0 0 1 1", 0);
    assert_tokens(&fixture, "", "c", "0 1 4 1/0 0 1 1", 0);
    fixture.reader.n_tokens_max = 7;
    assert_tokens(&fixture, "abc", "aaaa", "0 2 3 1 2 2 1/0 0 0 0 1 1 1", 3);
    fixture.model.token_types = (struct tensor){0};
    assert_tokens(&fixture, "ab", "c", "0 2 3 1 4 1", 0);
    tokenizer_close(fixture.tokenizer);
}

TEST(a_template_has_the_query_and_the_document_as_plain_text)
{
    struct input_fixture fixture;
    open_fixture(&fixture, "[C]{query} [S]{document}[S]c");
    assert_tokens(&fixture, "a", "b", "0 2 5 1 3 1 4/0 0 0 0 0 0 0", 0);
    assert_tokens(&fixture, "a", "[S]", "0 2 5 1 6 8 7 1 4/0 0 0 0 0 0 0 0 0", 0);
    assert_tokens(&fixture, "", "", "0 5 1 1 4/0 0 0 0 0", 0);
    assert_tokens(&fixture, "ab", NULL, "0 2 3 1/0 0 0 0", 0); // one text has no template
    tokenizer_close(fixture.tokenizer);
}

TEST(a_limit_cuts_the_end_of_a_template_s_document)
{
    struct input_fixture fixture;
    open_fixture(&fixture, "[C]{query} [S]{document}[S]c");
    fixture.reader.n_tokens_max = 8;
    assert_tokens(&fixture, "a", "bb", "0 2 5 1 3 3 1 4/0 0 0 0 0 0 0 0", 0);
    assert_tokens(&fixture, "a", "bbabb", "0 2 5 1 3 3 1 4/0 0 0 0 0 0 0 0", 3);
    fixture.reader.n_tokens_max = 5;
    assert_rejected(&fixture, "a", "b", ERROR_CONTEXT_LENGTH,
                    "the template and the query have 6 tokens: expected at most 5");
    tokenizer_close(fixture.tokenizer);
}

TEST(an_instruction_needs_a_template_that_has_one)
{
    struct input_fixture fixture;
    struct error error;
    open_fixture(
        &fixture,
        "Given a web search query, retrieve relevant passages that answer the query{query}{document}");
    fixture.reader.instruct = TEXT("cc");
    assert_ok(classifier_reader_check(&fixture.reader, &error), &error);
    assert_tokens(&fixture, "a", "b", "4 4 2 3/0 0 0 0", 0);
    fixture.facts.template = TEXT("{query}{document}");
    assert_int_equal(classifier_reader_check(&fixture.reader, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "--instruct"));
    tokenizer_close(fixture.tokenizer);
}

TEST(a_decoder_reads_its_last_token_that_is_no_padding)
{
    struct input_fixture fixture;
    open_fixture(&fixture, "");
    fixture.facts.padding = 1;
    assert_tokens(&fixture, "ab", NULL, "0 2 3/0 0 0", 0);
    assert_tokens(&fixture, "a", "b", "0 2 1 3/0 0 0 1", 0);
    fixture.facts.padding = 0;
    assert_tokens(&fixture, "a", NULL, "0 2 1/0 0 0", 0);
    tokenizer_close(fixture.tokenizer);
    fixture.tokenizer = create_tokenizer("null");
    fixture.reader.tokenizer = fixture.tokenizer;
    fixture.facts.padding = 2;
    assert_tokens(&fixture, "aaa", NULL, "2/0", 0); // one stays
    tokenizer_close(fixture.tokenizer);
}

TEST(inputs_without_tokens_or_with_too_many_are_rejected)
{
    struct input_fixture fixture;
    struct error error;
    open_fixture(&fixture, "");
    fixture.reader.n_longest = 6;
    assert_tokens(&fixture, "abab", NULL, "0 2 3 2 3 1/0 0 0 0 0 0", 0);
    assert_rejected(&fixture, "ababa", NULL, ERROR_CONTEXT_LENGTH,
                    "the text has 7 tokens: expected at most 6");
    assert_rejected(&fixture, "ab", "ab", ERROR_CONTEXT_LENGTH, "the pair has 7 tokens: expected at most 6");
    fixture.model.token_types.dims[1] = 1;
    assert_int_equal(classifier_reader_check(&fixture.reader, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "token types up to 1: expected at most 0"));
    fixture.model.token_types.dims[1] = 2;
    assert_ok(classifier_reader_check(&fixture.reader, &error), &error);
    tokenizer_close(fixture.tokenizer);
    fixture.tokenizer = create_tokenizer("null");
    fixture.reader.tokenizer = fixture.tokenizer;
    assert_rejected(&fixture, "", NULL, ERROR_EMPTY_PROMPT, "the text has no tokens");
    tokenizer_close(fixture.tokenizer);
}
