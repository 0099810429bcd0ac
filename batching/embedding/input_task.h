// The task of a batcher of inputs (embedding_batcher.h): vectors of texts, or scores of texts and pairs by a
// classification head. A vector of scores has an item for each label.
#pragma once

#include "batching/embedding/classifier_input.h"
#include "batching/embedding/embedding_input.h"
#include "engine/classifier.h"
#include "engine/embedding.h"
#include "schemas/ranking_result.h"

// Settings of a job for all of its inputs.
struct input_plan {
    struct text prompt; // put before each text
    struct embedding_cut cut;
    int32_t n_dimensions; // of each vector
};

struct input_tokens {
    struct token_array ids;
    struct token_array types; // of the ids, if the model has token types; else empty
    size_t n_cut;             // tokens that the cut removed
};

struct input_task {
    const struct input_task_impl *impl; // of input_task_embedding, input_task_scores
    struct embedder *embedder;          // TASK_EMBED
    const struct embedding_rules *rules;
    struct classifier *classifier; // TASK_CLASSIFY, TASK_RERANK
    const struct classifier_reader *reader;
    struct ranking_labels labels;
};

struct input_task_impl {
    // STATUS_REJECT: the job is at fault.
    enum status (*plan)(const struct input_task *task, const struct job *job, struct input_plan *plan,
                        struct error *error);
    // Appends the tokens of an input. STATUS_REJECT: it has none or too many, with both numbers. Thread: any.
    enum status (*encode)(const struct input_task *task, const struct job *job, const struct input_plan *plan,
                          int32_t index, struct input_tokens *tokens, struct error *error);
    // `vectors` [n_texts, input_task_width].
    enum status (*compute)(const struct input_task *task, const struct embedding_text *texts, int32_t n_texts,
                           float *vectors, struct error *error);
    // Sets the result of a job: rows [n_inputs] in its arena. False: out of memory.
    bool (*finish)(const struct input_task *task, struct job *job, const struct input_plan *plan,
                   struct embedding *rows);
};

// All that is pointed to must outlive the task. Only jobs of the worker's task may be planned (schemas/task.h).
struct input_task input_task_embedding(struct embedder *embedder, const struct embedding_rules *rules);
// For TASK_CLASSIFY and TASK_RERANK; the latter needs a relevant label. `classifier` NULL: inputs are only encoded.
struct input_task input_task_scores(struct classifier *classifier, const struct classifier_reader *reader,
                                    const struct ranking_labels *labels);
int32_t input_task_width(const struct input_task *task); // the most dimensions of a vector
