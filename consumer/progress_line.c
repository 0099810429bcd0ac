#include "consumer/progress_line.h"

#include "consumer/log.h"
#include "schemas/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

static void measure(struct progress_line *line, const struct worker_progress *progress)
{
    int64_t now_ms = clock_ms();
    if (!line->started_ms)
        line->started_ms = line->shown_ms = now_ms;
    if (now_ms - line->shown_ms < 500)
        return;
    double rate =
        (double)(progress->generated_tokens - line->tokens_shown) * 1000 / (double)(now_ms - line->shown_ms);
    line->tokens_per_second = line->tokens_per_second > 0 ? 0.7 * line->tokens_per_second + 0.3 * rate : rate;
    line->tokens_shown = progress->generated_tokens;
    line->shown_ms = now_ms;
}

static void format_left(const struct progress_line *line, int64_t here, char left[32])
{
    int64_t finished = line->n_before + here;
    double seconds = (double)(clock_ms() - line->started_ms) / 1000;
    left[0] = '\0';
    if (here > 0 && finished < line->n_total)
        snprintf(left, 32, ", %.0f s left", seconds * (double)(line->n_total - finished) / (double)here);
}

// No message without progress: an idle worker's log stays short.
static void write_message(struct progress_line *line, const struct worker_progress *progress)
{
    int64_t now_ms = clock_ms(), here = progress->n_done + progress->n_failed;
    if (!line->started_ms)
        line->started_ms = line->shown_ms = now_ms;
    if (!line->message_ms || now_ms - line->shown_ms < line->message_ms)
        return;
    if (progress->generated_tokens != line->tokens_shown || here != line->jobs_shown) {
        char total[32] = "", left[32] = "";
        double rate = (double)(progress->generated_tokens - line->tokens_shown) * 1000 /
                      (double)(now_ms - line->shown_ms);
        if (line->n_total > 0) {
            snprintf(total, sizeof total, "/%lld", (long long)line->n_total);
            format_left(line, here, left);
        }
        log_write(LOG_INFO, "%lld%s jobs, %lld failed, %.0f tokens/s%s", (long long)(line->n_before + here),
                  total, (long long)progress->n_failed, rate, left);
    }
    line->tokens_shown = progress->generated_tokens;
    line->jobs_shown = here;
    line->shown_ms = now_ms;
}

void progress_line_show(void *context, const struct worker_progress *progress)
{
    struct progress_line *line = context;
    if (!isatty(STDERR_FILENO)) {
        write_message(line, progress);
        return;
    }
    measure(line, progress);
    int64_t here = progress->n_done + progress->n_failed, finished = line->n_before + here;
    char bar[BAR_WIDTH + 1] = "", left[32] = "";
    if (line->n_total > 0) {
        int filled = (int)(BAR_WIDTH * finished / line->n_total);
        memset(bar, '.', BAR_WIDTH);
        memset(bar, '#', (size_t)(filled < BAR_WIDTH ? filled : BAR_WIDTH));
        format_left(line, here, left);
    }
    if (line->n_total > 0)
        fprintf(stderr, "\r\033[K[%s] %lld/%lld", bar, (long long)finished, (long long)line->n_total);
    else // the number of jobs is unknown
        fprintf(stderr, "\r\033[K%lld", (long long)finished);
    fprintf(stderr, " jobs, %lld failed, %.0f tokens/s%s", (long long)progress->n_failed,
            line->tokens_per_second, left);
    line->shown = true;
}

void progress_line_clear(struct progress_line *line)
{
    if (line->shown)
        fputs("\r\033[K", stderr);
    line->shown = false;
}
