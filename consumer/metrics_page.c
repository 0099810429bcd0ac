// The page for people: the output of `sheaf status` and this worker's figures, as HTML without scripts.
#include "consumer/metrics.h"
#include "schemas/clock.h"

#include <inttypes.h>

static void add_escaped(struct buffer *out, struct text text)
{
    for (size_t i = 0; i < text.size; i++)
        switch (text.data[i]) {
        case '<':
            buffer_add_string(out, "&lt;");
            break;
        case '>':
            buffer_add_string(out, "&gt;");
            break;
        case '&':
            buffer_add_string(out, "&amp;");
            break;
        case '"':
            buffer_add_string(out, "&quot;");
            break;
        default:
            buffer_add_byte(out, text.data[i]);
        }
}

static void add_row(struct buffer *out, const char *what, double value, const char *unit)
{
    buffer_add_format(out, "<tr><th>%s<td>%.*f%s\n", what,
                      value < 100 && value != (double)(int64_t)value ? 1 : 0, value, unit);
}

static void add_dataset(void *context, const struct dataset_progress *progress)
{
    struct buffer *out = context;
    int64_t n_finished = progress->done + progress->failed + progress->cancelled;
    buffer_add_string(out, "<tr><th>");
    add_escaped(out, progress->dataset);
    buffer_add_format(out,
                      "<td>%" PRId64 "<td>%" PRId64 "<td>%" PRId64 "<td>%" PRId64
                      "<td><progress max=\"%" PRId64 "\" value=\"%" PRId64 "\"></progress><td>%.1f<td>",
                      progress->submitted, progress->done, progress->failed, progress->cancelled,
                      progress->submitted ? progress->submitted : 1, n_finished, progress->jobs_per_second);
    if (progress->seconds_left >= 0)
        buffer_add_format(out, "%.0f s", progress->seconds_left);
    buffer_add_string(out, "\n");
}

static void add_datasets(const struct metrics_view *view, struct buffer *out)
{
    struct error error;
    if (!view->store)
        return;
    buffer_add_string(
        out, "<h2>Datasets</h2>\n<table><tr><th>dataset<th>submitted<th>done<th>failed<th>cancelled<th>"
             "progress<th>jobs/s<th>left\n");
    if (store_progress(view->store, (struct text){0}, add_dataset, out, &error) != STATUS_OK) {
        buffer_add_string(out, "<tr><td colspan=\"8\">");
        add_escaped(out, text_from_string(error.text));
    }
    buffer_add_string(out, "</table>\n");
}

static void add_partitions(const struct metrics_view *view, struct buffer *out)
{
    if (!view->kafka)
        return;
    buffer_add_string(
        out, "<h2>Partitions</h2>\n<table><tr><th>partition<th>committed<th>finished above<th>in flight<th>"
             "end\n");
    for (size_t i = 0; i < view->n_partitions; i++) {
        const struct partition_figures *partition = &view->partitions[i];
        buffer_add_string(out, "<tr><th>");
        add_escaped(out, partition->topic);
        buffer_add_format(out, " %" PRId32 "<td>%" PRId64 "<td>%" PRId32 "<td>%" PRId32 "<td>%" PRId64 "\n",
                          partition->partition, partition->committed, partition->n_map_covered,
                          partition->n_in_flight, partition->end);
    }
    buffer_add_string(out, "</table>\n");
}

static void add_worker(const struct metrics *metrics, struct buffer *out)
{
    double seconds = (double)(clock_wall_us() - metrics->started_us) / 1e6;
    double generated = (double)metrics->tokens.n_generated, steps = (double)metrics->steps.n;
    const struct prefix_report *prefixes = &metrics->prefixes;
    buffer_add_string(out, "<h2>This worker</h2>\n<table>\n");
    add_row(out, "running for", seconds, " s");
    add_row(out, "jobs done", (double)metrics->jobs.n_by_status[RESULT_DONE], "");
    add_row(out, "jobs failed", (double)metrics->jobs.n_by_status[RESULT_FAILED], "");
    add_row(out, "jobs in flight", (double)metrics->jobs.n_in_flight, "");
    add_row(out, "tokens generated", generated, "");
    add_row(out, "tokens generated a second", seconds > 0 ? generated / seconds : 0, "");
    add_row(out, "mean batch", steps > 0 ? metrics->steps.sequences.sum / steps : 0, "");
    add_row(out, "prompts that hit the prefix cache",
            prefixes->n_lookups ? 100.0 * (double)prefixes->n_hits / (double)prefixes->n_lookups : 0, " %");
    buffer_add_string(out, "</table>\n");
}

void metrics_write_page(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out)
{
    buffer_add_string(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
        "content=\"5\"><title>sheaf</title>\n<style>body{font:15px sans-serif;margin:2em}"
        "table{border-collapse:collapse}th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid "
        "#ddd}th:first-child{text-align:left}</style>\n<h1>sheaf ");
    add_escaped(out, text_from_string(view->model));
    buffer_add_string(out, "</h1>\n<p>");
    add_escaped(out, text_from_string(view->backend));
    buffer_add_string(out, ", ");
    add_escaped(out, text_from_string(view->transport));
    buffer_add_string(out, metrics->state.trouble[0] ? ": waiting: " : ": working");
    add_escaped(out, text_from_string(metrics->state.trouble));
    buffer_add_string(out, "\n");
    add_datasets(view, out);
    add_worker(metrics, out);
    add_partitions(view, out);
    buffer_add_string(out, "<p><a href=\"/metrics\">figures for Prometheus</a>\n</html>\n");
}
