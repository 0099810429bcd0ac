// Which properties of a schema are voted on, and what the draws' vote is.
#include "consumer/annotate/row_vote.h"
#include "tests/support/cases.h"

enum { DRAWS_MAX = 8 };

static void decode(const char *json, struct arena *arena, struct value *value)
{
    struct error error;
    if (json_decode(text_from_string(json), arena, value, &error) != STATUS_OK)
        fail_msg("%s: %s", json, error.text);
}

static struct vote_rule rule_of(struct arena *arena, const char *schema)
{
    char whole[1024];
    struct value root;
    snprintf(whole, sizeof whole,
             "{\"$defs\":{\"mood\":{\"enum\":[\"x\",\"y\"]},\"loop\":{\"$ref\":\"#/$defs/loop\"}},\"p\":%s}",
             schema);
    decode(whole, arena, &root);
    return vote_rule_of(&root, value_get(&root, "p"));
}

static void assert_kind(const char *schema, enum vote_kind kind)
{
    struct arena arena = {0};
    if (rule_of(&arena, schema).kind != kind)
        fail_msg("%s: expected %d, got %d", schema, kind, rule_of(&arena, schema).kind);
    arena_finish(&arena);
}

// draws: JSON texts, "-" for a draw without the property. `winner`: JSON, or "-".
static void assert_vote(const char *schema, const char *const *draws, const char *winner, size_t n_agreeing)
{
    struct arena arena = {0};
    struct value values[DRAWS_MAX];
    const struct value *given[DRAWS_MAX];
    struct vote_rule rule = rule_of(&arena, schema);
    struct vote_outcome outcome;
    struct buffer json = {0};
    size_t n = 0;
    for (; draws[n]; n++) {
        given[n] = strcmp(draws[n], "-") == 0 ? NULL : &values[n];
        if (given[n])
            decode(draws[n], &arena, &values[n]);
    }
    assert_true(vote_count(&rule, given, n, &arena, &outcome));
    if (outcome.winner)
        json_encode(outcome.winner, &json);
    else
        buffer_add_byte(&json, '-');
    buffer_add_byte(&json, '\0');
    assert_string_equal(json.data, winner);
    assert_int_equal(outcome.n_agreeing, n_agreeing);
    buffer_finish(&json);
    arena_finish(&arena);
}

#define VOTE(schema, winner, n_agreeing, ...)                                                                \
    assert_vote(schema, (const char *const[]){__VA_ARGS__, NULL}, winner, n_agreeing)

TEST(properties_of_few_values_are_voted_on)
{
    assert_kind("{\"enum\":[\"a\",1,null]}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"string\",\"const\":\"a\"}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"boolean\"}", VOTE_BY_VALUE);
    assert_kind("{\"type\":[\"boolean\",\"null\"]}", VOTE_BY_VALUE);
    assert_kind("{\"$ref\":\"#/$defs/mood\"}", VOTE_BY_VALUE);
    assert_kind("{\"allOf\":[{\"$ref\":\"#/$defs/mood\"}],\"description\":\"d\"}", VOTE_BY_VALUE);
    assert_kind("{\"anyOf\":[{\"$ref\":\"#/$defs/mood\"},{\"type\":\"null\"}]}", VOTE_BY_VALUE);
    assert_kind("{\"oneOf\":[{\"const\":1},{\"const\":2}]}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"string\"}", VOTE_NONE);
    assert_kind("{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", VOTE_NONE);
    assert_kind("{\"anyOf\":[{\"enum\":[1]},{\"type\":\"string\"}]}", VOTE_NONE);
    assert_kind("{\"type\":\"object\"}", VOTE_NONE);
    assert_kind("{\"$ref\":\"#/$defs/loop\"}", VOTE_NONE);
    assert_kind("{}", VOTE_NONE);
    assert_kind("true", VOTE_NONE);
}

TEST(integers_are_voted_on_up_to_sixteen_values)
{
    assert_kind("{\"type\":\"integer\",\"minimum\":1,\"maximum\":16}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"integer\",\"minimum\":0,\"maximum\":16}", VOTE_NONE);
    assert_kind("{\"type\":\"integer\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":17}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"integer\",\"minimum\":0,\"exclusiveMinimum\":true,\"maximum\":16}",
                VOTE_BY_VALUE);
    assert_kind("{\"type\":\"integer\",\"minimum\":-0.5,\"maximum\":15.5}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"integer\",\"minimum\":0,\"maximum\":150,\"multipleOf\":10}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"integer\",\"minimum\":0,\"maximum\":160,\"multipleOf\":10}", VOTE_NONE);
    assert_kind("{\"type\":[\"integer\",\"null\"],\"minimum\":1,\"maximum\":5}", VOTE_BY_VALUE);
    assert_kind("{\"type\":\"integer\",\"minimum\":1}", VOTE_NONE);
    assert_kind("{\"type\":\"integer\",\"maximum\":1}", VOTE_NONE);
    assert_kind("{\"type\":\"integer\"}", VOTE_NONE);
}

TEST(arrays_of_few_values_are_voted_on_by_member)
{
    assert_kind("{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/mood\"}}", VOTE_BY_MEMBER);
    assert_kind("{\"anyOf\":[{\"type\":\"array\",\"items\":{\"enum\":[1]}},{\"type\":\"null\"}]}",
                VOTE_BY_MEMBER);
    assert_kind("{\"type\":[\"array\",\"null\"],\"items\":{\"enum\":[1]}}", VOTE_BY_MEMBER);
    assert_kind("{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", VOTE_NONE);
    assert_kind("{\"type\":\"array\",\"items\":{\"enum\":[1]},\"prefixItems\":[{\"const\":2}]}", VOTE_NONE);
    assert_kind("{\"type\":\"array\",\"items\":{\"enum\":[1]},\"contains\":{\"const\":1}}", VOTE_NONE);
    assert_kind("{\"type\":\"array\"}", VOTE_NONE);
}

TEST(most_draws_win_and_the_first_drawn_of_as_many)
{
    const char *mood = "{\"enum\":[\"x\",\"y\",\"z\"]}";
    VOTE(mood, "\"y\"", 2, "\"x\"", "\"y\"", "\"y\"", "\"z\"");
    VOTE(mood, "\"z\"", 2, "\"z\"", "\"x\"", "\"x\"", "\"z\"");
    VOTE(mood, "-", 2, "-", "\"x\"", "-");
    VOTE(mood, "\"x\"", 1, "\"x\"", "-");
    VOTE("{\"type\":\"integer\",\"minimum\":1,\"maximum\":5}", "4", 2, "5", "4", "4.0");
}

TEST(members_of_arrays_are_voted_on_one_by_one)
{
    const char *tags = "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",\"c\"]}}";
    VOTE(tags, "[\"a\",\"b\"]", 2, "[\"a\",\"c\"]", "[\"b\",\"a\"]", "[\"b\",\"a\"]");
    VOTE(tags, "[\"a\"]", 2, "[\"a\"]", "[\"a\",\"b\"]", "[]"); // a: 2 of 3, b: 1 of 3
    VOTE(tags, "[\"a\"]", 1, "[\"a\"]", "[\"b\"]");             // ties: as the first has it
    VOTE(tags, "[]", 1, "[]", "[\"b\"]");
    VOTE(tags, "[]", 2, "[\"a\"]", "[\"b\"]", "[\"c\"]");
    VOTE(tags, "[\"a\"]", 3, "[\"a\",\"a\"]", "[\"a\"]", "[\"a\"]"); // each member once
    VOTE(tags, "-", 2, "-", "[\"a\"]", "-");
    VOTE("{\"type\":[\"array\",\"null\"],\"items\":{\"enum\":[1,2]}}", "[1]", 2, "null", "[1]", "[1,2]",
         "[1]");
}

TEST(a_vote_on_members_keeps_to_the_number_of_items)
{
    const char *one =
        "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},\"minItems\":1,\"maxItems\":1}";
    const char *three = "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\"]},\"minItems\":3}";
    VOTE(one, "[\"a\"]", 1, "[\"a\"]", "[\"b\"]", "[\"c\"]");
    VOTE(one, "[\"c\"]", 2, "[\"a\"]", "[\"b\"]", "[\"c\"]", "[\"c\"]");
    VOTE(three, "[\"a\",\"b\",\"a\"]", 2, "[\"a\",\"b\",\"a\"]", "[\"b\",\"b\",\"a\"]"); // as it was drawn
}
