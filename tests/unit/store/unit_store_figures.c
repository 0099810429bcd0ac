// Figures in the store: the sums of a commit, the report on prefixes, and a dataset's first and last end.
#include "store/finish.h"
#include "store/projection.h"
#include "store/step_cost.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include <math.h>

TEST(a_worker_is_busy_in_every_phase_of_a_step)
{
    struct store *store = open_store(true);
    struct step_figures steps[] = {
        {.finished_us = 1, .prepare_us = 1, .plan_us = 20, .compute_us = 300, .finish_us = 4000},
        {.finished_us = 2, .prepare_us = 50000, .plan_us = 600000}};
    struct store_record record = {.steps = steps, .n_steps = 2};
    assert_ok(store_record(store, &record, &error), &error);
    assert_int_equal(query_number(store, "SELECT busy_us FROM workers"), 654321);
    assert_int_equal(
        query_number(store, "SELECT 1000 * sum(prepare_ms + plan_ms + compute_ms + finish_ms) FROM steps"),
        654321);
    store_close(store);
}

// Steps in which every figure has its own number: 1000 times the figure for the first, 1 for the second.
TEST(each_figure_of_a_step_has_its_column_and_its_sum)
{
    // A statement is kept by its text's address.
#define STEPS(column)   "SELECT max(" column ") * 10000 + min(" column ") FROM steps"
#define WORKERS(column) "SELECT " column " FROM workers"
    static const struct {
        const char *of_steps, *sum; // NULL: it has none
        int64_t number;
    } columns[] = {
        {STEPS("finished_at_us"), NULL, 2},
        {STEPS("n_sequences"), WORKERS("n_sequence_steps"), 3},
        {STEPS("n_tokens"), WORKERS("n_tokens"), 5},
        {STEPS("prefill_tokens"), WORKERS("prefill_tokens"), 7},
        {STEPS("decode_tokens"), WORKERS("decode_tokens"), 11},
        {STEPS("generated"), WORKERS("generated_tokens"), 13},
        {STEPS("forced"), WORKERS("forced_tokens"), 17},
        {STEPS("drafted"), WORKERS("drafted_tokens"), 19},
        {STEPS("accepted"), WORKERS("accepted_tokens"), 23},
        {STEPS("preempted"), NULL, 29},
        {STEPS("waiting"), NULL, 31},
        {STEPS("pages_used"), NULL, 37},
    };
    struct store *store = open_store(true);
    struct step_figures steps[2];
    for (int i = 0; i < 2; i++) {
        int32_t times = i ? 1 : 1000;
        steps[i] = (struct step_figures){.finished_us = 2 * times,
                                         .n_sequences = 3 * times,
                                         .n_tokens = 5 * times,
                                         .prefill_tokens = 7 * times,
                                         .decode_tokens = 11 * times,
                                         .n_generated = 13 * times,
                                         .n_forced = 17 * times,
                                         .n_drafted = 19 * times,
                                         .n_accepted = 23 * times,
                                         .n_preempted = 29 * times,
                                         .n_waiting = 31 * times,
                                         .pages_used = 37 * times};
    }
    struct store_record record = {.steps = steps, .n_steps = 2};
    for (int commit = 1; commit <= 2; commit++) { // a later commit adds to the sums
        assert_ok(store_record(store, &record, &error), &error);
        assert_int_equal(query_number(store, "SELECT n_steps FROM workers"), 2 * commit);
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
            assert_int_equal(query_number(store, columns[i].of_steps), columns[i].number * 10000001);
            if (columns[i].sum)
                assert_int_equal(query_number(store, columns[i].sum), commit * columns[i].number * 1001);
        }
    }
    store_close(store);
}

TEST(the_report_on_prefixes_is_the_worker_s_latest)
{
    static const char *const columns[] = {WORKERS("prefix_lookups"), WORKERS("prefix_hits"),
                                          WORKERS("prefix_tokens"),  WORKERS("tokens_saved"),
                                          WORKERS("evictions"),      WORKERS("pages_shared"),
                                          WORKERS("pages_idle")};
    struct store *store = open_store(true);
    for (int64_t n = 100; n <= 200; n += 100) {
        const struct prefix_report report = {.n_lookups = n + 1,
                                             .n_hits = n + 2,
                                             .tokens_looked_up = n + 3,
                                             .tokens_saved = n + 4,
                                             .n_evictions = n + 5,
                                             .pages_shared = (int32_t)n + 6,
                                             .pages_idle = (int32_t)n + 7};
        struct store_record record = {.prefixes = &report};
        assert_ok(store_record(store, &record, &error), &error);
        for (int i = 0; i < 7; i++)
            assert_int_equal(query_number(store, columns[i]), n + 1 + i);
    }
    store_close(store);
}

static struct step_cost cost_of(const struct step_figures *steps, size_t n_steps)
{
    struct store *store = open_store(true);
    struct step_cost cost = {.n_steps = 77};
    assert_ok(store_step_cost(store, &cost, &error), &error);
    assert_int_equal(cost.n_steps, 0); // none yet
    struct store_record record = {.steps = steps, .n_steps = n_steps};
    assert_ok(store_record(store, &record, &error), &error);
    assert_ok(store_step_cost(store, &cost, &error), &error);
    assert_int_equal(cost.n_steps, n_steps);
    store_close(store);
    fresh_path(NULL);
    return cost;
}

static void assert_cost(struct step_cost cost, double base_ms, double token_ms)
{
    assert_true(fabs(cost.base_ms - base_ms) < 1e-6);
    assert_true(fabs(cost.token_ms - token_ms) < 1e-6);
}

// Estimates are made of it, so neither part is ever negative.
TEST(the_cost_of_a_step_is_a_base_and_so_much_a_token)
{
    struct step_figures line[] = {
        {.n_tokens = 4, .prefill_tokens = 3, .n_generated = 1, .prepare_us = 1000, .plan_us = 3000},
        {.n_tokens = 10, .n_generated = 2, .compute_us = 4000, .finish_us = 3000},
        {.n_tokens = 16, .prefill_tokens = 9, .n_generated = 4, .compute_us = 10000}};
    struct step_cost cost = cost_of(line, 3);
    assert_cost(cost, 2, 0.5);
    assert_true(cost.noise_ms < 1e-6); // all are on the line
    assert_int_equal(cost.n_tokens, 30);
    assert_int_equal(cost.prefill_tokens, 12);
    assert_int_equal(cost.generated_tokens, 7);
    assert_int_equal(cost.n_sequences_max, description.n_sequences_max);
    assert_int_equal(cost.n_tokens_max, description.n_tokens_max);
    assert_cost(cost_of(line, 1), 4, 0); // one step says nothing of a token's share
    struct step_figures noisy[] = {{.n_tokens = 1, .n_sequences = 1, .compute_us = 3000},
                                   {.n_tokens = 1, .n_sequences = 2, .compute_us = 5000},
                                   {.n_tokens = 1, .n_sequences = 4, .compute_us = 7000}};
    cost = cost_of(noisy, 3);
    assert_true(fabs(cost.noise_ms - sqrt(8)) < 1e-6); // squares of -2, 0 and 2, by the degrees of freedom
    assert_int_equal(cost.n_sequence_steps, 7);
    struct step_figures falling[] = {{.n_tokens = 1, .compute_us = 9000},
                                     {.n_tokens = 9, .compute_us = 1000}};
    assert_cost(cost_of(falling, 2), 5, 0);
    struct step_figures steep[] = {{.n_tokens = 2, .compute_us = 1000}, {.n_tokens = 4, .compute_us = 7000}};
    assert_cost(cost_of(steep, 2), 0, (2 * 1 + 4 * 7) / 20.0);
}

// Steps that the prompts' tokens fill hold fewer sequences than fit.
TEST(the_sequences_of_a_full_step_are_those_of_steps_with_room_for_tokens)
{
    struct step_figures steps[] = {
        {.n_tokens = description.n_tokens_max, .n_sequences = 1, .n_waiting = 9},
        {.n_tokens = 4, .n_sequences = 2},
        {.n_tokens = description.n_tokens_max - 1, .n_sequences = 3, .n_waiting = 8},
        {.n_tokens = 5, .n_sequences = 5, .n_waiting = 1},
    };
    assert_true(cost_of(steps, 2).n_sequences_full == description.n_sequences_max);
    assert_true(cost_of(steps, 4).n_sequences_full == 4);
}

TEST(a_later_report_on_a_prefix_replaces_the_earlier_one)
{
    struct store *store = open_store(true);
    struct prefix_report report = {
        .n_entries = 2,
        .entries = {{.hash = 1, .n_tokens = 16, .n_hits = 3, .tokens_saved = 48, .text = "a"},
                    {.hash = UINT64_MAX, .n_tokens = 32, .n_hits = 1, .tokens_saved = 32, .text = "b"}}};
    struct store_record record = {.prefixes = &report};
    assert_ok(store_record(store, &record, &error), &error);
    report.entries[1].n_hits = 5;
    report.entries[1].tokens_saved = 160;
    assert_ok(store_record(store, &record, &error), &error);
    assert_int_equal(query_number(store, "SELECT count(*) FROM prefixes"), 2);
    assert_int_equal(query_number(store, "SELECT n_hits FROM prefixes WHERE hash = 1"), 3);
    assert_int_equal(query_number(store, "SELECT tokens_saved FROM prefixes WHERE hash = 1"), 48);
    assert_int_equal(query_number(store, "SELECT n_hits FROM prefixes WHERE hash = -1"), 5);
    assert_int_equal(query_number(store, "SELECT tokens_saved FROM prefixes WHERE hash = -1"), 160);
    store_close(store);
}

static struct job *finished_job(const char *id, int64_t created)
{
    struct job *job = job_create();
    assert_true(job && job_set_id(job, text_from_string(id)) && job_set_text(job, &job->dataset, TEXT("d")));
    job->created_s = created;
    job->result.status = RESULT_DONE;
    return job;
}

static void assert_constraints(struct store *store, const char *expected)
{
    sqlite3_stmt *select;
    struct buffer rows = {0};
    static const char sql[] =
        "SELECT constrained_by, jobs, done, failed, cut, forced_tokens FROM constraints";
    assert_int_equal(sqlite3_prepare_v2(store->database.sqlite, sql, -1, &select, NULL), SQLITE_OK);
    while (sqlite3_step(select) == SQLITE_ROW)
        for (int i = 0; i < 6; i++)
            buffer_add_format(&rows, "%s%s", sqlite3_column_text(select, i) ?: (const unsigned char *)"NULL",
                              i < 5 ? "|" : "\n");
    sqlite3_finalize(select);
    buffer_add_byte(&rows, '\0');
    assert_string_equal(rows.data, expected);
    buffer_finish(&rows);
}

// A job without a draft has none.
TEST(draft_tokens_are_counted_by_job_step_and_worker)
{
    struct store *store = open_store(true);
    const struct job *jobs[PROJECTION_ROWS + 3];
    for (int i = 0; i < PROJECTION_ROWS + 3; i++) { // by rows of many and of one
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        struct job *job = finished_job(id, 0);
        job->figures.drafted_tokens = i % 2 ? 10 : 0;
        job->figures.accepted_tokens = i % 2 ? 7 : 0;
        jobs[i] = job;
    }
    struct step_figures steps[] = {{.n_drafted = 9, .n_accepted = 5}, {.n_drafted = 4}};
    struct store_record record = {.jobs = jobs, .n_jobs = PROJECTION_ROWS + 3, .steps = steps, .n_steps = 2};
    assert_ok(store_record(store, &record, &error), &error);
    int64_t n_drafted = (PROJECTION_ROWS + 3) / 2;
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE drafted_tokens IS NULL"),
                     PROJECTION_ROWS + 3 - n_drafted);
    assert_int_equal(query_number(store, "SELECT jobs_drafted FROM speculation"), n_drafted);
    assert_int_equal(query_number(store, "SELECT drafted_tokens FROM speculation"), 10 * n_drafted);
    assert_int_equal(query_number(store, "SELECT accepted_tokens FROM speculation"), 7 * n_drafted);
    assert_int_equal(query_number(store, "SELECT percent_accepted = 70 FROM speculation"), 1);
    assert_int_equal(query_number(store, "SELECT 100 * sum(drafted) + sum(accepted) FROM steps"), 1305);
    assert_int_equal(query_number(store, "SELECT 100 * drafted_tokens + accepted_tokens FROM workers"), 1305);
    for (int i = 0; i < PROJECTION_ROWS + 3; i++)
        job_destroy((struct job *)jobs[i]);
    store_close(store);
}

// A job without thoughts has none; a job of the queue and one of a topic are written by different statements.
TEST(tokens_of_thoughts_are_counted_by_job)
{
    struct store *store = open_store(true);
    const struct job *jobs[PROJECTION_ROWS + 3];
    for (int i = 0; i < PROJECTION_ROWS + 3; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        struct job *job = finished_job(id, 0);
        job->result.completion_tokens = 20;
        job->result.reasoning_tokens = i % 2 ? 10 : 0;
        jobs[i] = job;
    }
    struct store_record record = {.jobs = jobs, .n_jobs = PROJECTION_ROWS + 3};
    assert_ok(store_record(store, &record, &error), &error);
    int64_t n = PROJECTION_ROWS + 3;
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE reasoning_tokens IS NULL"),
                     n - n / 2);
    assert_int_equal(query_number(store, "SELECT sum(reasoning_tokens) FROM answers"), 10 * (n / 2));
    assert_int_equal(query_number(store, "SELECT jobs * 1000 + jobs_with_thoughts FROM thoughts"),
                     n * 1000 + n / 2);
    assert_int_equal(query_number(store, "SELECT reasoning_tokens FROM thoughts"), 10 * (n / 2));
    assert_int_equal(query_number(store, "SELECT mean * 100 + longest FROM thoughts"), 1010);
    for (int i = 0; i < PROJECTION_ROWS + 3; i++)
        job_destroy((struct job *)jobs[i]);
    store_close(store);
}

// The request's constraint where the worker has it, and the one that a mirror read in the record's headers.
TEST(constrained_jobs_are_counted_with_their_forced_tokens)
{
    struct store *store = open_store(true);
    const struct job *jobs[20];
    struct choice cut = {.finish_reason = FINISH_LENGTH};
    for (int i = 0; i < 20; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        struct job *job = finished_job(id, 0);
        job->request.constraint.kind = i < 6 ? CONSTRAINT_JSON_SCHEMA : CONSTRAINT_NONE;
        job->request.tools.choice = i == 4 || i == 7 ? TOOLS_AUTO : TOOLS_NONE;
        job->figures.forced_tokens = i < 8 ? i : 0;
        job->figures.constrained_by = i == 8 || i == 9 ? constraint_name_find(TEXT("regex")) : NULL;
        if (i == 1) {
            (void)error_set(&error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD, "a keyword");
            job_fail(job, &error);
        }
        job->result.choices = &cut;
        job->result.n_choices = i == 2;
        jobs[i] = job;
    }
    struct step_figures steps[] = {{.n_generated = 9, .n_forced = 5}, {.n_generated = 3, .n_forced = 2}};
    struct store_record record = {.jobs = jobs, .n_jobs = 20, .steps = steps, .n_steps = 2};
    assert_ok(store_record(store, &record, &error), &error);
    assert_constraints(store, "none|11|11|0|0|NULL\njson|6|5|1|1|15\nregex|2|2|0|0|0\ntools|1|1|0|0|7\n");
    assert_int_equal(query_number(store, "SELECT sum(forced) FROM steps"), 7);
    assert_int_equal(query_number(store, "SELECT forced_tokens FROM workers"), 7);
    assert_int_equal(query_number(store, "SELECT sum(forced_tokens) FROM throughput_by_day"), 7);
    assert_int_equal(query_number(store, "SELECT sum(constrained) FROM jobs_by_hour"), 9);
    assert_null(constraint_name_find(TEXT("jso")));
    for (int i = 0; i < 20; i++)
        job_destroy((struct job *)jobs[i]);
    store_close(store);
}

TEST(a_recorded_job_was_submitted_when_it_was_created)
{
    struct store *store = open_store(true);
    struct job *known = finished_job("known", 1700000000), *unknown = finished_job("unknown", 0);
    const struct job *jobs[] = {known, unknown};
    struct store_record record = {.jobs = jobs, .n_jobs = 2};
    assert_ok(store_record(store, &record, &error), &error);
    assert_int_equal(query_number(store, "SELECT submitted_at_us FROM jobs WHERE job_id = 'known'"),
                     1700000000000000);
    assert_int_equal(query_number(store, "SELECT submitted_at_us IS NULL FROM jobs WHERE job_id = 'unknown'"),
                     1);
    job_destroy(known);
    job_destroy(unknown);
    store_close(store);
}

static void record_of_topic(struct store *store, const char *topic, int n_jobs)
{
    struct job *jobs[40];
    for (int i = 0; i < n_jobs; i++) {
        char id[16];
        snprintf(id, sizeof id, "d-%d", i);
        jobs[i] = finished_job(id, 0);
        assert_true(job_set_text(jobs[i], &jobs[i]->source.topic, text_from_string(topic)));
        jobs[i]->source.offset = i;
    }
    struct store_record record = {.jobs = (const struct job *const *)jobs, .n_jobs = (size_t)n_jobs};
    assert_ok(store_record(store, &record, &error), &error);
    for (int i = 0; i < n_jobs; i++)
        job_destroy(jobs[i]);
}

TEST(datasets_of_one_name_in_two_topics_or_the_queue_keep_their_rows_apart)
{
    struct store *store = open_store(true);
    for (int i = 0; i < 2; i++) { // again: existing rows are counted once
        record_of_topic(store, "ja", 40);
        record_of_topic(store, "jb", 20);
    }
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE dataset = 'd' AND topic = 'ja'"),
                     40);
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE dataset = 'd@jb' AND topic = 'jb'"),
                     20);
    assert_int_equal(query_number(store, "SELECT n_done FROM datasets WHERE dataset = 'd'"), 40);
    assert_int_equal(query_number(store, "SELECT n_done FROM datasets WHERE dataset = 'd@jb'"), 20);
    submit(store, "e", 0, 3);
    struct job *job = finished_job("e-1", 0);
    assert_true(job_set_text(job, &job->dataset, TEXT("e")) &&
                job_set_text(job, &job->source.topic, TEXT("ja")));
    struct store_record record = {.jobs = (const struct job *const *)&job, .n_jobs = 1};
    assert_ok(store_record(store, &record, &error), &error);
    assert_int_equal(
        query_number(store, "SELECT count(*) FROM jobs WHERE dataset = 'e' AND status = 'queued'"), 3);
    assert_int_equal(
        query_number(store, "SELECT count(*) FROM jobs WHERE dataset = 'e@ja' AND status = 'done'"), 1);
    job_destroy(job);
    store_close(store);
}

static void mirror_jobs(struct store *store, const char *dataset, const char *topic, int64_t n_jobs)
{
    struct mirrored_job jobs[8];
    char ids[8][16];
    assert_true(n_jobs <= 8);
    for (int64_t i = 0; i < n_jobs; i++) {
        snprintf(ids[i], sizeof ids[i], "%s-%d", dataset, (int)i);
        struct text id = text_from_string(ids[i]);
        jobs[i] = (struct mirrored_job){.dataset = text_from_string(dataset),
                                        .job_id = id,
                                        .custom_id = id,
                                        .index = i,
                                        .topic = text_from_string(topic),
                                        .offset = i};
    }
    struct job *job = finished_job(ids[0], 0);
    assert_true(job_set_text(job, &job->dataset, text_from_string(dataset)) &&
                job_set_text(job, &job->source.topic, text_from_string(topic)));
    struct mirrored_result result = {.job = job, .worker = TEXT("w"), .finished_at_us = 5};
    struct mirror_record record = {
        .jobs = jobs, .n_jobs = (size_t)n_jobs, .results = &result, .n_results = 1};
    assert_ok(store_mirror(store, &record, &error), &error);
    job_destroy(job);
}

TEST(a_mirrored_dataset_keeps_its_rows_apart_from_the_queue_s_of_its_name)
{
    struct store *store = open_store(true);
    submit(store, "e", 0, 3);
    for (int i = 0; i < 2; i++)
        mirror_jobs(store, "e", "ja", 4);
    mirror_jobs(store, "f", "ja", 2);
    assert_int_equal(
        query_number(store, "SELECT count(*) FROM jobs WHERE dataset = 'e' AND status = 'queued'"), 3);
    assert_int_equal(query_number(store, "SELECT count(*) FROM queue"), 3);
    assert_int_equal(query_number(store, "SELECT n_submitted FROM datasets WHERE dataset = 'e'"), 3);
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE dataset = 'e@ja' AND topic = 'ja'"),
                     4);
    assert_int_equal(query_number(store, "SELECT n_submitted FROM datasets WHERE dataset = 'e@ja'"), 4);
    assert_int_equal(query_number(store, "SELECT n_done FROM datasets WHERE dataset = 'e@ja'"), 1);
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE dataset = 'f'"), 2);
    store_close(store);
}

TEST(the_queue_refuses_a_name_that_a_topic_s_dataset_has_in_the_store)
{
    struct store *store = open_store(true);
    struct dataset_mark mark;
    mirror_jobs(store, "f", "ja", 2);
    assert_int_equal(store_dataset_begin(store, TEXT("f"), &mark, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "dataset f is one of topic ja in this store"));
    assert_ok(store_dataset_begin(store, TEXT("e"), &mark, &error), &error);
    store_close(store);
}

static void write_totals(struct store *store, const struct job *job, const int64_t *times_us, size_t n)
{
    struct dataset_totals totals = {0};
    assert_ok(database_begin(&store->database, &error), &error);
    for (size_t i = 0; i < n; i++)
        assert_ok(totals_add(&totals, job, true, times_us[i], &error), &error);
    enum status status = totals_write(store, &totals, &error);
    assert_ok(database_end(&store->database, status, &error), &error);
    totals_finish(&totals);
}

TEST(a_dataset_s_first_and_last_end_are_those_of_all_its_jobs_in_any_order)
{
    struct store *store = open_store(true);
    struct job *job = finished_job("j", 0);
    static const struct {
        int64_t times_us[3], first_us, last_us;
    } commits[] = {{{500, 300, 400}, 300, 500}, {{350, 600, 450}, 300, 600}, {{320, 200, 310}, 200, 600}};
    for (size_t i = 0; i < 3; i++) {
        write_totals(store, job, commits[i].times_us, 3);
        assert_int_equal(query_number(store, "SELECT first_finished_at_us FROM datasets"),
                         commits[i].first_us);
        assert_int_equal(query_number(store, "SELECT last_finished_at_us FROM datasets"), commits[i].last_us);
    }
    assert_int_equal(query_number(store, "SELECT n_done FROM datasets"), 9);
    job_destroy(job);
    store_close(store);
}

TEST(a_recorded_job_has_its_place_in_the_file_where_it_is_known)
{
    struct store *store = open_store(true);
    for (int64_t index = -1; index < 2; index++) {
        char id[16];
        snprintf(id, sizeof id, "job%d", (int)index);
        struct job *job = finished_job(id, 0);
        job->index = index;
        struct store_record record = {.jobs = (const struct job *const *)&job, .n_jobs = 1};
        assert_ok(store_record(store, &record, &error), &error);
        job_destroy(job);
    }
    assert_int_equal(
        query_number(store, "SELECT count(*) FROM jobs WHERE job_id = 'job-1' AND job_index IS NULL"), 1);
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE job_id = 'job0' AND job_index = 0"),
                     1);
    assert_int_equal(query_number(store, "SELECT count(*) FROM jobs WHERE job_id = 'job1' AND job_index = 1"),
                     1);
    store_close(store);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
