// libFuzzer's entry point, which each fuzz target implements: replay.c or libFuzzer calls it once an input.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(bool holds)
{
    if (!holds)
        abort();
}
