// sheaf verify: compares a table with its certificate, and computes random rows of it again (consumer/certificate).
#include "consumer/certificate/sampled_rows.h"
#include "consumer/certificate/table_proof.h"
#include "consumer/command/commands.h"
#include "consumer/command/files/output_file.h"
#include "consumer/worker/runtime.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

enum { PERCENT_BYTES = 32 };

static enum status choose_rows(struct row_sample *sample, const struct settings *settings,
                               int64_t n_requested, struct error *error)
{
    int64_t n_wanted = settings->verify.n_rows ? settings->verify.n_rows : SAMPLED_ROWS_DEFAULT;
    *sample = (struct row_sample){.seed = (uint64_t)settings->verify.seed,
                                  .n_rows = n_requested,
                                  .n_chosen = n_wanted < n_requested ? n_wanted : n_requested};
    if (settings->verify.seed < 0 &&
        getrandom(&sample->seed, sizeof sample->seed, 0) != (ssize_t)sizeof sample->seed)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "a random seed: %s", strerror(errno));
    sample->seed &= INT64_MAX; // as --seed takes it
    return STATUS_OK;
}

// Rounded up to two digits.
static void write_percent(int64_t n, int64_t n_all, char text[PERCENT_BYTES])
{
    double percent = 100.0 * (double)n / (double)n_all;
    double unit = n ? pow(10, floor(log10(percent)) - 1) : 1;
    snprintf(text, PERCENT_BYTES, "%.3g", ceil(percent / unit - 1e-9) * unit);
}

static void report(const struct sampled_rows *rows, struct buffer *out)
{
    long long n = rows->sample.n_chosen, n_all = rows->sample.n_rows, seed = (long long)rows->sample.seed;
    int64_t n_bound = n ? row_sample_bound(n_all, n) : 0;
    char percent[PERCENT_BYTES];
    if (n_all == 0) {
        buffer_add_string(out, "no row was asked: there is nothing to compute again\n");
    } else if (n == n_all) {
        buffer_add_format(out, "%lld of %lld rows computed again are equal: all rows\n", n, n);
    } else {
        write_percent(n_bound, n_all, percent);
        buffer_add_format(
            out,
            "%lld of %lld rows computed again are equal: at most %lld of the %lld rows differ (%s %%), at "
            "95 %% confidence; chosen with --seed %lld\n",
            n, n, (long long)n_bound, n_all, percent, seed);
    }
}

static enum status check_sample(const struct settings *settings, struct certified_table *table,
                                int64_t n_requested, struct buffer *out, struct error *error)
{
    struct sampled_rows rows = {0};
    enum status status = choose_rows(&rows.sample, settings, n_requested, error);
    if (status == STATUS_OK && rows.sample.n_chosen)
        status = sampled_rows_check(&rows, table, error);
    if (status == STATUS_OK && rows.n_different)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE,
                           "%s: %lld of %lld rows computed again differ, the first is %s", table->name.data,
                           (long long)rows.n_different, (long long)rows.sample.n_chosen, rows.first.data);
    else if (status == STATUS_OK)
        report(&rows, out);
    sampled_rows_finish(&rows);
    return status;
}

static enum status check_table(const struct settings *settings, const struct certificate *certificate,
                               struct buffer *out, struct error *error)
{
    struct certified_table table;
    int64_t n_requested = 0;
    char root[SHA256_HEX + 1];
    bool is_computed = settings->model.path != NULL;
    enum status status = certified_table_open(&table, certificate, settings, settings->line.positionals,
                                              (size_t)settings->line.n_positionals, error);
    if (status == STATUS_OK)
        status = table_proof_check(&table, &n_requested, error);
    if (status == STATUS_OK) {
        sha256_write_hex(&certificate->root, root);
        buffer_add_format(out, "%s: %s %lld rows are the certificate's, root %s\n", table.name.data,
                          table.source.n_paths > 1 ? "their" : "its", (long long)certificate->n_rows, root);
        for (size_t i = 0; i < certificate->unread.n; i++) {
            buffer_add_string(out, "not covered, for its type is not read: column \"");
            buffer_add_printable(out, certificate->unread.names[i], 0);
            buffer_add_string(out, "\"\n");
        }
        int64_t n_left_out = certificate->n_rows - n_requested;
        if (n_left_out)
            buffer_add_format(out, "%lld row%s left out: %s not asked, and %s no answer\n",
                              (long long)n_left_out, n_left_out == 1 ? " was" : "s were",
                              n_left_out == 1 ? "it was" : "they were", n_left_out == 1 ? "has" : "have");
        if (!is_computed)
            buffer_add_string(out, "no row was computed again: give --model\n");
    }
    if (status == STATUS_OK && is_computed)
        status = check_sample(settings, &table, n_requested, out, error);
    certified_table_close(&table);
    return status;
}

enum status command_verify(const struct settings *settings, struct error *error)
{
    struct certificate certificate = {0};
    struct buffer out = {0};
    if (!settings->annotate.output.certificate)
        return options_refuse_missing(&settings->line, "--certificate FILE", NULL, error);
    enum status status = settings->model.path ? runtime_check(settings, error) : STATUS_OK;
    if (status == STATUS_OK)
        status = certificate_read(&certificate, settings->annotate.output.certificate, error);
    if (status == STATUS_OK)
        status = check_table(settings, &certificate, &out, error);
    if (out.size && !out.failed) { // what is proven is printed also if a row computed again differs
        struct error fault;
        enum status printed = output_file_print(out.data, out.size, &fault);
        if (status == STATUS_OK && printed != STATUS_OK) {
            *error = fault;
            status = printed;
        }
    }
    certificate_finish(&certificate);
    buffer_finish(&out);
    return status;
}
