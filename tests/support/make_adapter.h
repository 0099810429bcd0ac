// Writes small LoRA adapters with seeded random items for a made model: as llama.cpp's GGUF file, or PEFT's folder.
#pragma once

#include "engine/file/gguf.h"

#include <stdint.h>

// A pair of the adapter, in memory.
struct made_pair {
    char target[64]; // "blk.0.attn_q.weight"
    uint64_t n_inputs, n_outputs, rank;
    float *down, *up; // A [rank, n_inputs], B [n_outputs, rank], in GGUF's order of rows
};

struct made_adapter {
    struct made_pair *pairs;
    int n_pairs;
    float alpha;
};

// Random pairs for every matrix of the file with one of these names ("attn_q ffn_down", separated by blanks; "output"
// is the output matrix); ranks differ, from `rank` to rank + 2.
void make_adapter(struct made_adapter *adapter, const struct gguf *gguf, const char *names, uint64_t seed,
                  uint64_t rank, float alpha);
void finish_adapter(struct made_adapter *adapter);
// The architecture of the file is `family`. `type`: F32, F16 or BF16; the items in memory become the file's.
void write_adapter(struct made_adapter *adapter, const char *path, const char *family, enum tensor_type type);
