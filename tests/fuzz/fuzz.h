// libFuzzer's entry point, which each fuzz target implements: replay.c or libFuzzer calls it once an input.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
