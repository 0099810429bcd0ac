// A worker's figures as Prometheus text and as a page: each number has its own name.
#include "consumer/observe/metrics.h"
#include "tests/support/cases.h"

static struct metrics *metrics;
static struct buffer text;

static int open_metrics(void **state)
{
    metrics = calloc(1, sizeof *metrics);
    return metrics ? 0 : -1;
}

static int close_metrics(void **state)
{
    free(metrics);
    buffer_finish(&text);
    text = (struct buffer){0};
    return 0;
}

// The partitions of one consumer: nothing committed, some finished above, nothing behind.
static const struct partition_figures partitions[] = {{.topic = TEXT("jobs"),
                                                       .partition = 3,
                                                       .committed = -1,
                                                       .end = 70,
                                                       .n_in_flight = 8,
                                                       .n_map_covered = 9,
                                                       .n_quarantined = 4},
                                                      {.topic = TEXT("<\"&\\>"),
                                                       .partition = 4,
                                                       .committed = 100,
                                                       .end = 150,
                                                       .n_in_flight = 2,
                                                       .n_map_covered = 30},
                                                      {.topic = TEXT("jobs"),
                                                       .partition = 5,
                                                       .committed = 200,
                                                       .end = 199,
                                                       .n_in_flight = 0,
                                                       .n_map_covered = 1}};

static struct metrics_view view_of(const struct kafka_figures *kafka)
{
    return (struct metrics_view){.version = "1",
                                 .model = "a \"model\"\n",
                                 .backend = "cpu",
                                 .transport = "kafka",
                                 .group = "g",
                                 .partitions = partitions,
                                 .n_partitions = sizeof partitions / sizeof *partitions,
                                 .kafka = kafka};
}

static void write_text(const struct kafka_figures *kafka)
{
    struct metrics_view view = view_of(kafka);
    buffer_finish(&text);
    text = (struct buffer){0};
    metrics_write(metrics, &view, &text);
    buffer_add_byte(&text, '\0');
    assert_false(text.failed);
}

// Whole lines, one behind the other.
static void assert_lines(const char *lines)
{
    char all[1024];
    snprintf(all, sizeof all, "\n%s\n", lines);
    if (!strstr(text.data, all))
        fail_msg("no line %s in:\n%s", lines, text.data);
}

static struct job *job_that_ended(enum result_status status, enum error_code code)
{
    struct job *job = job_create();
    assert_non_null(job);
    job->source.received_s = metrics_second();
    job->result.status = status;
    job->result.error.code = code;
    job->figures.cached_tokens = 5;
    return job;
}

TEST(jobs_are_counted_by_status_and_error)
{
    static const struct {
        enum result_status status;
        enum error_code code;
        bool is_published, is_dead;
    } ends[] = {{RESULT_DONE, ERROR_NONE, true, false},
                {RESULT_DONE, ERROR_NONE, true, false},
                {RESULT_DONE, ERROR_NONE, true, false},
                {RESULT_FAILED, ERROR_LOGITS_NAN, true, false},
                {RESULT_FAILED, ERROR_INVALID_ENCODING, true, true},
                {RESULT_CANCELLED, ERROR_CANCELLED, true, false},
                {RESULT_DONE, ERROR_NONE, false, false}};
    struct job *left = job_that_ended(RESULT_NONE, ERROR_NONE);
    metrics_received(metrics, left);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct job *job = job_that_ended(ends[i].status, ends[i].code);
        job->request.constraint.kind = i < 4 ? CONSTRAINT_REGEX : CONSTRAINT_NONE;
        if (ends[i].is_dead)
            job->source.record = TEXT("{");
        metrics_received(metrics, job);
        metrics_job_left(metrics, job, ends[i].is_published);
        job->source.record = (struct text){0};
        job_destroy(job);
    }
    write_text(NULL);
    assert_lines("sheaf_jobs_total{status=\"done\"} 3\nsheaf_jobs_total{status=\"failed\"} 2\n"
                 "sheaf_jobs_total{status=\"cancelled\"} 1");
    assert_lines("sheaf_constrained_jobs_total 4");
    assert_lines("sheaf_jobs_inflight 1");
    assert_lines("sheaf_dead_letters_total 1");
    assert_lines("sheaf_job_errors_total{code=\"logits_nan\"} 1");
    assert_lines("sheaf_job_errors_total{code=\"invalid_encoding\"} 1");
    assert_lines("sheaf_tokens_total{kind=\"cached\"} 30");
    assert_null(strstr(text.data, "code=\"none\""));
    assert_null(strstr(text.data, "sheaf_txn_total"));
    assert_null(strstr(text.data, "sheaf_partition"));
    job_destroy(left);
}

static double age_shown(void)
{
    write_text(NULL);
    const char *sample = strstr(text.data, "\nsheaf_oldest_unfinished_seconds ");
    assert_non_null(sample);
    return strtod(strchr(sample, ' '), NULL);
}

// Current rates: of published jobs and drawn tokens.
TEST(published_jobs_and_generated_tokens_are_counted_in_their_second)
{
    struct job *job = job_that_ended(RESULT_DONE, ERROR_NONE);
    for (int is_published = 0; is_published < 2; is_published++) {
        metrics_received(metrics, job);
        metrics_job_left(metrics, job, is_published);
    }
    metrics_step(metrics, &(struct step_figures){.n_generated = 7});
    int64_t n_jobs = 0, n_tokens = 0;
    for (int i = 0; i <= RECENT_S; i++) {
        n_jobs += metrics->recent.seconds[i].n_jobs;
        n_tokens += metrics->recent.seconds[i].n_tokens;
    }
    assert_int_equal(n_jobs, 1);
    assert_int_equal(n_tokens, 7);
    job_destroy(job);
}

TEST(the_oldest_job_in_flight_has_its_age)
{
    struct job *old = job_that_ended(RESULT_DONE, ERROR_NONE),
               *young = job_that_ended(RESULT_DONE, ERROR_NONE);
    old->source.received_s -= 4;
    young->source.received_s -= 1;
    metrics_received(metrics, old);
    metrics_received(metrics, young);
    int64_t before_s = metrics_second();
    double age_s = age_shown();
    assert_true(age_s >= (double)(before_s - old->source.received_s));
    assert_true(age_s <= (double)(metrics_second() - old->source.received_s));
    metrics_job_left(metrics, old, true);
    assert_int_equal(metrics->jobs.oldest_s, young->source.received_s);
    metrics_job_left(metrics, young, true);
    assert_true(age_shown() == 0);
    metrics_received(metrics, old);
    assert_int_equal(metrics->jobs.oldest_s, old->source.received_s);
    job_destroy(old);
    job_destroy(young);
}

TEST(steps_are_summed_and_the_last_ones_state_is_shown)
{
    for (int i = 0; i < 2; i++) {
        struct step_figures step = {.prepare_us = 100, // the bound of the first bucket belongs to it
                                    .plan_us = 101,
                                    .compute_us = 3000000,
                                    .finish_us = 11000000,
                                    .n_sequences = i ? 4096 : 5,
                                    .n_preempted = 2,
                                    .prefill_tokens = 10,
                                    .n_generated = 7,
                                    .n_forced = 1 + i,
                                    .n_drafted = 6 + i,
                                    .n_accepted = 2 + i,
                                    .n_waiting = 3 + i,
                                    .pages_used = 20 + i,
                                    .pages_total = 64};
        metrics_step(metrics, &step);
    }
    metrics_commit(metrics, 20000);
    write_text(NULL);
    assert_lines("sheaf_steps_total 2");
    assert_lines("sheaf_tokens_total{kind=\"prefill\"} 20\nsheaf_tokens_total{kind=\"generated\"} 14");
    assert_lines("sheaf_forced_tokens_total 3");
    assert_lines("sheaf_draft_tokens_total{kind=\"accepted\"} 5\n"
                 "sheaf_draft_tokens_total{kind=\"rejected\"} 8");
    assert_lines("sheaf_window_waiting 4");
    assert_lines("sheaf_preemptions_total 4");
    assert_lines("sheaf_kv_pages{state=\"used\"} 21\nsheaf_kv_pages{state=\"free\"} 43");
    assert_lines("sheaf_step_seconds_bucket{phase=\"prepare\",le=\"0.0001\"} 2");
    assert_lines("sheaf_step_seconds_bucket{phase=\"plan\",le=\"0.0001\"} 0\n"
                 "sheaf_step_seconds_bucket{phase=\"plan\",le=\"0.00025\"} 2");
    assert_lines(
        "sheaf_step_seconds_bucket{phase=\"compute\",le=\"2.5\"} 0\n"
        "sheaf_step_seconds_bucket{phase=\"compute\",le=\"5\"} 2\n"
        "sheaf_step_seconds_bucket{phase=\"compute\",le=\"10\"} 2\n"
        "sheaf_step_seconds_bucket{phase=\"compute\",le=\"+Inf\"} 2\n"
        "sheaf_step_seconds_sum{phase=\"compute\"} 6\nsheaf_step_seconds_count{phase=\"compute\"} 2");
    assert_lines("sheaf_step_seconds_bucket{phase=\"finish\",le=\"10\"} 0\n"
                 "sheaf_step_seconds_bucket{phase=\"finish\",le=\"+Inf\"} 2");
    assert_lines("sheaf_step_sequences_bucket{le=\"4\"} 0\nsheaf_step_sequences_bucket{le=\"8\"} 1");
    assert_lines("sheaf_step_sequences_bucket{le=\"1024\"} 1\nsheaf_step_sequences_bucket{le=\"4096\"} 2\n"
                 "sheaf_step_sequences_bucket{le=\"+Inf\"} 2\nsheaf_step_sequences_sum 4101\n"
                 "sheaf_step_sequences_count 2");
    assert_lines("sheaf_commit_seconds_bucket{le=\"0.01\"} 0\nsheaf_commit_seconds_bucket{le=\"0.025\"} 1");
}

TEST(figures_of_prefixes_and_of_kafka_have_their_names)
{
    metrics->prefixes = (struct prefix_report){.n_lookups = 11,
                                               .n_hits = 12,
                                               .tokens_looked_up = 13,
                                               .tokens_saved = 14,
                                               .n_evictions = 15,
                                               .pages_shared = 16,
                                               .pages_idle = 17};
    struct kafka_figures kafka = {.n_commits = 21,
                                  .n_aborts = 22,
                                  .n_rebalances = 23,
                                  .map_bytes_max = 24,
                                  .records.n_skipped = 25,
                                  .n_dropped = 26,
                                  .records.n_oversize = 27,
                                  .records.n_refused = 28,
                                  .records.n_reply_lost = 33,
                                  .n_producers = 29,
                                  .throttled_ms = 1500,
                                  .n_rejoins = 30,
                                  .records.n_tombstones = 31,
                                  .records.n_deleted = 32};
    write_text(&kafka);
    assert_lines("sheaf_prefix_lookups_total 11");
    assert_lines("sheaf_prefix_hits_total 12");
    assert_lines("sheaf_prefix_tokens_total 13");
    assert_lines("sheaf_prefix_tokens_saved_total 14");
    assert_lines("sheaf_prefix_evictions_total 15");
    assert_lines("sheaf_prefix_pages{state=\"shared\"} 16\nsheaf_prefix_pages{state=\"idle\"} 17");
    assert_lines("sheaf_txn_total{outcome=\"committed\"} 21\nsheaf_txn_total{outcome=\"aborted\"} 22");
    assert_lines("sheaf_rebalances_total 23");
    assert_lines("sheaf_offset_map_bytes 24");
    assert_lines("sheaf_records_skipped_total 25");
    assert_lines("sheaf_jobs_dropped_total 26");
    assert_lines("sheaf_oversize_total 27");
    assert_lines("sheaf_refused_total 28");
    assert_lines("sheaf_reply_topics_absent_total 33");
    assert_lines("sheaf_producers_replaced_total 29");
    assert_lines("sheaf_throttled_seconds_total 1.5");
    assert_lines("sheaf_rejoins_total 30");
    assert_lines("sheaf_tombstones_total 31");
    assert_lines("sheaf_deleted_records_total 32");
    assert_lines("# HELP sheaf_rejoins_total Consumers that were expelled and joined again.\n"
                 "# TYPE sheaf_rejoins_total counter");
}

TEST(partitions_say_how_far_they_are)
{
    struct kafka_figures kafka = {0};
    write_text(&kafka);
    assert_lines("sheaf_partition_lag_offsets{consumergroup=\"g\",topic=\"jobs\",partition=\"3\"} 70\n"
                 "sheaf_partition_lag_offsets{consumergroup=\"g\",topic=\"<\\\"&\\\\>\",partition=\"4\"} 50\n"
                 "sheaf_partition_lag_offsets{consumergroup=\"g\",topic=\"jobs\",partition=\"5\"} 0");
    assert_lines("sheaf_partition_unfinished{consumergroup=\"g\",topic=\"jobs\",partition=\"3\"} 61\n"
                 "sheaf_partition_unfinished{consumergroup=\"g\",topic=\"<\\\"&\\\\>\",partition=\"4\"} 20\n"
                 "sheaf_partition_unfinished{consumergroup=\"g\",topic=\"jobs\",partition=\"5\"} 0");
    assert_lines("sheaf_partition_committed_offset{consumergroup=\"g\",topic=\"jobs\",partition=\"3\"} -1");
    assert_lines("sheaf_partition_end_offset{topic=\"jobs\",partition=\"3\"} 70");
    assert_lines("sheaf_partition_inflight{consumergroup=\"g\",topic=\"jobs\",partition=\"3\"} 8");
    assert_lines("sheaf_partition_quarantined{consumergroup=\"g\",topic=\"jobs\",partition=\"3\"} 4");
    assert_lines(
        "sheaf_build_info{version=\"1\",model=\"a \\\"model\\\"\\n\",backend=\"cpu\",transport=\"kafka\"} 1");
}

TEST(a_worker_is_ready_while_it_runs_without_trouble)
{
    metrics->started_us = INT64_C(1700000000500000);
    assert_false(metrics_is_ready(metrics));
    write_text(NULL);
    assert_lines("sheaf_ready 0");
    assert_lines("process_start_time_seconds 1700000000.5");
    metrics->state.is_running = true;
    write_text(NULL);
    assert_lines("sheaf_ready 1");
    strcpy(metrics->state.trouble, "the broker is away");
    assert_false(metrics_is_ready(metrics));
}

static void write_page(const struct kafka_figures *kafka)
{
    struct metrics_view view = view_of(kafka);
    buffer_finish(&text);
    text = (struct buffer){0};
    metrics_write_page(metrics, &view, &text);
    buffer_add_byte(&text, '\0');
    assert_false(text.failed);
}

static void assert_tile(const char *label, const char *figure)
{
    char tile[256];
    snprintf(tile, sizeof tile, "<div class=\"tile\"><span>%s</span><b>%s</b></div>\n", label, figure);
    if (!strstr(text.data, tile))
        fail_msg("the page has no %s", tile);
}

TEST(the_page_shows_the_worker_and_its_partitions)
{
    struct kafka_figures kafka = {0};
    metrics->jobs.n_by_status[RESULT_DONE] = 4000;
    metrics->jobs.n_by_status[RESULT_FAILED] = 41;
    metrics->jobs.n_in_flight = 42;
    metrics->steps.n = 4;
    metrics->steps.sequences.sum = 10;
    metrics->steps.pages_used = 5;
    metrics->steps.pages_total = 7;
    metrics->tokens.n_prefill = 5;
    metrics->prefixes = (struct prefix_report){.tokens_saved = 3};
    write_page(&kafka);
    assert_tile("jobs done", "4,000");
    assert_tile("jobs failed", "41");
    assert_tile("jobs in flight", "42");
    assert_tile("mean batch", "2.5");
    assert_tile("KV pages in use", "5 of 7");
    assert_tile("prefill from the cache, of all prefill", "37.5 %");
    assert_lines("<tr><td>jobs 3</td><td>-1</td><td>9</td><td>8</td><td>70</td></tr>\n"
                 "<tr><td>&lt;&quot;&amp;\\&gt; 4</td><td>100</td><td>30</td><td>2</td><td>150</td></tr>\n"
                 "<tr><td>jobs 5</td><td>200</td><td>1</td><td>0</td><td>199</td></tr>\n</table></div>");
    assert_non_null(strstr(
        text.data, "<h1>sheaf a &quot;model&quot;\n</h1>\n<p class=\"soft\">cpu, kafka: working</p>\n"));
    strcpy(metrics->state.trouble, "<away>");
    metrics->tokens.n_prefill = metrics->steps.n = 0;
    metrics->prefixes.tokens_saved = 0;
    write_page(NULL);
    assert_non_null(strstr(text.data, "waiting: &lt;away&gt;</p>\n"));
    assert_tile("mean batch", "0.0");
    assert_tile("prefill from the cache, of all prefill", "0.0 %");
    assert_null(strstr(text.data, "Partitions"));
    assert_null(strstr(text.data, "Datasets"));
}

TEST(rates_now_are_of_the_last_complete_seconds)
{
    struct recent *recent = &metrics->recent;
    double n_jobs, n_tokens;
    recent_rates(recent, 1000, &n_jobs, &n_tokens);
    assert_true(n_jobs == 0 && n_tokens == 0);
    recent_count(recent, 989, 70, 700); // too old at 1000
    recent_count(recent, 990, 10, 100);
    recent_count(recent, 999, 20, 0);
    recent_count(recent, 999, 0, 200);
    recent_count(recent, 1000, 500, 5000); // not complete
    recent_rates(recent, 1000, &n_jobs, &n_tokens);
    assert_true(n_jobs == 3 && n_tokens == 30);
    recent_rates(recent, 1001, &n_jobs, &n_tokens);
    assert_true(n_jobs == 52 && n_tokens == 520);
    recent_count(recent, 1001, 1, 10); // takes the place of 990
    recent_rates(recent, 1011, &n_jobs, &n_tokens);
    assert_true(n_jobs == 0.1 && n_tokens == 1);
}

// A steady worker has its rate from its first complete second on.
TEST(rates_of_a_young_worker_are_of_the_seconds_that_it_has_worked)
{
    struct recent recent = {0};
    double n_jobs, n_tokens;
    for (int64_t second = 500; second < 520; second++) {
        recent_count(&recent, second, second == 500 ? 1 : 4, second == 500 ? 10 : 40);
        recent_rates(&recent, second, &n_jobs, &n_tokens);
        assert_true(second < 502 ? n_jobs == 0 && n_tokens == 0 : n_jobs == 4 && n_tokens == 40);
    }
    recent_rates(&recent, 525, &n_jobs, &n_tokens); // nothing since 520
    assert_true(n_jobs == 2 && n_tokens == 20);
}

static void published(enum result_status status, const char *name, const char *prompt, char *answer)
{
    struct job *job = job_create();
    static struct choice choice;
    assert_non_null(job);
    job->custom_id = text_from_string(name);
    job->request.prompt.kind = PROMPT_TEXT;
    job->request.prompt.text = text_from_string(prompt);
    job->result.status = status;
    job->source.received_s = metrics_second();
    if (status == RESULT_DONE) {
        choice.text = text_from_string(answer);
        job->result.choices = &choice;
        job->result.n_choices = 1;
    } else {
        (void)!error_set(&job->result.error, STATUS_REJECT, ERROR_EMPTY_PROMPT, "%s", answer);
    }
    metrics_received(metrics, job);
    metrics_job_left(metrics, job, true);
    job_destroy(job);
}

TEST(the_last_jobs_are_shown_and_their_texts_when_asked_for)
{
    for (int shown = 0; shown < 2; shown++) {
        metrics->recent.keeps_content = shown;
        for (int i = 0; i < RECENT_ANSWERS; i++)
            published(RESULT_DONE, i ? "later" : "<first>", "private & prompt", "private answer");
        published(RESULT_FAILED, "faulty", "private & prompt", "private message");
        write_page(NULL);
        assert_non_null(strstr(text.data, "&lt;first&gt;"));
        assert_non_null(strstr(text.data, "faulty"));
        assert_int_equal(strstr(text.data, "private answer") != NULL, shown);
        assert_int_equal(strstr(text.data, "private message") != NULL, shown);
        assert_int_equal(strstr(text.data, "private &amp; prompt") != NULL, shown);
        published(RESULT_DONE, "newest", "", "");
        write_page(NULL);
        assert_null(strstr(text.data, "&lt;first&gt;")); // the oldest makes room
    }
    metrics->recent.keeps_content = false;
    for (int i = 0; i < RECENT_ANSWERS; i++)
        published(RESULT_DONE, "unshown", "private & prompt", "private answer");
    metrics->recent.keeps_content = true;
    write_page(NULL);
    assert_non_null(strstr(text.data, "unshown"));
    assert_null(strstr(text.data, "private answer")); // of the jobs that were in their places before
}

TEST_FIXTURE(open_metrics, close_metrics);
