// Holds the requests of rows between rendering, in the table's order, and queueing, in another order: an
// unnamed file, and 32 bytes per row in memory. Thread: main.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdint.h>
#include <stdio.h>

struct row_request {
    uint64_t offset;
    int64_t seed, number; // of the row in the table
    uint32_t size;        // 0: the row was left out
};

struct row_requests {
    FILE *file;
    struct row_request *rows; // [n]
    size_t n, capacity;
    uint64_t end;
};

enum status row_requests_open(struct row_requests *requests, struct error *error) WARN_UNUSED;
void row_requests_close(struct row_requests *requests); // also one that was never opened
// Adds the request of the next row; empty: the row was left out.
enum status row_requests_add(struct row_requests *requests, struct text request, int64_t seed, int64_t number,
                             struct error *error) WARN_UNUSED;
// Reads the request of row i into `request`. Called after the last row was added.
enum status row_requests_read(struct row_requests *requests, size_t i, struct buffer *request,
                              struct error *error) WARN_UNUSED;
