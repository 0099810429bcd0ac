#include "consumer/command/inspect_head.h"

#include "engine/classifier_head.h"
#include "schemas/value.h"

#include <stdio.h>

enum { LABELS_SHOWN_MAX = 20 };

static bool has_head(const struct model *model)
{
    return model->classifier.output.data || model->classifier.dense.data;
}

static void print_labels(const struct classifier_facts *facts, const struct model *model)
{
    char made[CLASSIFIER_LABEL_BYTES];
    struct buffer shown = {0};
    printf("labels      ");
    for (int32_t i = 0; i < facts->n_labels && i < LABELS_SHOWN_MAX; i++) {
        buffer_clear(&shown);
        buffer_add_printable(&shown, classifier_label(facts, model, i, made), 0);
        printf("%s%.*s", i ? ", " : "", (int)shown.size, shown.data ? shown.data : "");
    }
    if (facts->n_labels > LABELS_SHOWN_MAX)
        printf(" and %d others", facts->n_labels - LABELS_SHOWN_MAX);
    putchar('\n');
    buffer_finish(&shown);
}

void inspect_head_print(const struct model *model)
{
    struct classifier_facts facts;
    struct error error = {0};
    if (!has_head(model))
        return;
    if (classifier_facts_read(&facts, model, &error) != STATUS_OK) {
        printf("head        of no use: %s\n", error.text);
        return;
    }
    printf("head        %d label%s, pooling %s%s%s%s, activation %s", facts.n_labels,
           facts.n_labels == 1 ? "" : "s", head_pooling_name(facts.pooling),
           model->classifier.dense.data ? ", a layer with " : "",
           model->classifier.dense.data ? head_activation_name(facts.activation) : "",
           model->classifier.norm.data ? " and a norm" : "", score_function_name(facts.function));
    if (facts.relevant >= 0)
        printf(", of a reranker %s", score_function_name(facts.relevance));
    putchar('\n');
    print_labels(&facts, model);
}

void inspect_head_add(const struct model *model, struct buffer *out)
{
    struct classifier_facts facts;
    struct error error = {0};
    char made[CLASSIFIER_LABEL_BYTES];
    if (!has_head(model))
        return;
    buffer_add_string(out, "\"head\":{");
    if (classifier_facts_read(&facts, model, &error) != STATUS_OK) {
        buffer_add_string(out, "\"error\":");
        json_encode_string(text_from_string(error.text), out);
        buffer_add_string(out, "},");
        return;
    }
    buffer_add_format(out, "\"pooling\":\"%s\",\"layer\":\"%s\",\"activation\":\"%s\",",
                      head_pooling_name(facts.pooling),
                      model->classifier.dense.data ? head_activation_name(facts.activation) : "none",
                      score_function_name(facts.function));
    if (facts.relevant >= 0)
        buffer_add_format(out, "\"rerank_activation\":\"%s\",", score_function_name(facts.relevance));
    buffer_add_string(out, "\"labels\":[");
    for (int32_t i = 0; i < facts.n_labels; i++) {
        buffer_add_string(out, i ? "," : "");
        json_encode_string(classifier_label(&facts, model, i, made), out);
    }
    buffer_add_string(out, "]},");
}
