// The part of a runtime that computes scores: from a loaded model and an open backend to a classifier and the rules of
// its inputs. For workers of TASK_CLASSIFY and TASK_RERANK, and for sheaf classify and rerank.
// Thread: main opens and closes it; the engine thread owns the classifier while it runs.
#pragma once

#include "batching/embedding/classifier_input.h"
#include "consumer/options/options.h"
#include "engine/classifier.h"
#include "schemas/ranking_result.h"

struct interrupt;
struct runtime;

struct classifier_runtime {
    struct classifier_facts facts;
    enum score_function function;
    struct classifier_reader reader; // n_tokens_max: 0
    struct classifier *classifier;
    struct arena arena; // of the labels' names
};

// Whether the model has a classification head, or a part of one.
bool classifier_runtime_has_head(const struct model *model);

// Before the backend: the model's head and the options --activation, --answers, --instruct. `ranks`: the head must say
// how relevant a document is; its function is the cross-encoder's. STATUS_REFUSE: the model has no such head, or an
// option does not fit it.
enum status classifier_runtime_choose(struct classifier_runtime *scores, const struct runtime *runtime,
                                      const struct score_options *options, bool ranks,
                                      struct error *error) WARN_UNUSED;
// Sets the longest text or pair, reader.n_longest: n_longest_wanted if the context has room for it; 0: the context.
void classifier_runtime_limit(struct classifier_runtime *scores, int64_t n_longest_wanted);
// The tokens of a job's inputs. STATUS_REJECT: the job or an input is at fault.
enum status classifier_runtime_count(const struct classifier_runtime *scores, const struct job *job,
                                     int64_t *n_tokens, struct error *error) WARN_UNUSED;
// The memory plan, in runtime->plan; n_longest_wanted: as above; a smaller --kv-memory lowers it.
enum status classifier_runtime_plan(struct classifier_runtime *scores, struct runtime *runtime,
                                    const struct engine_options *options, int64_t n_longest_wanted,
                                    struct error *error) WARN_UNUSED;
// The forward pass and the classifier; logs the head. STATUS_RESTART after an interrupt (NULL: none).
enum status classifier_runtime_open(struct classifier_runtime *scores, struct runtime *runtime,
                                    const struct interrupt *interrupt, struct error *error) WARN_UNUSED;
void classifier_runtime_close(struct classifier_runtime *scores);
// The names of the labels. STATUS_REFUSE, ERROR_OUT_OF_MEMORY.
enum status classifier_runtime_labels(struct classifier_runtime *scores, const struct model *model,
                                      struct ranking_labels *labels, struct error *error) WARN_UNUSED;
// Appends what scores depend on besides the inputs and the model, for the name of the arithmetic.
void classifier_runtime_name(const struct classifier_runtime *scores, struct buffer *name);
