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

// A key with what of a model for embeddings is not built.
#define MODEL_FOLDER_NO_EMBEDDINGS "huggingface.embeddings_refused"

// A GGUF file, or a folder. Errors: STATUS_REFUSE; an unknown architecture, a setting that this version can't
// compute and a tensor without a place are named.
enum status model_folder_open(struct gguf **gguf, const char *path, struct error *error) WARN_UNUSED;
