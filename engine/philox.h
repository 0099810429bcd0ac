// Philox 4x32-10, a counter-based random number generator: four random words for each 128-bit counter under a
// 64-bit key, without state. Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC
// 2011), section 4.
#pragma once

#include <stdint.h>

struct philox {
    uint32_t words[4];
};

static inline struct philox philox4x32(struct philox counter, uint64_t key)
{
    uint32_t *c = counter.words;
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c[0], product1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(product1 >> 32) ^ c[1] ^ key0, (uint32_t)product1,
                            (uint32_t)(product0 >> 32) ^ c[3] ^ key1, (uint32_t)product0};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        key0 += 0x9E3779B9u; // the golden ratio and sqrt(3) - 1, the Weyl sequence of the paper
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// Returns a uniform number in [0, 1), a multiple of 2^-53, from the first two words.
static inline double philox_uniform(struct philox random)
{
    return ((double)(random.words[0] >> 5) * 67108864.0 + (double)(random.words[1] >> 6)) * 0x1p-53;
}
