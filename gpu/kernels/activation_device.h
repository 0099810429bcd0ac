// For kernels: activations (enum activation_kind), computed with the same operations as in
// engine/cpu/rows_body.h.
#pragma once

#include "engine/model/model.h"
#include "gpu/kernels/elementary_device.h"

static __device__ inline float gelu_tanh(float x)
{
    return x / (1.0f + device_exp(x * -1.5957691f * fmaf(x * x, 0.044715f, 1.0f)));
}

static __device__ inline float gelu(float x)
{
    float small = x * device_normal_tail(x);
    return x < 0.0f ? small : x - small;
}

static __device__ inline float activation_value(float x, enum activation_kind kind)
{
    switch (kind) {
    case ACTIVATION_SILU:
        return x / (1.0f + device_exp(-x));
    case ACTIVATION_GELU:
        return gelu(x);
    case ACTIVATION_GELU_TANH:
        return gelu_tanh(x);
    case ACTIVATION_RELU_SQUARED:
        return x < 0.0f ? 0.0f : x * x;
    case ACTIVATION_SIGMOID:
        return 1.0f / (1.0f + device_exp(-x));
    default: // ACTIVATION_SWIGLU_CLAMPED
        x = fminf(x, 7.0f);
        return x / (1.0f + device_exp(-1.702f * x));
    }
}

// Returns activation_value(gate) * up.
static __device__ inline float activate_gated(float gate, float up, enum activation_kind kind)
{
    float y = activation_value(gate, kind);
    return y * (kind == ACTIVATION_SWIGLU_CLAMPED ? fminf(fmaxf(up, -7.0f), 7.0f) + 1.0f : up);
}
