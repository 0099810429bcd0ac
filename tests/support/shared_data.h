// The folder of the shared parity data: $SHEAF_SHARED, else ../shared beside the source tree. Tests that need
// it call shared_path and skip() when it returns false.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline bool shared_path(char *out, size_t size, const char *relative)
{
    const char *base = getenv("SHEAF_SHARED");
    int length = snprintf(out, size, "%s/%s", base ? base : SOURCE_ROOT "/../shared", relative);
    return length > 0 && (size_t)length < size && access(out, R_OK) == 0;
}
