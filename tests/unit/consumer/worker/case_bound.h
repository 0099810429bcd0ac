// A bound on each case of a program whose faults may be endless loops or waits: TEST_FIXTURE(case_begin,
// case_finish), or case_begin first in a setup of its own. A case that does not end within CASE_SECONDS_MAX ends
// the program with its name.
#pragma once

#include "tests/support/cases.h"

#include <signal.h>
#include <unistd.h>

enum { CASE_SECONDS_MAX = 60 };

static char case_message[256]; // of the running case, for the signal handler

static inline void case_end_program(int number)
{
    ssize_t n = write(STDERR_FILENO, case_message, strlen(case_message));
    _exit(n > 0 ? 1 : 2);
}

static inline int case_begin(void **state)
{
    snprintf(case_message, sizeof case_message, "%s did not end within %d s\n", (const char *)*state,
             CASE_SECONDS_MAX);
    signal(SIGALRM, case_end_program);
    alarm(CASE_SECONDS_MAX);
    return 0;
}

static inline int case_finish(void **state)
{
    alarm(0);
    return 0;
}
