// Claims of the embedded queue by turns of datasets: shares, weights, limits, and their cost.
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

static void submit_many(struct store *store, const char *dataset, int n)
{
    for (int i = 0; i < n; i += 64)
        submit(store, dataset, i, n - i < 64 ? n - i : 64);
}

static int count_of(const struct claims *claims, const char *dataset)
{
    int n = 0;
    for (size_t i = 0; i < claims->n; i++)
        n += text_equals_string(claims->jobs[i]->dataset, dataset);
    return n;
}

// Claims and finishes until the dataset is done. Returns the number of jobs claimed.
static int claims_until_done(struct store *store, const char *dataset, size_t n_per_claim)
{
    int n = 0;
    for (struct dataset_progress progress = progress_of(store, dataset); progress.done < progress.submitted;
         progress = progress_of(store, dataset)) {
        struct claims claims = claim(store, "", n_per_claim);
        assert_true(claims.n > 0);
        n += (int)claims.n;
        assert_int_equal(finish_claims(store, &claims), claims.n);
        drop(&claims);
    }
    return n;
}

TEST(a_dataset_of_ten_does_not_wait_for_one_of_thousands_that_came_first)
{
    struct store *store = open_store(true);
    submit_many(store, "big", 5000);
    struct claims first = claim(store, "", 32);
    assert_int_equal(count_of(&first, "big"), 32);
    submit(store, "ten", 0, 10);
    assert_int_equal(finish_claims(store, &first), 32);
    drop(&first);
    int n = claims_until_done(store, "ten", 16);
    assert_in_range(n, 10, 32);
    store_close(store);
}

TEST(a_claim_is_divided_equally_and_a_small_dataset_leaves_its_part)
{
    struct store *store = open_store(true);
    submit_many(store, "a", 100);
    struct claims held = claim(store, "", 10);
    submit_many(store, "b", 100);
    submit_many(store, "c", 3);
    struct claims more = claim(store, "", 21);
    assert_int_equal(count_of(&more, "c"), 3);
    assert_int_equal(count_of(&more, "b"), 9);
    struct claims even = claim(store, "", 20);
    assert_int_equal(count_of(&even, "a"), 10);
    assert_int_equal(count_of(&even, "a") + count_of(&even, "b"), 20);
    drop(&held), drop(&more), drop(&even);
    store_close(store);
}

TEST(within_a_dataset_the_order_stays_and_more_urgent_jobs_come_first)
{
    struct store *store = open_store(true);
    submit_many(store, "a", 20);
    submit_many(store, "b", 20);
    struct submission urgent = {
        .job_id = TEXT("u"), .custom_id = TEXT("u"), .record = TEXT("{}"), .priority = 1};
    size_t n_added;
    assert_ok(store_submit(store, TEXT("b"), &urgent, 1, &n_added, &error), &error);
    struct claims claims = claim(store, "", 7);
    assert_true(text_equals_string(claims.jobs[0]->job_id, "u"));
    int next[2] = {0, 0};
    for (size_t i = 1; i < claims.n; i++) {
        bool is_b = text_equals_string(claims.jobs[i]->dataset, "b");
        assert_int_equal(claims.jobs[i]->index, next[is_b]);
        next[is_b]++;
    }
    assert_int_equal(next[0] + next[1], 6);
    assert_true(abs(next[0] - next[1]) <= 1);
    drop(&claims);
    store_close(store);
}

TEST(many_small_datasets_get_their_turn_one_after_the_other)
{
    enum { N = 600 }; // more than share one claim
    struct store *store = open_store(true);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        submit(store, name, 0, 2);
    }
    bool seen[N] = {false};
    int n_seen = 0, n_claimed = 0;
    while (n_seen < N) {
        struct claims claims = claim(store, "", 60);
        n_claimed += (int)claims.n;
        for (size_t i = 0; i < claims.n; i++) {
            int d = atoi(claims.jobs[i]->dataset.data + 1);
            n_seen += !seen[d];
            seen[d] = true;
        }
        finish_claims(store, &claims);
        drop(&claims);
    }
    assert_int_equal(n_claimed, N);
    store_close(store);
}

TEST(weights_divide_the_claims)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){0};
    dataset_shares_add(&shares, TEXT("heavy"))->weight = 3;
    struct store *store = open_store(true);
    store_set_shares(store, &shares);
    submit_many(store, "light", 100);
    submit_many(store, "heavy", 100);
    struct claims claims = claim(store, "", 40);
    assert_int_equal(count_of(&claims, "heavy"), 30);
    drop(&claims);
    store_close(store);
}

// A job's tokens are known from the finished ones of its dataset.
TEST(datasets_share_by_tokens)
{
    struct store *store = open_store(true);
    submit_many(store, "long", 200);
    submit_many(store, "short", 200);
    struct claims claims = claim(store, "", 40);
    assert_int_equal(count_of(&claims, "long"), 20);
    for (size_t i = 0; i < claims.n; i++)
        claims.jobs[i]->result.prompt_tokens = text_equals_string(claims.jobs[i]->dataset, "long") ? 297 : 97;
    finish_claims(store, &claims);
    drop(&claims);
    claims = claim(store, "", 40);
    assert_in_range(count_of(&claims, "long"), 9, 11);
    drop(&claims);
    store_close(store);
}

TEST(a_dataset_that_waits_again_has_no_claim_to_the_past)
{
    struct store *store = open_store(true);
    submit_many(store, "a", 300);
    submit(store, "b", 0, 2);
    for (int i = 0; i < 5; i++) {
        struct claims claims = claim(store, "", 30);
        finish_claims(store, &claims);
        drop(&claims);
    }
    submit(store, "b", 2, 60);
    struct claims claims = claim(store, "", 20);
    assert_in_range(count_of(&claims, "b"), 9, 11);
    drop(&claims);
    store_close(store);
}

TEST(a_limit_bounds_the_jobs_of_a_dataset_that_a_worker_holds)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){.n_in_flight_max = 20};
    dataset_shares_add(&shares, TEXT("big"))->n_in_flight_max = 5;
    struct store *store = open_store(true);
    store_set_shares(store, &shares);
    submit_many(store, "big", 100);
    struct claims first = claim(store, "", 40);
    assert_int_equal(first.n, 5);
    assert_int_equal(claim(store, "", 40).n, 0);
    submit_many(store, "other", 100);
    struct claims second = claim(store, "", 40);
    assert_int_equal(count_of(&second, "other"), 20);
    assert_int_equal(second.n, 20);
    assert_int_equal(claim(store, "", 8).n, 0); // nor as the oldest
    int64_t ids[2] = {first.jobs[0]->source.offset, first.jobs[1]->source.offset};
    assert_ok(store_release(store, ids, 2, &error), &error);
    struct claims third = claim(store, "big", 40);
    assert_int_equal(third.n, 2);
    struct store *another = open_store(true); // each worker has its own limits
    store_set_shares(another, &shares);
    struct claims fourth = claim(another, "big", 40);
    assert_int_equal(fourth.n, 5);
    drop(&first), drop(&second), drop(&third), drop(&fourth);
    store_close(another);
    store_close(store);
}

// A limit of a dataset that is more urgent leaves the rest of the claim to the less urgent ones.
TEST(a_full_dataset_leaves_its_place_to_less_urgent_ones)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){0};
    dataset_shares_add(&shares, TEXT("urgent"))->n_in_flight_max = 2;
    struct store *store = open_store(true);
    store_set_shares(store, &shares);
    submit_many(store, "plain", 30);
    for (int i = 0; i < 10; i++) {
        char id[8];
        snprintf(id, sizeof id, "%d", i);
        struct submission urgent = {
            .job_id = text_from_string(id), .custom_id = TEXT("c"), .record = TEXT("{}"), .priority = 9};
        size_t n_added;
        assert_ok(store_submit(store, TEXT("urgent"), &urgent, 1, &n_added, &error), &error);
    }
    struct claims claims = claim(store, "", 12);
    assert_int_equal(claims.n, 12);
    assert_int_equal(count_of(&claims, "urgent"), 2);
    drop(&claims);
    store_close(store);
}

TEST(a_renamed_dataset_keeps_its_place_and_its_jobs)
{
    struct store *store = open_store(true);
    submit(store, "a", 0, 3);
    submit(store, "b", 0, 3);
    assert_ok(store_dataset_rename(store, TEXT("a"), TEXT("z"), &error), &error);
    assert_int_equal(submit(store, "a", 0, 2), 2);
    struct claims claims = claim(store, "z", 10);
    assert_int_equal(claims.n, 3);
    assert_int_equal(count_of(&claims, "z"), 3);
    struct claims rest = claim(store, "", 10);
    assert_int_equal(rest.n, 5);
    drop(&claims), drop(&rest);
    store_close(store);
}

// ---- cost ----

struct cost {
    int n_scans, n_sorts;
    int64_t n_steps; // instructions of SQLite's virtual machine
};

// The cost of one claim, over all statements that read the queue.
static struct cost cost_of_claim(int n_big)
{
    fresh_path(NULL);
    struct store *store = open_store(true);
    submit_many(store, "big", n_big);
    submit_many(store, "small", 100);
    struct claims claims = claim(store, "", 20); // prepares the statements
    drop(&claims);
    sqlite3_stmt *statement = NULL;
    while ((statement = sqlite3_next_stmt(store->database.sqlite, statement)))
        for (int counter = SQLITE_STMTSTATUS_FULLSCAN_STEP; counter <= SQLITE_STMTSTATUS_VM_STEP; counter++)
            sqlite3_stmt_status(statement, counter, true);
    claims = claim(store, "", 20);
    assert_int_equal(claims.n, 20);
    drop(&claims);
    struct cost cost = {0};
    while ((statement = sqlite3_next_stmt(store->database.sqlite, statement))) {
        const char *sql = sqlite3_sql(statement);
        cost.n_steps += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, false);
        if (!strstr(sql, "FROM queue") || !strstr(sql, "SELECT") || strstr(sql, "json_each"))
            continue;
        cost.n_scans += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_FULLSCAN_STEP, false);
        cost.n_sorts += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_SORT, false);
    }
    store_close(store);
    return cost;
}

TEST(a_claim_costs_the_same_however_many_jobs_wait)
{
    struct cost few = cost_of_claim(200), many = cost_of_claim(20000);
    assert_int_equal(many.n_sorts, 0);
    assert_int_equal(few.n_sorts, 0);
    assert_in_range(many.n_steps, few.n_steps - few.n_steps / 10, few.n_steps + few.n_steps / 10);
}

TEST(the_queries_of_a_claim_search_in_the_index_of_urgency)
{
    static const char *const queries[] = {
        "SELECT dataset_number FROM queue WHERE worker IS NULL AND priority = ?1 AND deadline_us = ?2 AND dataset_number > ?3"
        " AND dataset_number <= ?4 ORDER BY dataset_number LIMIT 1",
        "SELECT job FROM queue WHERE worker IS NULL AND priority = ?1 AND deadline_us = ?2 AND dataset_number = ?3 AND"
        " job > ?4 ORDER BY job LIMIT ?5"};
    struct store *store = open_store(true);
    for (int i = 0; i < 2; i++) {
        char explain[512];
        sqlite3_stmt *plan;
        snprintf(explain, sizeof explain, "EXPLAIN QUERY PLAN %s", queries[i]);
        assert_int_equal(sqlite3_prepare_v2(store->database.sqlite, explain, -1, &plan, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(plan), SQLITE_ROW);
        const char *detail = (const char *)sqlite3_column_text(plan, 3);
        assert_non_null(strstr(detail, "SEARCH"));
        assert_non_null(strstr(detail, "queue_urgent (priority=? AND deadline_us=? AND dataset_number"));
        assert_int_equal(sqlite3_step(plan), SQLITE_DONE); // no sort
        sqlite3_finalize(plan);
    }
    store_close(store);
}

TEST(a_limit_counts_the_jobs_of_all_urgencies_in_one_claim)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){.n_in_flight_max = 3};
    struct store *store = open_store(true);
    store_set_shares(store, &shares);
    struct submission jobs[8];
    char ids[8][8];
    for (int i = 0; i < 8; i++) {
        snprintf(ids[i], sizeof ids[i], "u%d", i);
        jobs[i] = (struct submission){.job_id = text_from_string(ids[i]),
                                      .custom_id = text_from_string(ids[i]),
                                      .record = TEXT("{}"),
                                      .priority = i / 2};
    }
    size_t n_added;
    assert_ok(store_submit(store, TEXT("a"), jobs, 8, &n_added, &error), &error);
    assert_ok(store_submit(store, TEXT("b"), jobs, 2, &n_added, &error), &error);
    for (int n = 0; n < 8; n += 3) {
        struct claims claims = claim(store, "a", 20);
        assert_int_equal(claims.n, n < 6 ? 3 : 2);
        assert_int_equal(finish_claims(store, &claims), claims.n);
        drop(&claims);
    }
    struct claims claims = claim(store, "", 20);
    assert_int_equal(claims.n, 2);
    drop(&claims);
    store_close(store);
}

static void submit_with_deadlines(struct store *store, const char *dataset, int n)
{
    for (int i = 0; i < n; i++) {
        char id[16];
        snprintf(id, sizeof id, "l%d", i);
        struct submission job = {.job_id = text_from_string(id),
                                 .custom_id = text_from_string(id),
                                 .record = TEXT("{}"),
                                 .deadline_s = 4000000000 + i};
        size_t n_added;
        assert_ok(store_submit(store, text_from_string(dataset), &job, 1, &n_added, &error), &error);
    }
}

static int64_t steps_of_claim(struct store *store, size_t n_expected)
{
    sqlite3_stmt *statement = NULL;
    while ((statement = sqlite3_next_stmt(store->database.sqlite, statement)))
        sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, true);
    struct claims claims = claim(store, "", 20);
    assert_int_equal(claims.n, n_expected);
    drop(&claims);
    int64_t n = 0;
    while ((statement = sqlite3_next_stmt(store->database.sqlite, statement)))
        n += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, false);
    return n;
}

TEST(a_dataset_at_its_limit_with_a_deadline_for_each_job_is_skipped_at_once)
{
    enum { N = 600 };
    static struct dataset_shares shares;
    shares = (struct dataset_shares){0};
    dataset_shares_add(&shares, TEXT("late"))->n_in_flight_max = 2;
    struct store *store = open_store(true);
    store_set_shares(store, &shares);
    submit_with_deadlines(store, "late", N);
    (void)steps_of_claim(store, 2);
    int64_t n_alone = steps_of_claim(store, 0);
    assert_true(n_alone < 10 * N); // some urgencies, whatever N
    submit(store, "other", 0, 30);
    submit(store, "last", 0, 1);
    int64_t n_skipping = steps_of_claim(store, 20);
    printf("# %lld steps, %lld beside another dataset\n", (long long)n_alone, (long long)n_skipping);
    assert_true(n_skipping < n_alone + 20 * N); // and a few steps for each job that is skipped
    assert_true(steps_of_claim(store, 11) > 0);
    store_close(store);
}

// A process of version 16 that opened the store before the migration continues with its statements.
TEST(jobs_that_an_older_program_queues_meanwhile_belong_to_their_dataset)
{
    static const char older[] =
        "INSERT INTO datasets (dataset, submitted_at_us) VALUES ('late', 1) ON CONFLICT DO NOTHING;"
        "INSERT INTO jobs (dataset, job_id, custom_id, job_index, status, submitted_at_us, priority)"
        " SELECT iif(value < 5, 'late', 'early'), 'x' || value, 'x' || value, value, 'queued', 1, 0"
        "  FROM json_each('[3,4,5,6]');"
        "INSERT INTO stored_records (job, record, encoding) SELECT id, x'7b7d', 0 FROM jobs WHERE job_id LIKE 'x%';"
        "INSERT OR FAIL INTO queue (job, priority, deadline_us) SELECT id, priority, 9223372036854775807 FROM jobs"
        " WHERE job_id LIKE 'x%' ORDER BY id;"
        "UPDATE datasets SET n_submitted = n_submitted + 2;";
    struct store *store = open_store(true);
    submit(store, "early", 0, 1);
    char *message = NULL;
    if (sqlite3_exec(store->database.sqlite, older, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    submit(store, "other", 0, 3);
    static const struct {
        const char *dataset;
        int n;
    } expected[] = {{"late", 2}, {"early", 3}, {"other", 3}};
    for (size_t i = 0; i < 3; i++) {
        struct claims claims = claim(store, expected[i].dataset, 10);
        assert_int_equal(claims.n, expected[i].n);
        drop(&claims);
    }
    store_close(store);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
