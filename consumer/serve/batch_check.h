// Checks the lines of a batch's input file before its batch is created: each is a JSON object with custom_id,
// method, url and body, and no two have the same custom_id. What is wrong within a body fails that request
// alone, later. Thread: the connection's.
#pragma once

#include "schemas/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { BATCH_FAULTS_MAX = 100, BATCH_FAULT_BYTES = 256 };

struct batch_fault {
    int64_t line;      // from 1; 0: the whole file
    const char *code;  // OpenAI's, a literal
    const char *param; // a literal; NULL: none
    char message[BATCH_FAULT_BYTES];
};

struct batch_check {
    int64_t n_requests;                          // lines that are not blank
    int64_t n_faults;                            // of all lines
    struct batch_fault faults[BATCH_FAULTS_MAX]; // the first, by line
};

// `endpoint`: the url that all lines must have. Errors: the file can't be read. A fault of the file itself, as
// of damaged compression, is among the faults.
enum status batch_check(struct batch_check *check, const char *path, const char *endpoint,
                        struct error *error) WARN_UNUSED;
