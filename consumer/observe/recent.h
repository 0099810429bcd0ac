// The throughput of the last seconds, and the last jobs, for the --metrics page. A zeroed struct is empty.
// Thread: main.
#pragma once

#include "schemas/job.h"

enum {
    RECENT_S = 10, // seconds over which "now" is averaged
    RECENT_ANSWERS = 8,
    RECENT_ERRORS = 5,
    RECENT_NAME_BYTES = 96, // bytes of a custom_id that are kept
    RECENT_TEXT_BYTES = 200 // bytes of a prompt's last message, an answer, or an error's text
};

struct recent_job {
    char dataset[RECENT_NAME_BYTES], custom_id[RECENT_NAME_BYTES];
    int64_t index; // index of the line or the table's row; -1: none
    enum error_code code;
    char prompt[RECENT_TEXT_BYTES],
        text[RECENT_TEXT_BYTES]; // with `keeps_content`; the answer or the error's text
};

struct recent {
    bool keeps_content; // keep texts of requests, answers and errors, which may be private
    struct {
        int64_t second; // monotonic
        int64_t n_jobs, n_tokens;
    } seconds[RECENT_S + 1]; // ring by second; rates omit the current second, which is incomplete
    bool has_begun;
    int64_t begun_second; // second of the first count, which is incomplete too
    // Rings: the newest entry is at (n - 1) modulo the length.
    struct recent_job answers[RECENT_ANSWERS], errors[RECENT_ERRORS];
    int64_t n_answers, n_errors;
};

// Copies the longest beginning of whole characters that fits, with a NUL.
void recent_copy_text(char *to, size_t size, struct text text);
void recent_count(struct recent *recent, int64_t second, int64_t n_jobs, int64_t n_tokens);
void recent_add(struct recent *recent, const struct job *job); // done or failed
// Returns rates per second over the complete seconds before `second`, at most RECENT_S; 0 if there is none.
void recent_rates(const struct recent *recent, int64_t second, double *jobs, double *tokens);
