// Writes results as OpenAI batch output lines, to one file or two (consumer/command/files/output_file.h). Parts of a
// divided job are one line (joined_job.h). Thread: main.
#pragma once

#include "consumer/command/files/joined_job.h"
#include "consumer/command/files/output_file.h"
#include "schemas/job.h"

#include <stdint.h>

struct output {
    struct output_file results, errors; // errors.file NULL: failed jobs are written to the results
    struct buffer line;
    struct joined_job joined;        // parts of a job whose others are to come
    int64_t n_results, n_failed;     // parts count one each; n_failed includes cancelled jobs
    int64_t n_cancelled, n_may_pass; // of n_failed; n_may_pass may succeed if retried
    int64_t row;                     // of annotate's table, a member "row" of the next line; 0: none
    int64_t n_open;                  // lines of unfinished jobs
};

enum status output_open(struct output *output, const char *path, const char *errors_path,
                        struct error *error) WARN_UNUSED;
// Writes one encoded result (schemas/job.h), JSON or msgpack.
enum status output_add(struct output *output, struct text record, struct error *error) WARN_UNUSED;
// Writes a line for a job without a result; `reason` is the error's message.
enum status output_add_open(struct output *output, struct text job_id, struct text custom_id,
                            const char *reason, struct error *error) WARN_UNUSED;
// Writes parts whose others have no result, and gives the complete files their names. Without it output_close
// removes them.
enum status output_complete(struct output *output, struct error *error) WARN_UNUSED;
void output_close(struct output *output);
