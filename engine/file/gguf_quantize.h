// A model whose matrices are converted to another tensor type. It has the same keys, and tensors that are
// quantized on demand. It is written to a file (`sheaf quantize`) or loaded directly (--quantize).
//
// Vectors (norms, biases), position tables, rope factors and the experts' router stay float32. If the type
// has fewer bits than Q6_K, the output matrix (or the embedding, if it serves as output) becomes Q6_K,
// because its errors directly affect the logits. If the block of the type does not divide a row, the tensor
// gets the type nearest in size whose block does: Q4_0 for Q4_K, Q8_0 for Q6_K, F16 if a row is not a
// multiple of 32.
#pragma once

#include "engine/file/gguf.h"

struct pool;

// Finds a type by its name on the command line ("q4_k"). False: the name is unknown, or the type cannot be
// written.
bool gguf_quantize_type(const char *name, enum tensor_type *type);

// Creates the model. With TENSOR_TYPE_COUNT as `type`, every tensor keeps the type of the source, or gets the
// GGUF type with the same items: Q5_0 for U4, F32 for F8_E4M3 and for columns in another order. Takes
// ownership of `source`, even on failure. `pool` (may be NULL) quantizes rows in parallel; it must outlive
// *gguf and not run anything else meanwhile.
enum status gguf_quantize(struct gguf **gguf, struct gguf *source, enum tensor_type type, struct pool *pool,
                          struct error *error) WARN_UNUSED;

// Counts the tensors that have another type than `wanted`, because the block of `wanted` does not divide
// their rows. `text` (text_bytes) lists the types: "60 Q4_0 (rows of 64 items)".
size_t gguf_quantize_replaced(const struct gguf *gguf, enum tensor_type wanted, char *text,
                              size_t text_bytes);
