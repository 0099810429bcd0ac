// sheaf status: progress, rate and time left of each dataset, from the store alone.
#include "consumer/commands.h"
#include "schemas/value.h"
#include "store/store.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct listing {
    struct buffer out;
    bool json;
    int64_t n_datasets, n_unfinished;
};

static void format_seconds(char out[16], double seconds)
{
    if (seconds < 0)
        snprintf(out, 16, "-");
    else if (seconds < 90)
        snprintf(out, 16, "%.0f s", seconds);
    else if (seconds < 5400)
        snprintf(out, 16, "%.0f min", seconds / 60);
    else
        snprintf(out, 16, "%.1f h", seconds / 3600);
}

static void list_json(struct listing *listing, const struct dataset_progress *progress)
{
    struct buffer *out = &listing->out;
    buffer_add_string(out, listing->n_datasets ? ",{\"dataset\":" : "{\"dataset\":");
    json_encode_string(progress->dataset, out);
    buffer_add_format(out,
                      ",\"submitted\":%lld,\"done\":%lld,\"failed\":%lld,\"cancelled\":%lld,\"running\":%lld,"
                      "\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"cached_tokens\":%lld,\"jobs_per_second\":",
                      (long long)progress->submitted, (long long)progress->done, (long long)progress->failed,
                      (long long)progress->cancelled, (long long)progress->running, (long long)progress->prompt_tokens,
                      (long long)progress->completion_tokens, (long long)progress->cached_tokens);
    json_encode_number(progress->jobs_per_second, out);
    buffer_add_string(out, ",\"seconds_left\":");
    if (progress->seconds_left < 0)
        buffer_add_string(out, "null");
    else
        json_encode_number(progress->seconds_left, out);
    buffer_add_format(out, ",\"is_cancelled\":%s}", progress->is_cancelled ? "true" : "false");
}

static void list_row(struct listing *listing, const struct dataset_progress *progress)
{
    char left[16];
    format_seconds(left, progress->seconds_left);
    double percent = progress->submitted ? 100.0 *
                                               (double)(progress->done + progress->failed + progress->cancelled) /
                                               (double)progress->submitted
                                         : 0;
    buffer_add_format(&listing->out, "%-20.*s %9lld %9lld %7lld %9lld %8lld %6.1f%% %8.1f %8s\n",
                      (int)progress->dataset.size, progress->dataset.data, (long long)progress->submitted,
                      (long long)progress->done, (long long)progress->failed, (long long)progress->cancelled,
                      (long long)progress->running, percent, progress->jobs_per_second, left);
}

static void list(void *context, const struct dataset_progress *progress)
{
    struct listing *listing = context;
    if (listing->json)
        list_json(listing, progress);
    else
        list_row(listing, progress);
    listing->n_datasets++;
    listing->n_unfinished += progress->submitted - progress->done - progress->failed - progress->cancelled;
}

static void add_totals(struct listing *listing, const struct store_totals *totals)
{
    double seconds = (double)totals->busy_us / 1e6;
    double rate = seconds > 0 ? (double)totals->generated_tokens / seconds : 0;
    if (listing->json)
        buffer_add_format(&listing->out,
                          "],\"workers_alive\":%lld,\"steps\":%lld,\"prefill_tokens\":%lld,\"generated_tokens\":%lld,"
                          "\"generated_tokens_per_busy_second\":%.1f,\"mean_batch\":%.2f,\"prefix_hit_share\":%.4f,"
                          "\"tokens_saved_share\":%.4f}\n",
                          (long long)totals->n_workers_alive, (long long)totals->n_steps,
                          (long long)totals->prefill_tokens, (long long)totals->generated_tokens, rate,
                          totals->mean_batch, totals->prefix_hit_share, totals->tokens_saved_share);
    else
        buffer_add_format(&listing->out,
                          "\n%lld worker%s alive; %lld steps, mean batch %.1f, %.0f tokens generated per busy second;\n"
                          "prefix cache: %.1f %% of prompts hit, %.1f %% of prompt tokens not computed again\n",
                          (long long)totals->n_workers_alive, totals->n_workers_alive == 1 ? "" : "s",
                          (long long)totals->n_steps, totals->mean_batch, rate, 100 * totals->prefix_hit_share,
                          100 * totals->tokens_saved_share);
}

static enum status show(struct store *store, const struct settings *settings, int64_t *n_unfinished,
                        struct error *error)
{
    struct listing listing = {.json = settings->json};
    if (listing.json)
        buffer_add_string(&listing.out, "{\"datasets\":[");
    else
        buffer_add_format(&listing.out, "%-20s %9s %9s %7s %9s %8s %7s %8s %8s\n", "dataset", "submitted", "done",
                          "failed", "cancelled", "running", "", "jobs/s", "left");
    struct store_totals totals;
    enum status status = store_progress(store, text_from_string(settings->dataset), list, &listing, error);
    if (status == STATUS_OK && settings->dataset && listing.n_datasets == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: there is no dataset %s", store_path(store),
                           settings->dataset);
    if (status == STATUS_OK)
        status = store_totals(store, &totals, error);
    if (status == STATUS_OK) {
        add_totals(&listing, &totals);
        if (settings->watch && !settings->json && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        fwrite(listing.out.data, 1, listing.out.size, stdout);
        fflush(stdout);
    }
    *n_unfinished = listing.n_unfinished;
    buffer_finish(&listing.out);
    return status;
}

enum status command_status(const struct settings *settings, struct error *error)
{
    struct store *store = NULL;
    enum status status =
        store_open(&store, settings->store ? settings->store : "sheaf.db", STORE_EXISTING, error);
    int64_t n_unfinished = 1;
    while (status == STATUS_OK) {
        status = show(store, settings, &n_unfinished, error);
        if (!settings->watch || n_unfinished == 0)
            break;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    store_close(store);
    return status;
}
