// sheaf dataset list|delete|rename|reopen: manages the datasets in a store.
#include "consumer/command/commands.h"
#include "consumer/command/files/output_file.h"
#include "consumer/command/files/named_store.h"
#include "consumer/observe/log.h"
#include "schemas/value.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

// ---- list ----

enum { FINGERPRINT_SHOWN_BYTES = 8 };

struct dataset_listing {
    struct buffer out;
    bool json;
    int64_t n;
};

static void add_time(struct buffer *out, int64_t time_us)
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm parts;
    char text[32] = "-";
    if (time_us && gmtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    buffer_add_format(out, "%-19s", text);
}

// Adds the first digits of the model's fingerprint (consumer/worker/arithmetic.h): two models may have the same
// name.
static void add_fingerprint(struct buffer *out, struct text arithmetic)
{
    static const char name[] = " model=";
    const char *at = arithmetic.size ? memmem(arithmetic.data, arithmetic.size, name, sizeof name - 1) : NULL;
    size_t left = at ? (size_t)(arithmetic.data + arithmetic.size - at) - (sizeof name - 1) : 0;
    if (left >= FINGERPRINT_SHOWN_BYTES)
        buffer_add_format(out, " (%.*s)", FINGERPRINT_SHOWN_BYTES, at + sizeof name - 1);
}

static void add_row(void *context, const struct dataset_row *row)
{
    struct dataset_listing *listing = context;
    struct buffer *out = &listing->out;
    if (listing->n++ == 0)
        buffer_add_format(out, "%-20s %-9s %9s %9s %7s %9s %8s  %-19s %s\n", "dataset", "state", "submitted",
                          "done", "failed", "cancelled", "running", "submitted (UTC)", "model");
    buffer_add_printable(out, row->dataset, 20);
    buffer_add_format(out, " %-9s %9lld %9lld %7lld %9lld %8lld  ", dataset_state_name(row->state),
                      (long long)row->submitted, (long long)row->done, (long long)row->failed,
                      (long long)row->cancelled, (long long)row->running);
    add_time(out, row->submitted_at_us);
    buffer_add_byte(out, ' ');
    buffer_add_printable(out, row->model.size ? row->model : TEXT("-"), 0);
    add_fingerprint(out, row->arithmetic);
    buffer_add_byte(out, '\n');
}

static void add_text(struct buffer *out, const char *name, struct text value)
{
    buffer_add_format(out, ",\"%s\":", name);
    if (value.size)
        json_encode_string(value, out);
    else
        buffer_add_string(out, "null");
}

static void add_json(void *context, const struct dataset_row *row)
{
    struct dataset_listing *listing = context;
    struct buffer *out = &listing->out;
    buffer_add_string(out, listing->n++ ? ",{\"dataset\":" : "{\"dataset\":");
    json_encode_string(row->dataset, out);
    buffer_add_format(out,
                      ",\"state\":\"%s\",\"submitted\":%lld,\"done\":%lld,"
                      "\"failed\":%lld,\"cancelled\":%lld,\"running\":%lld",
                      dataset_state_name(row->state), (long long)row->submitted, (long long)row->done,
                      (long long)row->failed, (long long)row->cancelled, (long long)row->running);
    buffer_add_format(out, ",\"submitted_at\":%lld,\"last_finished_at\":%lld",
                      (long long)row->submitted_at_us, (long long)row->last_finished_at_us);
    add_text(out, "model", row->model);
    add_text(out, "arithmetic", row->arithmetic);
    buffer_add_byte(out, '}');
}

static enum status list_datasets(struct store *store, const struct settings *settings, struct error *error)
{
    struct dataset_listing listing = {.json = settings->output.json};
    if (listing.json)
        buffer_add_string(&listing.out, "{\"datasets\":[");
    enum status status = store_datasets(store, listing.json ? add_json : add_row, &listing, error);
    if (listing.json)
        buffer_add_string(&listing.out, "]}\n");
    if (status == STATUS_OK && listing.out.failed)
        status = error_memory(error, STATUS_RETRY, "sheaf dataset list");
    if (status == STATUS_OK)
        status = output_file_print(listing.out.data, listing.out.size, error);
    buffer_finish(&listing.out);
    return status;
}

// ---- changes ----

static const char *name_of(const struct settings *settings)
{
    return settings->dataset                  ? settings->dataset
           : settings->line.n_positionals > 1 ? settings->line.positionals[1]
                                              : NULL;
}

static enum status delete_dataset(struct store *store, const struct settings *settings, struct error *error)
{
    enum status status =
        store_dataset_delete(store, text_from_string(name_of(settings)), settings->output.force, error);
    if (status != STATUS_OK)
        return status;
    log_write(LOG_INFO, "dataset %s is deleted", name_of(settings));
    status = store_give_space_back(store, error);
    if (status != STATUS_RETRY)
        return status;
    log_write(LOG_WARNING, "%s; the store uses its space again", error->text);
    return STATUS_OK;
}

static enum status rename_to(struct store *store, const struct settings *settings, struct error *error)
{
    const char *to = settings->line.positionals[settings->line.n_positionals - 1];
    enum status status =
        store_dataset_rename(store, text_from_string(name_of(settings)), text_from_string(to), error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "dataset %s is named %s now", name_of(settings), to);
    return status;
}

static enum status reopen_dataset(struct store *store, const struct settings *settings, struct error *error)
{
    int64_t n_reopened = 0;
    enum status status = store_dataset_reopen(store, text_from_string(name_of(settings)),
                                              REOPEN_FAILED | REOPEN_CANCELLED, &n_reopened, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "dataset %s: %lld failed or cancelled jobs are queued again", name_of(settings),
                  (long long)n_reopened);
    return status;
}

static const struct {
    const char *name;
    int n_names; // dataset names that it needs
    bool changes;
    enum status (*run)(struct store *store, const struct settings *settings, struct error *error);
} actions[] = {
    {"list", 0, false, list_datasets},
    {"delete", 1, true, delete_dataset},
    {"rename", 2, true, rename_to},
    {"reopen", 1, true, reopen_dataset},
};

enum status command_dataset(const struct settings *settings, struct error *error)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, settings->line.positionals[0]) != 0)
            continue;
        int n_names = settings->line.n_positionals - 1 + (settings->dataset != NULL);
        if (n_names != actions[i].n_names)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "usage: sheaf dataset %s%s [--store FILE]",
                             actions[i].name,
                             actions[i].n_names == 2 ? " NAME NEW-NAME"
                             : actions[i].n_names    ? " NAME"
                                                     : "");
        struct store *store = NULL;
        enum status status = actions[i].changes ? named_store_open(&store, settings, error)
                                                : named_store_open_to_read(&store, settings, error);
        if (status == STATUS_OK)
            status = actions[i].run(store, settings, error);
        store_close(store);
        return status;
    }
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "sheaf dataset: expected list, delete, rename or reopen, got \"%s\"",
                     settings->line.positionals[0]);
}
