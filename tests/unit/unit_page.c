// Text of pages for people.
#include "consumer/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BAD "\xEF\xBF\xBD"

static void text_of_pages_neither_ends_elements_nor_reorders_them(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer out = {0};
        page_add_text(&out, text_from_string(cases[i][0]));
        buffer_add_byte(&out, '\0');
        assert_string_equal(out.data, cases[i][1]);
        buffer_finish(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_pages_neither_ends_elements_nor_reorders_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
