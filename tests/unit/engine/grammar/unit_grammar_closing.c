// Texts that are ended in the tokens left: random ways through grammars, each of which must be complete in
// time.
#include "engine/json_schema/json_schema.h"
#include "tests/support/matched_grammar.h"
#include "tests/support/random.h"

static const char *const words[] = {"{\"", "\":", "\":\"", "\"}", "\",\"", "true", "alse",
                                    "[[",  "]]",  "name",  "12",  "000",   "aa",   "bb",
                                    "ab",  "\"a", "}}",    "],[", "e1",    "-1"};

enum {
    N_BYTES = 256,
    N_WORDS = sizeof words / sizeof words[0],
    N_TOKENS = N_BYTES + N_WORDS + 1,
    END = N_TOKENS - 1
};

// All bytes, or letters alone, and words of several.
static struct grammar_vocabulary *make_vocabulary(bool has_words)
{
    static char bytes[N_BYTES];
    struct text tokens[N_TOKENS] = {0};
    struct grammar_vocabulary *vocabulary;
    struct error error;
    uint32_t end = END;
    for (int i = 0; i < N_BYTES - 1; i++) { // not the quote of special tokens
        bytes[i] = (char)i;
        tokens[i] = (struct text){&bytes[i], 1};
    }
    for (int i = 0; i < N_WORDS && has_words; i++)
        tokens[N_BYTES + i] = text_from_string(words[i]);
    assert_ok(grammar_vocabulary_create(&vocabulary, tokens, N_TOKENS, &end, 1, &error), &error);
    return vocabulary;
}

static struct grammar *compile(const char *source)
{
    struct grammar *grammar = NULL;
    struct error error = {0};
    struct schema_refusal refusal;
    uint32_t start;
    enum status status;
    if (*source == '{') {
        struct rules *rules = rules_create(NULL);
        status = json_schema_compile(text_from_string(source), NULL, rules, &start, &refusal, &error);
        if (status == STATUS_OK)
            status = grammar_create(&grammar, rules, start, &error);
    } else if (strstr(source, "::=")) {
        status = grammar_compile_gbnf(&grammar, text_from_string(source), NULL, &error);
    } else {
        status = grammar_compile_regex(&grammar, text_from_string(source), NULL, &error);
    }
    if (status != STATUS_OK)
        fail_msg("%s: %s", source, error.text);
    return grammar;
}

static uint32_t draw_token(const uint32_t *mask, uint64_t *random)
{
    uint32_t allowed[N_TOKENS], n = 0;
    for (uint32_t i = 0; i < N_TOKENS; i++)
        if (mask[i / 32] >> i % 32 & 1)
            allowed[n++] = i;
    if (!n)
        fail_msg("no token is allowed");
    return allowed[random_below(random, n)];
}

// Draws up to n_left tokens. Whether the text was ended before.
static bool draw_answer(struct matcher *matcher, uint32_t n_left, uint64_t *random)
{
    uint32_t mask[(N_TOKENS + 31) / 32], n_tokens;
    struct error error;
    for (; n_left > 0; n_left--) {
        bool accepted;
        assert_ok(matcher_tokens_to_end(matcher, &n_tokens, &error), &error);
        assert_true(n_tokens <= n_left);
        assert_ok(matcher_mask_within(matcher, n_left, mask, &error), &error);
        uint32_t token = draw_token(mask, random);
        if (token == END)
            return true;
        assert_ok(matcher_accept_token(matcher, token, &accepted, &error), &error);
        assert_true(accepted);
    }
    return false;
}

struct closing_case {
    const char *source;
    uint32_t n_bytes, n_tokens; // of the shortest text; in tokens with words
};

static const struct closing_case cases[] = {
    {"a{3}(bb|c)|x{9}", 4, 3},
    {"(aa|ab)*b", 1, 1},
    {"{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, "
     "\"n\": {\"type\": \"integer\"}}, \"required\": [\"name\", \"n\"], \"additionalProperties\": false}",
     17, 14},
    {"{\"$defs\": {\"t\": {\"type\": \"object\", \"properties\": {\"v\": {\"enum\": "
     "[true, \"abababab\"]}, \"l\": {\"anyOf\": [{\"$ref\": \"#/$defs/t\"}, {\"type\": \"null\"}]}}, "
     "\"required\": [\"v\", \"l\"]}}, \"$ref\": \"#/$defs/t\"}",
     19, 16},
    {"{\"type\": \"array\", \"minItems\": 2, \"items\": {\"type\": \"array\", \"minItems\": 1}}", 9, 9},
    {"{\"type\": \"string\", \"minLength\": 40}", 42, 42},
    {"{\"type\": \"number\", \"minimum\": 1000}", 3, 2},
    {"yes|n/a|ab\"a", 3, 2},
    {"{}", 1, 1},
    {"root ::= \"(\" root \")\" | \"[\" root \"]\" | \"ab\"", 2, 1},
    {"root ::= root \"+\" item | item\nitem ::= [0-9]{2,4} | \"(\" root \")\"", 2, 1},
};

TEST(texts_are_complete_when_their_tokens_are_used_up)
{
    uint64_t random = 14;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int has_words = 0; has_words < 2 && cases[i].n_bytes; has_words++) {
            struct grammar_vocabulary *vocabulary = make_vocabulary(has_words);
            struct grammar *grammar = compile(cases[i].source);
            struct recognizer *recognizer;
            struct error error;
            assert_ok(recognizer_create(&recognizer, grammar, vocabulary, &error), &error);
            uint32_t shortest = 0;
            for (int turn = 0; turn < 60; turn++) {
                struct matcher matcher;
                bool may_end;
                assert_ok(matcher_init(&matcher, recognizer, &error), &error);
                assert_ok(matcher_tokens_to_end(&matcher, &shortest, &error), &error);
                uint32_t n_left = shortest + (turn < 10 ? 0 : (uint32_t)turn / 2);
                bool has_ended = draw_answer(&matcher, n_left, &random);
                assert_ok(matcher_may_end(&matcher, &may_end, &error), &error);
                if (!may_end && !has_ended)
                    fail_msg("%s: %.*s is not complete", cases[i].source, (int)matcher.bytes.size,
                             matcher.bytes.data);
                matcher_finish(&matcher);
            }
            uint32_t expected = has_words ? cases[i].n_tokens : cases[i].n_bytes;
            if (shortest != expected)
                fail_msg("%s: %u tokens, not %u", cases[i].source, shortest, expected);
            recognizer_destroy(recognizer);
            grammar_destroy(grammar);
            grammar_vocabulary_destroy(vocabulary);
        }
}

TEST(a_text_that_no_tokens_spell_is_never_ended)
{
    struct text tokens[] = {TEXT("a"), TEXT("x")};
    struct grammar_vocabulary *vocabulary;
    struct matched_grammar matched;
    struct error error;
    uint32_t n_tokens = 0;
    assert_ok(grammar_vocabulary_create(&vocabulary, tokens, 2, NULL, 0, &error), &error);
    matched_open(&matched, compile("a+b"), vocabulary);
    assert_ok(matcher_tokens_to_end(&matched.matcher, &n_tokens, &error), &error);
    assert_true(n_tokens == UINT32_MAX);
    matched_close(&matched);
    grammar_vocabulary_destroy(vocabulary);
}
