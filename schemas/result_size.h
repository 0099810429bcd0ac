// How large the result of a job of inputs will be, before it is computed: vectors of texts, scores of pairs.
#pragma once

#include "schemas/job.h"

// Bytes of one input in the result map, at least: of a vector little-endian float32, in JSON as base64
// (schemas/embedding_result.h), of a score an object (schemas/ranking_result.h). `width`: the model's dimensions or
// labels; a job's own `dimensions` come first.
uint64_t result_input_bytes(const struct job *job, int32_t width);
// The same of the whole result; 0 for a job of TASK_GENERATE.
uint64_t result_bytes(const struct job *job, int32_t width);
// How many inputs a job may have so that its result fits `bytes_max`.
uint64_t result_inputs_max(const struct job *job, int32_t width, uint64_t bytes_max);
