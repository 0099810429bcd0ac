// Random numbers of tests: D. E. Knuth's linear congruential generator for MMIX, the upper bits alone.
#pragma once

#include <stdint.h>
#include <stdio.h>

// The state to begin with, printed for who looks into a failure.
static inline uint64_t random_seed(uint64_t seed)
{
    printf("# seed %llu\n", (unsigned long long)seed);
    return seed;
}

static inline uint32_t random_bits(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static inline uint32_t random_below(uint64_t *state, uint32_t limit) // at most 2^31
{
    return (random_bits(state) >> 1) % limit;
}

static inline float random_float(uint64_t *state) // in [-1, 1)
{
    return (float)(int32_t)random_bits(state) * 0x1p-31f;
}

static inline double random_double(uint64_t *state) // in [0, 1)
{
    uint32_t upper = random_bits(state);
    return (double)((uint64_t)upper << 21 | (uint32_t)*state >> 11) * 0x1p-53;
}
