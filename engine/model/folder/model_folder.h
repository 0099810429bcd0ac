// Opens a downloaded Hugging Face folder as if it were a GGUF file: config.json becomes key-values, and the
// tensors of its safetensors files get GGUF's names and row order. Differences, folder -> GGUF:
//   - q and k rows of Llama: ordered by halves -> by adjacent pairs
//   - Gemma's norm weights: 1 is added
//   - GPT-2's matrices: transposed
//   - q, k and v of GPT-NeoX and Falcon: mixed head by head -> all q, all k, all v
//   - experts: a tensor for each matrix -> one tensor
//   - experts of gpt-oss and Granite: gate and up mixed in one tensor -> two tensors
//   - NVFP4: items, block scales and factors are separate tensors -> blocks with scales, and factors
//   - FP8, compressed-tensors, GPTQ, AWQ: folder_quantized.h
//   - Llama 3's rope scaling: numbers -> a tensor of divisors
//   - models with towers for images or audio: only the language model, under its usual names; general.name says
//     so
// Matrices that need no conversion stay in the file's mapping; the others are converted when they are loaded.
// tokenizer.json, tokenizer_config.json and the chat template become the keys tokenizer.huggingface.json,
// tokenizer.huggingface.config and tokenizer.chat_template. Names: github.com/huggingface/transformers,
// src/transformers/models/*/configuration_*.py and modeling_*.py.
#pragma once

#include "engine/file/gguf.h"

enum { MODEL_FOLDER_JSON_BYTES_MAX = 64 << 20 };

// Unknown keys of a folder's files, as a text. Not part of the content hash.
#define MODEL_FOLDER_UNKNOWN "huggingface.unknown_keys"
// A note on the parts of a quantized folder that are not used, or not held in their type. Not part of the
// content hash.
#define MODEL_FOLDER_QUANTIZATION "huggingface.quantization"
// A sampling setting of generation_config.json that is not supported.
#define MODEL_FOLDER_NO_SAMPLING "huggingface.sampling_refused"
// Keys of embedding models. Three texts name an unsupported setting: NO_EMBEDDINGS: no vectors can be
// computed; NO_POOLING, NO_DIMENSIONS: an option must choose instead. PROMPT is prepended to each text; texts
// are truncated to TOKENS_MAX tokens; NORMALIZES: whether vectors are normalized to length 1 (only with a
// modules.json).
#define MODEL_FOLDER_NO_EMBEDDINGS "huggingface.embeddings_refused"
#define MODEL_FOLDER_NO_POOLING    "huggingface.pooling_refused"
#define MODEL_FOLDER_NO_DIMENSIONS "huggingface.dimensions_refused"
#define MODEL_FOLDER_PROMPT        "huggingface.embedding_prompt"
#define MODEL_FOLDER_TOKENS_MAX    "huggingface.embedding_tokens_max"
#define MODEL_FOLDER_NORMALIZES    "huggingface.embeddings_normalized"
// All prompts by name, as a JSON object.
#define MODEL_FOLDER_PROMPTS "huggingface.embedding_prompts"
// A setting of a sentence-transformers' CrossEncoder that is not supported.
#define MODEL_FOLDER_NO_SCORES "huggingface.scores_refused"
// The model_type whose names the folder's tensors have. Not part of the content hash.
#define MODEL_FOLDER_MODEL_TYPE "huggingface.model_type"
// A decoder saved without its output matrix, as embedding models are: it has no logits.
#define MODEL_FOLDER_NO_OUTPUT "huggingface.no_output"

// Opens a GGUF file or a folder. Errors: STATUS_REFUSE. The text names an unknown architecture, a setting
// that this version can't compute, or a tensor without a place.
enum status model_folder_open(struct gguf **gguf, const char *path, struct error *error) WARN_UNUSED;
