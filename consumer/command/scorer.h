// The scores of texts and pairs for sheaf classify and sheaf rerank: a model with its head, and a group of inputs that
// are computed together (engine/classifier.h).
// Thread: main.
#pragma once

#include "consumer/worker/classifier_runtime.h"
#include "consumer/worker/runtime.h"

struct scored_input {
    size_t first_id, n_ids, first_type; // of its tokens
    int64_t scores;                     // index of its row of scores, once computed; -1: an error
    struct error error;                 // STATUS_REJECT: it has no scores
};

struct scorer {
    struct runtime *runtime;
    struct classifier_runtime model;
    struct scored_input *inputs; // of the group
    size_t n_inputs, capacity;
    struct token_array ids, types;
    struct embedding_text *texts; // [capacity]
    float *scores;                // [capacity, n_labels]
    size_t n_group_tokens;        // limit of a group
    int64_t n_cut;                // inputs that lost tokens to --max-length
};

// `ranks`: the head must say how relevant a document is; its function is the cross-encoder's. STATUS_REFUSE: the model has
// no such head, or an option does not fit it; the errors of runtime_open_backend and runtime_plan. The runtime has its
// model.
enum status scorer_open(struct scorer *scorer, struct runtime *runtime, const struct settings *settings,
                        bool ranks, struct error *error) WARN_UNUSED;
void scorer_close(struct scorer *scorer);
// Adds a text, or a pair, to the group. An input at fault keeps its error; other errors are the host's.
enum status scorer_add(struct scorer *scorer, const struct text texts[2], size_t n_texts,
                       struct error *error) WARN_UNUSED;
bool scorer_is_full(const struct scorer *scorer);
enum status scorer_compute(struct scorer *scorer, struct error *error) WARN_UNUSED;
// The input's scores [n_labels] after scorer_compute. NULL: it has an error, also of scores that are not finite.
const float *scorer_scores(struct scorer *scorer, size_t input);
void scorer_clear(struct scorer *scorer); // removes the group
// Appends what the scores depend on besides the inputs, for output_part.h.
enum status scorer_name_making(struct scorer *scorer, const struct settings *settings, struct buffer *name,
                               struct error *error) WARN_UNUSED;
