// The results of --evaluate: as text, in the store, and in the file of --statistics.
#include "consumer/annotate/annotate.h"
#include "consumer/command/files/own_output.h"
#include "consumer/evaluate/figure_list.h"
#include "schemas/base/nearest.h"
#include "store/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- text ----

static void add_quoted(struct buffer *out, struct text text)
{
    buffer_add_byte(out, '"');
    buffer_add_printable(out, text, 0);
    buffer_add_byte(out, '"');
}

// The closest label: equal but for the case of letters, else the nearest by edit distance. data NULL: none.
static struct text nearest_label(const struct label_set *labels, struct text gold)
{
    for (size_t i = 0; i < labels->n; i++)
        if (labels->labels[i].size == gold.size &&
            strncasecmp(labels->labels[i].data, gold.data, gold.size) == 0)
            return labels->labels[i];
    return nearest_name(gold, labels->labels, labels->n);
}

// Lists gold labels that no answer can equal, perhaps because they are spelled differently.
static void write_impossible(const struct annotate_gold *gold, struct buffer *out)
{
    const struct label_set *labels = &gold->answer->label_sets[gold->label_column];
    const struct evaluation *evaluation = &gold->comparison.evaluation;
    long long n_rows = 0;
    int n_shown = 0;
    for (size_t i = 0; labels->is_closed && i < evaluation->n_classes; i++) {
        struct text label = evaluation->classes[i];
        int64_t n = evaluation_of_class(evaluation, i).n_gold;
        if (!n || label_set_has(labels, label))
            continue;
        struct text nearest = nearest_label(labels, label);
        n_rows += n;
        if (n_shown++ >= ANNOTATE_FAULTS_SHOWN)
            continue;
        buffer_add_string(out, n_shown == 1 ? "gold labels that no answer can be: " : ", ");
        add_quoted(out, label);
        buffer_add_format(out, " (%lld row%s", (long long)n, n == 1 ? "" : "s");
        if (nearest.data) {
            buffer_add_string(out, "; the nearest is ");
            add_quoted(out, nearest);
        }
        buffer_add_byte(out, ')');
    }
    if (!n_shown)
        return;
    buffer_add_string(out, n_shown > ANNOTATE_FAULTS_SHOWN ? ", ...\n" : "\n");
    log_write(LOG_WARNING, "--evaluate: rows with a gold label that no answer can be: %lld", n_rows);
}

static void write_names(const struct annotate_gold *gold, struct buffer *out)
{
    buffer_add_string(out, "compared: ");
    add_quoted(out, gold->name);
    buffer_add_string(out, " with ");
    add_quoted(out, gold->comparison.answer);
    if (gold->is_first_property) {
        buffer_add_string(out, ", the schema's first property (another: --evaluate ");
        buffer_add_printable(out, gold->name, 0);
        buffer_add_byte(out, '=');
        buffer_add_printable(out, gold->answer->properties.items[1].name, 0);
        buffer_add_byte(out, ')');
    }
    buffer_add_byte(out, '\n');
}

// Signs that the gold rows are no random sample are logged too, because figures may be copied without the lines around them.
static void write_doubts(const struct comparison *comparison, struct buffer *out)
{
    struct buffer doubts = {0};
    if (comparison_has_estimates(comparison))
        gold_sample_judge(&comparison->sample,
                          comparison->kind == COMPARED_NUMBERS ? NULL : &comparison->shares,
                          comparison->kind == COMPARED_NUMBERS ? &comparison->numbers : NULL, &doubts);
    for (char *line = doubts.data, *end; doubts.size && !doubts.failed && line < doubts.data + doubts.size;
         line = end + 1) {
        end = memchr(line, '\n', (size_t)(doubts.data + doubts.size - line));
        buffer_add_format(out, "caution: %.*s\n", (int)(end - line), line);
        log_write(LOG_WARNING, "--evaluate: \"%.*s\": %.*s", (int)comparison->gold.size,
                  comparison->gold.data, (int)(end - line), line);
    }
    buffer_finish(&doubts);
}

static enum status write_gold(const struct annotate_gold *gold, struct buffer *out, struct error *error)
{
    write_names(gold, out);
    if (gold->n_none)
        buffer_add_format(out, "rows without a gold label, left out: %lld", (long long)gold->n_none);
    if (gold->n_refused)
        buffer_add_format(out, ", %lld of them with a null, which no answer can be",
                          (long long)gold->n_refused);
    buffer_add_string(out, gold->n_none ? "\n" : "");
    if (gold->n_no_number)
        buffer_add_format(out, "gold labels that are no numbers, left out of means: %lld\n",
                          (long long)gold->n_no_number);
    write_impossible(gold, out);
    enum status status = comparison_write(&gold->comparison, out, error);
    if (status == STATUS_OK)
        write_doubts(&gold->comparison, out);
    return status;
}

static void write_file(const struct annotate *annotate, size_t index, struct buffer *out)
{
    const struct gold_file *file = &annotate->evaluation.files[index];
    const char *path = annotate->settings->annotate.evaluation.gold[index];
    long long n = (long long)file->n, n_missing = n - (long long)file->n_found;
    buffer_add_format(out, "gold labels of %s: %lld\n", path, n);
    if (n_missing > 0 && !annotate->settings->annotate.estimate.n_rows)
        log_write(
            LOG_WARNING,
            "--gold %s: %lld of %lld gold labels are of rows that the table does not have, or that are left out",
            path, n_missing, n);
    if (file->n_other)
        log_write(
            LOG_WARNING,
            "--gold %s: %lld of %lld rows have other cells in the table: if its rows were moved, the gold labels "
            "are of other rows",
            path, (long long)file->n_other, (long long)file->n_found);
}

static void warn_of_reference(const struct annotate_evaluation *evaluation)
{
    const struct comparison *comparison = &evaluation->golds[0].comparison;
    struct text wanted = comparison->reference;
    if (comparison->has_groups && wanted.data && evaluation->status == STATUS_OK &&
        !text_equal(comparison->shares.groups[comparison_reference(comparison)].name, wanted))
        log_write(LOG_WARNING, "--by: no row has the value \"%.*s\": differences are from the largest group",
                  (int)wanted.size, wanted.data);
}

enum status annotate_write_evaluation(const struct annotate *annotate, struct buffer *out,
                                      struct error *error)
{
    const struct annotate_evaluation *evaluation = &annotate->evaluation;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < evaluation->n_files; i++)
        write_file(annotate, i, out);
    warn_of_reference(evaluation);
    for (size_t i = 0; i < evaluation->n && status == STATUS_OK; i++) {
        buffer_add_string(out, i ? "\n" : "");
        if (evaluation->status == STATUS_OK)
            status = write_gold(&evaluation->golds[i], out, error);
        else
            write_names(&evaluation->golds[i], out);
    }
    if (evaluation->status != STATUS_OK)
        buffer_add_format(out, "no evaluation: %s\n", evaluation->fault.text);
    if (evaluation->differences && evaluation->status == STATUS_OK)
        buffer_add_format(out, "differences: %lld, in %s\n", (long long)evaluation->n_differences,
                          annotate->settings->annotate.evaluation.differences);
    return status;
}

// ---- the store and the file ----

enum status annotate_store_evaluation(const struct annotate *annotate, struct error *error)
{
    const struct evaluation *evaluation = &annotate->evaluation.golds[0].comparison.evaluation;
    size_t n = annotate->evaluation.status == STATUS_OK ? evaluation->n_classes : 0, n_cells = 0;
    struct evaluation_cell *cells = calloc(n * n + 1, sizeof *cells);
    if (!cells)
        return error_memory(error, STATUS_REFUSE, "the evaluation");
    for (size_t gold = 0; gold < n; gold++)
        for (size_t answer = 0; answer < n; answer++) {
            int64_t n_rows = evaluation->counts[gold * EVALUATION_CLASSES_MAX + answer];
            if (n_rows)
                cells[n_cells++] =
                    (struct evaluation_cell){evaluation->classes[gold], evaluation->classes[answer], n_rows};
        }
    enum status status = store_evaluation_write(annotate->store, annotate->dataset, cells, n_cells, error);
    free(cells);
    return status;
}

static enum status complete_file(const struct annotate *annotate, const char *path, const struct buffer *text,
                                 struct error *error)
{
    struct output_file output = {0};
    bool may_overwrite = annotate->settings->output.overwrite;
    enum status status =
        own_output_check(annotate->store, annotate->dataset, path, NULL, may_overwrite, error);
    if (status == STATUS_OK)
        status = output_file_open(&output, path, error);
    if (status != STATUS_OK)
        return status;
    if (fwrite(text->data, 1, text->size, output.file) != text->size)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", output.name, strerror(errno));
    if (status == STATUS_OK)
        status = own_output_claim(annotate->store, annotate->dataset, path, NULL, error);
    if (status == STATUS_OK)
        status = output_file_complete(&output, error);
    output_file_close(&output);
    return status == STATUS_OK ? own_output_note(annotate->store, annotate->dataset, path, NULL, error)
                               : status;
}

static enum status write_statistics(const struct annotate *annotate, struct error *error)
{
    const char *path = annotate->settings->annotate.evaluation.statistics;
    bool is_json = path && table_format_of(path) == TABLE_JSONL;
    struct buffer text = {0};
    enum status status = STATUS_OK;
    if (!path || annotate->evaluation.status != STATUS_OK)
        return STATUS_OK;
    if (!is_json)
        figure_list_begin(&text);
    for (size_t i = 0; i < annotate->evaluation.n && status == STATUS_OK; i++)
        status = figure_list_add(&annotate->evaluation.golds[i].comparison, is_json, &text, error);
    buffer_add_text(&text, annotate->evaluation.more_figures);
    if (status == STATUS_OK && text.failed)
        status = error_memory(error, STATUS_REFUSE, "--statistics");
    if (status == STATUS_OK)
        status = complete_file(annotate, path, &text, error);
    buffer_finish(&text);
    return status;
}

enum status annotate_complete_evaluation(struct annotate *annotate, struct error *error)
{
    struct buffer text = {0};
    if (!annotate->evaluation.n)
        return write_statistics(annotate, error);
    enum status status = annotate_write_evaluation(annotate, &text, error);
    if (status == STATUS_OK)
        status = annotate_store_evaluation(annotate, error);
    if (status == STATUS_OK)
        status = write_statistics(annotate, error);
    if (status == STATUS_OK)
        status = annotate_print(annotate, &text, error);
    buffer_finish(&text);
    return status;
}
