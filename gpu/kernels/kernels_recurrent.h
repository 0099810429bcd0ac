// Launches of the kernels of recurrent layers (engine/backend.h: convolve, delta_rule, scan, selective_scan).
// A launch computes all rows of the step. The rows of a sequence are computed token by token in one fixed
// order, in prefill and in decoding, so a result does not depend on the batch or on the chunks of its prompt.
//
// States, float32, [layer][slot]:
//   rows       [n_taps - 1, n_channels], the convolution's last inputs, oldest first, padded to a multiple of
//              32 items
//   matrices   delta rule, scan   [n_heads][value_dim][key_dim]
//              selective scan     [key_dim][value_dim]
// A sequence reads the slot state_in (not at position 0, where its state is zero) and writes state_out.
#pragma once

#include "gpu/kernels/kernels_attention.h"
#include "gpu/kernels/kernels_rows.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RECURRENT_KEYS_MAX = 256,          // maximum key_dim of the delta rule and the scan
    RECURRENT_KEYS_SELECTIVE_MAX = 64, // of the selective scan
    RECURRENT_CHUNK_ROWS = 64,         // rows of a sequence that a block of the convolution computes
};

// The states of one layer and the sequences that use them.
struct recurrent_states {
    float *layer;                               // slot 0
    int64_t slot_items;                         // floats from slot to slot
    int64_t matrices;                           // offset of the matrices in a slot
    const struct attention_sequence *sequences; // [n_sequences]; those without rows are padding
    int32_t n_sequences, n_rows_most;           // n_rows_most: largest number of rows of a sequence
};

struct convolution_launch {
    struct recurrent_states states;
    struct device_matrix out, in;
    int32_t n_channels, n_taps;
    const float *kernel, *bias; // [n_taps, n_channels]; [n_channels], NULL: none
    bool activated;             // by SiLU
};

// One launch if no sequence has more than RECURRENT_CHUNK_ROWS rows, else a second one for the states.
void launch_convolution(void *stream, const struct convolution_launch *convolution);

struct delta_launch {
    struct recurrent_states states;
    struct device_matrix out, qkv, alpha, beta;
    int32_t n_rows; // rows of the step
    int32_t n_heads, n_key_heads, key_dim, value_dim;
    bool tiled, doubles_beta, by_channel;
    const float *decay, *step_bias;
};

// Two launches: the first normalizes queries and keys, and converts alpha and beta in place.
void launch_delta_rule(void *stream, const struct delta_launch *delta);

struct scan_launch {
    struct recurrent_states states;
    struct device_matrix out, x, step;
    struct device_matrix b, c; // selective only
    int32_t n_heads, n_groups, key_dim, value_dim;
    const float *decay, *step_bias, *direct;
    float step_min, step_max;
};

void launch_scan(void *stream, const struct scan_launch *scan);
void launch_selective_scan(void *stream, const struct scan_launch *scan);

#ifdef __cplusplus
}
#endif
