// A model with its matrices in another tensor type: the same keys, and tensors that are quantized on demand.
// It is written to a file (`sheaf quantize`) or loaded directly (--quantize).
//
// Tensors that stay float32: vectors (norms, biases), position tables, rope factors and the experts' router.
// If the type has fewer bits than Q6_K, the output matrix (the embedding, if it serves as output) gets Q6_K,
// because its errors go straight into the logits. If a type's block does not divide the rows, the tensor gets
// the type nearest in size whose block does: Q4_0 for Q4_K, Q8_0 for Q6_K, F16 if 32 does not divide a row.
#pragma once

#include "engine/file/gguf.h"

struct pool;

// The type by its name on the command line ("q4_k"); false: unknown, or cannot be written.
bool gguf_quantize_type(const char *name, enum tensor_type *type);

// `type` TENSOR_TYPE_COUNT: every tensor has the type in the source, or the type of GGUF with the same items:
// Q5_0 for U4, F32 for F8_E4M3 and for columns in another order.
// Takes ownership of `source`, also on failure. `pool` (may be NULL) quantizes rows in parallel; it must
// outlive *gguf and not run anything else meanwhile.
enum status gguf_quantize(struct gguf **gguf, struct gguf *source, enum tensor_type type, struct pool *pool,
                          struct error *error) WARN_UNUSED;

// How many tensors have another type than `wanted`, because the block of `wanted` does not divide their rows.
// `text` (text_bytes) says which types: "60 Q4_0 (rows of 64 items)".
size_t gguf_quantize_replaced(const struct gguf *gguf, enum tensor_type wanted, char *text,
                              size_t text_bytes);
