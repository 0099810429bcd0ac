#include "consumer/check_log.h"

#include "consumer/log.h"

void check_log(const struct check_figures *check)
{
    if (check->step == 0)
        return;
    log_write(LOG_INFO,
              "check-cpu: step %lld: logits are up to %.3g from the CPU's (at one of %.3g; normalised squared error %.2g), %d of "
              "%d sequences, %d of %d tokens differ",
              (long long)check->step, check->difference, check->magnitude, check->squared_error, check->n_sequences,
              check->n_sequences_of, check->n_draws_apart, check->n_draws);
}
