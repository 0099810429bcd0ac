// LoRA adapters of a model (Hu et al. 2021, arXiv:2106.09685): for some of its matrices W, y = W x + s B (A x),
// with A [rank, n_inputs], B [n_outputs, rank] and a scale s. Two formats:
//
//   a folder of PEFT  adapter_config.json, adapter_model.safetensors
//                     base_model.model.NAME.lora_A.weight [rank, n_inputs], .lora_B.weight [n_outputs, rank];
//                     NAME is the module's name in the base model's folder. s = lora_alpha / rank, or
//                     lora_alpha / sqrt(rank) with use_rslora (github.com/huggingface/peft, tuners/lora)
//   a GGUF file       general.type "adapter", adapter.type "lora", adapter.lora.alpha; tensors blk.N.NAME.weight.lora_a
//                     {n_inputs, rank}, .lora_b {rank, n_outputs}. s = alpha / rank; 1 if alpha is 0 or absent
//                     (github.com/ggml-org/llama.cpp, src/llama-adapter.cpp)
//
// The rows of B have the order of the base model's rows in the same format: a folder's rows are reordered as the
// folder's matrix is (engine/model/folder/model_folder.h). A matrix of several slots, such as attn_qkv, has the same A
// for all. Several adapters of one matrix are one of the sum of their ranks, in the order in which they were added.
//
// Each sequence of a step is computed with one set of adapters. model_add_adapter adds an adapter to all sets.
// model_add_adapter_set adds a set with one more adapter. Set 0 has only the adapters of all sets.
// Thread: any, after the last model_add_adapter.
#pragma once

#include "engine/model/model.h"

enum {
    ADAPTERS_MAX = 64,
    ADAPTER_RANK_MAX = 1024, // of a matrix in one adapter
    LAYER_OUTPUT = -1,       // in place of a layer: the output matrix, with SLOT_COUNT
};

// Adds the adapter at `path`, its s multiplied by `scale`. Keys of adapter_config.json that are not known are added
// to `unknown`, separated by ", ". Errors: STATUS_REFUSE. The text names a setting or a tensor that can't be computed,
// or a tensor whose shape is not the model's, with both shapes.
enum status model_add_adapter(struct model *model, const char *path, double scale, struct buffer *unknown,
                              struct error *error) WARN_UNUSED;
// The same, to a new set, the last one.
enum status model_add_adapter_set(struct model *model, const char *path, double scale, struct buffer *unknown,
                                  struct error *error) WARN_UNUSED;
void adapters_destroy(struct adapters *adapters); // the adapters of a model

int model_n_adapters(const struct model *model); // of all sets, in the order in which they were added
int model_n_adapter_sets(const struct model *model);
bool model_adapter_is_in(const struct model *model, int index, int32_t set);
// Hash of an adapter's content, without file names, and its scale.
uint64_t model_adapter_fingerprint(const struct model *model, int index, struct pool *pool,
                                   const struct interrupt *interrupt);
double model_adapter_scale(const struct model *model, int index);
// Checks that the files are unchanged (gguf_check_files).
enum status model_check_adapters(const struct model *model, struct error *error) WARN_UNUSED;

// Sum of the ranks of a set's adapters of a matrix. 0: none.
int32_t model_adapter_rank(const struct model *model, int32_t set, int32_t layer, enum layer_slot slot);
int32_t model_adapter_rank_max(const struct model *model); // of all sets and matrices
// Widens a set's adapters of a matrix: down [rank, n_inputs], A; up [rank, n_outputs], the transpose of s B.
void model_adapter_read(const struct model *model, int32_t set, int32_t layer, enum layer_slot slot,
                        float *down, float *up);
// Bytes of all sets' matrices in float32.
uint64_t model_adapter_bytes(const struct model *model);
