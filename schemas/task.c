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
                    .needs = "an embedding model, or any model and --task embed",
                    .object = "embeddings"},
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

enum status task_check(enum task worker, const struct job *job, struct error *error)
{
    enum task task = job->request.task;
    if (task == worker)
        return STATUS_OK;
    return error_set(error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                     "%s: the job is for %s, this worker is for %s: start sheaf work with %s",
                     task == TASK_GENERATE && job->request.prompt.kind != PROMPT_MESSAGES ? "prompt"
                                                                                          : tasks[task].input,
                     tasks[task].paths, tasks[worker].paths, tasks[task].needs);
}
