// For kernels: activations (enum activation_kind).
#pragma once

#include "engine/model/model.h"
#include "gpu/kernel.h"

static __device__ inline float gelu_tanh(float x)
{
    return x / (1.0f + expf(-1.5957691f * x * (1.0f + 0.044715f * x * x)));
}

static __device__ inline float round_to_half(float x)
{
    return half_float(half2_make(x, 0.0f));
}

static __device__ inline float activation_value(float x, enum activation_kind kind)
{
    switch (kind) {
    case ACTIVATION_SILU:
        return x / (1.0f + expf(-x));
    case ACTIVATION_GELU:
        return 0.5f * x * erfcf(x * -0.70710678f);
    case ACTIVATION_GELU_TANH:
        return gelu_tanh(x);
    case ACTIVATION_RELU_SQUARED:
        return x < 0.0f ? 0.0f : x * x;
    case ACTIVATION_SWIGLU_CLAMPED:
        x = fminf(x, 7.0f);
        return x / (1.0f + expf(-1.702f * x));
    default: // ACTIVATION_GELU_HALF
        return x < -10.0f ? 0.0f : x > 10.0f ? x : round_to_half(gelu_tanh(round_to_half(x)));
    }
}

// activation_value(gate) * up
static __device__ inline float activate_gated(float gate, float up, enum activation_kind kind)
{
    float y = activation_value(gate, kind);
    return y * (kind == ACTIVATION_SWIGLU_CLAMPED ? fminf(fmaxf(up, -7.0f), 7.0f) + 1.0f : up);
}
