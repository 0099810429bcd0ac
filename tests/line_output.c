// Linked into every cmocka program: its output is written line by line, also into a pipe. An abort, which
// loses what stdio still
// holds, in a test or its teardown then follows "[ RUN      ] NAME" of its case.
#include <stdio.h>

__attribute__((constructor)) static void write_lines(void)
{
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}
