// Files and batches of `sheaf serve` in the store, and the store's change from version 14.
#include "store/served.h"
#include "tests/support/store_jobs.h"

#include <fcntl.h>
#include <sys/wait.h>

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);

static void execute(struct store *store, const char *sql)
{
    assert_int_equal(sqlite3_exec(store->database.sqlite, sql, NULL, NULL, NULL), SQLITE_OK);
}

// ---- opening ----

TEST(a_store_of_version_14_is_changed_when_it_is_opened_for_writing_and_read_as_it_is)
{
    struct store *store = open_store(false);
    submit(store, "d", 0, 3);
    execute(store,
            "PRAGMA legacy_alter_table = ON; DROP VIEW records; DROP VIEW results; DROP TABLE frames;"
            "ALTER TABLE stored_records RENAME TO records; ALTER TABLE stored_results RENAME TO results;"
            "ALTER TABLE records DROP COLUMN frame; ALTER TABLE results DROP COLUMN frame;"
            "DROP TABLE served_files; DROP TABLE served_batches;"
            "DROP TRIGGER queue_of_older_programs; DROP INDEX queue_urgent; DROP INDEX queue_claimed;"
            "ALTER TABLE queue DROP COLUMN dataset_number;"
            "CREATE INDEX queue_claimed ON queue (worker) WHERE worker IS NOT NULL;"
            "CREATE INDEX queue_urgent ON queue (priority DESC, deadline_us, job) WHERE worker IS NULL;"
            "DROP INDEX datasets_of_numbers; ALTER TABLE datasets DROP COLUMN number;"
            "PRAGMA user_version = 14");
    store_close(store);
    int64_t version;
    bool exists;
    assert_ok(store_open(&store, path, STORE_READ_ONLY, &error), &error);
    assert_int_equal(store_file_exists(store, TEXT("file-1"), &exists, &error), STATUS_REFUSE);
    store_close(store);
    for (int i = 0; i < 2; i++) {
        assert_ok(store_open(&store, path, STORE_EXISTING, &error), &error);
        assert_ok(store_file_exists(store, TEXT("file-1"), &exists, &error), &error);
        assert_false(exists);
        sqlite3_stmt *select = database_statement(&store->database, "PRAGMA user_version", &error);
        assert_ok(database_read_integer(&store->database, select, 0, &version, "reading", &error), &error);
        assert_int_equal(version, STORE_VERSION);
        select = database_statement(&store->database, "SELECT count(*) FROM queue", &error);
        assert_ok(database_read_integer(&store->database, select, 0, &version, "reading", &error), &error);
        assert_int_equal(version, 3);
        store_close(store);
    }
}

// Whether another process may lock all of the bytes that SQLite's readers lock (os.h: SHARED_FIRST).
static bool others_may_lock(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000000 + 2, .l_len = 510};
        int fd = open(path, O_RDWR);
        _exit(fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 1;
}

TEST(a_second_store_of_a_process_leaves_the_locks_of_the_first)
{
    static const enum store_mode modes[] = {STORE_CREATE, STORE_EXISTING, STORE_READ_ONLY};
    struct store *first = open_store(true), *second;
    assert_false(others_may_lock());
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_ok(store_open(&second, path, modes[i], &error), &error);
        assert_false(others_may_lock());
        store_close(second);
        assert_false(others_may_lock());
    }
    store_close(first);
    assert_true(others_may_lock());
}

// ---- files ----

static void add_file(struct store *store, const char *id, const char *owner, const char *purpose,
                     int64_t expires_at_us)
{
    const struct served_file file = {text_from_string(id),
                                     text_from_string(owner),
                                     TEXT("name.jsonl"),
                                     text_from_string(purpose),
                                     7,
                                     1000000,
                                     expires_at_us};
    assert_ok(store_file_add(store, &file, &error), &error);
}

struct names {
    char text[256];            // names, each with a blank after it
    struct served_batch batch; // numbers of the last one
};

static void note_file(void *context, const struct served_file *file)
{
    struct names *names = context;
    strncat(names->text, file->id.data, file->id.size);
    strcat(names->text, " ");
}

static const char *list_files(struct store *store, const char *owner, const char *purpose, const char *after,
                              int limit, bool *has_more)
{
    static struct names names;
    bool found;
    const struct served_page page = {text_from_string(after), limit, false};
    names.text[0] = '\0';
    assert_ok(store_files_list(store, text_from_string(owner), text_from_string(purpose), &page, note_file,
                               &names, &found, has_more, &error),
              &error);
    return found ? names.text : NULL;
}

TEST(files_are_their_owner_s_and_listed_by_pages)
{
    struct store *store = open_store(false);
    bool found, has_more;
    struct names names = {0};
    add_file(store, "file-1", "a", "batch", 0);
    add_file(store, "file-2", "b", "batch", 0);
    add_file(store, "file-3", "a", "vision", 0);
    add_file(store, "file-4", "a", "batch", 0);
    add_file(store, "file-5", "a", "batch", 1); // expired
    assert_string_equal(list_files(store, "a", "", "", 10, &has_more), "file-4 file-3 file-1 ");
    assert_false(has_more);
    assert_string_equal(list_files(store, "a", "", "", 2, &has_more), "file-4 file-3 ");
    assert_true(has_more);
    assert_string_equal(list_files(store, "a", "", "file-3", 1, &has_more), "file-1 ");
    assert_false(has_more);
    assert_string_equal(list_files(store, "a", "batch", "", 10, &has_more), "file-4 file-1 ");
    assert_string_equal(list_files(store, "", "", "", 10, &has_more), "");
    assert_null(list_files(store, "a", "", "file-2", 10, &has_more));
    assert_ok(store_file_find(store, TEXT("b"), TEXT("file-1"), note_file, &names, &found, &error), &error);
    assert_false(found);
    assert_ok(store_file_find(store, TEXT("a"), TEXT("file-5"), note_file, &names, &found, &error), &error);
    assert_false(found);
    char id[64];
    assert_ok(store_file_remove_expired(store, id, &found, &error), &error);
    assert_true(found);
    assert_string_equal(id, "file-5");
    assert_ok(store_file_remove_expired(store, id, &found, &error), &error);
    assert_false(found);
    store_close(store);
}

// ---- batches ----

static void add_batch(struct store *store, const char *id, const char *input, bool *found)
{
    const struct served_batch batch = {.id = text_from_string(id),
                                       .owner = TEXT("a"),
                                       .input_file = text_from_string(input),
                                       .endpoint = TEXT("/v1/completions"),
                                       .completion_window = TEXT("24h"),
                                       .output_file = TEXT("file-output"),
                                       .error_file = TEXT("file-error"),
                                       .n_requests = 3,
                                       .at_us = {.created = 5, .expires = 6}};
    assert_ok(store_batch_add(store, &batch, found, &error), &error);
}

static void note_batch(void *context, const struct served_batch *batch)
{
    struct names *names = context;
    names->batch = *batch;
    strncat(names->text, batch->id.data, batch->id.size);
    strcat(names->text, " ");
}

static struct served_batch find_batch(struct store *store, const char *id)
{
    struct names names = {0};
    bool found;
    assert_ok(store_batch_find(store, TEXT("a"), text_from_string(id), note_batch, &names, &found, &error),
              &error);
    assert_true(found);
    return names.batch;
}

static const char *open_batches(struct store *store)
{
    static struct names names;
    names.text[0] = '\0';
    assert_ok(store_batches_open(store, note_batch, &names, &error), &error);
    return names.text;
}

TEST(a_batch_holds_its_input_until_it_ends_once)
{
    struct store *store = open_store(false);
    bool found, changed;
    enum file_removal removal;
    add_file(store, "file-1", "a", "batch", 0);
    add_batch(store, "batch_0", "file-none", &found);
    assert_false(found);
    add_batch(store, "batch_1", "file-1", &found);
    assert_true(found);
    assert_string_equal(open_batches(store), "batch_1 ");
    assert_ok(store_file_remove(store, TEXT("a"), TEXT("file-1"), &removal, &error), &error);
    assert_int_equal(removal, FILE_IN_USE);
    for (int i = 0; i < 2; i++) {
        assert_ok(store_batch_stamp(store, TEXT("batch_1"), BATCH_IN_PROGRESS, &changed, &error), &error);
        assert_int_equal(changed, i == 0);
    }
    submit(store, "batch_1", 0, 3);
    struct served_batch batch = find_batch(store, "batch_1");
    assert_true(batch.jobs.exists && batch.jobs.n_submitted == 3 && batch.at_us.in_progress > 0);
    const struct served_file output = {
        TEXT("file-output"), TEXT("a"), TEXT("o"), TEXT("batch_output"), 9, 10, 0};
    const struct batch_outcome completed = {.end = BATCH_COMPLETED, .output = &output, .n_answered = 3},
                               cancelled = {.end = BATCH_CANCELLED, .n_refused = 3};
    assert_ok(store_batch_end(store, TEXT("batch_1"), &completed, &changed, &error), &error);
    assert_true(changed);
    assert_ok(store_batch_end(store, TEXT("batch_1"), &cancelled, &changed, &error), &error);
    assert_false(changed);
    assert_ok(store_batch_stamp(store, TEXT("batch_1"), BATCH_CANCELLING, &changed, &error), &error);
    assert_false(changed);
    batch = find_batch(store, "batch_1");
    assert_true(batch.at_us.completed > 0 && batch.at_us.cancelled == 0 && batch.n_answered == 3);
    assert_string_equal(open_batches(store), "");
    assert_ok(store_file_exists(store, TEXT("file-output"), &found, &error), &error);
    assert_true(found);
    assert_ok(store_file_remove(store, TEXT("b"), TEXT("file-1"), &removal, &error), &error);
    assert_int_equal(removal, FILE_UNKNOWN);
    assert_ok(store_file_remove(store, TEXT("a"), TEXT("file-1"), &removal, &error), &error);
    assert_int_equal(removal, FILE_REMOVED);
    store_close(store);
}

// ---- models ----

static void note_model(void *context, struct text model, int64_t started_at_us)
{
    struct names *names = context;
    assert_true(started_at_us > 0);
    strncat(names->text, model.data, model.size);
    strcat(names->text, " ");
}

TEST(models_are_those_of_living_workers)
{
    struct names names = {0};
    int64_t n_alive;
    struct store *first = open_store(true), *second = open_store(true), *reader = open_store(false);
    assert_ok(store_models(reader, note_model, &names, &n_alive, &error), &error);
    assert_string_equal(names.text, "m ");
    assert_int_equal(n_alive, 2);
    store_close(first); // dies
    assert_ok(store_worker_stop(second, &error), &error);
    names.text[0] = '\0';
    assert_ok(store_models(reader, note_model, &names, &n_alive, &error), &error);
    assert_string_equal(names.text, "");
    assert_int_equal(n_alive, 0);
    store_close(second);
    store_close(reader);
}
