// From the pooled hidden states of a text to a score for each label, in double precision:
//
//   scaled sum -> layer "cls" with an activation -> norm "cls.norm" -> layer "cls.output", a row a label
//     -> none, sigmoid or softmax
//
// The first layer and the norm may be absent. Heads by family (the pooling is over the tokens):
//
//   bert, nomic-bert, jina-bert-v2   first token   pooler, tanh                  classifier
//   RoBERTa, mpnet, DistilBERT       first token   dense, tanh (DistilBERT relu)  out_proj
//   modern-bert                      first or mean dense, gelu, norm             classifier
//   eurobert                         first, mean, or late: the mean over tokens of dense and gelu
//   decoders                         last token                                  score
//
// A judge is a language model that answers yes or no: its two labels are rows of the output matrix.
// Keys, beside llama.cpp's NAME.classifier.output_labels: NAME.classifier.pooling ("first", "mean", "last",
// "late"), .activation, .function (of classification), .score_function (of reranking), .padding_id. Thread: engine;
// the facts: any.
#pragma once

#include "engine/head_layer.h"

#include <stddef.h>

enum head_pooling {
    HEAD_POOLING_FIRST,
    HEAD_POOLING_MEAN,
    HEAD_POOLING_LAST,
    HEAD_POOLING_LATE, // the mean of what the first layer makes of each token
};

// What makes scores of the outputs: SOFTMAX over the labels, or SIGMOID of each. UNKNOWN: the file names another one.
enum score_function { SCORE_RAW, SCORE_SIGMOID, SCORE_SOFTMAX, SCORE_UNKNOWN };

// An answer of a judge: a token, and the word that is its label.
struct judge_answer {
    int32_t id;
    struct text word;
};

// What a head computes. Fill it with classifier_facts_read, or classifier_facts_judge.
struct classifier_facts {
    int32_t n_labels;
    enum head_pooling pooling;
    enum head_activation activation; // activation of the first layer
    enum score_function function;    // for classification
    enum score_function relevance;   // for reranking
    int32_t relevant;                // label that says "relevant"; -1: the model is no reranker
    int32_t padding;                 // tokens of this id at a text's end are not read; -1: none
    struct judge_answer answers[2];  // a judge's, the relevant one first; id -1: no judge
    struct text template;            // of a pair, with {query} and {document}; empty: the tokenizer's
};

// STATUS_REFUSE: ERROR_MODEL_FILE: the model has no head, or a part of it is missing; ERROR_UNKNOWN_TYPE: a pooling or
// an activation of the first layer that is not implemented.
enum status classifier_facts_read(struct classifier_facts *facts, const struct model *model,
                                  struct error *error) WARN_UNUSED;
// Facts of a language model whose answer is one of two tokens, as Qwen3-Reranker's. `answers` [2]: the relevant
// one first, with ids in the vocabulary (asserted). `template` as in the facts, used if the file has none. STATUS_REFUSE: the model has no output matrix, or
// the matrix has a bias.
enum status classifier_facts_judge(struct classifier_facts *facts, const struct model *model,
                                   const struct judge_answer *answers, struct text template,
                                   struct error *error) WARN_UNUSED;
// *function: facts->relevance if `ranks`, else facts->function. STATUS_REFUSE, ERROR_UNKNOWN_TYPE: it is UNKNOWN, which
// the text names; or `ranks` and the model is no reranker.
enum status classifier_choose_function(const struct classifier_facts *facts, const struct model *model,
                                       bool ranks, enum score_function *function,
                                       struct error *error) WARN_UNUSED;
// The label's name: the file's, or LABEL_3. `made` is storage for the latter.
enum { CLASSIFIER_LABEL_BYTES = 24 };
struct text classifier_label(const struct classifier_facts *facts, const struct model *model, int32_t label,
                             char made[CLASSIFIER_LABEL_BYTES]);
const char *head_pooling_name(enum head_pooling pooling);
const char *score_function_name(enum score_function function); // "none", "sigmoid", "softmax"
bool score_function_find(const char *name, enum score_function *function);

struct classifier_head;

// `function`: of the scores, one of the facts' or the caller's own. STATUS_REFUSE, ERROR_OUT_OF_MEMORY.
enum status classifier_head_create(struct classifier_head **head, const struct model *model,
                                   const struct classifier_facts *facts, enum score_function function,
                                   struct error *error) WARN_UNUSED;
void classifier_head_destroy(struct classifier_head *head);
// With HEAD_POOLING_LATE the rows to be summed are what this makes of the hidden states: `row` [n_embd] -> the head's
// own [classifier_head_width]. Else it returns NULL.
const double *classifier_head_row(struct classifier_head *head, const float *row);
int32_t classifier_head_width(const struct classifier_head *head); // width of a summed row
// `sum` [classifier_head_width], `scores` [n_labels].
void classifier_head_apply(struct classifier_head *head, const double *sum, double scale, float *scores);
