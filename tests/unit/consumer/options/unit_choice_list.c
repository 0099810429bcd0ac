// The labels of --choice.
#include "consumer/options/choice_list.h"
#include "tests/support/cases.h"

// labels: each in brackets, a '*' at the end where one begins another one.
static void assert_labels_of(char *const *texts, const char *labels)
{
    struct arena arena = {0};
    struct choice_list list;
    struct error error;
    struct buffer found = {0};
    if (choice_list_read(&list, texts, &arena, &error) != STATUS_OK)
        fail_msg("%s: %s", texts[0], error.text);
    for (size_t i = 0; i < list.n; i++)
        buffer_add_format(&found, "[%.*s]", (int)list.items[i].size, list.items[i].data);
    buffer_add_string(&found, list.nests ? "*" : "");
    assert_string_equal(found.data, labels);
    buffer_finish(&found);
    arena_finish(&arena);
}

static void assert_labels(const char *text, const char *labels)
{
    assert_labels_of((char *[]){(char *)text, NULL}, labels);
}

static void assert_refused_of(char *const *texts, const char *words)
{
    struct arena arena = {0};
    struct choice_list list;
    struct error error;
    assert_int_equal(choice_list_read(&list, texts, &arena, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, words));
    arena_finish(&arena);
}

static void assert_refused(const char *text, const char *words)
{
    assert_refused_of((char *[]){(char *)text, NULL}, words);
}

TEST(labels_are_separated_as_the_fields_of_a_csv_record)
{
    assert_labels("a", "[a]");
    assert_labels("a,b", "[a][b]");
    assert_labels(" a b ,\tc\t", "[a b][c]");
    assert_labels("\"x,y\",z", "[x,y][z]");
    assert_labels(" \"x,y\" , z", "[x,y][z]");
    assert_labels("\" a \",b", "[ a ][b]");
    assert_labels("\"\"\"a\"\"\",\"b\"\"c\"", "[\"a\"][b\"c]");
    assert_labels("a \"b\",c\"", "[a \"b\"][c\"]"); // inside a label a quote is a quote
    assert_labels("{\"sentiment,{\"", "[{\"sentiment][{\"]*");
    assert_labels("\",\"", "[,]");
    assert_labels("\"a\nb\",c", "[a\nb][c]");
}

TEST(a_label_that_begins_another_one_is_found)
{
    assert_labels("no,no idea", "[no][no idea]*");
    assert_labels("no idea,yes,no", "[no idea][yes][no]*");
    assert_labels("no,now here,yes", "[no][now here][yes]*");
    assert_labels("no,yes,on", "[no][yes][on]");
}

TEST(labels_of_several_texts_add_up_in_their_order)
{
    assert_labels_of((char *[]){"a,b", "c", NULL}, "[a][b][c]");
    assert_labels_of((char *[]){"\"x,y\" ", " \"\"\"z\", c ", NULL}, "[x,y][\"z][c]");
    assert_labels_of((char *[]){"no idea,x", "no", NULL}, "[no idea][x][no]*");
    assert_refused_of((char *[]){"a,b", "c,a", NULL}, "\"a\" occurs twice");
    assert_refused_of((char *[]){"\"a", "b\"", NULL}, "not closed");
    assert_refused_of((char *[]){"a", "", NULL}, "a label is empty, got ''");
    assert_refused_of((char *[]){"a", "b\xff", NULL}, "label 2 is not UTF-8");
}

TEST(what_is_no_list_is_refused)
{
    assert_refused("", "a label is empty");
    assert_refused("a,", "a label is empty");
    assert_refused("a, ,b", "a label is empty");
    assert_refused("\"\",b", "a label is empty");
    assert_refused("a,\"a\"", "occurs twice");
    assert_refused("\"a,b", "not closed");
    assert_refused("\"a\"\"", "not closed");
    assert_refused("\"a\" b,c", "expected a comma");
    assert_refused("a,\xff", "not UTF-8");
}
