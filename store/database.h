// A thin layer over SQLite: cached prepared statements, transactions, and errors as status and text. Only
// store/ includes it.
#pragma once

#include "store/store.h"

#include <sqlite3.h>
#include <sys/types.h>

enum { DATABASE_STATEMENTS_MAX = 128 };

struct database {
    sqlite3 *sqlite;
    char *path;
    sqlite3_stmt *rollback; // prepared early: memory may have run out when it is needed
    struct {                // cached statements; `sql` is a literal, compared by address
        const char *sql;
        sqlite3_stmt *statement;
    } statements[DATABASE_STATEMENTS_MAX];
    int n_statements;
    int64_t n_begun; // transactions of database_begin
};

struct file_identity {
    dev_t device;
    ino_t inode; // 0: unknown
};

enum { STORE_FILES = 3 }; // the store, its write-ahead log, and the log's index

// State of claiming: the number of jobs that the worker may hold near the end of the queue
// (store/claim_limit.c), and the turns of datasets (store/claim_turns.c).
enum { CLAIM_ACCOUNTS = 512 };

// A dataset's place in the order of turns.
struct claim_account {
    int64_t dataset; // datasets.number
    double time;     // virtual time at which its next job is due
};

struct claiming {
    const struct dataset_shares *shares;           // store_set_shares; NULL: equal weights, no limits
    int64_t turn_after;                            // the dataset (its number) that got the last job by turns
    double time;                                   // virtual time, at which a dataset begins to wait
    struct claim_account accounts[CLAIM_ACCOUNTS]; // a new one replaces the oldest
    int32_t next_account;
    int32_t n_batch;     // the worker's sequences in one step
    int32_t n_workers;   // workers that share the jobs, when last counted; 0: not counted yet
    int64_t looked_us;   // when they were counted
    bool has_finished;   // this worker finished jobs since n_held_most was computed
    int64_t n_held_most; // jobs that this worker may hold near the end of the queue
    int64_t n_free_seen; // free jobs when last counted; -1: n_held_most is no longer valid
};

struct store {
    struct database database;
    bool read_only;
    int64_t worker;                          // id of this store's worker; 0: none was started
    char *arithmetic;                        // worker_description.arithmetic; NULL: unknown
    int lock_fd;                             // the workers' lock file, -1: not open
    bool holds_dataset;                      // workers_hold_dataset
    bool locks_unreadable;                   // true if the file exists, but belongs to another user
    struct file_identity files[STORE_FILES]; // identities when the worker started (store/files.h)
    int64_t data_version;                    // PRAGMA data_version at the last store_poll_cancelled
    int64_t cancelled_seen_at_us;
    int64_t n_claimed;    // jobs claimed since the store was opened
    int64_t mirror_token; // from store_mirror_start; 0: not called
    struct claiming claiming;
    const struct job_set *rows; // store_set_rows; NULL: none
    struct frames *frames;      // store/frames.h
    bool claims_rows;           // claims only jobs in temp.claimed_rows (store_claim_rows)
};

enum status database_open(struct database *database, const char *path, enum store_mode mode,
                          struct error *error) WARN_UNUSED;
void database_close(struct database *database);

// Fills `error` from SQLite's last error: STATUS_RETRY for busy, full and I/O, else STATUS_REFUSE.
enum status database_error(const struct database *database, const char *doing, struct error *error);

// Returns a cached statement, reset and without bindings. `sql` must be a literal. NULL: `error` is filled.
sqlite3_stmt *database_statement(struct database *database, const char *sql, struct error *error);
// Runs a statement that returns no row.
enum status database_run(struct database *database, sqlite3_stmt *statement, struct error *error) WARN_UNUSED;
// Runs a SELECT of at most one row and reads its first column. Without a row, `*value` becomes `none` and
// `bytes` empty. `doing` describes the operation in the error text.
enum status database_read_integer(struct database *database, sqlite3_stmt *select, int64_t none,
                                  int64_t *value, const char *doing, struct error *error) WARN_UNUSED;
enum status database_read_blob(struct database *database, sqlite3_stmt *select, struct buffer *bytes,
                               const char *doing, struct error *error) WARN_UNUSED;
enum status database_execute(struct database *database, const char *sql, struct error *error) WARN_UNUSED;

enum status database_begin(struct database *database, struct error *error) WARN_UNUSED; // BEGIN IMMEDIATE
// Commits when `status` is STATUS_OK, else rolls back and passes the status on.
enum status database_end(struct database *database, enum status status, struct error *error) WARN_UNUSED;

void bind_text(sqlite3_stmt *statement, int index, struct text text); // data NULL binds NULL
void bind_blob(sqlite3_stmt *statement, int index, struct text bytes);
void bind_integer(sqlite3_stmt *statement, int index, int64_t value);
void bind_nonzero(sqlite3_stmt *statement, int index, int64_t value); // 0 binds NULL
void bind_integers(sqlite3_stmt *statement, int first, const int64_t *values, size_t n);
// BIND_INTEGERS(statement, first, value, ..) binds the values to parameters first, first + 1, ..
#define BIND_INTEGERS(statement, first, ...)                                                                 \
    bind_integers(statement, first, (const int64_t[]){__VA_ARGS__},                                          \
                  sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
struct text column_text(sqlite3_stmt *statement, int column); // valid until the next step
struct text column_blob(sqlite3_stmt *statement, int column);
