// --rerank and --classify: their options, and the labels of the model.
#include "consumer/annotate/annotate.h"
#include "consumer/options/choice_list.h"
#include "consumer/worker/classifier_runtime.h"
#include "consumer/worker/runtime.h"

#include <string.h>

static enum status refuse_options(struct error *error, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: %s", what);
}

// ---- options ----

// Options of chats, which no score depends on.
static enum status refuse_chat_options(const struct settings *settings, struct error *error)
{
    const struct annotate_options *options = &settings->annotate;
    const char *name = options->schema                                           ? "--schema"
                       : options->prompt.system                                  ? "--system"
                       : options->prompt.messages                                ? "--messages"
                       : options->votes > 1                                      ? "--votes"
                       : options->output.thoughts                                ? "--thoughts"
                       : options->reorder                                        ? "--reorder"
                       : settings->grammar.choices && !settings->kafka.brokers   ? "--choice"
                       : options->scores.rerank && options->prompt.file          ? "--prompt"
                       : options->scores.rerank && settings->grammar.choices     ? "--choice"
                       : options->scores.rerank && options->output.probabilities ? "--probabilities"
                       : options->scores.rerank && settings->embed.column        ? "--column"
                                                                                 : NULL;
    if (!name)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: %s or %s, not both", name,
                     options->scores.rerank ? "--rerank" : "--classify");
}

static enum status choose_columns(struct row_scores *scores, const struct settings *settings,
                                  struct error *error)
{
    const char *columns = settings->annotate.scores.rerank;
    if (!columns) {
        bool has_column = settings->embed.column != NULL;
        if (has_column == (settings->annotate.prompt.file != NULL))
            return refuse_options(error,
                                  "--classify needs --column NAME or --prompt FILE.jinja, one of them");
        scores->columns[0] = text_from_string(settings->embed.column);
        scores->n_columns = has_column;
        return STATUS_OK;
    }
    const char *comma = strchr(columns, ',');
    if (!comma || comma == columns || !comma[1] || strchr(comma + 1, ','))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf annotate: --rerank: expected the names of two columns, QUERY,DOCUMENT, got \"%s\"",
            columns);
    scores->columns[0] = (struct text){columns, (size_t)(comma - columns)};
    scores->columns[1] = text_from_string(comma + 1);
    scores->n_columns = 2;
    return STATUS_OK;
}

// ---- the model ----

static enum status copy_labels(struct row_scores *scores, const struct ranking_labels *labels,
                               struct error *error)
{
    struct text *copies = arena_allocate_array(&scores->arena, (size_t)labels->n_labels, sizeof *copies);
    for (int32_t i = 0; copies && i < labels->n_labels; i++) {
        copies[i].data = arena_copy(&scores->arena, labels->names[i].data, labels->names[i].size);
        copies[i].size = labels->names[i].size;
        if (!copies[i].data)
            copies = NULL;
    }
    scores->labels = copies;
    scores->n_labels = (size_t)labels->n_labels;
    return copies ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the labels");
}

// Refuses a model without the head before a row is queued.
static enum status read_model(struct row_scores *scores, const struct settings *settings, struct error *error)
{
    struct runtime runtime = {0};
    struct classifier_runtime model = {0};
    struct ranking_labels labels;
    enum status status = runtime_open_model(&runtime, settings, settings->model.path, error);
    if (status == STATUS_OK)
        status =
            classifier_runtime_choose(&model, &runtime, &settings->score, scores->task == TASK_RERANK, error);
    if (status == STATUS_OK && scores->task == TASK_CLASSIFY)
        status = classifier_runtime_labels(&model, runtime.model, &labels, error);
    if (status == STATUS_OK && scores->task == TASK_CLASSIFY)
        status = copy_labels(scores, &labels, error);
    classifier_runtime_close(&model);
    runtime_close(&runtime);
    return status;
}

static enum status read_choices(struct row_scores *scores, const struct settings *settings,
                                struct error *error)
{
    struct choice_list list = {0};
    if (!settings->grammar.choices)
        return refuse_options(error,
                              "over Kafka --classify needs the labels in the model's order, --choice A,B; or "
                              "--model, from which they are read");
    enum status status = choice_list_read(&list, settings->grammar.choices, &scores->arena, error);
    scores->labels = list.items;
    scores->n_labels = list.n;
    return status;
}

// {"type": "object", "properties": {"score": {"type": "number"}}, "additionalProperties": false}
static enum status build_schema(struct row_scores *scores, struct error *error)
{
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"score\":{\"type\":\"number\"}},"
                                 "\"required\":[\"score\"],\"additionalProperties\":false}";
    return json_decode(text_from_string(schema), &scores->arena, &scores->schema, error) == STATUS_OK
               ? STATUS_OK
               : error_memory(error, STATUS_REFUSE, "the schema of scores");
}

enum status annotate_open_scores(struct row_scores *scores, const struct settings *settings,
                                 struct error *error)
{
    const struct annotate_options *options = &settings->annotate;
    if (!options->scores.rerank && !options->scores.classify)
        return settings->embed.column ? refuse_options(error, "--column needs --classify") : STATUS_OK;
    if (options->scores.rerank && options->scores.classify)
        return refuse_options(error, "--rerank or --classify, not both");
    scores->task = options->scores.rerank ? TASK_RERANK : TASK_CLASSIFY;
    enum status status = refuse_chat_options(settings, error);
    if (status == STATUS_OK)
        status = choose_columns(scores, settings, error);
    if (status == STATUS_OK && settings->model.path && !settings->grammar.choices)
        status = read_model(scores, settings, error);
    else if (status == STATUS_OK && scores->task == TASK_CLASSIFY)
        status = read_choices(scores, settings, error);
    if (status == STATUS_OK && scores->task == TASK_RERANK)
        status = build_schema(scores, error);
    return status;
}
