// Scores of texts and pairs by a classification head (engine/classifier_head.h): a classifier's labels, or the
// relevance that a reranker gives a pair. Many texts share a step; a text's scores are the same bytes alone, among
// others, in steps of any size and for any number of threads, as an embedder's vectors (engine/embedding.h), whose
// limits, sizes and longest text are also a classifier's.
//
//   classifier_facts_read, classifier_facts_judge     what the model's head computes
//   limits_set_embedding (batching/limits.h), forward_create with limits.hidden_only
//   classifier_create
//   classifier_input_encode (batching/embedding/classifier_input.h)      tokens of a text or a pair
//   classifier_compute                                scores of many
//
// Thread: engine.
#pragma once

#include "engine/classifier_head.h"
#include "engine/embedding.h"

struct classifier_options {
    const struct model *model;
    const struct classifier_facts *facts; // copied
    enum score_function function;         // facts->function, facts->relevance, or the caller's own
    struct forward *forward;              // created with limits.hidden_only
    struct forward_limits limits;
    int32_t n_longest;                            // texts are at most this long
    void (*before_step)(const struct step *step); // as of an embedder; NULL: none
};

struct classifier;

// The model and the forward pass must outlive the classifier. STATUS_REFUSE, ERROR_OUT_OF_MEMORY.
enum status classifier_create(struct classifier **classifier, const struct classifier_options *options,
                              struct error *error) WARN_UNUSED;
void classifier_destroy(struct classifier *classifier);
// `scores` [n_texts, facts.n_labels]; a score is not finite if the model's hidden state is not. Errors: the errors of
// forward_hidden.
enum status classifier_compute(struct classifier *classifier, const struct embedding_text *texts,
                               int32_t n_texts, float *scores, struct error *error) WARN_UNUSED;
