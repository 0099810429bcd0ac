// Applicators of JSON Schema as the algebra of what their branches accept: each pair of schemas under allOf,
// anyOf, oneOf, not and if accepts the texts that its branches' own grammars say.
#include "schemas/base/text.h"
#include "tests/support/matched_grammar.h"

static const char *const texts[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "2",
    "-3",
    "7",
    "1.5",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "\"b\"",
    "[]",
    "[1]",
    "[1,1]",
    "[1,\"a\"]",
    "[\"a\",2]",
    "[null]",
    "[7,2,0]",
    "[[]]",
    "{}",
    "{\"a\":1}",
    "{\"a\":\"a\"}",
    "{\"b\":1}",
    "{\"a\":1,\"b\":2}",
    "{\"a\":null,\"c\":[1]}",
    "{\"b\":true,\"c\":0}",
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

// With the texts that it accepts, each as the position of its text above: written down once, by the standard.
static const struct {
    const char *schema, *accepted;
} bases[] = {
    {"{\"type\":\"null\"}", "1000000000000000000000000000"},
    {"{\"type\":[\"boolean\",\"string\"]}", "0110000001111000000000000000"},
    {"{\"enum\":[1,\"a\",null,[],{}]}", "1000100000100100000001000000"},
    {"{\"type\":\"integer\",\"minimum\":1}", "0000110100000000000000000000"},
    {"{\"minimum\":2}", "1110010101111111111111111111"},
    {"{\"multipleOf\":2}", "1111010001111111111111111111"},
    {"{\"minLength\":1,\"maxLength\":1}", "1111111110101111111111111111"},
    {"{\"type\":\"string\",\"pattern\":\"^a\"}", "0000000000110000000000000000"},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "0000000000000111000100000000"},
    {"{\"maxItems\":1}", "1111111111111110001011111111"},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}",
     "0000000000000110100000000000"},
    {"{\"type\":\"array\",\"contains\":{\"minimum\":2,\"type\":\"integer\"}}",
     "0000000000000000010100000000"},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"integer\"},\"maxContains\":2}",
     "0000000000000011110000000000"},
    {"{\"uniqueItems\":true,\"items\":{\"enum\":[1,2,7,0,\"a\"]},\"type\":\"array\"}",
     "0000000000000110110100000000"},
    {"{\"type\":\"object\",\"required\":[\"a\"]}", "0000000000000000000000110110"},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "1111111111111111111111101101"},
    {"{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":{\"const\":1}},\"additionalProperties\":false}",
     "0000000000000000000001111000"},
    {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":1}", "0000000000000000000000111000"},
    {"{\"patternProperties\":{\"^c\":{\"type\":\"array\"}}}", "1111111111111111111111111110"},
};
enum { N_BASES = sizeof bases / sizeof *bases };

static bool verdicts[N_BASES][N_TEXTS];

static enum status compile(struct matched_grammar *matched, const char *schema)
{
    struct error error;
    return matched_open_schema(matched, text_from_string(schema),
                               &(struct json_schema_options){.any_order = true}, &error);
}

TEST(each_schema_accepts_what_the_standard_says)
{
    for (int b = 0; b < N_BASES; b++) {
        struct matched_grammar matched;
        assert_int_equal(strlen(bases[b].accepted), N_TEXTS);
        assert_int_equal(compile(&matched, bases[b].schema), STATUS_OK);
        for (int t = 0; t < N_TEXTS; t++) {
            verdicts[b][t] = accepts_text(matched.recognizer, texts[t]);
            if (verdicts[b][t] != (bases[b].accepted[t] == '1'))
                fail_msg("%s: %s", bases[b].schema, texts[t]);
        }
        matched_close(&matched);
    }
}

enum applicator { ALL_OF, ANY_OF, ONE_OF, ONE_OF_THREE, NOT_FIRST, WITHOUT, IF_THEN, IF_ELSE, N_APPLICATORS };

static void write_schema(enum applicator how, const char *a, const char *b, char *out, size_t size)
{
    static const char *const forms[] = {
        [ALL_OF] = "{\"allOf\":[%s,%s]}",
        [ANY_OF] = "{\"anyOf\":[%s,%s]}",
        [ONE_OF] = "{\"oneOf\":[%s,%s]}",
        [ONE_OF_THREE] = "{\"oneOf\":[%s,{\"const\":\"a\"},%s]}",
        [NOT_FIRST] = "{\"not\":{\"anyOf\":[%s,%s]}}",
        [WITHOUT] = "{\"allOf\":[%s,{\"not\":%s}]}",
        [IF_THEN] = "{\"if\":%s,\"then\":%s}",
        [IF_ELSE] = "{\"if\":%s,\"else\":%s}",
    };
    snprintf(out, size, forms[how], a, b);
}

static bool expected(enum applicator how, bool a, bool b, const char *text)
{
    int n = a + b + (strcmp(text, "\"a\"") == 0);
    switch (how) {
    case ALL_OF:
        return a && b;
    case ANY_OF:
        return a || b;
    case ONE_OF:
        return a != b;
    case ONE_OF_THREE:
        return n == 1;
    case NOT_FIRST:
        return !a && !b;
    case WITHOUT:
        return a && !b;
    case IF_THEN:
        return !a || b;
    default:
        return a || b;
    }
}

// Returns whether the schema was taken; one that no text satisfies is an error.
static bool check_pair(enum applicator how, int a, int b)
{
    char schema[512];
    struct matched_grammar matched;
    bool any = false;
    write_schema(how, bases[a].schema, bases[b].schema, schema, sizeof schema);
    enum status status = compile(&matched, schema);
    for (int t = 0; t < N_TEXTS; t++) {
        bool wanted = expected(how, verdicts[a][t], verdicts[b][t], texts[t]);
        any = any || wanted;
        if (status == STATUS_OK && accepts_text(matched.recognizer, texts[t]) != wanted)
            fail_msg("%s: %s", schema, texts[t]);
    }
    matched_close(&matched);
    return status == STATUS_OK || !any;
}

TEST(pairs_accept_what_their_branches_say)
{
    int n_refused = 0;
    for (int how = 0; how < N_APPLICATORS; how++)
        for (int a = 0; a < N_BASES; a++)
            for (int b = 0; b < N_BASES; b++)
                n_refused += !check_pair((enum applicator)how, a, b);
    printf("# %d of %d refused\n", n_refused, N_APPLICATORS * N_BASES * N_BASES);
    assert_in_range(n_refused, 0, 261); // the fewer the better
}
