#include "store/frames.h"

#include "schemas/job.h"
#include "store/dataset_name.h"

#include <assert.h>
#include <stdlib.h>

enum {
    CACHED_MAX = 128, // frames whose parts are in memory
    GROUPS_MAX = 8,   // datasets and kinds whose frames and samples are remembered
    FRAMES_PER_GROUP = 32,
    FAILURES_MAX = 4, // groups of samples without a common frame, after which no more are looked for
    NAME_BYTES_MAX = 4 * JOB_DATASET_BYTES_MAX,
};

struct cached_frame {
    int64_t id;
    char *parts;
    size_t size;
};

// What is known of the records of one dataset and kind.
struct frame_group {
    char dataset[NAME_BYTES_MAX];
    size_t dataset_size; // 0: unused
    enum frame_kind kind;
    int64_t ids[FRAMES_PER_GROUP];
    size_t n;
    int64_t n_begun; // database.n_begun when `ids` was read
    struct buffer samples;
    size_t ends[FRAME_SAMPLES];
    size_t n_samples;
    int n_failures;
    int64_t used;
};

struct frames {
    struct cached_frame cached[CACHED_MAX]; // the most recently used first
    size_t n_cached;
    bool is_stale; // a transaction was rolled back, with frames that are cached perhaps
    struct frame_group groups[GROUPS_MAX];
    int64_t n_uses;
    struct buffer gaps, whole, parts;
};

// Empties the buffer, also one that failed for want of memory.
static void restart(struct buffer *buffer)
{
    if (buffer->failed)
        buffer_finish(buffer);
    else
        buffer_clear(buffer);
}

// ---- parts by number ----

static void forget_cached(struct frames *frames)
{
    for (size_t i = 0; i < frames->n_cached; i++)
        free(frames->cached[i].parts);
    frames->n_cached = 0;
}

// After a transaction was rolled back: its frames and the samples of its records never were.
static void forget_all(struct frames *frames)
{
    forget_cached(frames);
    for (size_t i = 0; i < GROUPS_MAX; i++) {
        restart(&frames->groups[i].samples);
        frames->groups[i].n_samples = 0;
        frames->groups[i].n_begun = -1;
    }
    frames->is_stale = false;
}

static void note_rollback(void *context)
{
    struct frames *frames = context;
    frames->is_stale = true;
}

static bool find_cached(struct frames *frames, int64_t id, struct text *parts)
{
    if (frames->is_stale)
        forget_all(frames);
    for (size_t i = 0; i < frames->n_cached; i++) {
        if (frames->cached[i].id != id)
            continue;
        struct cached_frame found = frames->cached[i];
        memmove(frames->cached + 1, frames->cached, i * sizeof found);
        frames->cached[0] = found;
        *parts = (struct text){found.parts, found.size};
        return true;
    }
    return false;
}

static bool add_cached(struct frames *frames, int64_t id, struct text parts)
{
    char *copy = malloc(parts.size ? parts.size : 1);
    if (!copy)
        return false;
    memcpy(copy, parts.data, parts.size);
    if (frames->n_cached == CACHED_MAX)
        free(frames->cached[--frames->n_cached].parts);
    memmove(frames->cached + 1, frames->cached, frames->n_cached * sizeof *frames->cached);
    frames->cached[0] = (struct cached_frame){id, copy, parts.size};
    frames->n_cached++;
    return true;
}

static enum status find_parts(struct store *store, int64_t id, struct text *parts, struct error *error)
{
    struct frames *frames = store->frames;
    if (find_cached(frames, id, parts))
        return STATUS_OK;
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT parts FROM frames WHERE id = ?", error);
    if (!select)
        return error->status;
    bind_integer(select, 1, id);
    restart(&frames->parts);
    enum status status =
        database_read_blob(&store->database, select, &frames->parts, "reading a frame", error);
    if (status != STATUS_OK)
        return status;
    if (!frames->parts.size)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: a record has frame %lld, which is missing",
                         store->database.path, (long long)id);
    if (!add_cached(frames, id, (struct text){frames->parts.data, frames->parts.size}))
        return error_memory(error, STATUS_RETRY, "reading a frame");
    return find_cached(frames, id, parts) ? STATUS_OK : error_memory(error, STATUS_RETRY, "reading a frame");
}

// ---- SQL functions ----

static void fail_call(sqlite3_context *context, const struct error *error)
{
    sqlite3_result_error(context, error->text, -1);
    if (error->status == STATUS_RETRY)
        sqlite3_result_error_nomem(context);
}

static struct text value_text(sqlite3_value *value)
{
    const char *data = (const char *)sqlite3_value_text(value);
    return (struct text){data, (size_t)sqlite3_value_bytes(value)};
}

static void call_whole_record(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct store *store = sqlite3_user_data(context);
    struct buffer *whole = &store->frames->whole;
    struct text parts;
    struct error error;
    assert(n == 4);
    if (sqlite3_value_type(values[1]) == SQLITE_NULL) {
        sqlite3_result_value(context, values[0]);
        return;
    }
    if (find_parts(store, sqlite3_value_int64(values[1]), &parts, &error) != STATUS_OK) {
        fail_call(context, &error);
        return;
    }
    const char *data = sqlite3_value_blob(values[0]);
    struct text gaps = {data, (size_t)sqlite3_value_bytes(values[0])};
    struct frame_ids ids = {value_text(values[2]), value_text(values[3])};
    restart(whole);
    if (!frame_fill(parts, gaps, &ids, whole))
        sqlite3_result_error(context, "a record does not fit its frame", -1);
    else if (whole->failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_blob64(context, whole->data ? whole->data : "", whole->size, SQLITE_TRANSIENT);
}

static void call_frame_bytes(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct store *store = sqlite3_user_data(context);
    struct text parts = {0};
    struct error error;
    assert(n == 1);
    bool has_frame = sqlite3_value_type(values[0]) != SQLITE_NULL;
    if (has_frame && find_parts(store, sqlite3_value_int64(values[0]), &parts, &error) != STATUS_OK)
        fail_call(context, &error);
    else
        sqlite3_result_int64(context, (int64_t)parts.size);
}

enum status frames_open(struct store *store, struct error *error)
{
    sqlite3 *sqlite = store->database.sqlite;
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    store->frames = calloc(1, sizeof *store->frames);
    if (!store->frames)
        return error_memory(error, STATUS_REFUSE, "%s: opening the store", store->database.path);
    sqlite3_rollback_hook(sqlite, note_rollback, store->frames);
    if (sqlite3_create_function(sqlite, "whole_record", 4, flags, store, call_whole_record, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_create_function(sqlite, "frame_bytes", 1, flags, store, call_frame_bytes, NULL, NULL) !=
            SQLITE_OK)
        return database_error(&store->database, "opening the store", error);
    return STATUS_OK;
}

void frames_close(struct store *store)
{
    struct frames *frames = store->frames;
    if (!frames)
        return;
    forget_cached(frames);
    for (size_t i = 0; i < GROUPS_MAX; i++)
        buffer_finish(&frames->groups[i].samples);
    buffer_finish(&frames->gaps);
    buffer_finish(&frames->whole);
    buffer_finish(&frames->parts);
    free(frames);
    store->frames = NULL;
}

// ---- the frames of a dataset ----

static enum status read_ids(struct store *store, struct frame_group *group, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT id FROM frames WHERE dataset = ? AND is_of_results = ? ORDER BY id DESC LIMIT ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, (struct text){group->dataset, group->dataset_size});
    BIND_INTEGERS(select, 2, group->kind, FRAMES_PER_GROUP);
    int code;
    group->n = 0;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        group->ids[group->n++] = sqlite3_column_int64(select, 0);
    sqlite3_reset(select);
    if (code != SQLITE_DONE)
        return database_error(&store->database, "reading frames", error);
    group->n_begun = store->database.n_begun;
    return STATUS_OK;
}

// Returns the group of the source, with the frames that the store has in this transaction. NULL: `error`.
static struct frame_group *find_group(struct store *store, const struct frame_source *source,
                                      struct error *error)
{
    struct frames *frames = store->frames;
    struct frame_group *group = NULL, *oldest = frames->groups;
    if (frames->is_stale)
        forget_all(frames);
    for (size_t i = 0; i < GROUPS_MAX && !group; i++) {
        struct frame_group *one = &frames->groups[i];
        if (one->kind == source->kind &&
            text_equal((struct text){one->dataset, one->dataset_size}, source->dataset))
            group = one;
        oldest = one->used < oldest->used ? one : oldest;
    }
    assert(source->dataset.size && source->dataset.size <= NAME_BYTES_MAX);
    if (!group) {
        group = oldest;
        struct buffer samples = group->samples;
        buffer_clear(&samples);
        *group = (struct frame_group){
            .dataset_size = source->dataset.size, .kind = source->kind, .n_begun = -1, .samples = samples};
        memcpy(group->dataset, source->dataset.data, source->dataset.size);
    }
    group->used = ++frames->n_uses;
    if (group->n_begun != store->database.n_begun && read_ids(store, group, error) != STATUS_OK)
        return NULL;
    return group;
}

static enum status add_frame(struct store *store, struct frame_group *group, struct text parts,
                             struct error *error)
{
    sqlite3_stmt *insert =
        database_statement(&store->database,
                           "INSERT INTO frames (dataset, is_of_results, parts) VALUES (?, ?, ?)", error);
    if (!insert)
        return error->status;
    bind_text(insert, 1, (struct text){group->dataset, group->dataset_size});
    bind_integer(insert, 2, group->kind);
    bind_text(insert, 3, parts);
    enum status status = database_run(&store->database, insert, error);
    if (status != STATUS_OK)
        return status;
    if (group->n == FRAMES_PER_GROUP)
        group->n--;
    memmove(group->ids + 1, group->ids, group->n * sizeof *group->ids);
    group->ids[0] = sqlite3_last_insert_rowid(store->database.sqlite);
    group->n++;
    return STATUS_OK;
}

// Looks for a frame of the samples.
static enum status learn(struct store *store, struct frame_group *group, const struct text *samples, size_t n,
                         struct error *error)
{
    struct buffer frame = {0};
    enum status status = STATUS_OK;
    if (frame_find(samples, n, group->kind == FRAME_OF_RESULTS, &frame))
        status = add_frame(store, group, (struct text){frame.data, frame.size}, error);
    else if (frame.failed)
        status = error_memory(error, STATUS_RETRY, "storing records");
    else
        group->n_failures++;
    buffer_finish(&frame);
    return status;
}

// *frame becomes 0 if none of the group's frames fits; else the gaps are appended.
static enum status match_any(struct store *store, struct frame_group *group,
                             const struct whole_record *record, struct buffer *gaps, int64_t *frame,
                             struct error *error)
{
    struct frame_ids none = {0};
    *frame = 0;
    for (size_t i = 0; i < group->n && !*frame; i++) {
        struct text parts;
        int64_t id = group->ids[i];
        enum status status = find_parts(store, id, &parts, error);
        if (status != STATUS_OK)
            return status;
        if (!frame_match(parts, record->record, group->kind == FRAME_OF_RESULTS ? &record->ids : &none, gaps))
            continue;
        memmove(group->ids + 1, group->ids, i * sizeof *group->ids); // the next record probably has it too
        group->ids[0] = id;
        *frame = id;
    }
    return gaps->failed ? error_memory(error, STATUS_RETRY, "storing records") : STATUS_OK;
}

static enum status add_sample(struct store *store, struct frame_group *group, struct text record,
                              struct error *error)
{
    if (group->n_failures >= FAILURES_MAX || group->n == FRAMES_PER_GROUP ||
        record.size > FRAME_BYTES_MAX / FRAME_SAMPLES)
        return STATUS_OK;
    buffer_add_text(&group->samples, record);
    if (group->samples.failed)
        return error_memory(error, STATUS_RETRY, "storing records");
    group->ends[group->n_samples++] = group->samples.size;
    if (group->n_samples < FRAME_SAMPLES)
        return STATUS_OK;
    struct text samples[FRAME_SAMPLES];
    for (size_t i = 0, begin = 0; i < FRAME_SAMPLES; begin = group->ends[i++])
        samples[i] = (struct text){group->samples.data + begin, group->ends[i] - begin};
    enum status status = learn(store, group, samples, FRAME_SAMPLES, error);
    restart(&group->samples);
    group->n_samples = 0;
    return status;
}

enum status frames_prepare(struct store *store, const struct frame_source *source,
                           const struct whole_record samples[FRAME_SAMPLES], struct error *error)
{
    struct frame_group *group = find_group(store, source, error);
    struct text others[FRAME_SAMPLES];
    size_t n = 0;
    enum status status = group ? STATUS_OK : error->status;
    for (size_t i = 0; i < FRAME_SAMPLES && status == STATUS_OK; i++) {
        int64_t frame;
        restart(&store->frames->gaps);
        status = match_any(store, group, &samples[i], &store->frames->gaps, &frame, error);
        if (status == STATUS_OK && !frame)
            others[n++] = samples[i].record;
    }
    if (status == STATUS_OK && n > FRAME_SAMPLES / 2 && group->n_failures < FAILURES_MAX)
        status = learn(store, group, others, n, error);
    return status;
}

enum status frames_shrink(struct store *store, const struct frame_source *source,
                          const struct whole_record *records, size_t n, struct stored_record *stored,
                          struct error *error)
{
    struct frame_group *group = find_group(store, source, error);
    struct buffer *gaps = &store->frames->gaps;
    enum status status = group ? STATUS_OK : error->status;
    restart(gaps);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        size_t begin = gaps->size;
        status = match_any(store, group, &records[i], gaps, &stored[i].frame, error);
        stored[i].bytes = (struct text){NULL, gaps->size - begin};
        if (status == STATUS_OK && !stored[i].frame)
            status = add_sample(store, group, records[i].record, error);
    }
    size_t at = 0;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        size_t size = stored[i].bytes.size;
        stored[i].bytes = stored[i].frame ? (struct text){gaps->data + at, size} : records[i].record;
        at += size;
    }
    return status;
}
