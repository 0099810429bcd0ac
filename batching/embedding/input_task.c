#include "batching/embedding/input_task.h"

// ---- embeddings ----

static enum status plan_embedding(const struct input_task *task, const struct job *job,
                                  struct input_plan *plan, struct error *error)
{
    const struct request_embedding *request = &job->request.embedding;
    int32_t width = task->rules->n_dimensions_max;
    plan->n_dimensions = request->n_dimensions ? request->n_dimensions : width;
    if (plan->n_dimensions > width)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "dimensions: expected at most %d, the model's width, got %d", width,
                         plan->n_dimensions);
    return embedding_input_prompt(task->rules, request, &plan->prompt, error);
}

static enum status encode_embedding(const struct input_task *task, const struct job *job,
                                    const struct input_plan *plan, int32_t index, struct input_tokens *tokens,
                                    struct error *error)
{
    const struct request_input *given = &job->request.embedding.inputs[index];
    return given->text.data ? embedding_input_encode(task->rules, plan->prompt, given->text, &plan->cut,
                                                     &tokens->ids, &tokens->n_cut, error)
                            : embedding_input_copy(task->rules, given->tokens, given->n_tokens, &plan->cut,
                                                   &tokens->ids, &tokens->n_cut, error);
}

static enum status compute_embedding(const struct input_task *task, const struct embedding_text *texts,
                                     int32_t n_texts, float *vectors, struct error *error)
{
    return embedder_compute(task->embedder, texts, n_texts, vectors, error);
}

static bool finish_embedding(const struct input_task *task, struct job *job, const struct input_plan *plan,
                             struct embedding *rows)
{
    (void)task;
    job->result.embeddings = (struct embeddings){.items = rows,
                                                 .n_items = job->request.embedding.n_inputs,
                                                 .n_dimensions = plan->n_dimensions,
                                                 .is_base64 = job->request.embedding.is_base64};
    return true;
}

struct input_task input_task_embedding(struct embedder *embedder, const struct embedding_rules *rules)
{
    static const struct input_task_impl impl = {plan_embedding, encode_embedding, compute_embedding,
                                                finish_embedding};
    return (struct input_task){.impl = &impl, .embedder = embedder, .rules = rules};
}

// ---- scores ----

static enum status plan_scores(const struct input_task *task, const struct job *job, struct input_plan *plan,
                               struct error *error)
{
    plan->n_dimensions = task->labels.n_labels;
    if (job->request.ranking.n_queries && plan->cut.is_left && task->reader->facts->template.size)
        return error_set(
            error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
            "truncation_side: expected \"right\": in the model's template the document's end is cut");
    return STATUS_OK;
}

static enum status encode_scores(const struct input_task *task, const struct job *job,
                                 const struct input_plan *plan, int32_t index, struct input_tokens *tokens,
                                 struct error *error)
{
    const struct request_input *given = &job->request.embedding.inputs[index];
    const struct request_ranking *ranking = &job->request.ranking;
    struct classifier_reader reader = *task->reader;
    reader.n_tokens_max = plan->cut.n_tokens > 0 && plan->cut.n_tokens < reader.n_longest
                              ? (size_t)plan->cut.n_tokens
                          : plan->cut.n_tokens ? (size_t)reader.n_longest
                                               : 0;
    reader.cuts_left = plan->cut.is_left;
    if (!given->text.data) { // no special token is added, and all are of type 0
        const struct embedding_rules rules = {.n_vocab = reader.model->shape.n_vocab,
                                              .n_longest = reader.n_longest,
                                              .limited_by = "the model's context"};
        return embedding_input_copy(&rules, given->tokens, given->n_tokens, &plan->cut, &tokens->ids,
                                    &tokens->n_cut, error);
    }
    bool is_pair = ranking->n_queries > 0;
    struct text query =
        is_pair ? ranking->queries[ranking->n_queries > 1 ? index : 0] : (struct text){NULL, 0};
    const struct text texts[2] = {is_pair ? query : given->text, is_pair ? given->text : query};
    return classifier_input_encode(&reader, texts, is_pair ? 2 : 1, &tokens->ids, &tokens->types,
                                   &tokens->n_cut, error);
}

static enum status compute_scores(const struct input_task *task, const struct embedding_text *texts,
                                  int32_t n_texts, float *vectors, struct error *error)
{
    return classifier_compute(task->classifier, texts, n_texts, vectors, error);
}

static bool finish_scores(const struct input_task *task, struct job *job, const struct input_plan *plan,
                          struct embedding *rows)
{
    (void)plan;
    return rankings_fill(job, rows, &task->labels);
}

struct input_task input_task_scores(struct classifier *classifier, const struct classifier_reader *reader,
                                    const struct ranking_labels *labels)
{
    static const struct input_task_impl impl = {plan_scores, encode_scores, compute_scores, finish_scores};
    return (struct input_task){.impl = &impl, .classifier = classifier, .reader = reader, .labels = *labels};
}

int32_t input_task_width(const struct input_task *task)
{
    return task->rules ? task->rules->n_dimensions_max : task->labels.n_labels;
}
