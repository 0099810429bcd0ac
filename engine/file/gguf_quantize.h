// A model with its matrices in another tensor type: the same keys, and tensors that are quantized when they
// are asked for. It is written to a file (`sheaf quantize`) or loaded as it is (--quantize).
//
// Tensors that stay float32: vectors (norms, biases), position tables, rope factors and the experts' router.
// The output matrix, or the embedding when that serves as one, gets Q6_K where a type of fewer bits is asked
// for, since errors there go straight into the logits. Rows that a type's blocks do not divide get the type
// nearest in size whose blocks do: Q4_0 for Q4_K, Q8_0 for Q6_K, F16 where 32 does not divide a row.
#pragma once

#include "engine/file/gguf.h"

struct pool;

// The type by its name as the command line has it ("q4_k"); false: unknown, or one that can't be written.
bool gguf_quantize_type(const char *name, enum tensor_type *type);

// Takes `source` over, also when it fails. `pool` (may be NULL) quantizes rows side by side; it must outlive
// *gguf and not run anything else meanwhile.
enum status gguf_quantize(struct gguf **gguf, struct gguf *source, enum tensor_type type, struct pool *pool,
                          struct error *error) WARN_UNUSED;

// How many tensors have another type than `wanted` because its blocks do not divide their rows. `text`
// (text_bytes) says which: "60 Q4_0 (rows of 64 items)".
size_t gguf_quantize_replaced(const struct gguf *gguf, enum tensor_type wanted, char *text,
                              size_t text_bytes);
