// Sets of numbers that schemas allow, against exact arithmetic on decimals.
#include "engine/json_schema/json_number.h"
#include "tests/support/cases.h"

static const char *const spellings[] = {
    "0",
    "-0",
    "0.0",
    "-0.00",
    "1",
    "-1",
    "1.0",
    "9",
    "10",
    "11",
    "99",
    "100",
    "-100",
    "0.1",
    "0.10",
    "0.09",
    "0.11",
    "-0.1",
    "1.5",
    "1.49",
    "1.51",
    "-1.5",
    "12.345",
    "12.34",
    "12.3450",
    "12.346",
    "1e2",
    "1E+2",
    "1e-2",
    "1.5e0",
    "-1.5e00",
    "1e16",
    "1e-7",
    "2.5e1",
    "9.9e-1",
    "1e-400",
    "100000",
    "99.99",
    "0.00001",
    "1e-5",
    "123456789012345678901234567890",
    "0.3",
    "0.30000000000000004",
    "9007199254740993",
    "9007199254740992",
};
static const char *const limits[] = {"0",      "1",    "-1",   "10",
                                     "0.1",    "-0.1", "1.5",  "-1.5",
                                     "100",    "-100", "1e2",  "0.3",
                                     "12.345", "1e-5", "1e16", "9007199254740993"};

enum { N_SPELLINGS = sizeof spellings / sizeof spellings[0], N_LIMITS = sizeof limits / sizeof limits[0] };

static struct decimal read(const char *text, struct arena *arena)
{
    struct decimal decimal;
    assert_true(decimal_read(text_from_string(text), arena, &decimal));
    return decimal;
}

TEST(bounds_are_exact)
{
    struct expressions *pool = expressions_create(NULL);
    struct arena arena = {0};
    for (size_t i = 0; i < N_LIMITS; i++) {
        struct decimal limit = read(limits[i], &arena);
        uint32_t less = number_bounded(pool, NUMBER_LESS, limit),
                 most = number_bounded(pool, NUMBER_AT_MOST, limit);
        uint32_t least = number_bounded(pool, NUMBER_AT_LEAST, limit),
                 more = number_bounded(pool, NUMBER_MORE, limit);
        uint32_t equal = number_equal(pool, limit);
        for (size_t j = 0; j < N_SPELLINGS; j++) {
            struct text text = text_from_string(spellings[j]);
            int order = decimal_compare(read(spellings[j], &arena), limit);
            if (expression_matches(pool, less, text) != (order < 0) ||
                expression_matches(pool, most, text) != (order <= 0) ||
                expression_matches(pool, least, text) != (order >= 0) ||
                expression_matches(pool, more, text) != (order > 0) ||
                expression_matches(pool, equal, text) != (order == 0))
                fail_msg("%s compared with %s", spellings[j], limits[i]);
        }
    }
    assert_int_equal(expressions_status(pool, NULL), STATUS_OK);
    arena_finish(&arena);
    expressions_destroy(pool);
}

TEST(integers_have_no_fraction_but_zeros)
{
    struct expressions *pool = expressions_create(NULL);
    static const char *const integers[] = {"0",   "-0",    "10",  "-7",   "1.0",     "-1.00",
                                           "1e0", "1.5e1", "1e5", "1e16", "1.5e+300"};
    static const char *const others[] = {"01",   "1.",    ".5",     "1.5",  "-0.1", "+1",
                                         "1.05", "1.5e0", "1.25e1", "1e-1", ""};
    uint32_t integer = number_integer(pool, true), other = number_not_integer(pool, true),
             old = number_integer(pool, false);
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        assert_true(expression_matches(pool, integer, text_from_string(integers[i])));
        assert_false(expression_matches(pool, other, text_from_string(integers[i])));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(expression_matches(pool, integer, text_from_string(others[i])));
    assert_true(expression_matches(pool, other, TEXT("1.5")));
    assert_true(expression_matches(pool, old, TEXT("12")));
    assert_false(expression_matches(pool, old, TEXT("12.0")));
    expressions_destroy(pool);
}

static void check_multiples(struct expressions *pool, struct arena *arena, const char *divisor, int scale,
                            int modulus)
{
    uint32_t set;
    assert_true(number_multiple_of(pool, read(divisor, arena), arena, &set));
    for (int n = 0; n < 2000; n++) { // n / scale, in all its plain spellings
        char text[3][32];
        bool multiple = n % modulus == 0;
        int digits = scale == 1 ? 0 : scale == 10 ? 1 : 2;
        snprintf(text[0], sizeof text[0], "%.*f", digits, (double)n / scale);
        snprintf(text[1], sizeof text[1], "-%.*f", digits + 2, (double)n / scale);
        snprintf(text[2], sizeof text[2], "%.*f1", digits + 1, (double)n / scale);
        if (expression_matches(pool, set, text_from_string(text[0])) != multiple ||
            expression_matches(pool, set, text_from_string(text[1])) != multiple ||
            expression_matches(pool, set, text_from_string(text[2])))
            fail_msg("%s as a multiple of %s", text[0], divisor);
    }
}

TEST(multiples_are_exact)
{
    struct arena arena = {0};
    static const struct {
        const char *divisor;
        int scale, modulus; // of n / scale
    } cases[] = {{"1", 1, 1},     {"2", 1, 2},      {"5", 1, 5},       {"10", 1, 10},    {"25", 1, 25},
                 {"3", 1, 3},     {"7", 1, 7},      {"12", 1, 12},     {"0.01", 100, 1}, {"0.5", 10, 5},
                 {"1.5", 10, 15}, {"2.5", 10, 25},  {"0.25", 100, 25}, {"1e1", 1, 10},   {"0.1", 10, 1},
                 {"256", 1, 256}, {"0.07", 100, 7}, {"9", 1, 9},       {"11", 1, 11}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expressions *pool = expressions_create(NULL);
        check_multiples(pool, &arena, cases[i].divisor, cases[i].scale, cases[i].modulus);
        expressions_destroy(pool);
    }
    struct expressions *pool = expressions_create(NULL);
    uint32_t set;
    assert_false(number_multiple_of(pool, read("0.123456789", &arena), &arena, &set));
    assert_false(number_multiple_of(pool, read("97", &arena), &arena, &set));
    arena_finish(&arena);
    expressions_destroy(pool);
}

TEST(documents_keep_numbers_and_order)
{
    struct arena arena = {0};
    struct json_document document;
    struct error error = {0};
    struct text text = TEXT("{\"b\": [1.50, -2E+3], \"a/~\": \"\\u00e9\\ud83d\\ude00\\n\", \"c\": null}");
    assert_ok(json_document_read(text, &grammar_limits_default, &arena, &document, &error), &error);
    const struct json_node *list = document.root->first;
    assert_true(text_equals_string(list->key, "b") && text_equals_string(list->first->text, "1.50"));
    assert_true(text_equals_string(json_item(list, 1)->text, "-2E+3"));
    assert_true(text_equals_string(list->next->text, "\xC3\xA9\xF0\x9F\x98\x80\n"));
    struct buffer pointer = {0};
    json_pointer_write(list->next, &pointer);
    assert_string_equal(pointer.data, "/a~1~0");
    buffer_finish(&pointer);
    arena_finish(&arena);
}

TEST(what_is_no_json_is_an_error)
{
    static const char *const wrong[] = {"",        "{",           "[1,]",        "{\"a\"}",  "01",
                                        "1.",      "\"a",         "nul",         "\"\n\"",   "[1]]",
                                        "\"\\x\"", "\"\\ud83d\"", "\"\\udc00\"", "\"\xC3\"", "{1:2}",
                                        "--1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct arena arena = {0};
        struct json_document document;
        struct error error = {0};
        enum status status = json_document_read(text_from_string(wrong[i]), &grammar_limits_default, &arena,
                                                &document, &error);
        if (status != STATUS_REJECT || error.code != ERROR_INVALID_ENCODING)
            fail_msg("%s was read", wrong[i]);
        arena_finish(&arena);
    }
}

TEST(the_depth_of_documents_is_limited)
{
    size_t max = grammar_limits_default.values[GRAMMAR_LIMIT_DEPTH];
    char text[1024] = {0};
    for (size_t extra = 0; extra < 2; extra++) {
        size_t depth = max + extra;
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct arena arena = {0};
        struct json_document document;
        struct error error = {0};
        enum status status = json_document_read((struct text){text, 2 * depth}, &grammar_limits_default,
                                                &arena, &document, &error);
        assert_int_equal(status, extra ? STATUS_REJECT : STATUS_OK);
        arena_finish(&arena);
    }
}

TEST(values_are_equal_as_schemas_have_it)
{
    struct arena arena = {0};
    struct json_document document;
    struct error error = {0};
    struct text text = TEXT(
        "[1, 1.0, 10e-1, {\"a\": 1, \"b\": 2}, {\"b\": 2.0, \"a\": 1}, [1], [1.0], true, \"1\", 0, -0.0]");
    assert_ok(json_document_read(text, &grammar_limits_default, &arena, &document, &error), &error);
    static const int groups[] = {0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 5};
    for (size_t i = 0; i < document.root->n_children; i++)
        for (size_t j = 0; j < document.root->n_children; j++)
            assert_int_equal(json_equal(json_item(document.root, i), json_item(document.root, j), &arena),
                             groups[i] == groups[j]);
    arena_finish(&arena);
}
