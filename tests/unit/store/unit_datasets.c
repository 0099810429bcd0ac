// Datasets in the store: one arithmetic for all answers of one, shares of its workers, retention.
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include <sqlite3.h>

static struct store *open_worker_of(const char *arithmetic, const char *dataset)
{
    struct store *store = open_store(false);
    struct worker_description worker = description;
    worker.arithmetic = arithmetic;
    worker.dataset = text_from_string(dataset);
    int64_t id;
    assert_ok(store_worker_start(store, &worker, &id, &error), &error);
    return store;
}

static enum status try_claim(struct store *store, const char *dataset, struct claims *claims)
{
    size_t n;
    *claims = (struct claims){.n = 0};
    return store_claim(store, text_from_string(dataset), 1, INT64_MAX, keep_claim, claims, &n, &error);
}

static void assert_model_of(const char *dataset, const char *model)
{
    sqlite3 *database;
    sqlite3_stmt *select;
    assert_int_equal(sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, "SELECT model FROM datasets WHERE dataset = ?", -1, &select,
                                        NULL),
                     SQLITE_OK);
    sqlite3_bind_text(select, 1, dataset, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(select, 0), model);
    sqlite3_finalize(select);
    sqlite3_close(database);
}

// ---- arithmetic ----

TEST(answers_of_two_models_are_not_mixed)
{
    struct store *first = open_worker_of("model=a kv=f16", ""),
                 *second = open_worker_of("model=b kv=q8_0 grammar=x", "");
    submit(first, "d", 0, 4);
    struct claims claims = claim(first, "", 1);
    finish_claims(first, &claims);
    drop(&claims);
    assert_int_equal(try_claim(second, "", &claims), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "dataset d "));
    assert_non_null(
        strstr(error.text, "model b instead of a, kv q8_0 instead of f16, grammar x instead of none"));
    assert_non_null(strstr(error.text, "--force-new"));
    assert_int_equal(store_check_arithmetic(second, TEXT(""), false, &error), STATUS_REFUSE);
    assert_int_equal(store_check_arithmetic(second, TEXT("d"), false, &error), STATUS_REFUSE);
    assert_int_equal(try_claim(first, "", &claims), STATUS_OK);
    assert_int_equal(claims.n, 1);
    drop(&claims);
    store_close(first);
    store_close(second);
}

TEST(a_finished_dataset_is_checked_where_it_is_named)
{
    struct store *first = open_worker_of("model=a", ""), *second = open_worker_of("model=b", "");
    submit(first, "d", 0, 1);
    struct claims claims = claim(first, "", 1);
    finish_claims(first, &claims);
    drop(&claims);
    assert_ok(store_check_arithmetic(second, TEXT(""), false, &error), &error);
    assert_int_equal(store_check_arithmetic(second, TEXT("d"), false, &error), STATUS_REFUSE);
    assert_ok(store_check_arithmetic(first, TEXT("d"), false, &error), &error);
    assert_ok(store_check_arithmetic(second, TEXT("unheard of"), false, &error), &error);
    store_close(first);
    store_close(second);
}

TEST(a_dataset_without_answers_takes_the_next_worker_s_arithmetic)
{
    struct store *first = open_worker_of("model=a", ""), *second = open_worker_of("model=b", "");
    submit(first, "d", 0, 2);
    struct claims claims = claim(first, "", 1), others;
    assert_int_equal(try_claim(second, "", &others), STATUS_REFUSE); // it is computed now
    assert_ok(store_release(first, &claims.jobs[0]->source.offset, 1, &error), &error);
    drop(&claims);
    assert_int_equal(try_claim(second, "", &others), STATUS_OK);
    assert_int_equal(others.n, 1);
    assert_int_equal(try_claim(first, "", &claims), STATUS_REFUSE);
    drop(&others);
    assert_model_of("d", "m");
    store_close(second); // dies with its job: it is free again
    assert_ok(store_check_arithmetic(first, TEXT("d"), false, &error), &error);
    store_close(first);
}

TEST(a_worker_that_does_not_know_its_arithmetic_is_not_refused)
{
    struct store *first = open_worker_of("model=a", ""), *second = open_worker_of(NULL, "");
    submit(first, "d", 0, 2);
    struct claims claims = claim(first, "", 1), others;
    finish_claims(first, &claims);
    assert_int_equal(try_claim(second, "", &others), STATUS_OK);
    assert_int_equal(others.n, 1);
    drop(&claims);
    drop(&others);
    store_close(first);
    store_close(second);
}

// ---- sharing ----

static size_t claim_n(struct store *store, const char *dataset, size_t n_max)
{
    struct claims claims = claim(store, dataset, n_max);
    size_t n = claims.n;
    drop(&claims);
    return n;
}

TEST(living_workers_hold_half_of_their_share_while_much_is_left_and_all_at_the_end)
{
    struct store *first = open_worker_of(NULL, ""), *second = open_worker_of(NULL, ""),
                 *third = open_worker_of(NULL, "");
    for (int i = 0; i < 3; i++)
        submit(first, "d", 64 * i, 64);            // 192: a share of 64
    assert_int_equal(claim_n(first, "", 64), 32);  // half of it
    assert_int_equal(claim_n(first, "", 64), 0);   // it holds them
    assert_int_equal(claim_n(second, "", 10), 10); // no more than it asks for
    assert_int_equal(claim_n(second, "", 64), 22);
    store_close(third); // it did not say so: its lock is gone
    second->claiming.n_workers = 0;
    assert_int_equal(claim_n(second, "", 64), 16); // of 96
    assert_ok(store_worker_stop(first, &error), &error);
    second->claiming.n_workers = 0;
    assert_int_equal(claim_n(second, "", 64), 64); // alone: as many as it asks for
    store_close(first);
    store_close(second);
}

TEST(few_jobs_fill_each_worker_s_batch_before_any_are_taken_ahead)
{
    struct store *first = open_worker_of(NULL, ""), *second = open_worker_of(NULL, "");
    submit(first, "d", 0, 16);
    assert_int_equal(first->claiming.n_batch, 4);
    assert_int_equal(claim_n(first, "", 64), 6); // a batch and a half, which is more than half of its share
    assert_int_equal(claim_n(second, "", 64), 6);
    submit(first, "one", 0, 1);
    submit(first, "three", 0, 3);
    struct store *other = open_worker_of(NULL, "three"); // takes no others: those are shared without it
    assert_int_equal(claim_n(other, "three", 64), 1);
    assert_int_equal(claim_n(first, "one", 64), 0); // it holds more than a share of one
    second->claiming.n_workers = 0;
    assert_int_equal(claim_n(second, "", 64), 0);
    store_close(first);
    store_close(second);
    store_close(other);
}

TEST(workers_beyond_the_newest_are_not_counted)
{
    struct store *stores[STORE_COUNTED_WORKERS_MAX + 1];
    for (int i = 0; i <= STORE_COUNTED_WORKERS_MAX; i++)
        stores[i] = open_worker_of(NULL, "");
    assert_int_equal(claim_n(stores[0], "", 1), 0);
    assert_int_equal(stores[0]->claiming.n_workers, STORE_COUNTED_WORKERS_MAX);
    assert_ok(store_worker_stop(stores[STORE_COUNTED_WORKERS_MAX], &error), &error);
    assert_ok(store_worker_stop(stores[STORE_COUNTED_WORKERS_MAX - 1], &error), &error);
    stores[0]->claiming.n_workers = 0;
    assert_int_equal(claim_n(stores[0], "", 1), 0);
    assert_int_equal(stores[0]->claiming.n_workers, STORE_COUNTED_WORKERS_MAX - 1);
    for (int i = 0; i <= STORE_COUNTED_WORKERS_MAX; i++)
        store_close(stores[i]);
}

// ---- retention ----

static void finish_all(struct store *store)
{
    struct claims claims = claim(store, "", 10);
    assert_int_equal(finish_claims(store, &claims), claims.n);
    drop(&claims);
}

// Retention long after every job has ended.
static void compact_everything(struct store *store)
{
    for (bool more = true; more;)
        assert_ok(store_compact(store, clock_wall_us() + 3600000000, true, &more, &error), &error);
}

TEST(answers_that_come_after_an_incomplete_collection_are_kept)
{
    struct store *store = open_store(true);
    submit(store, "d", 0, 2);
    struct claims claims = claim(store, "", 1);
    assert_int_equal(finish_claims(store, &claims), 1);
    drop(&claims);
    assert_ok(store_collected(store, TEXT("d"), &error), &error); // one answer is missing
    finish_all(store);
    compact_everything(store);
    struct collected collected;
    assert_int_equal(collect(store, "d", &collected), 0);
    assert_int_equal(collected.n, 2);
    assert_ok(store_collected(store, TEXT("d"), &error), &error); // now all are there
    compact_everything(store);
    int64_t n_missing;
    assert_int_equal(store_collect(store, TEXT("d"), keep_record, &collected, &n_missing, &error),
                     STATUS_REFUSE);
    store_close(store);
}

TEST(answers_to_jobs_submitted_after_a_collection_are_kept)
{
    struct store *store = open_store(true);
    submit(store, "d", 0, 2);
    finish_all(store);
    assert_ok(store_collected(store, TEXT("d"), &error), &error);
    submit(store, "d", 2, 1);
    finish_all(store);
    compact_everything(store);
    struct collected collected;
    assert_int_equal(collect(store, "d", &collected), 0);
    assert_int_equal(collected.n, 3);
    store_close(store);
}

// ---- upkeep ----

static void finish_as(struct store *store, const char *dataset, size_t n, enum result_status how)
{
    struct claims claims = claim(store, dataset, n);
    assert_int_equal(claims.n, n);
    for (size_t i = 0; i < n; i++) {
        claims.jobs[i]->result.status = how;
        if (how == RESULT_FAILED)
            (void)error_set(&claims.jobs[i]->result.error, STATUS_REJECT, ERROR_LOGITS_NAN, "nan");
    }
    assert_int_equal(finish_claims(store, &claims), n);
    drop(&claims);
}

TEST(failed_and_cancelled_jobs_are_queued_again_and_the_others_stay)
{
    struct store *store = open_store(true);
    int64_t n;
    submit(store, "d", 0, 6);
    finish_as(store, "d", 2, RESULT_DONE);
    finish_as(store, "d", 3, RESULT_FAILED);
    assert_ok(store_cancel(store, TEXT("d"), &n, &error), &error);
    assert_int_equal(n, 1);
    assert_ok(store_dataset_reopen(store, TEXT("d"), REOPEN_FAILED, &n, &error), &error);
    assert_int_equal(n, 3);
    assert_ok(store_dataset_reopen(store, TEXT("d"), REOPEN_FAILED | REOPEN_CANCELLED, &n, &error), &error);
    assert_int_equal(n, 1);
    struct dataset_progress progress = progress_of(store, "d");
    assert_int_equal(progress.done, 2);
    assert_int_equal(progress.failed + progress.cancelled, 0);
    assert_int_equal(progress.completion_tokens, 4);
    assert_false(progress.is_cancelled);
    finish_as(store, "d", 4, RESULT_DONE);
    struct collected collected;
    assert_int_equal(collect(store, "d", &collected), 0);
    assert_int_equal(collected.n, 6);
    assert_int_equal(store_dataset_reopen(store, TEXT("e"), REOPEN_FAILED, &n, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "no dataset e"));
    store_close(store);
}

TEST(all_failed_jobs_of_the_store_are_queued_again)
{
    struct store *store = open_store(true);
    int64_t n;
    submit(store, "a", 0, 2);
    submit(store, "b", 0, 2);
    finish_as(store, "a", 2, RESULT_FAILED);
    finish_as(store, "b", 1, RESULT_FAILED);
    finish_as(store, "b", 1, RESULT_DONE);
    assert_ok(store_retry_failed(store, TEXT("b"), &n, &error), &error);
    assert_int_equal(n, 1);
    finish_as(store, "b", 1, RESULT_FAILED);
    assert_ok(store_retry_failed(store, TEXT(""), &n, &error), &error);
    assert_int_equal(n, 3);
    assert_ok(store_retry_failed(store, TEXT(""), &n, &error), &error);
    assert_int_equal(n, 0);
    store_close(store);
}

TEST(a_new_model_answers_all_jobs_again_when_it_is_asked_for)
{
    struct store *first = open_worker_of("model=a", ""), *second = open_worker_of("model=b", "");
    submit(first, "d", 0, 3);
    finish_as(first, "d", 1, RESULT_DONE);
    struct claims claims = claim(first, "", 1);
    assert_int_equal(store_check_arithmetic(second, TEXT("d"), true, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "stop the workers"));
    finish_claims(first, &claims);
    drop(&claims);
    assert_ok(store_worker_stop(first, &error), &error);
    assert_ok(store_check_arithmetic(second, TEXT("d"), true, &error), &error);
    assert_int_equal(progress_of(second, "d").done, 0);
    finish_as(second, "d", 3, RESULT_DONE);
    assert_int_equal(store_check_arithmetic(first, TEXT("d"), false, &error), STATUS_REFUSE);
    store_close(first);
    store_close(second);
}

TEST(a_dataset_is_deleted_and_its_ids_are_not_used_again)
{
    struct store *store = open_store(true), *other = open_store(true);
    submit(store, "keep", 0, 1);
    submit(store, "d", 0, 3);
    struct claims claims = claim(store, "d", 2);
    assert_int_equal(store_dataset_delete(other, TEXT("d"), false, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "--force"));
    assert_ok(store_dataset_delete(other, TEXT("d"), true, &error), &error);
    submit(store, "d", 0, 3); // under the name again: other jobs
    struct claims others = claim(store, "d", 2);
    for (size_t i = 0; i < others.n; i++)
        assert_in_range(others.jobs[i]->source.offset, 5, 7);
    assert_int_equal(finish_claims(store, &claims), 0); // what the worker still computed is dropped
    assert_int_equal(finish_claims(store, &others), others.n);
    assert_int_equal(progress_of(store, "keep").submitted, 1);
    drop(&claims);
    drop(&others);
    store_close(store); // with one job unfinished: its worker is dead
    assert_ok(store_dataset_delete(other, TEXT("d"), false, &error), &error);
    assert_int_equal(store_dataset_delete(other, TEXT("d"), false, &error), STATUS_REFUSE);
    store_close(other);
}

TEST(a_dataset_is_renamed_with_all_that_is_known_of_it)
{
    struct store *store = open_store(true), *other = open_store(true);
    char long_name[JOB_DATASET_BYTES_MAX + 2];
    memset(long_name, 'x', sizeof long_name);
    submit(store, "d", 0, 4);
    submit(store, "taken", 0, 1);
    struct claims claims = claim(store, "d", 1);
    assert_int_equal(store_dataset_rename(other, TEXT("d"), TEXT("e"), &error), STATUS_REFUSE);
    finish_claims(store, &claims);
    drop(&claims);
    assert_int_equal(store_dataset_rename(other, TEXT("d"), TEXT("taken"), &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "there already"));
    assert_int_equal(store_dataset_rename(other, TEXT("d"), TEXT(""), &error), STATUS_REFUSE);
    assert_int_equal(store_dataset_rename(other, TEXT("d"),
                                          (struct text){long_name, JOB_DATASET_BYTES_MAX + 1}, &error),
                     STATUS_REFUSE);
    assert_ok(store_dataset_rename(other, TEXT("d"), (struct text){long_name, JOB_DATASET_BYTES_MAX}, &error),
              &error);
    long_name[JOB_DATASET_BYTES_MAX] = '\0';
    assert_ok(store_dataset_rename(other, text_from_string(long_name), TEXT("e"), &error), &error);
    struct collected collected;
    assert_int_equal(collect(store, "e", &collected), 3);
    assert_int_equal(collected.n, 1);
    store_close(store);
    store_close(other);
}

static void add_row(void *context, const struct dataset_row *row)
{
    char *text = context;
    size_t used = strlen(text);
    snprintf(text + used, 256 - used, "%.*s %s %d %d; ", (int)row->dataset.size, row->dataset.data,
             dataset_state_name(row->state), (int)row->submitted, (int)row->running);
}

TEST(datasets_are_listed_with_their_states_and_a_store_that_can_t_be_written_is_read)
{
    struct store *store = open_store(true), *reader;
    int64_t n;
    submit(store, "a", 0, 1);
    submit(store, "b", 0, 2);
    submit(store, "c", 0, 1);
    submit(store, "d", 0, 1);
    finish_as(store, "a", 1, RESULT_DONE);
    struct claims claims = claim(store, "b", 1);
    drop(&claims);
    assert_ok(store_cancel(store, TEXT("c"), &n, &error), &error);
    char rows[256] = "";
    static const char *const expected = "a finished 1 0; b running 2 1; c cancelled 1 0; d waiting 1 0; ";
    assert_ok(store_datasets(store, add_row, rows, &error), &error);
    assert_string_equal(rows, expected);
    store_close(store);
    for (int with_locks = 1; with_locks >= 0; with_locks--) {
        char locks[160];
        snprintf(locks, sizeof locks, "%s-workers", path);
        if (!with_locks)
            assert_int_equal(unlink(locks), 0);
        assert_ok(store_open(&reader, path, STORE_READ_ONLY, &error), &error);
        struct store_totals totals;
        assert_ok(store_totals(reader, &totals, &error), &error);
        assert_int_equal(totals.n_workers_alive, 0);
        assert_ok(store_collected(reader, TEXT("a"), &error), &error); // nothing is written
        struct collected collected;
        assert_int_equal(collect(reader, "a", &collected), 0);
        store_close(reader);
        assert_int_equal(access(locks, F_OK), with_locks - 1);
    }
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
