#include "consumer/worker/progress_line.h"

#include "consumer/observe/log.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    BAR_WIDTH = 24,
    SAMPLE_MS = 200,
    WINDOW_MS = 10000,    // at least, on a terminal
    WINDOW_JOBS_MIN = 16, // finished jobs, at least
};

static void add_sample(struct progress_line *line, int64_t now_ms, int64_t n_finished)
{
    if (line->n_samples && now_ms - line->samples[line->n_samples - 1].at_ms < SAMPLE_MS)
        return;
    if (line->n_samples == PROGRESS_SAMPLES_MAX) {
        line->n_samples /= 2;
        for (size_t i = 1; i < line->n_samples; i++)
            line->samples[i] = line->samples[2 * i];
    }
    line->samples[line->n_samples].at_ms = now_ms;
    line->samples[line->n_samples++].n_finished = n_finished;
}

static void move_window(struct progress_line *line, const struct worker_progress *progress)
{
    int64_t now_ms = clock_ms(), n_finished = progress->n_done + progress->n_failed;
    if (line->n_samples == 0) {
        line->shown_ms = now_ms;
        add_sample(line, now_ms, 0);
    }
    add_sample(line, now_ms, n_finished);
    int64_t window_ms = line->message_ms ? line->message_ms : WINDOW_MS, n_jobs = 2 * (int64_t)line->n_batch;
    n_jobs = n_jobs < WINDOW_JOBS_MIN ? WINDOW_JOBS_MIN : n_jobs;
    size_t n_past = 0;
    while (n_past + 1 < line->n_samples && now_ms - line->samples[n_past + 1].at_ms >= window_ms &&
           n_finished - line->samples[n_past + 1].n_finished >= n_jobs)
        n_past++;
    line->n_samples -= n_past;
    memmove(line->samples, line->samples + n_past, line->n_samples * sizeof *line->samples);
}

// 0: unknown.
static double jobs_per_second(const struct progress_line *line, const struct worker_progress *progress)
{
    if (line->n_samples == 0)
        return 0;
    int64_t ms = clock_ms() - line->samples[0].at_ms;
    int64_t n = progress->n_done + progress->n_failed - line->samples[0].n_finished;
    return ms > 0 ? (double)n * 1000 / (double)ms : 0;
}

static int64_t tokens_of(const struct progress_line *line, const struct worker_progress *progress)
{
    return progress->generated_tokens + (line->counts_prompts ? progress->prefill_tokens : 0);
}

struct log_counts progress_line_counts(const struct progress_line *line,
                                       const struct worker_progress *progress)
{
    return (struct log_counts){.done = line->n_before + progress->n_done + progress->n_failed,
                               .failed = progress->n_failed,
                               .total = line->n_total > 0 ? line->n_total : -1,
                               .tokens = tokens_of(line, progress),
                               .rate = jobs_per_second(line, progress)};
}

static void measure_tokens(struct progress_line *line, const struct worker_progress *progress)
{
    int64_t now_ms = clock_ms();
    if (now_ms - line->shown_ms < 500)
        return;
    double rate =
        (double)(tokens_of(line, progress) - line->tokens_shown) * 1000 / (double)(now_ms - line->shown_ms);
    line->tokens_per_second = line->tokens_per_second > 0 ? 0.7 * line->tokens_per_second + 0.3 * rate : rate;
    line->tokens_shown = tokens_of(line, progress);
    line->shown_ms = now_ms;
}

static void format_time(double seconds, char text[32])
{
    long long minutes = (long long)(seconds / 60 + 0.5);
    if (seconds < 600)
        snprintf(text, 32, "%.0f s", seconds);
    else if (minutes < 600)
        snprintf(text, 32, "%lld min", minutes);
    else
        snprintf(text, 32, "%lld h", (minutes + 30) / 60);
}

// The figures after the number of jobs: rate, errors, tokens, cache, time left.
static void format_figures(const struct progress_line *line, const struct worker_progress *progress,
                           double tokens_per_second, struct buffer *out)
{
    int64_t finished = line->n_before + progress->n_done + progress->n_failed;
    double rate = jobs_per_second(line, progress);
    buffer_add_string(out, " jobs");
    if (rate > 0)
        buffer_add_format(out, ", %.1f/s", rate);
    buffer_add_format(out, ", %lld failed, %.0f tokens/s", (long long)progress->n_failed, tokens_per_second);
    if (progress->cached_tokens > 0 && progress->prompt_tokens > 0)
        buffer_add_format(out, ", %.0f %% of prompts cached",
                          100.0 * (double)progress->cached_tokens / (double)progress->prompt_tokens);
    if (progress->n_duplicates > 0)
        buffer_add_format(out, ", %lld duplicates", (long long)progress->n_duplicates);
    if (progress->n_repeated > 0)
        buffer_add_format(out, ", %lld repeated", (long long)progress->n_repeated);
    if (rate > 0 && finished < line->n_total) {
        char left[32];
        format_time((double)(line->n_total - finished) / rate, left);
        buffer_add_format(out, ", %s left", left);
    }
    if (progress->last_error[0])
        buffer_add_format(out, "; last error: %s", progress->last_error);
}

// No message without progress: an idle worker's log stays short.
static void write_message(struct progress_line *line, const struct worker_progress *progress)
{
    int64_t now_ms = clock_ms(), here = progress->n_done + progress->n_failed;
    if (!line->message_ms || now_ms - line->shown_ms < line->message_ms)
        return;
    if (tokens_of(line, progress) != line->tokens_shown || here != line->jobs_shown) {
        struct buffer text = {0};
        double rate = (double)(tokens_of(line, progress) - line->tokens_shown) * 1000 /
                      (double)(now_ms - line->shown_ms);
        buffer_add_integer(&text, line->n_before + here);
        if (line->n_total > 0)
            buffer_add_format(&text, "/%lld", (long long)line->n_total);
        format_figures(line, progress, rate, &text);
        const struct log_counts counts = progress_line_counts(line, progress);
        const struct log_fields fields = {.event = "progress", .dataset = line->dataset, .counts = &counts};
        if (!text.failed)
            log_write_fields(LOG_INFO, &fields, "%.*s", (int)text.size, text.data);
        buffer_finish(&text);
    }
    line->tokens_shown = tokens_of(line, progress);
    line->jobs_shown = here;
    line->shown_ms = now_ms;
}

// Cuts the line to the terminal's width: a wrapped line could not be overwritten.
static size_t fitting_bytes(const struct buffer *text)
{
    struct winsize window = {0};
    size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
    return width > 1 && text->size >= width ? utf8_complete_prefix(text->data, width - 1) : text->size;
}

void progress_line_show(void *context, const struct worker_progress *progress)
{
    struct progress_line *line = context;
    if (line->watch)
        line->watch(line->watch_context, progress);
    move_window(line, progress);
    if (!isatty(STDERR_FILENO)) {
        write_message(line, progress);
        return;
    }
    measure_tokens(line, progress);
    int64_t finished = line->n_before + progress->n_done + progress->n_failed;
    struct buffer text = {0};
    if (line->n_total > 0) {
        int filled = (int)(BAR_WIDTH * finished / line->n_total);
        filled = filled < BAR_WIDTH ? filled : BAR_WIDTH;
        buffer_add_byte(&text, '[');
        for (int i = 0; i < BAR_WIDTH; i++)
            buffer_add_byte(&text, i < filled ? '#' : '.');
        buffer_add_format(&text, "] %lld/%lld", (long long)finished, (long long)line->n_total);
    } else { // the number of jobs is unknown
        buffer_add_integer(&text, finished);
    }
    format_figures(line, progress, line->tokens_per_second, &text);
    if (!text.failed)
        fprintf(stderr, "\r\033[K%.*s", (int)fitting_bytes(&text), text.data);
    buffer_finish(&text);
    line->shown = true;
}

void progress_line_clear(struct progress_line *line)
{
    if (line->shown)
        fputs("\r\033[K", stderr);
    line->shown = false;
}
