// A file of jobs, a JSON object a line, to submissions: OpenAI batch lines, or objects with prompt, messages or tokens. A
// line that is no job is submitted as it stands: its worker answers it with the error, so that every line has an answer.
// Thread: main.
#pragma once

#include "schemas/job.h"
#include "store/store.h"

#include <stdint.h>
#include <stdio.h>

enum { INPUT_GROUP_JOBS = 1000, INPUT_FAULTS_SHOWN = 10 };

struct input {
    FILE *file;
    const char *name;      // for messages
    uint64_t fingerprint;  // of the whole content
    char *line;
    size_t line_capacity;
    int64_t n_lines, n_jobs, n_faulty;
};

// "-" is standard input (spooled to an unnamed file first: it is read twice).
enum status input_open(struct input *input, const char *path, struct error *error) WARN_UNUSED;
void input_close(struct input *input);

// Calls submit for groups of jobs until the end or an error. Job ids are DATASET-INDEX: the same file gives the same ids.
enum status input_read(struct input *input, struct text dataset,
                       enum status (*submit)(void *context, const struct submission *submissions, size_t n,
                                             struct error *error),
                       void *context, struct error *error) WARN_UNUSED;
