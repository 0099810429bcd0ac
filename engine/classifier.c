#include "engine/classifier.h"

#include <stdlib.h>

struct classifier {
    struct classifier_head *head;
    struct embedder *embedder;
};

static enum pooling pooling_of_head(enum head_pooling pooling)
{
    static const enum pooling poolings[] = {[HEAD_POOLING_FIRST] = POOLING_FIRST,
                                            [HEAD_POOLING_MEAN] = POOLING_MEAN,
                                            [HEAD_POOLING_LAST] = POOLING_LAST,
                                            [HEAD_POOLING_LATE] = POOLING_MEAN};
    return poolings[pooling];
}

enum status classifier_create(struct classifier **out, const struct classifier_options *options,
                              struct error *error)
{
    struct classifier *classifier = calloc(1, sizeof *classifier);
    *out = classifier;
    if (!classifier)
        return error_memory(error, STATUS_REFUSE, "a classifier");
    enum status status =
        classifier_head_create(&classifier->head, options->model, options->facts, options->function, error);
    struct embedder_options embedder = {.model = options->model,
                                        .forward = options->forward,
                                        .limits = options->limits,
                                        .pooling = pooling_of_head(options->facts->pooling),
                                        .n_dimensions = options->facts->n_labels,
                                        .n_longest = options->n_longest,
                                        .before_step = options->before_step,
                                        .classifier = classifier->head};
    if (status == STATUS_OK)
        status = embedder_create(&classifier->embedder, &embedder, error);
    if (status != STATUS_OK) {
        classifier_destroy(classifier);
        *out = NULL;
    }
    return status;
}

void classifier_destroy(struct classifier *classifier)
{
    if (!classifier)
        return;
    embedder_destroy(classifier->embedder);
    classifier_head_destroy(classifier->head);
    free(classifier);
}

enum status classifier_compute(struct classifier *classifier, const struct embedding_text *texts,
                               int32_t n_texts, float *scores, struct error *error)
{
    return embedder_compute(classifier->embedder, texts, n_texts, scores, error);
}
