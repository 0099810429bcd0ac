#include "consumer/check_cpu.h"

#include "consumer/log.h"
#include "engine/check.h"
#include "engine/cpu/backend.h"

#include <stdlib.h>

struct check_cpu {
    struct check *check;
    struct backend *host;
    int64_t every, n_steps, n_since; // steps since the last one checked
    int64_t n_checked, n_outputs, n_draws, n_draws_apart;
    double difference, squared_error; // the largest of all steps
    struct check_figures news;        // of the last step whose difference was the largest so far, until it is taken
};

enum status check_cpu_open(struct check_cpu **out, const struct check_cpu_wanted *wanted, struct error *error)
{
    *out = NULL;
    struct check_cpu *check = calloc(1, sizeof *check);
    if (!check)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "--check-cpu: out of memory");
    check->every = wanted->every;
    struct forward_limits limits;
    uint64_t bytes;
    enum status status =
        limits_derive_check(&wanted->plan, wanted->model, wanted->host_memory_available, &limits, &bytes, error);
    if (status == STATUS_OK)
        status = cpu_backend_create(&check->host, wanted->pool, CPU_AVX512, error);
    if (status == STATUS_OK)
        status = check_create(&check->check, wanted->model, wanted->backend, wanted->plan.forward.n_pages, check->host, &limits,
                              error);
    if (status != STATUS_OK) {
        if (check->host)
            check->host->impl->destroy(check->host);
        free(check);
        return status;
    }
    log_write(LOG_INFO, "check-cpu: every %lld steps on %s too, in %.1f MB of its memory (%d pages)", (long long)check->every,
              check->host->impl->name, (double)bytes / 1e6, limits.n_pages);
    *out = check;
    return STATUS_OK;
}

// Steps without outputs have nothing to compare: then the next one is checked.
float *check_cpu_logits(struct check_cpu *check, const struct step *step)
{
    check->n_steps++;
    if (++check->n_since < check->every || step->n_outputs == 0)
        return NULL;
    check->n_since = 0;
    return check_logits(check->check);
}

enum status check_cpu_step(struct check_cpu *check, const struct step *step, const struct sample_result *results,
                           struct error *error)
{
    struct check_result result;
    enum status status = check_step(check->check, step, results, &result, error);
    if (status != STATUS_OK || result.n_outputs == 0)
        return status;
    bool first = check->n_checked++ == 0;
    check->n_outputs += result.n_outputs;
    check->n_draws += result.n_draws;
    check->n_draws_apart += result.n_draws_apart;
    check->squared_error = result.squared_error > check->squared_error ? result.squared_error : check->squared_error;
    if (!first && result.difference <= check->difference)
        return STATUS_OK;
    check->difference = result.difference;
    check->news = (struct check_figures){.step = check->n_steps,
                                         .n_sequences = result.n_sequences,
                                         .n_sequences_of = step->n_sequences,
                                         .n_draws = result.n_draws,
                                         .n_draws_apart = result.n_draws_apart,
                                         .difference = result.difference,
                                         .magnitude = result.magnitude,
                                         .squared_error = result.squared_error};
    return STATUS_OK;
}

void check_cpu_take(struct check_cpu *check, struct check_figures *news)
{
    *news = check->news;
    check->news = (struct check_figures){0};
}

void check_cpu_close(struct check_cpu *check)
{
    if (!check)
        return;
    log_write(LOG_INFO,
              "check-cpu: %lld of %lld steps: %lld rows of logits up to %.3g from the CPU's (normalised squared error up to %.2g), "
              "%lld of %lld tokens differ",
              (long long)check->n_checked, (long long)check->n_steps, (long long)check->n_outputs, check->difference,
              check->squared_error, (long long)check->n_draws_apart, (long long)check->n_draws);
    check_destroy(check->check);
    check->host->impl->destroy(check->host);
    free(check);
}
