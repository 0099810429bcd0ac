// Whether a test runs every shape it knows. ops/nightly sets SHEAF_TEST_WIDE=1 for that; without it a test runs a few odd shapes that
// reach each branch, so that a change is checked in minutes.
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool tests_are_wide(void)
{
    const char *wide = getenv("SHEAF_TEST_WIDE");
    return wide && *wide && strcmp(wide, "0") != 0;
}
