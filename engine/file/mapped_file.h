// A memory-mapped model file. The descriptor stays open to detect writes and truncation while a worker uses
// it (mapped_file_check); reading beyond the end of a truncated file raises SIGBUS.
// Thread: any, after open.
#pragma once

#include "engine/file/interrupt.h"
#include "schemas/base/pool.h"
#include "schemas/base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

// A zeroed struct is valid and empty.
struct mapped_file {
    const unsigned char *data; // NULL: empty
    size_t size;
    int descriptor;
    struct timespec modified; // modification time when the file was opened
};

// Opens and maps a file. Errors: STATUS_REFUSE with ERROR_FILE, or ERROR_MODEL_FILE if the file is empty or
// too large to map. The text does not name the path: the caller adds it.
enum status mapped_file_open(struct mapped_file *file, const char *path, struct error *error) WARN_UNUSED;
void mapped_file_close(struct mapped_file *file);

// Checks that size and modification time are the same as when the file was opened. Renaming another file over
// the path is not a change, because the mapping is still of the old file. Errors: STATUS_RESTART,
// ERROR_MODEL_FILE.
enum status mapped_file_check(const struct mapped_file *file, const char *path,
                              struct error *error) WARN_UNUSED;

// Reads `size` bytes at `data`, an address in the file's mapping, into `buffer`. At start-up this is faster
// than the page faults of the mapping, and makes none of its pages resident. Returns the address of the
// bytes: `buffer`, or `data` if they cannot be read, there is no buffer, or they are outside the mapping.
// `file` may be NULL.
const unsigned char *mapped_file_read(const struct mapped_file *file, const void *data, size_t size,
                                      unsigned char *buffer);

// Computes a hash of all bytes and of `seed`, at the speed of memory: the pool hashes chunks in parallel
// (NULL: the caller hashes them). Returns 0 after an interrupt (may be NULL).
uint64_t mapped_file_hash(const struct mapped_file *file, uint64_t seed, struct pool *pool,
                          const struct interrupt *interrupt);
