// Linked into every cmocka program: its output is written line by line, also into a pipe. An abort, which
// loses what stdio still
// holds, in a test or its teardown then follows "[ RUN      ] NAME" of its case. With SHEAF_TEST_CASES only the
// cases run whose names that pattern ("*" and "?") matches.
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

__attribute__((constructor)) static void begin_program(void)
{
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (getenv("SHEAF_TEST_CASES"))
        cmocka_set_test_filter(getenv("SHEAF_TEST_CASES"));
}
