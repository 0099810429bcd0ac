// sheaf status: prints the progress, rate and time left of each dataset, from the store alone; with --rebuild
// the store is first rebuilt from the topics.
#include "consumer/command/commands.h"
#include "consumer/command/files/output_file.h"
#include "consumer/command/files/named_store.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/observe/mirror.h"
#include "schemas/value.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct status_listing {
    struct buffer out;
    bool json;
    struct store_totals totals;
    int64_t n_datasets, n_unfinished, n_workers, n_waiting, n_suspects, n_suspects_shown;
};

enum { SUSPECTS_SHOWN_MAX = 20 };

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

// -1 (unknown) if jobs remain and no worker is alive to compute them.
static double seconds_left(const struct status_listing *listing, const struct dataset_progress *progress)
{
    int64_t n_finished = progress->done + progress->failed + progress->cancelled;
    bool is_waiting = progress->submitted > n_finished && !listing->totals.is_mirror &&
                      listing->totals.n_workers_alive == 0;
    return is_waiting ? -1 : progress->seconds_left;
}

static void list_json(struct status_listing *listing, const struct dataset_progress *progress)
{
    struct buffer *out = &listing->out;
    buffer_add_string(out, listing->n_datasets ? ",{\"dataset\":" : "{\"dataset\":");
    json_encode_string(progress->dataset, out);
    buffer_add_format(
        out,
        ",\"submitted\":%lld,\"done\":%lld,\"failed\":%lld,\"cancelled\":%lld,\"running\":%lld,"
        "\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"cached_tokens\":%lld,\"duplicates\":%lld,"
        "\"duplicate_tokens\":%lld,\"jobs_per_second\":",
        (long long)progress->submitted, (long long)progress->done, (long long)progress->failed,
        (long long)progress->cancelled, (long long)progress->running, (long long)progress->prompt_tokens,
        (long long)progress->completion_tokens, (long long)progress->cached_tokens,
        (long long)progress->duplicates.n_jobs, (long long)progress->duplicates.n_tokens);
    json_encode_number(progress->jobs_per_second, out);
    buffer_add_string(out, ",\"seconds_left\":");
    double left = seconds_left(listing, progress);
    if (left < 0)
        buffer_add_string(out, "null");
    else
        json_encode_number(left, out);
    buffer_add_format(out, ",\"late\":%lld,\"crashed\":%lld,\"is_cancelled\":%s,\"is_total_unknown\":%s}",
                      (long long)progress->late, (long long)progress->crashed,
                      progress->is_cancelled ? "true" : "false",
                      progress->is_total_unknown ? "true" : "false");
}

static void format_percent(char out[16], const struct dataset_progress *progress)
{
    int64_t n_finished = progress->done + progress->failed + progress->cancelled;
    double share = progress->submitted ? (double)n_finished / (double)progress->submitted : 0;
    if (progress->is_total_unknown)
        snprintf(out, 16, "-");
    else
        snprintf(out, 16, "%.1f%%", 100.0 * share);
}

static void list_row(struct status_listing *listing, const struct dataset_progress *progress)
{
    char left[16], percent[16];
    format_seconds(left, seconds_left(listing, progress));
    format_percent(percent, progress);
    buffer_add_printable(&listing->out, progress->dataset, 20);
    buffer_add_format(&listing->out, " %9lld %9lld %7lld %9lld %8lld %7s %8.1f %8s\n",
                      (long long)progress->submitted, (long long)progress->done, (long long)progress->failed,
                      (long long)progress->cancelled, (long long)progress->running, percent,
                      progress->jobs_per_second, left);
    if (progress->duplicates.n_jobs)
        buffer_add_format(&listing->out, "%-20s answered from equal ones: %lld, %lld tokens not computed\n",
                          "", (long long)progress->duplicates.n_jobs,
                          (long long)progress->duplicates.n_tokens);
    if (progress->late || progress->crashed)
        buffer_add_format(&listing->out,
                          "%-20s of the failed: %lld past their deadline, %lld that killed workers\n", "",
                          (long long)progress->late, (long long)progress->crashed);
}

static void list_dataset(void *context, const struct dataset_progress *progress)
{
    struct status_listing *listing = context;
    if (listing->json)
        list_json(listing, progress);
    else
        list_row(listing, progress);
    listing->n_datasets++;
    listing->n_unfinished += progress->submitted - progress->done - progress->failed - progress->cancelled;
}

// -1: unknown.
static void add_alive(struct status_listing *listing, int64_t n)
{
    if (listing->json)
        buffer_add_format(&listing->out, n < 0 ? ",\"workers_alive\":null" : ",\"workers_alive\":%lld",
                          (long long)n);
    else if (n < 0)
        buffer_add_string(&listing->out, "\nworkers alive: unknown, their lock file can't be read; ");
    else
        buffer_add_format(&listing->out, "\n%lld worker%s alive; ", (long long)n, n == 1 ? "" : "s");
}

// A mirror's store has the results, but not the steps in which workers computed them.
static void add_totals(struct status_listing *listing)
{
    const struct store_totals *totals = &listing->totals;
    struct buffer *out = &listing->out;
    double seconds = (double)totals->busy_us / 1e6;
    double rate = seconds > 0 ? (double)totals->generated_tokens / seconds : 0;
    if (totals->is_mirror) {
        if (listing->json)
            buffer_add_string(out,
                              ",\"workers_alive\":null,\"steps\":null,\"prefill_tokens\":null,"
                              "\"generated_tokens\":null,\"generated_tokens_per_busy_second\":null,"
                              "\"mean_batch\":null,\"prefix_hit_share\":null,\"tokens_saved_share\":null}\n");
        return;
    }
    add_alive(listing, totals->n_workers_alive);
    if (listing->json)
        buffer_add_format(
            out,
            ",\"steps\":%lld,\"prefill_tokens\":%lld,\"generated_tokens\":%lld,"
            "\"generated_tokens_per_busy_second\":%.1f,\"mean_batch\":%.2f,\"prefix_hit_share\":%.4f,"
            "\"tokens_saved_share\":%.4f}\n",
            (long long)totals->n_steps, (long long)totals->prefill_tokens,
            (long long)totals->generated_tokens, rate, totals->mean_batch, totals->prefix_hit_share,
            totals->tokens_saved_share);
    else
        buffer_add_format(
            out,
            "%lld steps, mean batch %.1f, %.0f tokens generated per busy second;\n"
            "prefix cache: %.1f %% of lookups hit, %.1f %% of the tokens looked up were in it\n",
            (long long)totals->n_steps, totals->mean_batch, rate, 100 * totals->prefix_hit_share,
            100 * totals->tokens_saved_share);
}

static void list_waiting(void *context, const struct waiting_jobs *jobs)
{
    struct status_listing *listing = context;
    struct buffer *out = &listing->out;
    listing->n_suspects += jobs->suspects;
    if (listing->json) {
        buffer_add_string(out, listing->n_waiting++ ? ",{\"dataset\":" : "{\"dataset\":");
        json_encode_string(jobs->dataset, out);
        buffer_add_format(
            out, ",\"priority\":%d,\"waiting\":%lld,\"running\":%lld,\"late\":%lld,\"suspects\":%lld}",
            jobs->priority, (long long)jobs->waiting, (long long)jobs->running, (long long)jobs->late,
            (long long)jobs->suspects);
        return;
    }
    if (listing->n_waiting++ == 0)
        buffer_add_format(out, "\n%-20s %9s %9s %8s %9s %9s\n", "unfinished", "priority", "waiting",
                          "running", "late", "suspects");
    buffer_add_printable(out, jobs->dataset, 20);
    buffer_add_format(out, " %9d %9lld %8lld %9lld %9lld\n", jobs->priority, (long long)jobs->waiting,
                      (long long)jobs->running, (long long)jobs->late, (long long)jobs->suspects);
}

static void list_suspect(void *context, const struct suspect_job *job)
{
    static const char *const states[] = {"waiting", "among_few", "alone"};
    static const char *const words[] = {"waits", "is computed among few", "is computed alone"};
    struct status_listing *listing = context;
    struct buffer *out = &listing->out;
    if (listing->json) {
        buffer_add_string(out, listing->n_suspects_shown++ ? ",{\"dataset\":" : "{\"dataset\":");
        json_encode_string(job->dataset, out);
        buffer_add_string(out, ",\"custom_id\":");
        json_encode_string(job->custom_id, out);
        buffer_add_format(out, ",\"crashes\":%d,\"attempts\":%d,\"state\":\"%s\"}", job->crashes,
                          job->attempts, states[job->state]);
        return;
    }
    buffer_add_string(out, listing->n_suspects_shown++
                               ? ""
                               : "\njobs that may have killed workers, the worst first:\n");
    buffer_add_printable(out, job->dataset, 0);
    buffer_add_byte(out, ' ');
    buffer_add_printable(out, job->custom_id, 0);
    buffer_add_format(out, ": %d crash%s, %d attempt%s; %s\n", job->crashes, job->crashes == 1 ? "" : "es",
                      job->attempts, job->attempts == 1 ? "" : "s", words[job->state]);
}

// Adds the unfinished jobs of the embedded queue, and the suspects among them.
static enum status add_waiting(struct status_listing *listing, struct store *store, struct text dataset,
                               struct error *error)
{
    if (listing->json)
        buffer_add_string(&listing->out, "],\"unfinished\":[");
    enum status status = store_waiting(store, dataset, list_waiting, listing, error);
    if (listing->json)
        buffer_add_string(&listing->out, "],\"suspects\":[");
    if (status == STATUS_OK && listing->n_suspects)
        status = store_suspects(store, dataset, SUSPECTS_SHOWN_MAX, list_suspect, listing, error);
    return status;
}

static void list_worker(void *context, const struct fleet_worker *worker)
{
    struct status_listing *listing = context;
    struct buffer *out = &listing->out;
    if (listing->json) {
        buffer_add_string(out, listing->n_workers++ ? ",{\"worker\":" : "{\"worker\":");
        json_encode_string(worker->worker, out);
        buffer_add_format(out,
                          ",\"done\":%lld,\"failed\":%lld,\"cancelled\":%lld,\"completion_tokens\":%lld,"
                          "\"jobs_per_second\":%.2f,\"last_finished_at\":%lld}",
                          (long long)worker->done, (long long)worker->failed, (long long)worker->cancelled,
                          (long long)worker->completion_tokens, worker->jobs_per_second,
                          (long long)worker->last_finished_at_us);
        return;
    }
    if (listing->n_workers++ == 0)
        buffer_add_format(out, "\n%-30s %9s %7s %9s %8s %8s\n", "worker", "done", "failed", "cancelled",
                          "jobs/s", "cached");
    buffer_add_printable(out, worker->worker, 30);
    buffer_add_format(out, " %9lld %7lld %9lld %8.1f %7.1f%%\n", (long long)worker->done,
                      (long long)worker->failed, (long long)worker->cancelled, worker->jobs_per_second,
                      worker->prompt_tokens
                          ? 100.0 * (double)worker->cached_tokens / (double)worker->prompt_tokens
                          : 0);
}

// Adds the workers and partitions: of the whole fleet if the store is a mirror's, else of the one worker that
// writes the store.
static enum status add_fleet(struct status_listing *listing, struct store *store, struct error *error)
{
    struct store_lag lag;
    if (listing->json)
        buffer_add_string(&listing->out, "],\"fleet\":[");
    enum status status = store_fleet(store, list_worker, listing, error);
    if (status == STATUS_OK)
        status = store_lag(store, &lag, error);
    if (status != STATUS_OK)
        return status;
    if (!listing->totals.is_mirror) // a mirror has counted these jobs already
        listing->n_unfinished += lag.jobs_behind;
    if (listing->json)
        buffer_add_format(
            &listing->out,
            "],\"partitions\":%lld,\"partitions_owned\":%lld,\"jobs_behind\":%lld,\"map_covered\":%lld",
            (long long)lag.n_partitions, (long long)lag.n_owned, (long long)lag.jobs_behind,
            (long long)lag.map_covered);
    else if (lag.n_partitions > 0)
        buffer_add_format(
            &listing->out,
            "\n%lld partition%s, %lld of them owned: %lld jobs behind; %lld finished above what is committed,"
            " kept by offset maps\n",
            (long long)lag.n_partitions, lag.n_partitions == 1 ? "" : "s", (long long)lag.n_owned,
            (long long)lag.jobs_behind, (long long)lag.map_covered);
    return STATUS_OK;
}

static enum status rebuild_store(struct store *store, const struct kafka_options *options,
                                 struct error *error)
{
    if (!options->brokers)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf status --rebuild: from which Kafka? give --brokers HOSTS");
    struct kafka_settings kafka;
    enum status status = kafka_settings_init(&kafka, options, store_path(store), error);
    if (status != STATUS_OK)
        return status;
    status = store_mirror_reset(store, error);
    if (status == STATUS_OK)
        status = mirror_run(
            &(struct mirror_config){.store = store, .kafka = &kafka.config, .until_end = true, .stop_fd = -1},
            error);
    kafka_settings_finish(&kafka);
    return status;
}

static enum status show_status(struct store *store, const struct settings *settings, int64_t *n_unfinished,
                               struct error *error)
{
    struct status_listing listing = {.json = settings->output.json};
    if (listing.json)
        buffer_add_string(&listing.out, "{\"datasets\":[");
    else
        buffer_add_format(&listing.out, "%-20s %9s %9s %7s %9s %8s %7s %8s %8s\n", "dataset", "submitted",
                          "done", "failed", "cancelled", "running", "", "jobs/s", "left");
    enum status status = store_totals(store, &listing.totals, error);
    if (status == STATUS_OK)
        status = store_progress(store, text_from_string(settings->dataset), list_dataset, &listing, error);
    if (status == STATUS_OK && settings->dataset && listing.n_datasets == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: there is no dataset %s", store_path(store),
                           settings->dataset);
    if (status == STATUS_OK)
        status = add_waiting(&listing, store, text_from_string(settings->dataset), error);
    if (status == STATUS_OK)
        status = add_fleet(&listing, store, error);
    if (status == STATUS_OK) {
        add_totals(&listing);
        if (settings->follow.watch && !settings->output.json && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        status = output_file_print(listing.out.data, listing.out.size, error);
    }
    *n_unfinished = listing.n_unfinished;
    buffer_finish(&listing.out);
    return status;
}

enum status command_status(const struct settings *settings, struct error *error)
{
    struct store *store = NULL;
    enum status status = settings->follow.rebuild
                             ? store_open(&store, named_store_path(settings), STORE_CREATE, error)
                             : named_store_open_to_read(&store, settings, error);
    if (status == STATUS_OK && settings->follow.rebuild)
        status = rebuild_store(store, &settings->kafka, error);
    int64_t n_unfinished = 1;
    while (status == STATUS_OK) {
        status = show_status(store, settings, &n_unfinished, error);
        if (!settings->follow.watch || n_unfinished == 0)
            break;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    store_close(store);
    return status;
}
