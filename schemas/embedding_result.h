// The part of a result that an embedding job has: vectors, and errors of single inputs. Internal to schemas/:
// result.c and openai.c use it.
//
// In the result map:
//   data              one item for each input, in their order: the vector as little-endian float32 (msgpack bin;
//                     in JSON base64), or {"code", "message"} of an input without a vector
//   dimensions        items of each vector
//   encoding_format   "base64" if the job asked for it
#pragma once

#include "schemas/job.h"

// Bytes of the vectors in the result map, and its values.
uint64_t embeddings_bytes(const struct result *result);
size_t embeddings_n_values(const struct result *result);
// Adds the members but `usage` to the result map. False: out of memory.
bool embeddings_build(struct arena *arena, const struct result *result, struct value *object);
// The same from the result map.
enum status embeddings_read(struct job *job, const struct value *root, struct error *error) WARN_UNUSED;
// Writes OpenAI's body, an object of type "list", up to its usage.
void embeddings_encode_openai(const struct job *job, struct buffer *out);
