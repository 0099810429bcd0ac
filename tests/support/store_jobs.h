// A store in a temporary folder, and jobs that are claimed from its queue as by a worker.
#pragma once

#include "store/database.h"
#include "tests/support/cases.h"

#include <unistd.h>

static char folder[] = "/tmp/sheaf-store-XXXXXX";
static char path[128];
static struct error error;

static const struct worker_description description = {.transport = "store",
                                                      .model = "m",
                                                      .backend = "cpu/plain",
                                                      .n_sequences_max = 4,
                                                      .n_tokens_max = 8,
                                                      .n_pages = 2,
                                                      .page_positions = 16};

static inline int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static inline int fresh_path(void **state)
{
    static int n;
    snprintf(path, sizeof path, "%s/%d.db", folder, n++);
    error = (struct error){0};
    return 0;
}

static inline struct store *open_store(bool worker)
{
    struct store *store = NULL;
    assert_ok(store_open(&store, path, STORE_CREATE, &error), &error);
    int64_t id;
    if (worker)
        assert_ok(store_worker_start(store, &description, &id, &error), &error);
    return store;
}

static inline size_t submit(struct store *store, const char *dataset, int first, int n)
{
    struct submission submissions[64];
    char ids[64][32], records[64][32];
    size_t n_added = 0;
    for (int i = 0; i < n; i++) {
        snprintf(ids[i], sizeof ids[i], "%s-%d", dataset, first + i);
        snprintf(records[i], sizeof records[i], "{\"prompt\":\"%d\"}", first + i);
        submissions[i] = (struct submission){.job_id = text_from_string(ids[i]),
                                             .custom_id = text_from_string(ids[i]),
                                             .index = first + i,
                                             .record = text_from_string(records[i]),
                                             .encoding = ENCODING_JSON};
    }
    assert_ok(store_submit(store, text_from_string(dataset), submissions, (size_t)n, &n_added, &error),
              &error);
    return n_added;
}

// Jobs as a worker would hold them after a claim.
struct claims {
    struct job *jobs[64];
    size_t n;
};

static inline void keep_claim(void *context, const struct claimed_job *claimed)
{
    struct claims *claims = context;
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_id(job, claimed->job_id));
    assert_true(job_set_text(job, &job->dataset, claimed->dataset));
    job->index = claimed->index;
    job->source.offset = claimed->id;
    job->figures.attempts = claimed->attempts + 1;
    job->result.status = RESULT_DONE;
    job->result.prompt_tokens = 10;
    job->result.completion_tokens = 2;
    claims->jobs[claims->n++] = job;
}

static inline struct claims claim(struct store *store, const char *dataset, size_t n_max)
{
    struct claims claims = {.n = 0};
    size_t n;
    assert_ok(store_claim(store, text_from_string(dataset), n_max, INT64_MAX, keep_claim, &claims, &n,
                          &error),
              &error);
    assert_int_equal(n, claims.n);
    return claims;
}

static inline size_t finish_claims(struct store *store, struct claims *claims)
{
    struct finished_job finished[64];
    bool committed[64] = {false};
    char records[64][64];
    for (size_t i = 0; i < claims->n; i++) {
        snprintf(records[i], sizeof records[i], "{\"job_id\":\"%.*s\"}", (int)claims->jobs[i]->job_id.size,
                 claims->jobs[i]->job_id.data);
        finished[i] = (struct finished_job){claims->jobs[i], text_from_string(records[i])};
    }
    assert_ok(store_finish(store, finished, claims->n, committed, &error), &error);
    size_t n = 0;
    for (size_t i = 0; i < claims->n; i++)
        n += committed[i];
    return n;
}

static inline void drop(struct claims *claims)
{
    for (size_t i = 0; i < claims->n; i++)
        job_destroy(claims->jobs[i]);
    claims->n = 0;
}

struct collected {
    char text[4096];
    int n;
};

static inline enum status keep_record(void *context, struct text record, struct error *unused)
{
    struct collected *collected = context;
    size_t used = strlen(collected->text);
    snprintf(collected->text + used, sizeof collected->text - used, "%.*s\n", (int)record.size, record.data);
    collected->n++;
    return STATUS_OK;
}

static inline int64_t collect(struct store *store, const char *dataset, struct collected *collected)
{
    int64_t n_missing;
    *collected = (struct collected){.n = 0};
    assert_ok(store_collect(store, text_from_string(dataset), keep_record, collected, &n_missing, &error),
              &error);
    return n_missing;
}

static inline void keep_progress(void *context, const struct dataset_progress *progress)
{
    *(struct dataset_progress *)context = *progress;
}

static inline struct dataset_progress progress_of(struct store *store, const char *dataset)
{
    struct dataset_progress progress = {0};
    assert_ok(store_progress(store, text_from_string(dataset), keep_progress, &progress, &error), &error);
    return progress;
}

static inline int64_t query_number(struct store *store, const char *sql)
{
    sqlite3_stmt *select = database_statement(&store->database, sql, &error);
    assert_non_null(select);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(select, 0);
    sqlite3_reset(select);
    return value;
}
