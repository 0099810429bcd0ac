// Turns a file of jobs, one JSON object per line, into submissions: OpenAI batch lines, or objects with
// prompt, messages or tokens. An invalid line is submitted unchanged: a worker answers it with the error, so
// that every line has an answer. Thread: main.
#pragma once

#include "consumer/command/files/input_ids.h"
#include "store/store.h"

enum {
    INPUT_GROUP_JOBS = 1000,
    INPUT_FAULTS_SHOWN = 10,
    INPUT_KIND_BYTES = 256, // bytes at the start of a line that must be text
};

// A position in an input. Inputs that begin with the same lines have the same position after them, so a
// submission can resume where it was interrupted, and appended lines are found.
struct input_position {
    int64_t n_lines; // blank ones too
    int64_t n_jobs;
    uint64_t fingerprint; // of these lines without their line feeds; below 2^63
};

struct input {
    struct input_source source;
    struct input_lines lines;
    const char *name;            // for messages
    struct input_position whole; // of the whole file
    int64_t n_before;            // jobs passed by input_skip
    int64_t n_jobs;              // including n_before
    int64_t n_faulty, n_warned;  // lines that are no job; jobs with fields that are ignored or have no effect
};

// Reads the input once to its end, so that faults of the file are found before anything is submitted. "-" is
// standard input. STATUS_REFUSE also if two lines have the same custom_id.
enum status input_open(struct input *input, const char *path, struct text dataset,
                       struct error *error) WARN_UNUSED;
void input_close(struct input *input);

// Checks the name of a dataset: 1 to JOB_DATASET_BYTES_MAX bytes of UTF-8.
enum status input_check_dataset(struct text dataset, struct error *error) WARN_UNUSED;

// The current position. In a call of `submit` by input_read: after the last line of the group.
struct input_position input_position(const struct input *input);
// Returns to the first line.
enum status input_rewind(struct input *input, struct error *error) WARN_UNUSED;
// Skips the lines that were submitted before; called before input_read. submitted->n_jobs is not used.
// STATUS_REFUSE: the input has fewer lines, or other ones.
enum status input_skip(struct input *input, const struct input_position *submitted,
                       struct error *error) WARN_UNUSED;
// Computes the fingerprint of store versions before 5, a hash of the file's bytes. Only for a file without a
// byte order mark.
enum status input_hash_bytes(struct input *input, uint64_t *hash, struct error *error) WARN_UNUSED;

// Calls `submit` for groups of jobs until the end or an error. A job's id is DATASET-LINE and its index is
// the line's number, from 1, so the same file gives the same ids.
enum status input_read(struct input *input, struct text dataset,
                       enum status (*submit)(void *context, const struct submission *submissions, size_t n,
                                             struct error *error),
                       void *context, struct error *error) WARN_UNUSED;
