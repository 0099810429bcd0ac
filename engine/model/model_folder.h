// A Hugging Face folder as it is downloaded, opened as if it were a GGUF file: config.json becomes
// key-values, the tensors of its safetensors files get GGUF's names and order of rows. The two formats
// differ in:
//   - Llama's q and k rows are ordered by halves there and by adjacent pairs here: they are reordered
//   - Gemma's norms lack the 1 that is added to them
//   - GPT-2's matrices are transposed, GPT-NeoX's and Falcon's q, k and v head by head
//   - each expert's matrices are tensors of their own
//   - gpt-oss's and Granite's experts are stored in one tensor, gate and up mixed
//   - NVFP4's items, block scales and factors are tensors of their own
//   - Llama 3's rope scaling is numbers there and a tensor of divisors here
//   - a model of images and text holds its language model under another name; the rest is left out, as the
//     name says
// Matrices that need nothing of this stay where they are, in the mapping; the others are made when they are
// loaded. tokenizer.json, tokenizer_config.json and the chat template stand as the keys
// tokenizer.huggingface.json, tokenizer.huggingface.config and tokenizer.chat_template. Names:
// github.com/huggingface/transformers, src/transformers/models/*/configuration_*.py and modeling_*.py.
#pragma once

#include "engine/file/gguf.h"

enum { MODEL_FOLDER_JSON_BYTES_MAX = 64 << 20 };

// Keys of a folder's files that are not known, as a text. No part of the content's hash.
#define MODEL_FOLDER_UNKNOWN "huggingface.unknown_keys"
// What generation_config.json wants and is not built.
#define MODEL_FOLDER_NO_SAMPLING "huggingface.sampling_refused"
// Keys of models for embeddings. Three texts name what is not built: NO_EMBEDDINGS in general, NO_POOLING and
// NO_DIMENSIONS where an option can choose. PROMPT is put before each text; texts are cut after TOKENS_MAX
// tokens; NORMALIZES says whether vectors get length 1 (only with a modules.json).
#define MODEL_FOLDER_NO_EMBEDDINGS "huggingface.embeddings_refused"
#define MODEL_FOLDER_NO_POOLING    "huggingface.pooling_refused"
#define MODEL_FOLDER_NO_DIMENSIONS "huggingface.dimensions_refused"
#define MODEL_FOLDER_PROMPT        "huggingface.embedding_prompt"
#define MODEL_FOLDER_TOKENS_MAX    "huggingface.embedding_tokens_max"
#define MODEL_FOLDER_NORMALIZES    "huggingface.embeddings_normalized"

// A GGUF file, or a folder. Errors: STATUS_REFUSE; an unknown architecture, a setting that this version can't
// compute and a tensor without a place are named.
enum status model_folder_open(struct gguf **gguf, const char *path, struct error *error) WARN_UNUSED;
