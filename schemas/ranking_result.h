// The part of a result that a job for a classification head has. In the result map, and in the bodies of the paths:
//
//   /v1/classify   data      [{"index", "label", "probs": [number], "num_classes"}], in the order of the inputs
//                            (`logits` instead of `probs` if the worker applies no function to them)
//   /v1/score      data      [{"index", "object": "score", "score"}], in the order of the pairs
//   /v1/rerank     results   [{"index", "relevance_score", "document": {"text"}}], the most relevant first; equally
//                            relevant documents in the order of the request; `document` with return_documents
//                  errors    [{"index", "error"}], with `partial`: documents without a score
//
// With `partial` an item of data may be {"index", "error": {"code", "message"}}. A score is a float32 with its fewest
// digits.
#pragma once

#include "schemas/job.h"

// What the scores of labels mean.
struct ranking_labels {
    const struct text *names; // [n_labels]
    int32_t n_labels;
    int32_t relevant; // the label whose score is the relevance of a pair; -1: none
    bool is_raw;      // the scores are logits
};

// Fills job->result.rankings from the rows [request.embedding.n_inputs] of the job's inputs. Names are not copied.
// Thread: any. False: out of memory.
bool rankings_fill(struct job *job, const struct embedding *rows,
                   const struct ranking_labels *labels) WARN_UNUSED;

// Internal to schemas/: result.c and openai.c use the rest.
void rankings_measure(const struct result *result, size_t *n_values, uint64_t *n_bytes);
void rankings_build(const struct job *job, struct value *object); // adds the members to the result map
enum status rankings_read(struct job *job, const struct value *root, struct error *error) WARN_UNUSED;
// Writes the members of the body but `usage`, after an opening brace.
void rankings_encode_openai(const struct job *job, struct buffer *out);
