// Opening a new store while another process does.
#include "store/store.h"
#include "tests/support/cases.h"

#include <pthread.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <unistd.h>

static char path[128];
static sem_t is_held, is_refused;

// SQLite's log: each statement that ends with an error.
static void note_refusal(void *context, int code, const char *message)
{
    if ((code & 0xFF) == SQLITE_BUSY && strstr(message, "journal_mode"))
        sem_post(&is_refused);
}

// Another process that is about to change the new file's mode: it is done once the store was refused the
// lock.
static void *hold_lock(void *context)
{
    sqlite3 *other;
    int code = sqlite3_open(path, &other);
    if (code == SQLITE_OK)
        code = sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    sem_post(&is_held);
    sem_wait(&is_refused);
    if (code == SQLITE_OK)
        code = sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(other);
    return code == SQLITE_OK ? NULL : path;
}

TEST(a_new_store_waits_for_another_process_that_opens_it)
{
    pthread_t other;
    void *failed;
    struct store *store;
    struct error error;
    snprintf(path, sizeof path, "/tmp/sheaf-open-%d.db", (int)getpid());
    assert_int_equal(pthread_create(&other, NULL, hold_lock, NULL), 0);
    sem_wait(&is_held);
    enum status status = store_open(&store, path, STORE_CREATE, &error);
    sem_post(&is_refused); // whatever became of it
    pthread_join(other, &failed);
    if (status != STATUS_OK)
        fail_msg("%s", error.text);
    store_close(store);
    assert_null(failed);
    static const char *const ends[] = {"", "-wal", "-shm", "-workers"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char name[sizeof path + 16];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

int main(void)
{
    sem_init(&is_held, 0, 0);
    sem_init(&is_refused, 0, 0);
    sqlite3_config(SQLITE_CONFIG_LOG, note_refusal, NULL);
    return cases_run();
}
