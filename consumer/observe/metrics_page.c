// The page for people: progress, this worker's figures now and since its start, its last jobs, the other
// workers. No scripts: the browser reloads it.
#include "consumer/observe/metrics.h"
#include "consumer/observe/page.h"
#include "schemas/base/clock.h"
#include "store/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REFRESH_S = 5 };

static void add_cell(struct buffer *out, struct text text)
{
    buffer_add_string(out, "<td class=\"left\">");
    page_add_text(out, text);
    buffer_add_string(out, "</td>");
}

static void add_number(struct buffer *out, int64_t number)
{
    char text[32];
    buffer_add_format(out, "<td>%s</td>", page_number(text, number));
}

// ---- datasets ----

static void add_dataset(void *context, const struct dataset_progress *progress)
{
    struct buffer *out = context;
    int64_t n_finished = progress->done + progress->failed + progress->cancelled;
    buffer_add_string(out, "<tr>");
    add_cell(out, progress->dataset);
    if (progress->is_total_unknown)
        buffer_add_string(out, "<td></td>");
    else
        buffer_add_format(out, "<td><progress max=\"%" PRId64 "\" value=\"%" PRId64 "\"></progress></td>",
                          progress->submitted ? progress->submitted : 1, n_finished);
    add_number(out, progress->submitted);
    add_number(out, progress->done);
    add_number(out, progress->failed);
    add_number(out, progress->cancelled);
    buffer_add_format(out, "<td>%.1f</td><td>", progress->jobs_per_second);
    if (progress->seconds_left >= 0)
        buffer_add_format(out, progress->seconds_left < 120 ? "%.0f s" : "%.0f min",
                          progress->seconds_left < 120 ? progress->seconds_left
                                                       : progress->seconds_left / 60);
    buffer_add_string(out, "</td></tr>\n");
}

static void add_datasets(const struct metrics_view *view, struct buffer *out)
{
    struct error error;
    if (!view->store)
        return;
    page_begin_section(out, "Datasets");
    page_begin_table(out, "dataset|progress|submitted|done|failed|cancelled|jobs/s|time left");
    if (store_progress(view->store, (struct text){0}, add_dataset, out, &error) != STATUS_OK) {
        buffer_add_string(out, "<tr>");
        add_cell(out, text_from_string(error.text));
        buffer_add_string(out, "</tr>\n");
    }
    page_end_table(out);
    page_end_section(out);
}

// ---- this worker ----

static void add_worker(const struct metrics *metrics, struct buffer *out)
{
    char number[32];
    double seconds = (double)(clock_wall_us() - metrics->started_us) / 1e6, jobs, tokens;
    double generated = (double)metrics->tokens.n_generated, steps = (double)metrics->steps.n;
    int64_t prompts = metrics->tokens.n_prefill + metrics->prefixes.tokens_saved;
    recent_rates(&metrics->recent, metrics_second(), &jobs, &tokens);
    page_begin_section(out, "This worker");
    page_begin_tiles(out);
    page_add_tile(out, "jobs per second, now", "%.1f", jobs);
    page_add_tile(out, "since the start", "%.1f",
                  seconds > 0 ? (double)metrics->jobs.n_by_status[RESULT_DONE] / seconds : 0);
    page_add_tile(out, "tokens generated per second, now", "%.1f", tokens);
    page_add_tile(out, "generated since the start", "%.1f", seconds > 0 ? generated / seconds : 0);
    page_add_tile(out, "jobs done", "%s", page_number(number, metrics->jobs.n_by_status[RESULT_DONE]));
    page_add_tile(out, "jobs failed", "%s", page_number(number, metrics->jobs.n_by_status[RESULT_FAILED]));
    page_add_tile(out, "jobs in flight", "%s", page_number(number, metrics->jobs.n_in_flight));
    page_add_tile(out, "mean batch", "%.1f", steps > 0 ? metrics->steps.sequences.sum / steps : 0);
    page_add_tile(out, "prefill from the cache, of all prefill", "%.1f %%",
                  prompts ? 100.0 * (double)metrics->prefixes.tokens_saved / (double)prompts : 0);
    page_add_tile(out, "KV pages in use", "%" PRId32 " of %" PRId32, metrics->steps.pages_used,
                  metrics->steps.pages_total);
    page_add_tile(out, "running for", seconds < 7200 ? "%.0f s" : "%.1f h",
                  seconds < 7200 ? seconds : seconds / 3600);
    page_end_tiles(out);
    page_end_section(out);
}

// ---- labels ----

static void add_labels(const struct label_tally *tally, struct buffer *out)
{
    int n_shown = 0;
    for (int i = 0; i < tally->n_groups; i++) {
        const struct label_group *group = &tally->groups[i];
        if (group->is_dropped || !group->n)
            continue;
        if (!n_shown++) {
            page_begin_section(out, "Labels so far");
            page_begin_charts(out);
        }
        page_begin_bars(out, text_from_string(group->name));
        for (int j = 0; j < group->n_labels; j++)
            page_add_bar(out, text_from_string(group->labels[j].text), group->labels[j].n, group->n);
        page_end_bars(out);
    }
    if (!n_shown)
        return;
    page_end_charts(out);
    page_end_section(out);
}

// ---- the last jobs ----

// The job's name and its line, or the row of a table.
static void add_name(struct buffer *out, const struct recent_job *job, bool has_rows)
{
    char name[RECENT_NAME_BYTES + 24];
    bool is_row = has_rows && job->index >= 0;
    snprintf(name, sizeof name, "%s", is_row ? "row" : job->custom_id);
    if (job->index >= 0)
        snprintf(name + strlen(name), sizeof name - strlen(name), is_row ? " %lld" : " #%lld",
                 (long long)job->index);
    add_cell(out, text_from_string(name));
}

static void add_jobs(struct buffer *out, const struct recent *recent, const struct recent_job *jobs,
                     int64_t n, int64_t n_kept, bool are_errors, bool has_rows)
{
    for (int64_t i = n - 1; i >= 0 && i >= n - n_kept; i--) {
        const struct recent_job *job = &jobs[i % n_kept];
        buffer_add_string(out, "<tr>");
        add_cell(out, text_from_string(job->dataset));
        add_name(out, job, has_rows);
        if (are_errors)
            add_cell(out, text_from_string(error_code_name(job->code)));
        if (recent->keeps_content) {
            add_cell(out, text_from_string(job->prompt));
            add_cell(out, text_from_string(job->text));
        }
        buffer_add_string(out, "</tr>\n");
    }
    page_end_table(out);
    page_end_section(out);
}

static void add_recent(const struct recent *recent, bool has_rows, struct buffer *out)
{
    if (recent->n_errors) {
        page_begin_section(out, "Last errors");
        page_begin_table(out, recent->keeps_content ? "<dataset|<job|<error|<prompt|<message"
                                                    : "<dataset|<job|<error");
        add_jobs(out, recent, recent->errors, recent->n_errors, RECENT_ERRORS, true, has_rows);
    }
    if (recent->n_answers) {
        page_begin_section(out, "Last answers");
        page_begin_table(out, recent->keeps_content ? "<dataset|<job|<prompt|<answer" : "<dataset|<job");
        add_jobs(out, recent, recent->answers, recent->n_answers, RECENT_ANSWERS, false, has_rows);
    }
}

// ---- the others ----

static void add_other(void *context, const struct value *fields)
{
    struct buffer *out = context;
    buffer_add_format(out, "<tr><td>%" PRId64 "</td>", fields[0].integer);
    for (int i = 1; i <= 2; i++)
        add_cell(out, fields[i].kind == VALUE_STRING ? fields[i].text : (struct text){0});
    add_number(out, fields[3].kind == VALUE_INTEGER ? fields[3].integer : 0);
    for (int i = 4; i <= 6; i++)
        buffer_add_format(out, "<td>%.1f</td>", fields[i].kind == VALUE_FLOAT ? fields[i].number : 0);
    buffer_add_string(out, "</tr>\n");
}

static void add_workers(const struct metrics_view *view, struct buffer *out)
{
    struct error error;
    if (!view->store)
        return;
    page_begin_section(out, "Workers of this store");
    page_begin_table(out,
                     "worker|<process|<backend|tokens generated|per busy second|mean batch|from cache, %");
    if (store_report(view->store, REPORT_WORKERS, (struct text){0}, add_other, out, &error) != STATUS_OK) {
        buffer_add_string(out, "<tr>");
        add_cell(out, text_from_string(error.text));
        buffer_add_string(out, "</tr>\n");
    }
    page_end_table(out);
    page_end_section(out);
}

static void add_partitions(const struct metrics_view *view, struct buffer *out)
{
    if (!view->kafka)
        return;
    page_begin_section(out, "Partitions");
    page_begin_table(out, "partition|committed|finished above|in flight|end");
    for (size_t i = 0; i < view->n_partitions; i++) {
        const struct partition_figures *partition = &view->partitions[i];
        buffer_add_string(out, "<tr><td>");
        page_add_text(out, partition->topic);
        buffer_add_format(out,
                          " %" PRId32 "</td><td>%" PRId64 "</td><td>%" PRId32 "</td><td>%" PRId32
                          "</td><td>%" PRId64 "</td></tr>\n",
                          partition->partition, partition->committed, partition->n_map_covered,
                          partition->n_in_flight, partition->end);
    }
    page_end_table(out);
    page_end_section(out);
}

void metrics_write_page(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out)
{
    char title[256];
    snprintf(title, sizeof title, "sheaf %s", view->model ? view->model : "");
    page_begin(out, text_from_string(title), REFRESH_S);
    buffer_add_string(out, "<p class=\"soft\">");
    page_add_text(out, text_from_string(view->backend));
    buffer_add_string(out, ", ");
    page_add_text(out, text_from_string(view->transport));
    buffer_add_string(out, metrics->state.trouble[0] ? "</p><p class=\"bad\">waiting: " : ": working");
    page_add_text(out, text_from_string(metrics->state.trouble));
    if (view->output) {
        buffer_add_string(out, "</p><p class=\"soft\">writes ");
        page_add_text(out, text_from_string(view->output));
    }
    buffer_add_string(out, "</p>\n");
    add_datasets(view, out);
    add_worker(metrics, out);
    add_labels(&metrics->labels, out);
    add_recent(&metrics->recent, view->has_rows, out);
    add_workers(view, out);
    add_partitions(view, out);
    buffer_add_string(out, "<p><a href=\"/metrics\">figures for Prometheus</a></p>\n");
    page_end(out);
}
