// The store: the embedded queue's transactions, workers that die, the projection, foreign files.
#include "store/hashed_jobs.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>

TEST(jobs_pass_from_submission_to_result_once)
{
    struct store *store = open_store(true);
    assert_int_equal(submit(store, "a", 0, 5), 5);
    struct claims first = claim(store, "", 3), second = claim(store, "", 10), third = claim(store, "", 10);
    assert_int_equal(first.n, 3);
    assert_int_equal(second.n, 2);
    assert_int_equal(third.n, 0);
    assert_int_equal(finish_claims(store, &second), 2);
    assert_int_equal(finish_claims(store, &second), 0); // a second time nothing is written
    struct collected collected;
    assert_int_equal(collect(store, "a", &collected), 3);
    assert_int_equal(finish_claims(store, &first), 3);
    assert_int_equal(collect(store, "a", &collected), 0);
    assert_string_equal(collected.text, "{\"job_id\":\"a-0\"}\n{\"job_id\":\"a-1\"}\n{\"job_id\":\"a-2\"}\n"
                                        "{\"job_id\":\"a-3\"}\n{\"job_id\":\"a-4\"}\n");
    struct dataset_progress progress = progress_of(store, "a");
    assert_int_equal(progress.submitted, 5);
    assert_int_equal(progress.done, 5);
    assert_int_equal(progress.running, 0);
    assert_int_equal(progress.prompt_tokens, 50);
    drop(&first);
    drop(&second);
    store_close(store);
}

TEST(progress_counts_the_jobs_that_run_of_each_dataset_by_itself)
{
    struct store *store = open_store(true);
    submit(store, "a", 0, 3);
    submit(store, "b", 0, 2);
    submit(store, "c", 0, 1);
    struct claims first = claim(store, "a", 2), second = claim(store, "b", 1);
    assert_int_equal(progress_of(store, "a").running, first.n);
    assert_int_equal(progress_of(store, "b").running, second.n);
    assert_int_equal(progress_of(store, "c").running, 0);
    assert_true(first.n == 2 && second.n == 1);
    drop(&first);
    drop(&second);
    store_close(store);
}

TEST(a_repeated_submission_adds_only_what_is_missing)
{
    struct store *store = open_store(false);
    assert_int_equal(submit(store, "a", 0, 3), 3);
    assert_int_equal(submit(store, "a", 0, 5), 2);
    assert_int_equal(submit(store, "b", 0, 5), 5);
    assert_int_equal(progress_of(store, "a").submitted, 5);
    store_close(store);
}

enum { REQUESTS = 70 };

// Requests `numbers`, each with a record that says which.
static size_t submit_requests(struct store *store, const int numbers[REQUESTS], int64_t ids[REQUESTS])
{
    struct submission submissions[REQUESTS];
    char names[REQUESTS][32], records[REQUESTS][32];
    size_t n_added;
    for (int i = 0; i < REQUESTS; i++) {
        snprintf(names[i], sizeof names[i], "request-%d", numbers[i]);
        snprintf(records[i], sizeof records[i], "{\"prompt\":\"%d\"}", numbers[i]);
        submissions[i] = (struct submission){.job_id = text_from_string(names[i]),
                                             .custom_id = text_from_string(names[i]),
                                             .index = -1,
                                             .record = text_from_string(records[i])};
    }
    assert_ok(store_submit_requests(store, TEXT("a"), submissions, REQUESTS, ids, &n_added, &error), &error);
    return n_added;
}

static void check_request(void *context, const struct claimed_job *job)
{
    int64_t *id_of = context;
    char name[32], record[32];
    int number = atoi(job->job_id.data + strlen("request-"));
    snprintf(name, sizeof name, "request-%d", number);
    snprintf(record, sizeof record, "{\"prompt\":\"%d\"}", number);
    assert_true(text_equal(job->job_id, text_from_string(name)));
    assert_true(text_equal(job->record, text_from_string(record)));
    assert_int_equal(job->id, id_of[number]);
    id_of[number] = -1;
}

// Several jobs are queued by one statement. Some of them are there already, some twice in it.
TEST(requests_that_repeat_within_and_across_submissions_are_queued_once)
{
    struct store *store = open_store(true);
    int numbers[REQUESTS];
    int64_t ids[REQUESTS], id_of[3 * REQUESTS] = {0};
    size_t n_different = 0, n_claimed;
    for (int round = 0; round < 3; round++) {
        size_t n_new = 0;
        bool *is_known = calloc(3 * REQUESTS, 1);
        assert_non_null(is_known);
        for (int i = 0; i < REQUESTS; i++) // the middle of a round is all new, both ends repeat
            numbers[i] = i > 20 && i < 50 ? REQUESTS * round + i : i % 7 + 4 * round;
        for (int i = 0; i < REQUESTS; i++) {
            n_new += !id_of[numbers[i]] && !is_known[numbers[i]];
            is_known[numbers[i]] = true;
        }
        free(is_known);
        assert_int_equal(submit_requests(store, numbers, ids), n_new);
        for (int i = 0; i < REQUESTS; i++) {
            assert_true(ids[i] > 0 && (!id_of[numbers[i]] || id_of[numbers[i]] == ids[i]));
            id_of[numbers[i]] = ids[i];
        }
        n_different += n_new;
    }
    assert_int_equal(progress_of(store, "a").submitted, n_different);
    assert_ok(store_claim(store, TEXT("a"), n_different + 1, INT64_MAX, check_request, id_of, &n_claimed,
                          &error),
              &error);
    assert_int_equal(n_claimed, n_different);
    store_close(store);
}

static enum status submit_lines(struct store *store, int64_t from, int64_t upto, size_t *n_added)
{
    char id[32];
    snprintf(id, sizeof id, "a-%lld", (long long)upto);
    struct submission submission = {.job_id = text_from_string(id),
                                    .custom_id = text_from_string(id),
                                    .index = upto,
                                    .record = TEXT("{}")};
    return store_submit_lines(store, TEXT("a"), &submission, 1,
                              &(struct dataset_mark){from, (uint64_t)from * 77},
                              &(struct dataset_mark){upto, (uint64_t)upto * 77}, n_added, &error);
}

TEST(a_dataset_remembers_how_far_its_file_was_submitted)
{
    struct store *store = open_store(false);
    struct dataset_mark mark = {1, 1};
    size_t n_added;
    assert_ok(store_dataset_begin(store, TEXT("a"), &mark, &error), &error);
    assert_true(mark.n_lines == 0 && mark.hash == 0);
    assert_int_equal(submit_lines(store, 0, 3, &n_added), STATUS_OK);
    assert_int_equal(n_added, 1);
    assert_ok(store_dataset_begin(store, TEXT("a"), &mark, &error), &error);
    assert_true(mark.n_lines == 3 && mark.hash == 3 * 77);
    assert_int_equal(submit_lines(store, 3, 5, &n_added), STATUS_OK);
    assert_int_equal(submit_lines(store, 3, 4, &n_added), STATUS_RETRY); // somebody was faster
    assert_non_null(strstr(error.text, "another process"));
    assert_int_equal(progress_of(store, "a").submitted, 2);
    assert_ok(store_dataset_begin(store, TEXT("a"), &mark, &error), &error);
    assert_true(mark.n_lines == 5 && mark.hash == 5 * 77);
    store_close(store);
}

TEST(a_claim_filters_by_dataset)
{
    struct store *store = open_store(true);
    submit(store, "a", 0, 2);
    submit(store, "b", 0, 3);
    struct claims claims = claim(store, "b", 10);
    assert_int_equal(claims.n, 3);
    bool drained = false;
    assert_ok(store_queue_is_drained(store, TEXT("b"), &drained, &error), &error);
    assert_false(drained); // claimed is not finished
    finish_claims(store, &claims);
    assert_ok(store_queue_is_drained(store, TEXT("b"), &drained, &error), &error);
    assert_true(drained);
    assert_ok(store_queue_is_drained(store, (struct text){0}, &drained, &error), &error);
    assert_false(drained);
    drop(&claims);
    store_close(store);
}

TEST(a_living_worker_keeps_its_jobs_and_a_killed_one_s_come_back_at_once)
{
    struct store *other = open_store(true);
    submit(other, "a", 0, 4);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { // claims two jobs, says so, and waits to be killed
        struct store *store = open_store(true);
        struct claims claims = claim(store, "", 2);
        ssize_t n = write(ready[1], "x", claims.n == 2);
        (void)n;
        for (;;)
            pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct claims mine = claim(other, "", 10);
    assert_int_equal(mine.n, 2);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct claims inherited = claim(other, "", 10);
    assert_int_equal(inherited.n, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(inherited.jobs[i]->figures.attempts, 2);
    assert_int_equal(finish_claims(other, &mine) + finish_claims(other, &inherited), 4);
    drop(&mine);
    drop(&inherited);
    close(ready[0]);
    close(ready[1]);
    store_close(other);
}

TEST(a_store_that_was_deleted_under_a_worker_takes_another_one)
{
    char command[512];
    int64_t worker;
    struct store *old = open_store(true), *second;
    snprintf(command, sizeof command, "rm %s %s-wal %s-shm", path, path, path);
    assert_int_equal(system(command), 0);
    assert_ok(store_open(&second, path, STORE_CREATE, &error), &error);
    assert_ok(store_worker_start(second, &description, &worker, &error), &error);
    assert_int_equal(worker, 2); // byte 1 is the old one's
    submit(second, "a", 0, 2);
    struct claims claims = claim(second, "a", 2);
    assert_int_equal(claims.n, 2);
    assert_ok(store_worker_stop(second, &error), &error);
    drop(&claims);
    store_close(second);
    store_close(old);
}

TEST(released_jobs_are_free_again_and_their_attempt_is_not_counted)
{
    struct store *store = open_store(true);
    submit(store, "a", 0, 2);
    struct claims claims = claim(store, "", 2);
    int64_t ids[] = {claims.jobs[0]->source.offset, claims.jobs[1]->source.offset};
    assert_ok(store_release(store, ids, 2, &error), &error);
    assert_ok(store_worker_stop(store, &error), &error); // else half of them are kept for it
    struct store *second = open_store(true);
    struct claims again = claim(second, "", 2);
    assert_int_equal(again.n, 2);
    assert_int_equal(again.jobs[0]->figures.attempts, 1);
    assert_int_equal(finish_claims(store, &claims), 0); // not its jobs any more
    assert_int_equal(finish_claims(second, &again), 2);
    drop(&claims);
    drop(&again);
    store_close(second);
    store_close(store);
}

TEST(a_job_that_another_worker_holds_is_not_released)
{
    struct store *first = open_store(true), *second = open_store(true);
    submit(first, "a", 0, 2);
    struct claims mine = claim(first, "", 1), other = claim(second, "", 1);
    assert_int_equal(other.n, 1);
    assert_ok(store_release(first, &other.jobs[0]->source.offset, 1, &error), &error);
    struct claims again = claim(first, "", 2);
    assert_int_equal(again.n, 0);
    assert_int_equal(finish_claims(second, &other), 1);
    assert_int_equal(finish_claims(first, &mine), 1);
    drop(&mine);
    drop(&other);
    store_close(second);
    store_close(first);
}

static void submit_urgent(struct store *store, const char *id, int32_t priority, int64_t deadline_s)
{
    struct submission submission = {.job_id = text_from_string(id),
                                    .custom_id = text_from_string(id),
                                    .index = -1,
                                    .record = TEXT("{}"),
                                    .priority = priority,
                                    .deadline_s = deadline_s};
    size_t n_added;
    assert_ok(store_submit(store, TEXT("a"), &submission, 1, &n_added, &error), &error);
}

TEST(claims_go_by_priority_and_deadline_and_every_eighth_to_the_oldest)
{
    struct store *store = open_store(true);
    submit_urgent(store, "old-1", -5, 0);
    submit_urgent(store, "old-2", -5, 0);
    submit_urgent(store, "late", 3, 2000);
    submit_urgent(store, "soon", 3, 1000);
    submit_urgent(store, "whenever", 3, 0);
    for (int i = 0; i < 20; i++) {
        char id[24];
        snprintf(id, sizeof id, "plain-%d", i);
        submit_urgent(store, id, 0, 0);
    }
    static const char *const order[] = {"soon",    "late",    "whenever", "plain-0", "plain-1", "plain-2",
                                        "plain-3", "old-1",   "plain-4",  "plain-5", "plain-6", "plain-7",
                                        "plain-8", "plain-9", "plain-10", "old-2"};
    for (size_t n = 0; n < 16; n++) {
        struct claims one = claim(store, n % 2 ? "a" : "", 1);
        assert_true(text_equals_string(one.jobs[0]->job_id, order[n]));
        drop(&one);
    }
    // Many at once are as many of each.
    submit_urgent(store, "urgent", 9, 0);
    struct claims rest = claim(store, "", 64);
    assert_int_equal(rest.n, 10);
    assert_true(text_equals_string(rest.jobs[0]->job_id, "urgent"));
    drop(&rest);
    store_close(store);
}

// Claims all, says what it computes, and is gone without a word.
static void die_computing(const char *suspects, bool alone)
{
    struct store *store = open_store(true);
    struct claims claims = claim(store, "", 64);
    int64_t ids[64];
    size_t n = 0;
    for (size_t i = 0; i < claims.n; i++) {
        char letter = claims.jobs[i]->job_id.data[claims.jobs[i]->job_id.size - 1];
        if (strchr(suspects, letter))
            ids[n++] = claims.jobs[i]->source.offset;
    }
    assert_ok(store_suspect(store, ids, n, alone ? SUSPECT_ALONE : SUSPECT_AMONG_FEW, &error), &error);
    drop(&claims);
    store_close(store); // which drops its lock
}

static void keep_crashes(void *context, const struct claimed_job *claimed)
{
    int *crashes = context;
    crashes[claimed->job_id.data[claimed->job_id.size - 1] - '0'] = claimed->crashes;
}

static void assert_crashes(const char *digits)
{
    struct store *store = open_store(true);
    int crashes[4] = {-1, -1, -1, -1};
    size_t n;
    assert_ok(store_claim(store, (struct text){0}, 4, INT64_MAX, keep_crashes, crashes, &n, &error), &error);
    for (int i = 0; i < 4; i++)
        assert_int_equal(crashes[i], digits[i] - '0');
    int64_t ids[] = {1, 2, 3, 4};
    assert_ok(store_release(store, ids, 4, &error), &error); // a worker that leaves is no crash
    store_close(store);
}

TEST(a_crash_is_blamed_on_what_was_computed)
{
    struct store *store = open_store(false);
    submit(store, "a", 0, 4);
    store_close(store);
    assert_crashes("0000");
    die_computing("", false); // anyone may have been it
    assert_crashes("1111");
    die_computing("12", false); // one of two
    assert_crashes("1221");
    die_computing("1", true); // it, and no other
    assert_crashes("1321");
    die_computing("", false); // no news
    assert_crashes("1321");
}

static void write_waiting(void *context, const struct waiting_jobs *jobs)
{
    buffer_add_format(context, "%.*s %d: %lld+%lld late %lld suspects %lld\n", (int)jobs->dataset.size,
                      jobs->dataset.data, jobs->priority, (long long)jobs->waiting, (long long)jobs->running,
                      (long long)jobs->late, (long long)jobs->suspects);
}

static void write_suspect(void *context, const struct suspect_job *job)
{
    buffer_add_format(context, "%.*s %.*s %d/%d %d\n", (int)job->dataset.size, job->dataset.data,
                      (int)job->custom_id.size, job->custom_id.data, job->crashes, job->attempts, job->state);
}

static void assert_shown(struct store *store, const char *dataset, size_t n_suspects, const char *expected)
{
    struct buffer shown = {0};
    assert_ok(store_waiting(store, text_from_string(dataset), write_waiting, &shown, &error), &error);
    assert_ok(store_suspects(store, text_from_string(dataset), n_suspects, write_suspect, &shown, &error),
              &error);
    assert_string_equal(shown.size ? shown.data : "", expected);
    buffer_finish(&shown);
}

TEST(unfinished_jobs_are_counted_by_priority_with_late_jobs_and_suspects)
{
    struct store *store = open_store(false);
    submit(store, "a", 0, 3);
    submit_urgent(store, "past", 4, 1);
    submit_urgent(store, "later", 4, INT64_C(4000000000));
    submit(store, "b", 0, 2);
    assert_shown(store, "", 9,
                 "a 4: 2+0 late 1 suspects 0\na 0: 3+0 late 0 suspects 0\nb 0: 2+0 late 0 suspects 0\n");
    assert_shown(store, "b", 9, "b 0: 2+0 late 0 suspects 0\n");
    assert_shown(store, "none", 9, "");
    store_close(store);
    die_computing("", false);  // anyone may have been it
    die_computing("1", false); // a-1 and b-1
    store = open_store(true);
    struct claims claims = claim(store, "b", 2);
    int64_t alone = claims.jobs[0]->source.offset;
    assert_ok(store_suspect(store, &alone, 1, SUSPECT_ALONE, &error), &error);
    assert_shown(store, "b", 9, "b 0: 0+2 late 0 suspects 2\nb b-1 2/3 0\nb b-0 1/3 2\n");
    assert_shown(store, "a", 1, "a 4: 2+0 late 1 suspects 2\na 0: 3+0 late 0 suspects 3\na a-1 2/2 0\n");
    drop(&claims);
    store_close(store);
}

static void on_cancelled(void *context, struct text dataset)
{
    snprintf(context, 16, "%.*s", (int)dataset.size, dataset.data);
}

TEST(cancelling_answers_waiting_jobs_now_and_tells_the_workers)
{
    struct store *worker = open_store(true), *canceller = open_store(false);
    submit(worker, "a", 0, 5);
    submit(worker, "b", 0, 1);
    struct claims claims = claim(worker, "a", 2);
    char cancelled[16] = "";
    assert_ok(store_poll_cancelled(worker, on_cancelled, cancelled, &error), &error);
    assert_string_equal(cancelled, "");
    int64_t n_cancelled;
    assert_ok(store_cancel(canceller, TEXT("a"), &n_cancelled, &error), &error);
    assert_int_equal(n_cancelled, 3);
    assert_ok(store_poll_cancelled(worker, on_cancelled, cancelled, &error), &error);
    assert_string_equal(cancelled, "a");
    cancelled[0] = '\0';
    assert_ok(store_poll_cancelled(worker, on_cancelled, cancelled, &error), &error);
    assert_string_equal(cancelled, ""); // once
    for (size_t i = 0; i < claims.n; i++)
        claims.jobs[i]->result.status = RESULT_CANCELLED;
    assert_int_equal(finish_claims(worker, &claims), 2);
    struct collected collected;
    assert_int_equal(collect(worker, "a", &collected), 0);
    assert_int_equal(collected.n, 5);
    assert_int_equal(progress_of(worker, "a").cancelled, 5);
    struct claims untouched = claim(worker, "", 10);
    assert_int_equal(untouched.n, 1); // b's
    drop(&untouched);
    size_t n_added;
    struct submission late = {.job_id = TEXT("late"), .custom_id = TEXT("late"), .record = TEXT("{}")};
    assert_int_equal(store_submit(worker, TEXT("a"), &late, 1, &n_added, &error), STATUS_REFUSE);
    assert_int_equal(store_cancel(canceller, TEXT("nosuch"), &n_cancelled, &error), STATUS_REFUSE);
    drop(&claims);
    store_close(canceller);
    store_close(worker);
}

static void count_cancelled(void *context, struct text dataset)
{
    *(int *)context += 1;
}

TEST(a_worker_reads_each_cancellation_once)
{
    struct store *worker = open_store(true), *canceller = open_store(false);
    static const char *const datasets[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        submit(worker, datasets[i], 0, 1);
    for (int i = 0; i < 3; i++) {
        int n_cancellations = 0;
        int64_t n_cancelled;
        assert_ok(store_cancel(canceller, text_from_string(datasets[i]), &n_cancelled, &error), &error);
        assert_ok(store_poll_cancelled(worker, count_cancelled, &n_cancellations, &error), &error);
        assert_int_equal(n_cancellations, 1);
    }
    store_close(canceller);
    store_close(worker);
}

TEST(jobs_of_a_dead_worker_in_a_cancelled_dataset_are_answered_as_cancelled)
{
    struct store *dead = open_store(true), *other = open_store(true);
    submit(dead, "a", 0, 3);
    struct claims claims = claim(dead, "", 2);
    int64_t n_cancelled;
    assert_ok(store_cancel(other, TEXT("a"), &n_cancelled, &error), &error);
    assert_int_equal(n_cancelled, 1);
    store_close(dead); // which drops its lock
    assert_int_equal(claim(other, "", 10).n, 0);
    assert_int_equal(progress_of(other, "a").cancelled, 3);
    drop(&claims);
    store_close(other);
}

static void limit_pages(struct store *store, bool limited)
{
    // SQLite returns SQLITE_FULL for a file that cannot grow, as on a full disk.
    sqlite3 *sqlite = store->database.sqlite;
    assert_int_equal(sqlite3_exec(sqlite,
                                  limited ? "PRAGMA max_page_count = 1" : "PRAGMA max_page_count = 1000000",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
}

TEST(a_full_disk_is_one_clear_error_and_loses_nothing)
{
    struct store *store = open_store(true);
    submit(store, "a", 0, 8);
    struct claims claims = claim(store, "", 8);
    // The file may grow no further: every write fails as on a full disk.
    limit_pages(store, true);
    struct finished_job finished[8];
    bool committed[8];
    char *large = malloc(100000);
    memset(large, 'x', 100000);
    for (size_t i = 0; i < 8; i++)
        finished[i] = (struct finished_job){claims.jobs[i], {large, 100000}};
    assert_int_equal(store_finish(store, finished, 8, committed, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, "full"));
    limit_pages(store, false);
    assert_ok(store_finish(store, finished, 8, committed, &error), &error);
    struct collected collected;
    assert_int_equal(collect(store, "a", &collected), 0);
    free(large);
    drop(&claims);
    store_close(store);
}

TEST(files_that_are_no_store_are_refused_and_left_alone)
{
    struct store *store = NULL;
    FILE *file = fopen(path, "w");
    fputs("this is a text file, and a long enough one for SQLite to look at its "
          "first hundred bytes with some care....",
          file);
    fclose(file);
    assert_int_equal(store_open(&store, path, STORE_CREATE, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "not an SQLite file"));
    fresh_path(NULL);
    char command[256];
    snprintf(command, sizeof command, "sqlite3 %s 'CREATE TABLE mine (x)'", path);
    if (system(command) == 0) {
        assert_int_equal(store_open(&store, path, STORE_CREATE, &error), STATUS_REFUSE);
        assert_non_null(strstr(error.text, "not a sheaf store"));
    }
    fresh_path(NULL);
    assert_int_equal(store_open(&store, path, STORE_EXISTING, &error), STATUS_REFUSE);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(store_open(&store, "/nonexistent/folder/x.db", STORE_CREATE, &error), STATUS_REFUSE);
}

TEST(a_store_of_another_version_is_refused_unchanged)
{
    static const struct {
        int version;
        const char *why;
    } others[] = {{1, "got 1, from before sheaf 0.1.0: finish it"},
                  {STORE_VERSION_RELEASED - 1, "from before sheaf 0.1.0"},
                  {99, "got 99, of a newer sheaf"}};
    static const enum store_mode modes[] = {STORE_CREATE, STORE_EXISTING, STORE_READ_ONLY};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++, fresh_path(NULL)) {
        struct store *store = open_store(false);
        char pragma[48];
        snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", others[i].version);
        assert_int_equal(sqlite3_exec(store->database.sqlite, pragma, NULL, NULL, NULL), SQLITE_OK);
        store_close(store);
        for (size_t mode = 0; mode < sizeof modes / sizeof modes[0]; mode++) {
            assert_int_equal(store_open(&store, path, modes[mode], &error), STATUS_REFUSE);
            assert_non_null(strstr(error.text, others[i].why));
            assert_non_null(strstr(error.text, "expected a store of version 17"));
        }
    }
}

TEST(the_file_is_readable_by_its_owner_only)
{
    store_close(open_store(false));
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
}

TEST(a_store_mirrors_one_jobs_topic)
{
    struct store *store = open_store(true);
    struct text jobs = TEXT("a-jobs"), results = TEXT("results");
    struct mirrored_position positions[] = {{jobs, 0, 3}, {results, 0, 2}};
    assert_ok(store_mirror_start(store, jobs, results, &error), &error);
    assert_ok(store_mirror(store, &(struct mirror_record){.positions = positions, .n_positions = 2}, &error),
              &error);
    const struct mirrored_position expected[] = {
        {jobs, 0, 3}, {results, 0, 2}, {jobs, 1, -1}, {TEXT("x"), 0, -1}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int64_t next = -2;
        assert_int_equal(
            store_mirror_position(store, expected[i].topic, expected[i].partition, &next, &error), STATUS_OK);
        assert_int_equal(next, expected[i].next);
    }
    assert_ok(store_mirror_start(store, jobs, results, &error), &error);
    assert_int_equal(store_mirror_start(store, TEXT("b-jobs"), results, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "mirrors topic a-jobs, not only b-jobs and results"));
    assert_ok(store_mirror_reset(store, &error), &error);
    assert_ok(store_mirror_start(store, TEXT("b-jobs"), results, &error), &error);
    store_close(store);
}

TEST(of_two_mirrors_of_a_store_the_one_that_began_last_goes_on)
{
    struct store *first = open_store(true), *second = open_store(false);
    struct text jobs = TEXT("a-jobs"), results = TEXT("results");
    struct mirrored_position position = {jobs, 0, 3};
    struct mirror_record record = {.positions = &position, .n_positions = 1};
    assert_ok(store_mirror_start(first, jobs, results, &error), &error);
    assert_ok(store_mirror(first, &record, &error), &error);
    assert_ok(store_mirror_reset(second, &error), &error); // sheaf status --rebuild
    assert_int_equal(store_mirror(first, &record, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "another process began to mirror into it"));
    assert_ok(store_mirror_start(second, jobs, results, &error), &error);
    position.next = 5;
    assert_ok(store_mirror(second, &record, &error), &error);
    position.next = 4;
    assert_int_equal(store_mirror(first, &record, &error), STATUS_REFUSE);
    int64_t next = 0;
    assert_ok(store_mirror_position(second, jobs, 0, &next, &error), &error);
    assert_int_equal(next, 5);
    assert_ok(store_mirror_start(first, jobs, results, &error), &error); // without a reset
    assert_int_equal(store_mirror(second, &record, &error), STATUS_REFUSE);
    store_close(first);
    store_close(second);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
