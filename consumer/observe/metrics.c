#include "consumer/observe/metrics.h"

#include "schemas/base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Upper bounds of the buckets. A step lasts from a fraction of a millisecond (a test's model) to many seconds
// (a long prefill).
static const double seconds_bounds[METRICS_BUCKETS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                       0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                                       1,      2.5,     5,      10};
static const double sequences_bounds[METRICS_BUCKETS] = {1,  2,  4,  8,   12,  16,  24,   32,
                                                         48, 64, 96, 128, 256, 512, 1024, 4096};

// ---- counting ----

static void observe_value(struct histogram *histogram, const double *bounds, double value)
{
    int i = 0;
    while (i < METRICS_BUCKETS && value > bounds[i])
        i++;
    histogram->counts[i]++;
    histogram->sum += value;
}

int64_t metrics_second(void)
{
    return clock_second();
}

static int32_t *age_of(struct metrics *metrics, const struct job *job)
{
    return &metrics->n_by_age[job->source.received_s % METRICS_AGE_S_MAX];
}

void metrics_received(struct metrics *metrics, const struct job *job)
{
    if (metrics->jobs.n_in_flight == 0)
        metrics->jobs.oldest_s = job->source.received_s;
    metrics->jobs.n_in_flight++;
    ++*age_of(metrics, job);
    dataset_tally_received(&metrics->datasets, job);
}

void metrics_job_left(struct metrics *metrics, const struct job *job, bool published)
{
    metrics->jobs.n_in_flight--;
    --*age_of(metrics, job);
    int64_t now_s = metrics_second();
    while (metrics->jobs.oldest_s < now_s &&
           metrics->n_by_age[metrics->jobs.oldest_s % METRICS_AGE_S_MAX] == 0)
        metrics->jobs.oldest_s++;
    dataset_tally_left(&metrics->datasets, job, published);
    if (!published)
        return;
    metrics->jobs.n_by_status[job->result.status]++;
    metrics->jobs.n_by_code[job->result.error.code]++;
    metrics->jobs.n_dead_letters += job->source.record.data != NULL;
    metrics->tokens.n_cached += job->figures.cached_tokens;
    metrics->jobs.n_constrained += job_constraint_name(job) != NULL;
    if (job->figures.is_duplicate) {
        metrics->jobs.n_duplicates++;
        metrics->tokens.n_duplicate += job->result.prompt_tokens + job->result.completion_tokens;
    }
    recent_count(&metrics->recent, now_s, 1, 0);
    if (job->result.status != RESULT_CANCELLED)
        recent_add(&metrics->recent, job);
    label_tally_add(&metrics->labels, job);
}

void metrics_step(struct metrics *metrics, const struct step_figures *step)
{
    const int64_t phases[] = {step->prepare_us, step->plan_us, step->compute_us, step->finish_us};
    for (int i = 0; i < 4; i++)
        observe_value(&metrics->steps.phases[i], seconds_bounds, (double)phases[i] / 1e6);
    observe_value(&metrics->steps.sequences, sequences_bounds, step->n_sequences);
    metrics->steps.n++;
    metrics->steps.n_preempted += step->n_preempted;
    metrics->tokens.n_prefill += step->prefill_tokens;
    metrics->tokens.n_generated += step->n_generated;
    metrics->tokens.n_forced += step->n_forced;
    metrics->tokens.n_drafted += step->n_drafted;
    metrics->tokens.n_accepted += step->n_accepted;
    recent_count(&metrics->recent, metrics_second(), 0, step->n_generated);
    metrics->steps.n_waiting = step->n_waiting;
    metrics->steps.pages_used = step->pages_used;
    metrics->steps.pages_total = step->pages_total;
}

void metrics_commit(struct metrics *metrics, int64_t took_us)
{
    observe_value(&metrics->commits, seconds_bounds, (double)took_us / 1e6);
}

static int64_t oldest_age(const struct metrics *metrics)
{
    return metrics->jobs.n_in_flight ? metrics_second() - metrics->jobs.oldest_s : 0;
}

// ---- Prometheus ----

enum kind { COUNTER, GAUGE, HISTOGRAM };

enum name {
    JOBS_TOTAL,
    JOBS_INFLIGHT,
    JOBS_HELD,
    OLDEST_UNFINISHED,
    DEAD_LETTERS,
    DUPLICATES,
    REPEATED,
    SPANS_DROPPED,
    ERRORS,
    CONSTRAINED,
    DATASET_JOBS,
    DATASET_DEAD,
    DATASET_TOKENS,
    DATASET_INFLIGHT,
    DATASET_UNFINISHED,
    TOKENS,
    FORCED_TOKENS,
    DRAFT_TOKENS,
    STEPS,
    STEP_SECONDS,
    STEP_SEQUENCES,
    WINDOW_WAITING,
    PREEMPTIONS,
    KV_PAGES,
    PREFIX_LOOKUPS,
    PREFIX_HITS,
    PREFIX_TOKENS,
    PREFIX_SAVED,
    PREFIX_EVICTIONS,
    PREFIX_PAGES,
    COMMIT_SECONDS,
    TXN,
    REBALANCES,
    OFFSET_MAP_BYTES,
    SKIPPED,
    DROPPED,
    OVERSIZE,
    REFUSED,
    REPLY_LOST,
    PRODUCERS,
    THROTTLED,
    REJOINS,
    TOMBSTONES,
    DELETED,
    LAG,
    UNFINISHED,
    CURRENT_OFFSET,
    LOG_END,
    PARTITION_INFLIGHT,
    STALLED,
    QUARANTINED,
    READY,
    STORE_BYTES,
    BUILD_INFO,
    START_TIME,
    MEMORY,
    CPU,
    N_NAMES,
};

static const struct {
    const char *name;
    enum kind kind;
    const char *help;
} names[N_NAMES] = {
    [JOBS_TOTAL] = {"sheaf_jobs_total", COUNTER, "Jobs published, by status."},
    [JOBS_INFLIGHT] = {"sheaf_jobs_inflight", GAUGE, "Jobs received and not yet published or released."},
    [JOBS_HELD] = {"sheaf_jobs_held", GAUGE,
                   "Jobs in flight that wait because their dataset is at its --dataset-limit."},
    [DATASET_JOBS] =
        {"sheaf_dataset_jobs_total", COUNTER,
         "Jobs published, by dataset and status. Of many datasets the unused ones are added up in "
         "others=\"1\"."},
    [DATASET_DEAD] = {"sheaf_dataset_dead_letters_total", COUNTER, "Dead letters, by dataset."},
    [DATASET_TOKENS] = {"sheaf_dataset_tokens_total", COUNTER,
                        "Tokens computed of prompts and answers, by dataset."},
    [DATASET_INFLIGHT] = {"sheaf_dataset_jobs_inflight", GAUGE,
                          "Jobs received and not yet published or released, by dataset."},
    [DATASET_UNFINISHED] =
        {"sheaf_dataset_jobs_unfinished", GAUGE,
         "Jobs in the embedded queue, by dataset, those in flight at any worker included."},
    [OLDEST_UNFINISHED] = {"sheaf_oldest_unfinished_seconds", GAUGE,
                           "Age of the oldest job in flight since it was received."},
    [DEAD_LETTERS] = {"sheaf_dead_letters_total", COUNTER,
                      "Records that were no jobs, and jobs that killed workers."},
    [DUPLICATES] = {"sheaf_duplicate_jobs_total", COUNTER, "Jobs answered from a job with an equal request."},
    [REPEATED] = {"sheaf_repeated_jobs_total", COUNTER,
                  "Records without a result, because another one has their job_id."},
    [SPANS_DROPPED] = {"sheaf_spans_dropped_total", COUNTER,
                       "Jobs whose spans the OpenTelemetry collector did not take."},
    [ERRORS] = {"sheaf_job_errors_total", COUNTER, "Failed and cancelled jobs, by error code."},
    [TOKENS] = {"sheaf_tokens_total", COUNTER,
                "Tokens: prompts computed, answers generated, prompts from shared "
                "pages, answers given to equal requests."},
    [CONSTRAINED] = {"sheaf_constrained_jobs_total", COUNTER,
                     "Published jobs whose answers had a constraint or tools."},
    [FORCED_TOKENS] = {"sheaf_forced_tokens_total", COUNTER,
                       "Generated tokens that a constraint left no choice of."},
    [DRAFT_TOKENS] = {"sheaf_draft_tokens_total", COUNTER,
                      "Draft tokens of speculation that were computed: accepted, rejected."},
    [STEPS] = {"sheaf_steps_total", COUNTER, "Steps of the engine."},
    [STEP_SECONDS] = {"sheaf_step_seconds", HISTOGRAM, "Time of a step, by phase."},
    [STEP_SEQUENCES] = {"sheaf_step_sequences", HISTOGRAM, "Sequences in a step: the batch."},
    [WINDOW_WAITING] = {"sheaf_window_waiting", GAUGE, "Sequences that wait for a place in the batch."},
    [PREEMPTIONS] = {"sheaf_preemptions_total", COUNTER,
                     "Sequences that gave their pages back to start over."},
    [KV_PAGES] = {"sheaf_kv_pages", GAUGE, "Pages of the KV cache, by state."},
    [PREFIX_LOOKUPS] = {"sheaf_prefix_lookups_total", COUNTER, "Prompts looked up in the prefix cache."},
    [PREFIX_HITS] = {"sheaf_prefix_hits_total", COUNTER, "Prompts that found a shared page."},
    [PREFIX_TOKENS] = {"sheaf_prefix_tokens_total", COUNTER, "Prompt tokens looked up."},
    [PREFIX_SAVED] =
        {"sheaf_prefix_tokens_saved_total", COUNTER,
         "Tokens looked up in the prefix cache that were in it; n, best_of and scores look up again."},
    [PREFIX_EVICTIONS] = {"sheaf_prefix_evictions_total", COUNTER, "Shared pages given up for others."},
    [PREFIX_PAGES] = {"sheaf_prefix_pages", GAUGE, "Pages of prompts: shared by running sequences, or idle."},
    [COMMIT_SECONDS] = {"sheaf_commit_seconds", HISTOGRAM, "Time of a commit."},
    [TXN] = {"sheaf_txn_total", COUNTER, "Kafka transactions, by outcome."},
    [REBALANCES] = {"sheaf_rebalances_total", COUNTER, "Assignments of partitions to this worker."},
    [OFFSET_MAP_BYTES] = {"sheaf_offset_map_bytes", GAUGE,
                          "Longest metadata of the last commit; brokers take 4096."},
    [SKIPPED] = {"sheaf_records_skipped_total", COUNTER,
                 "Records delivered again that were done or running."},
    [DROPPED] = {"sheaf_jobs_dropped_total", COUNTER, "Finished jobs that were another worker's to publish."},
    [OVERSIZE] = {"sheaf_oversize_total", COUNTER, "Results and dead letters the topic did not take whole."},
    [REFUSED] = {"sheaf_refused_total", COUNTER, "Records that the broker refused, each time one did."},
    [REPLY_LOST] =
        {"sheaf_reply_topics_absent_total", COUNTER,
         "Results whose reply topic does not exist: dead letters, with an error on the results topic."},
    [PRODUCERS] = {"sheaf_producers_replaced_total", COUNTER, "Producers that could not go on."},
    [THROTTLED] = {"sheaf_throttled_seconds_total", COUNTER,
                   "Time for which brokers told this worker to wait: throttled by the broker, for a quota."},
    [REJOINS] = {"sheaf_rejoins_total", COUNTER, "Consumers that were expelled and joined again."},
    [TOMBSTONES] = {"sheaf_tombstones_total", COUNTER, "Records without a value, which were skipped."},
    [DELETED] = {"sheaf_deleted_records_total", COUNTER,
                 "Records that retention deleted before the group had read them."},
    [LAG] = {"sheaf_partition_lag_offsets", GAUGE,
             "Offsets from the committed one to the log's end, finished ones among them."},
    [UNFINISHED] =
        {"sheaf_partition_unfinished", GAUGE,
         "The same without those that the offset map says are finished. A worker that loses a partition keeps its "
         "last figures for 30 s: add up max by (topic, partition)."},
    [CURRENT_OFFSET] = {"sheaf_partition_committed_offset", GAUGE,
                        "Committed offset: all below are finished."},
    [LOG_END] = {"sheaf_partition_end_offset", GAUGE, "End of the log."},
    [PARTITION_INFLIGHT] = {"sheaf_partition_inflight", GAUGE, "Jobs in flight, by partition."},
    [STALLED] = {"sheaf_partition_stalled_seconds", GAUGE,
                 "For how long records wait of which none is in flight and none can be delivered."},
    [QUARANTINED] = {"sheaf_partition_quarantined", GAUGE,
                     "Records that are no jobs and are left unanswered (--dead-share)."},
    [READY] = {"sheaf_ready", GAUGE, "1: the worker works; 0: it waits for a broker or the store."},
    [STORE_BYTES] = {"sheaf_store_bytes", GAUGE, "Size of the store and its log."},
    [BUILD_INFO] = {"sheaf_build_info", GAUGE, "1, with version, model and backend."},
    [START_TIME] = {"process_start_time_seconds", GAUGE, "Start, since 1970 UTC."},
    [MEMORY] = {"process_resident_memory_bytes", GAUGE, "Memory in use."},
    [CPU] = {"process_cpu_seconds_total", COUNTER, "Processor time used."},
};

static void begin_metric(struct buffer *out, enum name name)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    buffer_add_format(out, "# HELP %s %s\n# TYPE %s %s\n", names[name].name, names[name].help,
                      names[name].name, kinds[names[name].kind]);
}

// Escapes a value for Prometheus' exposition format; other control characters become blanks.
static void add_label_value(struct buffer *out, const char *label, struct text value)
{
    buffer_add_format(out, "%s=\"", label);
    for (size_t i = 0, length; i < value.size; i += length) {
        uint32_t codepoint = 0;
        bool is_valid = (length = utf8_decode(value.data + i, value.size - i, &codepoint)) > 0;
        length = is_valid ? length : 1;
        if (codepoint == '"' || codepoint == '\\')
            buffer_add_byte(out, '\\');
        if (codepoint == '\n' && is_valid)
            buffer_add_string(out, "\\n");
        else if (!is_valid || !utf8_is_printable(codepoint))
            buffer_add_byte(out, is_valid ? ' ' : '?');
        else
            buffer_add(out, value.data + i, length);
    }
    buffer_add_byte(out, '"');
}

static void add_sample(struct buffer *out, enum name name, const char *label, const char *label_value,
                       double value)
{
    buffer_add_string(out, names[name].name);
    if (label) {
        buffer_add_byte(out, '{');
        add_label_value(out, label, text_from_string(label_value));
        buffer_add_byte(out, '}');
    }
    buffer_add_format(out, " %.17g\n", value);
}

static void add_one(struct buffer *out, enum name name, double value)
{
    begin_metric(out, name);
    add_sample(out, name, NULL, NULL, value);
}

// `label`: empty, or a label with a comma after it, such as phase="plan",
static void add_histogram(struct buffer *out, enum name name, const struct histogram *histogram,
                          const double *bounds, const char *label)
{
    int64_t count = 0;
    for (int i = 0; i <= METRICS_BUCKETS; i++) {
        count += histogram->counts[i];
        buffer_add_format(out, "%s_bucket{%sle=\"", names[name].name, label);
        if (i < METRICS_BUCKETS)
            buffer_add_format(out, "%g", bounds[i]);
        else
            buffer_add_string(out, "+Inf");
        buffer_add_format(out, "\"} %" PRId64 "\n", count);
    }
    int length = (int)strlen(label);
    const char *open = length ? "{" : "", *close = length ? "}" : "";
    length -= length > 0; // the comma
    buffer_add_format(out, "%s_sum%s%.*s%s %.17g\n%s_count%s%.*s%s %" PRId64 "\n", names[name].name, open,
                      length, label, close, histogram->sum, names[name].name, open, length, label, close,
                      count);
}

static void add_jobs(const struct metrics *metrics, struct buffer *out)
{
    begin_metric(out, JOBS_TOTAL);
    for (int status = RESULT_DONE; status <= RESULT_CANCELLED; status++)
        add_sample(out, JOBS_TOTAL, "status", result_status_name((enum result_status)status),
                   (double)metrics->jobs.n_by_status[status]);
    add_one(out, JOBS_INFLIGHT, (double)metrics->jobs.n_in_flight);
    add_one(out, JOBS_HELD, (double)metrics->jobs.n_held);
    add_one(out, OLDEST_UNFINISHED, (double)oldest_age(metrics));
    add_one(out, DEAD_LETTERS, (double)metrics->jobs.n_dead_letters);
    add_one(out, DUPLICATES, (double)metrics->jobs.n_duplicates);
    add_one(out, REPEATED, (double)metrics->jobs.n_repeated);
    add_one(out, SPANS_DROPPED, (double)metrics->jobs.n_spans_dropped);
    add_one(out, CONSTRAINED, (double)metrics->jobs.n_constrained);
    begin_metric(out, ERRORS);
    for (int code = 1; code < ERROR_CODE_COUNT; code++)
        if (metrics->jobs.n_by_code[code])
            add_sample(out, ERRORS, "code", error_code_name((enum error_code)code),
                       (double)metrics->jobs.n_by_code[code]);
}

static void add_dataset_sample(struct buffer *out, enum name name, const struct dataset_entry *entry,
                               const char *status, int64_t value)
{
    buffer_add_format(out, "%s{", names[name].name);
    if (entry)
        add_label_value(out, "dataset", (struct text){entry->name, entry->name_size});
    else
        buffer_add_string(out, "others=\"1\"");
    if (status)
        buffer_add_format(out, ",status=\"%s\"", status);
    buffer_add_format(out, "} %" PRId64 "\n", value);
}

static void add_dataset_counts(struct buffer *out, enum name name, const struct dataset_entry *entry,
                               const struct dataset_counts *counts)
{
    const int64_t by_status[] = {[RESULT_DONE] = counts->n_done,
                                 [RESULT_FAILED] = counts->n_failed,
                                 [RESULT_CANCELLED] = counts->n_cancelled};
    const int64_t values[] = {[DATASET_DEAD - DATASET_DEAD] = counts->n_dead,
                              [DATASET_TOKENS - DATASET_DEAD] = counts->n_tokens,
                              [DATASET_INFLIGHT - DATASET_DEAD] = counts->n_in_flight,
                              [DATASET_UNFINISHED - DATASET_DEAD] = counts->unfinished};
    if (name == DATASET_JOBS)
        for (int status = RESULT_DONE; status <= RESULT_CANCELLED; status++)
            add_dataset_sample(out, name, entry, result_status_name((enum result_status)status),
                               by_status[status]);
    else if (name != DATASET_UNFINISHED || (entry && counts->unfinished >= 0))
        add_dataset_sample(out, name, entry, NULL, values[name - DATASET_DEAD]);
}

static void add_datasets(const struct dataset_tally *tally, struct buffer *out)
{
    for (int name = DATASET_JOBS; name <= DATASET_UNFINISHED; name++) {
        begin_metric(out, (enum name)name);
        for (int i = 0; i < tally->n_entries; i++)
            add_dataset_counts(out, (enum name)name, &tally->entries[i], &tally->entries[i].counts);
        if (tally->n_entries == DATASET_TALLY_MAX)
            add_dataset_counts(out, (enum name)name, NULL, &tally->others);
    }
}

static void add_engine(const struct metrics *metrics, struct buffer *out)
{
    static const char *const phases[] = {"phase=\"prepare\",", "phase=\"plan\",", "phase=\"compute\",",
                                         "phase=\"finish\","};
    begin_metric(out, TOKENS);
    add_sample(out, TOKENS, "kind", "prefill", (double)metrics->tokens.n_prefill);
    add_sample(out, TOKENS, "kind", "generated", (double)metrics->tokens.n_generated);
    add_sample(out, TOKENS, "kind", "cached", (double)metrics->tokens.n_cached);
    add_sample(out, TOKENS, "kind", "duplicate", (double)metrics->tokens.n_duplicate);
    add_one(out, FORCED_TOKENS, (double)metrics->tokens.n_forced);
    begin_metric(out, DRAFT_TOKENS);
    add_sample(out, DRAFT_TOKENS, "kind", "accepted", (double)metrics->tokens.n_accepted);
    add_sample(out, DRAFT_TOKENS, "kind", "rejected",
               (double)(metrics->tokens.n_drafted - metrics->tokens.n_accepted));
    add_one(out, STEPS, (double)metrics->steps.n);
    begin_metric(out, STEP_SECONDS);
    for (int i = 0; i < 4; i++)
        add_histogram(out, STEP_SECONDS, &metrics->steps.phases[i], seconds_bounds, phases[i]);
    begin_metric(out, STEP_SEQUENCES);
    add_histogram(out, STEP_SEQUENCES, &metrics->steps.sequences, sequences_bounds, "");
    add_one(out, WINDOW_WAITING, metrics->steps.n_waiting);
    add_one(out, PREEMPTIONS, (double)metrics->steps.n_preempted);
    begin_metric(out, KV_PAGES);
    add_sample(out, KV_PAGES, "state", "used", metrics->steps.pages_used);
    add_sample(out, KV_PAGES, "state", "free", metrics->steps.pages_total - metrics->steps.pages_used);
}

static void add_prefixes(const struct prefix_report *report, struct buffer *out)
{
    add_one(out, PREFIX_LOOKUPS, (double)report->n_lookups);
    add_one(out, PREFIX_HITS, (double)report->n_hits);
    add_one(out, PREFIX_TOKENS, (double)report->tokens_looked_up);
    add_one(out, PREFIX_SAVED, (double)report->tokens_saved);
    add_one(out, PREFIX_EVICTIONS, (double)report->n_evictions);
    begin_metric(out, PREFIX_PAGES);
    add_sample(out, PREFIX_PAGES, "state", "shared", report->pages_shared);
    add_sample(out, PREFIX_PAGES, "state", "idle", report->pages_idle);
}

static void add_kafka(const struct kafka_figures *kafka, struct buffer *out)
{
    begin_metric(out, TXN);
    add_sample(out, TXN, "outcome", "committed", (double)kafka->n_commits);
    add_sample(out, TXN, "outcome", "aborted", (double)kafka->n_aborts);
    add_one(out, REBALANCES, (double)kafka->n_rebalances);
    add_one(out, OFFSET_MAP_BYTES, kafka->map_bytes_max);
    add_one(out, SKIPPED, (double)kafka->records.n_skipped);
    add_one(out, DROPPED, (double)kafka->n_dropped);
    add_one(out, OVERSIZE, (double)kafka->records.n_oversize);
    add_one(out, REFUSED, (double)kafka->records.n_refused);
    add_one(out, REPLY_LOST, (double)kafka->records.n_reply_lost);
    add_one(out, PRODUCERS, (double)kafka->n_producers);
    add_one(out, THROTTLED, (double)kafka->throttled_ms / 1000);
    add_one(out, REJOINS, (double)kafka->n_rejoins);
    add_one(out, TOMBSTONES, (double)kafka->records.n_tombstones);
    add_one(out, DELETED, (double)kafka->records.n_deleted);
}

static int64_t committed_lag(const struct partition_figures *partition)
{
    int64_t lag = partition->end - (partition->committed < 0 ? 0 : partition->committed);
    return lag > 0 ? lag : 0;
}

static int64_t count_unfinished(const struct partition_figures *partition)
{
    int64_t n = committed_lag(partition) - partition->n_map_covered;
    return n > 0 ? n : 0;
}

static void add_partitions(const struct metrics_view *view, struct buffer *out, enum name name)
{
    begin_metric(out, name);
    for (size_t i = 0; i < view->n_partitions; i++) {
        const struct partition_figures *partition = &view->partitions[i];
        const int64_t values[] = {[LAG - LAG] = committed_lag(partition),
                                  [UNFINISHED - LAG] = count_unfinished(partition),
                                  [CURRENT_OFFSET - LAG] = partition->committed,
                                  [LOG_END - LAG] = partition->end,
                                  [PARTITION_INFLIGHT - LAG] = partition->n_in_flight,
                                  [STALLED - LAG] = partition->stalled_s,
                                  [QUARANTINED - LAG] = partition->n_quarantined};
        buffer_add_format(out, "%s{", names[name].name);
        if (name != LOG_END) {
            add_label_value(out, "consumergroup", text_from_string(view->group));
            buffer_add_byte(out, ',');
        }
        add_label_value(out, "topic", partition->topic);
        buffer_add_format(out, ",partition=\"%" PRId32 "\"} %" PRId64 "\n", partition->partition,
                          values[name - LAG]);
    }
}

static int64_t store_bytes(const struct store *store)
{
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        char path[4096];
        struct stat about;
        int length = snprintf(path, sizeof path, "%s%s", store_path(store), i ? "-wal" : "");
        if (length > 0 && (size_t)length < sizeof path && stat(path, &about) == 0)
            bytes += about.st_size;
    }
    return bytes;
}

// /proc/self/statm: the second number is the resident pages (proc(5)).
static double resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long size = 0, resident = 0;
    if (file) {
        if (fscanf(file, "%ld %ld", &size, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void add_process(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out)
{
    add_one(out, READY, metrics_is_ready(metrics));
    if (view->store)
        add_one(out, STORE_BYTES, (double)store_bytes(view->store));
    begin_metric(out, BUILD_INFO);
    buffer_add_format(out, "%s{", names[BUILD_INFO].name);
    const char *const labels[][2] = {{"version", view->version},
                                     {"model", view->model},
                                     {"backend", view->backend},
                                     {"transport", view->transport}};
    for (size_t i = 0; i < 4; i++) {
        if (i)
            buffer_add_byte(out, ',');
        add_label_value(out, labels[i][0], text_from_string(labels[i][1]));
    }
    buffer_add_string(out, "} 1\n");
    add_one(out, START_TIME, (double)metrics->started_us / 1e6);
    add_one(out, MEMORY, resident_bytes());
    add_one(out, CPU, (double)clock_cpu_ns() / 1e9);
}

bool metrics_is_ready(const struct metrics *metrics)
{
    return metrics->state.is_running && !metrics->state.trouble[0] &&
           !(metrics->state.waiting && metrics->state.waiting[0]);
}

void metrics_write(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out)
{
    add_jobs(metrics, out);
    add_datasets(&metrics->datasets, out);
    add_engine(metrics, out);
    add_prefixes(&metrics->prefixes, out);
    begin_metric(out, COMMIT_SECONDS);
    add_histogram(out, COMMIT_SECONDS, &metrics->commits, seconds_bounds, "");
    if (view->kafka)
        add_kafka(view->kafka, out);
    for (int name = LAG; view->kafka && name <= QUARANTINED; name++)
        add_partitions(view, out, (enum name)name);
    add_process(metrics, view, out);
}
