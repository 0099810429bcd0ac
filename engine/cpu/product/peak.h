// The rates that bound products on this machine, measured: multiply-adds in registers, and reading memory.
#pragma once

#include "schemas/base/pool.h"

// The instructions that a level's kernels multiply with. The processor must have them.
enum peak_instructions {
    PEAK_NONE, // plain C, or another architecture: only memory is measured
    PEAK_AVX2,
    PEAK_AVXVNNI,
    PEAK_AVXVNNI_AS_AVX512, // vpdpbusd at 256 bits, in AVX-512's encoding
    PEAK_AVX512,
    PEAK_AVX512_BF16,
    PEAK_AMX, // int8 in tiles; bfloat16 and float32 as PEAK_AVX512
};

// All threads of the pool together; 0: not measured.
struct product_peak {
    double int8, bfloat, single; // GMAC/s, 10^9 multiply-adds a second
    double memory;               // GB/s read
};

// Takes about 0.2 s and 256 MB. The best of several runs: another program's work is not part of a peak.
struct product_peak product_peak_measure(struct pool *pool, enum peak_instructions instructions);
