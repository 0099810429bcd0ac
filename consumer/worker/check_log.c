#include "consumer/worker/check_log.h"

#include "consumer/observe/log.h"

void check_log(const struct check_figures *check)
{
    if (check->step == 0)
        return;
    log_write(LOG_INFO,
              "check-cpu: step %lld: logits are up to %.3g from the CPU's (at one of %.3g; normalized "
              "squared error %.2g), %d of %d sequences, %d of %d tokens differ",
              (long long)check->step, check->difference, check->magnitude, check->squared_error,
              check->n_sequences, check->n_sequences_of, check->n_draws_apart, check->n_draws);
}

void check_log_totals(const struct check_totals *totals)
{
    log_write(LOG_INFO,
              "check-cpu: %lld of %lld steps: %lld rows of logits up to %.3g from the CPU's (normalized "
              "squared error up to %.2g), %lld of %lld tokens differ",
              (long long)totals->n_checked, (long long)totals->n_steps, (long long)totals->n_outputs,
              totals->difference, totals->squared_error, (long long)totals->n_draws_apart,
              (long long)totals->n_draws);
}
