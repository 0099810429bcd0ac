// Grammars of patterns and rules, opened with all that a text needs, and whether they accept a text.
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/json_schema/json_schema.h"
#include "tests/support/cases.h"

static inline uint32_t parse_pattern(struct expressions *pool, const char *pattern)
{
    uint32_t expression;
    struct error error;
    if (expression_parse(pool, text_from_string(pattern), PATTERN_WHOLE, &expression, &error) != STATUS_OK)
        fail_msg("%s: %s", pattern, error.text);
    return expression;
}

// A matcher at the beginning of a text, and what it needs. Owned: closed by matched_close().
struct matched_grammar {
    struct grammar *grammar;
    struct recognizer *recognizer;
    struct matcher matcher;
};

// Takes the grammar over. The vocabulary may be NULL.
static inline void matched_open(struct matched_grammar *matched, struct grammar *grammar,
                                const struct grammar_vocabulary *vocabulary)
{
    struct error error;
    matched->grammar = grammar;
    assert_ok(recognizer_create(&matched->recognizer, grammar, vocabulary, &error), &error);
    assert_ok(matcher_init(&matched->matcher, matched->recognizer, &error), &error);
}

// Takes the rules over.
static inline void matched_open_rules(struct matched_grammar *matched, struct rules *rules, uint32_t start,
                                      const struct grammar_vocabulary *vocabulary)
{
    struct grammar *grammar;
    struct error error;
    assert_ok(grammar_create(&grammar, rules, start, &error), &error);
    matched_open(matched, grammar, vocabulary);
}

// A refused schema left nothing open; closing it is allowed.
static inline enum status matched_open_schema(struct matched_grammar *matched, struct text schema,
                                              const struct json_schema_options *options, struct error *error)
{
    struct rules *rules = rules_create(NULL);
    struct schema_refusal refusal;
    struct grammar *grammar;
    uint32_t start;
    *matched = (struct matched_grammar){0};
    enum status status = json_schema_compile(schema, options, rules, &start, &refusal, error);
    if (status != STATUS_OK) {
        rules_destroy(rules);
        return status;
    }
    status = grammar_create(&grammar, rules, start, error);
    if (status == STATUS_OK)
        matched_open(matched, grammar, NULL);
    return status;
}

static inline void matched_close(struct matched_grammar *matched)
{
    matcher_finish(&matched->matcher);
    recognizer_destroy(matched->recognizer);
    grammar_destroy(matched->grammar);
}

// Whether the grammar accepts the text. `is_prefix` (may be NULL): whether an accepted text begins with it.
static inline bool accepts_bytes(struct recognizer *recognizer, struct text text, bool *is_prefix)
{
    struct matcher matcher;
    struct error error;
    size_t n_accepted;
    bool may_end;
    assert_ok(matcher_init(&matcher, recognizer, &error), &error);
    assert_ok(matcher_accept_bytes(&matcher, text, &n_accepted, &error), &error);
    assert_ok(matcher_may_end(&matcher, &may_end, &error), &error);
    matcher_finish(&matcher);
    if (is_prefix)
        *is_prefix = n_accepted == text.size;
    return may_end && n_accepted == text.size;
}

static inline bool accepts_text(struct recognizer *recognizer, const char *text)
{
    return accepts_bytes(recognizer, text_from_string(text), NULL);
}
