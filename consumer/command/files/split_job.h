// Jobs of many inputs, divided: sheaf submit --split N writes a job for every N inputs of a /v1/embeddings line, and
// sheaf collect joins their results. A part is an ordinary job, whose custom_id ends in its place:
//
//   {"custom_id": "doc-7", ... "input": [2,048 texts]}       --split 512
//   {"custom_id": "doc-7#inputs=0-511/2048", ... "input": [512 texts]}
//   {"custom_id": "doc-7#inputs=512-1023/2048", ...}
//   ...
//
// Parts are submitted in this order, so their results are collected in it.
// Thread: main.
#pragma once

#include "consumer/command/files/input_lines.h"

#include <stdio.h>

enum { SPLIT_PLACE_BYTES = 80 };

// The inputs of a part.
struct split_place {
    struct text id; // of the whole job
    int64_t first, last, n_all;
};

// Reads the place from a part's custom_id. False: it is no part's.
bool split_place_read(struct text custom_id, struct split_place *place);
// Writes the lines of the file at `path`, with each embedding job of more than n_inputs_max inputs divided, to
// *lines, a temporary file at its beginning that the caller closes. A line without an id gets DATASET-LINE, as
// without --split. STATUS_REFUSE: a line is no JSON object, or too long; the errors of input_source_open.
enum status split_jobs(FILE **lines, const char *path, struct text dataset, int64_t n_inputs_max,
                       struct error *error) WARN_UNUSED;
