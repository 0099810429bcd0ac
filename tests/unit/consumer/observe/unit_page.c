// Text, numbers and charts of pages for people.
#include "consumer/observe/page.h"
#include "tests/support/cases.h"

#define BAD "\xEF\xBF\xBD"

TEST(text_of_pages_neither_ends_elements_nor_reorders_them)
{
    static const char *const cases[][2] = {
        {"a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;"},
        {"a\tb\nc", "a\tb\nc"},
        {"\033[31m\a\x7F", BAD "[31m" BAD BAD},
        {"\xC2\x85\xC2\x9B|\xC2\xA0", BAD BAD "|\xC2\xA0"},                 // NEL, CSI, but no blank
        {"\xE2\x80\xAA\xE2\x80\xAE|\xE2\x80\xAF", BAD BAD "|\xE2\x80\xAF"}, // U+202A, E, F
        {"\xE2\x81\xA6\xE2\x81\xA9|\xE2\x81\xAA", BAD BAD "|\xE2\x81\xAA"}, // U+2066, 9, A
        {"\xE2\x80\x8E\xE2\x80\x8F|\xE2\x80\x8D", BAD BAD "|\xE2\x80\x8D"}, // U+200E, F, but no joiner
        {"\xD8\x9C|\xD8\xA7", BAD "|\xD8\xA7"},                             // U+061C, but no letter
        {"a\xFF"
         "b\xE2\x82"
         "c\xC3\xA9\xF0\x9F",
         "a" BAD "b" BAD "c\xC3\xA9" BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer out = {0};
        page_add_text(&out, text_from_string(cases[i][0]));
        buffer_add_byte(&out, '\0');
        assert_string_equal(out.data, cases[i][1]);
        buffer_finish(&out);
    }
}

static void expect(struct buffer *out, const char *expected)
{
    buffer_add_byte(out, '\0');
    assert_string_equal(out->data, expected);
    buffer_finish(out);
}

// A chart's ticks, from the lowest, and its unit: "0 5 10 jobs".
static const char *ticks_of(const struct page_column *columns, int n, char text[128])
{
    struct buffer out = {0};
    page_add_columns(&out, "t", "jobs", columns, n);
    buffer_add_byte(&out, '\0');
    text[0] = '\0';
    for (const char *at = out.data; (at = strstr(at, "<line ")); at++) {
        const char *label = strstr(at, "\"end\">") + strlen("\"end\">");
        strncat(text, label, strcspn(label, "<"));
        strcat(text, " ");
        if (label[strcspn(label, "<") + strlen("</text>")] == '<')
            strcat(text, "jobs");
    }
    buffer_finish(&out);
    return text;
}

TEST(ticks_are_round_numbers_that_reach_the_highest_column)
{
    static const struct {
        double most;
        const char *ticks;
    } cases[] = {{748.274, "0 500 1,000 jobs"},
                 {600, "0 200 400 600 jobs"},
                 {601, "0 500 1,000 jobs"},
                 {0.786, "0 0.5 1 jobs"},
                 {22.6667, "0 10 20 30 jobs"},
                 {0.0000061, "0 5e-06 1e-05 jobs"},
                 {1, "0 1 jobs"},
                 {3, "0 1 2 3 jobs"},
                 {4, "0 2 4 jobs"},
                 {21000, "0 10k 20k 30k jobs"},
                 {2500000, "0 1M 2M 3M jobs"},
                 {4.1e9, "0 2G 4G 6G jobs"},
                 {0, "0 1 jobs"}};
    char text[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct page_column columns[] = {{"a", 0}, {"b", cases[i].most}};
        assert_string_equal(ticks_of(columns, 2, text), cases[i].ticks);
    }
    assert_string_equal(ticks_of(NULL, 0, text), "0 1 jobs");
}

TEST(columns_are_as_high_as_their_value_between_the_ticks)
{
    static const struct page_column columns[] = {{"<1 s", 2}, {"2 s", 8}, {"3 s", 0}};
    struct buffer out = {0};
    page_add_columns(&out, "Waiting", "jobs", columns, 3);
    expect(
        &out,
        "<figure><h3>Waiting</h3><svg viewBox=\"0 0 360 150\" role=\"img\" aria-label=\"Waiting\">\n"
        "<line x1=\"44\" x2=\"356\" y1=\"126.0\" y2=\"126.0\"/><text x=\"38\" y=\"130.0\" text-anchor=\"end\">0</text>\n"
        "<line x1=\"44\" x2=\"356\" y1=\"74.0\" y2=\"74.0\"/><text x=\"38\" y=\"78.0\" text-anchor=\"end\">5</text>\n"
        "<line x1=\"44\" x2=\"356\" y1=\"22.0\" y2=\"22.0\"/><text x=\"38\" y=\"26.0\" text-anchor=\"end\">10</text>"
        "<text x=\"44\" y=\"14\">jobs</text>\n"
        "<rect x=\"44.00\" y=\"105.20\" width=\"88.40\" height=\"20.80\"><title>&lt;1 s: 2</title></rect>\n"
        "<rect x=\"148.00\" y=\"42.80\" width=\"88.40\" height=\"83.20\"><title>2 s: 8</title></rect>\n"
        "<rect x=\"252.00\" y=\"126.00\" width=\"88.40\" height=\"0.00\"><title>3 s: 0</title></rect>\n"
        "<text x=\"96.0\" y=\"142\" text-anchor=\"middle\">&lt;1 s</text>"
        "<text x=\"200.0\" y=\"142\" text-anchor=\"middle\">2 s</text>"
        "<text x=\"304.0\" y=\"142\" text-anchor=\"middle\">3 s</text></svg></figure>\n");
}

// Five at most. Where columns are narrow, a label at an end stays inside the plot.
TEST(the_axis_names_some_of_many_columns)
{
    static const struct {
        int n;
        const char *labels; // with '<' and '>' if aligned at an end
    } cases[] = {{1, "a"},     {4, "abcd"},    {5, "abcde"}, {6, "<ace"},
                 {8, "<aceg"}, {9, "<aceg>i"}, {11, "<af>k"}};
    struct page_column columns[11] = {0};
    for (int i = 0; i < 11; i++)
        columns[i] = (struct page_column){{(char)('a' + i)}, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer out = {0};
        char labels[16] = "";
        page_add_columns(&out, "t", "u", columns, cases[i].n);
        buffer_add_byte(&out, '\0');
        const char *at = strstr(out.data, "</rect>");
        while ((at = strstr(at, "text-anchor=\""))) {
            at += strlen("text-anchor=\"");
            strcat(labels, *at == 's' ? "<" : *at == 'e' ? ">" : "");
            strncat(labels, strchr(at, '>') + 1, 1);
        }
        assert_string_equal(labels, cases[i].labels);
        buffer_finish(&out);
    }
}

TEST(bars_say_their_number_and_share)
{
    struct buffer out = {0};
    page_begin_bars(&out, TEXT("a&b"));
    page_add_bar(&out, TEXT("<m>"), 1250, 5000);
    page_add_bar(&out, TEXT("one"), 1, 1);
    page_add_bar(&out, TEXT("none"), 0, 0);
    page_end_bars(&out);
    expect(
        &out,
        "<figure><h3>a&amp;b</h3>\n"
        "<div class=\"bar\"><span>&lt;m&gt;</span><b>1,250 (25.0 %)</b>"
        "<i><i style=\"width:25.00%\"></i></i></div>\n"
        "<div class=\"bar\"><span>one</span><b>1 (100.0 %)</b><i><i style=\"width:100.00%\"></i></i></div>\n"
        "<div class=\"bar\"><span>none</span><b>0 (0.0 %)</b><i><i style=\"width:0.00%\"></i></i></div>\n"
        "</figure>\n");
}

TEST(a_page_has_its_title_twice_and_is_loaded_again_if_it_is_told_to)
{
    for (int refresh_s = 0; refresh_s <= 5; refresh_s += 5) {
        struct buffer out = {0};
        page_begin(&out, TEXT("a<b"), refresh_s);
        page_begin_section(&out, "Jobs");
        page_begin_tiles(&out);
        page_add_tile(&out, "speed", "%d <tokens/s>", 7);
        page_end_tiles(&out);
        page_begin_charts(&out);
        page_end_charts(&out);
        page_end_section(&out);
        page_end(&out);
        buffer_add_byte(&out, '\0');
        assert_int_equal(strncmp(out.data, "<!DOCTYPE html>\n<html lang=\"en\"", 31), 0);
        assert_int_equal(strstr(out.data, "<meta http-equiv=\"refresh\" content=\"5\"/>") != NULL,
                         refresh_s == 5);
        assert_int_equal(strstr(out.data, "\"refresh\"") != NULL, refresh_s == 5);
        const char *style = strstr(out.data, "<title>a&lt;b</title><style>"),
                   *body = strstr(out.data, "</style></head><body>\n<h1>a&lt;b</h1>\n");
        assert_non_null(style);
        assert_non_null(body);
        assert_true(body > style + 100);
        assert_string_equal(
            strstr(body, "<section>"),
            "<section><h2>Jobs</h2>\n<div class=\"tiles\">\n<div class=\"tile\"><span>speed</span>"
            "<b>7 &lt;tokens/s&gt;</b></div>\n</div>\n<div class=\"charts\">\n</div>\n"
            "</section>\n</body></html>\n");
        buffer_finish(&out);
    }
}

TEST(a_table_s_head_names_its_columns)
{
    struct buffer out = {0};
    page_begin_table(&out, "name|jobs|<error & text");
    page_end_table(&out);
    expect(&out, "<div class=\"wide\"><table><tr><th>name</th><th>jobs</th>"
                 "<th class=\"left\">error &amp; text</th></tr>\n</table></div>\n");
}

TEST(numbers_have_their_thousands_apart)
{
    static const struct {
        int64_t number;
        const char *text;
    } cases[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {12345, "12,345"},
                 {123456, "123,456"},
                 {1234567, "1,234,567"},
                 {-1, "-1"},
                 {-999, "-999"},
                 {-1000, "-1,000"},
                 {INT64_MAX, "9,223,372,036,854,775,807"},
                 {INT64_MIN, "-9,223,372,036,854,775,808"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_string_equal(page_number(text, cases[i].number), cases[i].text);
    }
}

TEST(the_beginning_of_a_text_is_cut_between_characters)
{
    static const struct {
        const char *text;
        size_t n_bytes_max;
        const char *expected;
    } cases[] = {{"abc", 3, "abc"},
                 {"abcd", 3, "abc\xE2\x80\xA6"},
                 {"ab\xC3\xA9", 3, "ab\xE2\x80\xA6"},
                 {"ab\xC3\xA9", 4, "ab\xC3\xA9"},
                 {"a<b", 2, "a&lt;\xE2\x80\xA6"},
                 {"", 0, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer out = {0};
        page_add_beginning(&out, text_from_string(cases[i].text), cases[i].n_bytes_max);
        expect(&out, cases[i].expected);
    }
}
