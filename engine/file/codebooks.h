// The codebooks of the IQ tensor types: the items of each stored index. Their author found them by a search
// over real weights, so no rule gives them. An entry is packed with item 0 in the lowest bits. Entries
// ascend; the last item is the most significant. Source: github.com/ggml-org/ggml, src/ggml-common.h (the
// tables named *_grid). Each table ends with a zero that is not an entry, because kernels load 32 bits per
// entry.
//
//            entries  items, bits each   an item's value
//   IQ2_*    256..    8 of 2             8, 25, 43
//   IQ1_*    2048     8 of 2             -1, 0, 1
//   IQ3_XXS  256      4 of 3             4, 12, 20, 28, 36, 44, 52, 62
//   IQ3_S    512      4 of 3             1, 3, 5, .. 15
#pragma once

#include <stdint.h>

extern const uint16_t codebook_iq2_xxs[256 + 1];
extern const uint16_t codebook_iq2_xs[512 + 1];
extern const uint16_t codebook_iq2_s[1024 + 1];
extern const uint16_t codebook_iq1[2048 + 1]; // IQ1_S and IQ1_M
extern const uint16_t codebook_iq3_xxs[256 + 1];
extern const uint16_t codebook_iq3_s[512 + 1];
