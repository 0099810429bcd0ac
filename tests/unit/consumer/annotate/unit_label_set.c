// Which labels a schema enumerates, and which label a gold label means.
#include "consumer/annotate/label_set.h"
#include "tests/support/cases.h"

static struct label_set set_of(struct arena *arena, const char *schema)
{
    struct value root;
    struct error error;
    struct label_set set;
    assert_ok(json_decode(text_from_string(schema), arena, &root, &error), &error);
    assert_true(label_set_of_schema(&set, arena, &root, value_get(value_get(&root, "properties"), "p")));
    return set;
}

// labels: separated by '|'; NULL: any text.
static void assert_labels(const char *schema, const char *labels)
{
    struct arena arena = {0};
    struct buffer whole = {0}, found = {0};
    buffer_add_format(&whole,
                      "{\"$defs\":{\"a\":{\"enum\":[\"x\",\"y\"]},\"loop\":{\"$ref\":\"#/$defs/loop\"}},"
                      "\"properties\":{\"p\":%s}}",
                      schema);
    buffer_add_byte(&whole, '\0');
    struct label_set set = set_of(&arena, whole.data);
    for (size_t i = 0; i < set.n; i++) {
        buffer_add_string(&found, i ? "|" : "");
        buffer_add_text(&found, set.labels[i]);
    }
    buffer_add_byte(&found, '\0');
    assert_int_equal(set.is_closed, labels != NULL);
    assert_string_equal(found.data, labels ? labels : "");
    buffer_finish(&whole);
    buffer_finish(&found);
    arena_finish(&arena);
}

TEST(labels_are_those_that_a_schema_enumerates)
{
    assert_labels("{\"enum\":[\"x\",1,1.5,true,null,\"x\"]}", "x|1|1.5|true|null");
    assert_labels("{\"const\":\"x\"}", "x");
    assert_labels("{\"type\":\"boolean\"}", "true|false");
    assert_labels("{\"type\":[\"boolean\",\"null\"]}", "true|false|null");
    assert_labels("{\"$ref\":\"#/$defs/a\"}", "x|y");
    assert_labels("{\"allOf\":[{\"$ref\":\"#/$defs/a\"}]}", "x|y");
    assert_labels("{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"type\":\"null\"}]}", "x|y|null");
    assert_labels("{\"type\":\"string\"}", NULL);
    assert_labels("{\"type\":[\"boolean\",\"string\"]}", NULL);
    assert_labels("{\"anyOf\":[{\"enum\":[\"x\"]},{\"type\":\"string\"}]}", NULL);
    assert_labels("{\"anyOf\":[{\"type\":\"string\"},{\"enum\":[\"x\"]}]}", NULL);
    assert_labels("{\"$ref\":\"#/$defs/none\"}", NULL);
    assert_labels("{\"$ref\":\"#/$defs/loop\"}", NULL);
    assert_labels("{\"$ref\":7}", NULL);
    assert_labels("{}", NULL);
    assert_labels("true", NULL);
}

TEST(null_is_a_label_where_the_schema_allows_it)
{
    static const struct {
        const char *schema;
        bool has_null;
    } cases[] = {{"{\"enum\":[\"x\",null]}", true},
                 {"{\"enum\":[\"null\"]}", false},
                 {"{\"enum\":[[null]]}", false},
                 {"{\"const\":null}", true},
                 {"{\"type\":\"null\"}", true},
                 {"{\"type\":[\"string\",\"null\"]}", true},
                 {"{\"type\":\"string\"}", false},
                 {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", true},
                 {"{\"anyOf\":[{\"type\":\"string\"},{\"$ref\":\"#/properties/p/anyOf/0\"}]}", false},
                 {"{\"allOf\":[{\"const\":null}]}", true},
                 {"{\"$ref\":\"#/none\"}", false},
                 {"{\"$ref\":\"#/properties/p\"}", false},
                 {"{}", true},
                 {"true", true},
                 {"false", false},
                 {"7", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena arena = {0};
        struct buffer whole = {0};
        buffer_add_format(&whole, "{\"properties\":{\"p\":%s}}", cases[i].schema);
        struct label_set set = set_of(&arena, whole.data);
        if (set.has_null != cases[i].has_null)
            fail_msg("%s: has_null is %d", cases[i].schema, set.has_null);
        buffer_finish(&whole);
        arena_finish(&arena);
    }
}

static void assert_match(const char *schema, const char *gold, const char *label)
{
    struct arena arena = {0};
    struct buffer whole = {0}, made = {0};
    buffer_add_format(&whole, "{\"properties\":{\"p\":%s}}", schema);
    buffer_add_byte(&whole, '\0');
    struct label_set set = set_of(&arena, whole.data);
    struct text found = label_set_match(&set, text_from_string(gold), &made);
    assert_int_equal(found.size, strlen(label));
    assert_memory_equal(found.data, label, found.size);
    buffer_finish(&whole);
    buffer_finish(&made);
    arena_finish(&arena);
}

TEST(a_gold_label_means_the_label_of_its_value)
{
    static const char boolean[] = "{\"type\":\"boolean\"}", numbers[] = "{\"enum\":[1,2.5,\"many\"]}";
    static const char words[] = "{\"enum\":[\"1\",\"01\",\"Yes\"]}", integer[] = "{\"type\":\"integer\"}";
    static const char *const same[][3] = {
        {boolean, "True", "true"},   {boolean, " FALSE\n", "false"},
        {boolean, "1.0", "true"},    {boolean, "0", "false"},
        {boolean, "2", "2"},         {boolean, "yes", "yes"},
        {numbers, "1.0", "1"},       {numbers, "+01", "1"},
        {numbers, "2.50", "2.5"},    {numbers, "Many", "Many"},
        {numbers, "0x1", "0x1"},     {numbers, "True", "True"},
        {words, "01", "01"},         {words, "1.0", "1"},
        {words, "yes", "yes"},       {integer, "007.0", "7"},
        {integer, "1e3", "1000"},    {integer, "0.50", "0.5"},
        {integer, "1e999", "1e999"}, {integer, "nan", "nan"},
        {integer, "", ""},           {"{\"type\":\"string\"}", " 1.0\t", "1.0"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        assert_match(same[i][0], same[i][1], same[i][2]);
}
