// Warns once if texts get no prompt before them though the model was trained with one: without it vectors are computed
// but compare badly. Models are known by their own prompts (config_sentence_transformers.json), else by their names.
// Thread: main.
#pragma once

#include "batching/embedding/embedding_input.h"
#include "engine/model/model.h"

// The prefixes before queries and documents of a model whose files name none; from the model cards of E5, nomic-embed-text,
// ModernBERT-embed and EmbeddingGemma. False: none are known.
bool embedding_prompts_known(const char *model_name, const char *family, const char **query,
                             const char **document);
// `of_jobs`: jobs may name a prompt themselves, and the worker has no --prefix.
void embedding_prompts_warn(const struct embedding_rules *rules, const struct model *model, bool of_jobs);
