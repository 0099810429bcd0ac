// Files of the store that are deleted under a worker: the store itself, and the file that workers hold their
// locks in.
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

static char *path_with(const char *suffix)
{
    static char name[160];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return name;
}

time_t __real_time(time_t *now);

static bool locks_are_new; // no time passes from the making of the lock file on, however slow the machine

time_t __wrap_time(time_t *now)
{
    struct stat about;
    return locks_are_new && stat(path_with("-workers"), &about) == 0 ? about.st_mtime : __real_time(now);
}

TEST(a_deleted_or_replaced_file_of_the_store_is_named)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++)
        for (int replaced = 0; replaced < 2; replaced++) {
            fresh_path(NULL);
            struct store *store = open_store(true);
            submit(store, "d", 0, 2);
            assert_ok(store_check_files(store, &error), &error);
            char kept[160];
            snprintf(kept, sizeof kept, "%s.kept", path);
            assert_int_equal(rename(path_with(suffixes[i]), kept), 0);
            if (replaced)
                fclose(fopen(path_with(suffixes[i]), "w"));
            assert_int_equal(store_check_files(store, &error), STATUS_REFUSE);
            assert_non_null(strstr(error.text, path_with(suffixes[i])));
            assert_non_null(strstr(error.text, replaced ? "replaced" : "deleted"));
            store_close(store);
        }
}

// A file in the place of the folder leaves no store; a folder that can't be searched says nothing of it.
TEST_WITH(a_store_is_deleted_where_its_folder_is_none_and_kept_where_nobody_can_look, fresh_path, NULL)
{
    char place[64], kept[64];
    snprintf(place, sizeof place, "%s/place", folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    snprintf(path, sizeof path, "%s/store.db", place);
    assert_int_equal(mkdir(place, 0700), 0);
    struct store *store = open_store(true);
    assert_int_equal(rename(place, kept), 0);
    assert_int_equal(symlink(place, place), 0); // a loop
    assert_ok(store_check_files(store, &error), &error);
    assert_int_equal(unlink(place), 0);
    fclose(fopen(place, "w"));
    assert_int_equal(store_check_files(store, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "deleted"));
    store_close(store);
}

TEST_WITH(living_workers_lock_a_new_file_where_theirs_was_deleted, fresh_path, NULL)
{
    struct store *first = open_store(true), *second = open_store(true);
    submit(first, "d", 0, 8);
    struct claims mine = claim(first, "", 2), theirs = claim(second, "", 2);
    size_t n_first = mine.n;
    locks_are_new = true;
    assert_int_equal(unlink(path_with("-workers")), 0);
    // finds the file deleted; the first worker does not know of it yet
    struct claims more = claim(second, "", 8);
    assert_ok(store_keep_lock(first, &error), &error);
    struct claims rest = claim(second, "", 8);
    locks_are_new = false;
    assert_int_equal(finish_claims(first, &mine), n_first);
    assert_int_equal(finish_claims(second, &theirs), theirs.n);
    drop(&mine), drop(&theirs), drop(&more), drop(&rest);
    store_close(first); // dies: its lock was in the new file
    store_close(second);
}

TEST_WITH(a_worker_that_dies_after_a_new_file_gives_its_jobs_back_at_once, fresh_path, NULL)
{
    struct store *first = open_store(true);
    submit(first, "d", 0, 2);
    struct claims mine = claim(first, "", 2);
    assert_int_equal(mine.n, 2);
    struct store *second = open_store(true);
    locks_are_new = true;
    assert_int_equal(unlink(path_with("-workers")), 0);
    assert_ok(store_keep_lock(first, &error), &error);
    store_close(first); // dies: its lock was in the new file, as its row says
    struct claims theirs = claim(second, "", 2);
    locks_are_new = false;
    assert_int_equal(theirs.n, 2);
    drop(&mine), drop(&theirs);
    store_close(second);
}

// A service manager may start workers without a standard input.
TEST_WITH(a_lock_file_that_is_descriptor_0_is_kept_too, fresh_path, NULL)
{
    struct store *store = open_store(false);
    int input = dup(STDIN_FILENO);
    int64_t worker;
    close(STDIN_FILENO);
    assert_ok(store_worker_start(store, &description, &worker, &error), &error);
    assert_int_equal(store->lock_fd, STDIN_FILENO);
    assert_int_equal(unlink(path_with("-workers")), 0);
    assert_ok(store_keep_lock(store, &error), &error);
    assert_int_equal(access(path_with("-workers"), F_OK), 0); // the new one
    store_close(store);
    if (input >= 0) {
        assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
        close(input);
    }
}

// The lock file outlives its store: the byte of the first worker's id may be held by a worker of the deleted
// store.
TEST_WITH(a_worker_takes_the_next_id_where_its_own_is_locked_by_a_worker_of_a_deleted_store, fresh_path, NULL)
{
    struct store *old[2] = {open_store(true), open_store(true)};
    assert_int_equal(unlink(path_with("")), 0);
    assert_int_equal(unlink(path_with("-wal")), 0);
    assert_int_equal(unlink(path_with("-shm")), 0);
    struct store *store = open_store(false), *other = open_store(true);
    int64_t worker;
    assert_ok(store_worker_start(store, &description, &worker, &error), &error);
    assert_int_equal(worker, 4); // 1 and 2 are locked, 3 is the other's
    sqlite3_stmt *select = database_statement(&store->database, "SELECT max(id) FROM workers", &error);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(select, 0), worker); // the row has the id too
    sqlite3_reset(select);
    submit(store, "d", 0, 1);
    struct claims mine = claim(store, "", 1), theirs = claim(other, "", 1);
    assert_int_equal(mine.n, 1);
    assert_int_equal(theirs.n, 0); // the worker's own lock is seen, whatever its id was first
    assert_int_equal(finish_claims(store, &mine), 1);
    drop(&mine);
    for (int i = 0; i < 2; i++)
        store_close(old[i]);
    store_close(other);
    store_close(store);
}

static int32_t crashes_seen;

static void keep_crashes(void *context, const struct claimed_job *job)
{
    crashes_seen += job->crashes;
}

// `ages`: the new lock file is older than living workers need to lock their bytes in it.
static size_t claim_after_a_lost_lock(bool ages)
{
    struct store *first = open_store(true);
    submit(first, "d", 0, 1);
    struct claims mine = claim(first, "", 1);
    assert_int_equal(mine.n, 1);
    assert_ok(store_suspect(first, &mine.jobs[0]->source.offset, 1, SUSPECT_ALONE, &error), &error);
    assert_int_equal(unlink(path_with("-workers")), 0);
    struct store *second = open_store(true);
    struct timespec before[] = {{time(NULL) - STORE_LOCK_GRACE_S - 2, 0},
                                {time(NULL) - STORE_LOCK_GRACE_S - 2, 0}};
    if (ages)
        assert_int_equal(utimensat(AT_FDCWD, path_with("-workers"), before, 0), 0);
    size_t n;
    crashes_seen = 0;
    locks_are_new = !ages;
    assert_ok(store_claim(second, TEXT(""), 1, INT64_MAX, keep_crashes, NULL, &n, &error), &error);
    locks_are_new = false;
    assert_int_equal(finish_claims(first, &mine), 1 - n);
    drop(&mine);
    store_close(first);
    store_close(second);
    return n;
}

TEST_WITH(a_worker_whose_lock_was_lost_keeps_its_jobs_for_a_while, fresh_path, NULL)
{
    assert_int_equal(claim_after_a_lost_lock(false), 0);
}

TEST_WITH(jobs_of_a_worker_whose_lock_was_lost_are_blamed_for_nothing, fresh_path, NULL)
{
    assert_int_equal(claim_after_a_lost_lock(true), 1);
    assert_int_equal(crashes_seen, 0);
}

GROUP_FIXTURE(make_folder, remove_folder);
