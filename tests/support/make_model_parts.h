// A model in the making: private to make_model.c and make_model_gemma.c.
#pragma once

#include "engine/file/tensor.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

enum { TENSORS_MAX = 1024, NAME_BYTES = 64 };

enum made_kind { MADE_MATRIX, MADE_PLAIN_MATRIX, MADE_NORM, MADE_BIAS, MADE_DIVISORS, MADE_DECAY };

struct made_tensor {
    char name[NAME_BYTES];
    enum made_kind kind;
    enum tensor_type type;
    uint32_t n_dims;
    uint64_t dims[3];
    uint64_t size, offset;
};

struct maker {
    struct model_recipe recipe;
    const char *base; // general.architecture
    int32_t head_dim;
    bool layer_norm;
    struct buffer keys;
    uint64_t n_keys;
    struct made_tensor tensors[TENSORS_MAX];
    int n_tensors;
};

// Whether the family is one of several names, separated by blanks.
static inline bool is_of(const struct maker *maker, const char *families)
{
    char padded[64], list[256];
    snprintf(padded, sizeof padded, " %s ", maker->recipe.family);
    snprintf(list, sizeof list, " %s ", families);
    return strstr(list, padded) != NULL;
}

bool replaced(const struct maker *maker, const char *key); // by the recipe, or dropped
void add_key(struct maker *maker, const char *suffix, enum gguf_kind kind, double number);
void add_tensor(struct maker *maker, const char *name, enum made_kind kind, uint64_t n_cols, uint64_t n_rows,
                uint64_t n_matrices);
void add_vector(struct maker *maker, const char *prefix, const char *name, enum made_kind kind, uint64_t n);
void add_norm(struct maker *maker, const char *prefix, const char *name, int32_t n);
void add_matrix(struct maker *maker, const char *prefix, const char *name, int32_t n_rows, int32_t n_cols,
                bool bias);

// Families with recurrent layers (make_model_recurrent.c), also by their kind, and those that say by their
// key-value heads which layers are recurrent.
#define QWEN_DELTA_FAMILIES "qwen3next qwen35 qwen35moe qwen4_exp"
#define DELTA_FAMILIES      QWEN_DELTA_FAMILIES " olmo_hybrid"
#define SHORT_FAMILIES      "lfm2 lfm2moe lfm3"
#define SINGLE_FAMILIES     "nemotron_h nemotron_h_moe" // one mixer or MLP a layer
#define BOTH_FAMILIES       "falcon-h1"                 // attention and a recurrence in each layer
#define PURE_FAMILIES       "mamba2 mamba"              // neither attention nor an MLP
#define SELECTIVE_FAMILIES  "jamba mamba"
#define SCAN_FAMILIES       "granitehybrid bamba mamba2 " SINGLE_FAMILIES " " BOTH_FAMILIES
#define CHANNEL_FAMILIES    "kimi-linear" // the delta rule with a decay for each channel
#define HEADS_FAMILIES      SHORT_FAMILIES " granitehybrid bamba jamba " SINGLE_FAMILIES " " CHANNEL_FAMILIES
#define LARA_FAMILIES       "lara-mini" // the delta rule, windows, and one layer that sees everything
#define RECURRENT_FAMILIES                                                                                   \
    LARA_FAMILIES " " CHANNEL_FAMILIES " " DELTA_FAMILIES " " SHORT_FAMILIES " " SCAN_FAMILIES               \
                  " " SELECTIVE_FAMILIES
bool made_is_recurrent(const struct maker *maker, int32_t layer);
bool made_attends(const struct maker *maker, int32_t layer);
bool made_has_mlp(const struct maker *maker, int32_t layer);
void add_recurrent_keys(struct maker *maker);
void add_recurrence(struct maker *maker, const char *prefix);

#define INDEXED_FAMILIES "deepseek32 glm-dsa"               // sparse attention
#define VARIED_FAMILIES  "mimo2 step35 laguna deci openelm" // layers differ in heads

// Families whose layers differ (make_model_gemma.c).
#define GEMMA_FAMILIES "gemma3n gemma4"
void add_gemma_keys(struct maker *maker);
void add_gemma_globals(struct maker *maker);
void add_gemma_layer(struct maker *maker, const char *prefix, int32_t layer);

// Qwen4-Exp (make_model_hyper.c), which has no norms before attention, MLP and output.
void add_hyper_keys(struct maker *maker);
void add_hyper_globals(struct maker *maker);
void add_hyper_layer(struct maker *maker, const char *prefix, int32_t layer);
