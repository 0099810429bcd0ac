#include "schemas/task.h"

#include <assert.h>

static const struct task_traits tasks[TASK_COUNT] = {
    [TASK_GENERATE] = {.name = "generate",
                       .paths = "/v1/chat/completions and /v1/completions",
                       .input = "messages",
                       .needs = "a model that generates text"},
    [TASK_EMBED] = {.name = "embed",
                    .paths = "/v1/embeddings",
                    .input = "input",
                    .needs = "an embedding model, or any model and --task embed"},
    [TASK_CLASSIFY] = {.name = "classify",
                       .paths = "/v1/classify",
                       .input = "input",
                       .needs = "a classifier, and --task classify if it has one label"},
    [TASK_RERANK] = {.name = "rerank",
                     .paths = "/v1/rerank and /v1/score",
                     .input = "query",
                     .needs = "a reranker, or a model that answers yes or no and --task rerank"},
};

static const struct {
    const char *url;
    enum path path;
} urls[] = {
    {"/v1/chat/completions", PATH_CHAT},
    {"/v1/completions", PATH_COMPLETION},
    {"/v1/embeddings", PATH_EMBEDDING},
    {"/v1/classify", PATH_CLASSIFY},
    {"/classify", PATH_CLASSIFY},
    {"/v1/rerank", PATH_RERANK},
    {"/rerank", PATH_RERANK},
    {"/v2/rerank", PATH_RERANK},
    {"/v1/score", PATH_SCORE},
    {"/score", PATH_SCORE},
};

const struct task_traits *task_traits(enum task task)
{
    assert((unsigned)task < TASK_COUNT);
    return &tasks[task];
}

bool task_find(struct text name, enum task *task)
{
    for (int i = 0; i < TASK_COUNT; i++)
        if (text_equals_string(name, tasks[i].name)) {
            *task = (enum task)i;
            return true;
        }
    return false;
}

enum path task_path(struct text url)
{
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (text_equals_string(url, urls[i].url))
            return urls[i].path;
    return PATH_NONE;
}

// The field that made the request one of its task.
static const char *input_of(const struct request *request)
{
    if (request->task == TASK_GENERATE && request->prompt.kind != PROMPT_MESSAGES)
        return "prompt";
    return request->ranking.scores ? "text_1" : tasks[request->task].input;
}

static const struct {
    const char *name;
    enum task task;
    enum prompt_kind kind; // of TASK_GENERATE; other requests have no chat
    bool scores;           // of text_1 and text_2
} objects[] = {
    {"chat.completion", TASK_GENERATE, PROMPT_MESSAGES, false},
    {"text_completion", TASK_GENERATE, PROMPT_TEXT, false},
    {"embeddings", TASK_EMBED, PROMPT_TEXT, false},
    {"classifications", TASK_CLASSIFY, PROMPT_TEXT, false},
    {"classifications", TASK_CLASSIFY, PROMPT_TEXT, true}, // of pairs
    {"rerank", TASK_RERANK, PROMPT_TEXT, false},
    {"scores", TASK_RERANK, PROMPT_TEXT, true},
};
enum { N_OBJECTS = sizeof objects / sizeof *objects };

const char *task_object(const struct request *request)
{
    bool is_chat = request->prompt.kind == PROMPT_MESSAGES;
    for (int i = 0; i < N_OBJECTS; i++)
        if (objects[i].task == request->task && objects[i].scores == request->ranking.scores &&
            (request->task != TASK_GENERATE || is_chat == (objects[i].kind == PROMPT_MESSAGES)))
            return objects[i].name;
    assert(!"each request has an object");
    return "";
}

bool task_find_object(struct text name, struct request *request)
{
    for (int i = 0; i < N_OBJECTS; i++)
        if (text_equals_string(name, objects[i].name)) {
            request->task = objects[i].task;
            request->prompt.kind = objects[i].kind;
            request->ranking.scores = objects[i].scores;
            return true;
        }
    return false;
}

const char *job_input_name(const struct job *job)
{
    if (job->request.ranking.scores)
        return "text_2";
    return job->request.task == TASK_RERANK ? "documents" : "input";
}

enum status task_check(enum task worker, const struct job *job, struct error *error)
{
    enum task task = job->request.task;
    if (task == worker)
        return STATUS_OK;
    return error_set(error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                     "%s: the job is for %s, this worker is for %s: start sheaf work with %s",
                     input_of(&job->request), tasks[task].paths, tasks[worker].paths, tasks[task].needs);
}
