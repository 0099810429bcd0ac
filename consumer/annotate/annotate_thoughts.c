// Warns once of what thoughts cost, where no thinking budget limits them: of a sample's answers that an earlier
// run left, else of the first answers of this run.
#include "consumer/annotate/annotate.h"
#include "consumer/observe/log.h"
#include "store/thought_lengths.h"

#include <math.h>

enum { FIRST_ANSWERS = 20 };

// The largest power of two up to the mean: a budget that the shorter thoughts keep.
static int64_t choose_budget(double mean)
{
    int64_t budget = 1;
    while (2 * budget <= (int64_t)mean)
        budget *= 2;
    return budget;
}

static void warn_of_lengths(const struct thought_lengths *lengths, int64_t n_tokens)
{
    double mean = (double)n_tokens / lengths->n, generated = (double)lengths->generated_tokens;
    int64_t budget = choose_budget(mean), n_saved = 0;
    for (int32_t i = 0; i < lengths->n; i++)
        n_saved += lengths->tokens[i] > budget ? lengths->tokens[i] - budget : 0;
    log_write(
        LOG_WARNING,
        "the model thinks before it answers: %.0f tokens on average, %.0f %% of what it generates (%d answer%s);"
        " of that --thinking-token-budget %lld would save %.0f %%, and 0 would save %.0f %%",
        mean, 100 * (double)n_tokens / generated, lengths->n, lengths->n == 1 ? "" : "s", (long long)budget,
        100 * (double)n_saved / generated, 100 * (double)n_tokens / generated);
}

void annotate_warn_of_thoughts(struct annotate *annotate, int32_t n_least)
{
    struct thought_lengths lengths;
    struct error ignored;
    int64_t n_tokens = 0;
    if (annotate->knows_thoughts ||
        store_thought_lengths(annotate->store, annotate->dataset, &lengths, &ignored) != STATUS_OK ||
        lengths.n < n_least)
        return;
    annotate->knows_thoughts = true;
    for (int32_t i = 0; i < lengths.n; i++)
        n_tokens += lengths.tokens[i];
    if (n_tokens > 0)
        warn_of_lengths(&lengths, n_tokens);
}

void annotate_watch_thoughts(void *context, const struct worker_progress *progress)
{
    if (progress->n_done >= FIRST_ANSWERS)
        annotate_warn_of_thoughts(context, FIRST_ANSWERS);
}
