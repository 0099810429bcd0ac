#include "consumer/worker/trial.h"

static void let_all_go(struct trial *trial, struct job_list *ready)
{
    for (struct job *job; (job = job_list_take(&trial->held));)
        job_list_append(ready, job);
}

void trial_add(struct trial *trial, struct job_list *finished, struct job_list *ready, int64_t now_ms)
{
    for (struct job *job; (job = job_list_take(finished));) {
        bool blames_model = job->result.status == RESULT_FAILED && error_is_of_model(job->result.error.code);
        trial->passed = trial->passed || job->result.status == RESULT_DONE;
        if (!blames_model || trial->passed || trial->limit == 0) {
            job_list_append(ready, job);
            continue;
        }
        trial->n_failed++;
        trial->since_ms = now_ms;
        job_list_append(&trial->held, job);
    }
    if (trial->passed)
        let_all_go(trial, ready);
}

void trial_release(struct trial *trial, bool idle, struct job_list *ready, int64_t now_ms)
{
    if (trial->held.n_jobs && idle && now_ms - trial->since_ms >= TRIAL_HOLD_MS)
        let_all_go(trial, ready);
}

enum status trial_check(const struct trial *trial, struct error *error)
{
    if (trial->limit == 0 || trial->passed || trial->n_failed < trial->limit)
        return STATUS_OK;
    const struct job *first = trial->held.first;
    return error_set(
        error, STATUS_REFUSE, ERROR_MODEL_FILE,
        "%d jobs failed for the model's reasons (%s) and none was answered, the limit is %d "
        "(--model-failures): is the model's file damaged? The %zu that are not published yet stay "
        "unfinished; --model-failures 0 would publish them",
        trial->n_failed, first ? first->result.error.text : "", trial->limit, trial->held.n_jobs);
}
