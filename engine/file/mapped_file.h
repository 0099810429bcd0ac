// A memory-mapped model file. The descriptor stays open to detect writes and truncation while a worker uses
// it (mapped_file_check); reading beyond the end of a truncated file raises SIGBUS.
// Thread: any, after open.
#pragma once

#include "engine/file/interrupt.h"
#include "engine/base/pool.h"
#include "schemas/error.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

// A zeroed struct is valid and empty.
struct mapped_file {
    const unsigned char *data; // NULL: empty
    size_t size;
    int descriptor;
    struct timespec modified; // at open
};

// Errors: STATUS_REFUSE, ERROR_FILE, or ERROR_MODEL_FILE for what is no regular file or an empty one. The
// text does not name the path: the caller puts it before.
enum status mapped_file_open(struct mapped_file *file, const char *path, struct error *error) WARN_UNUSED;
void mapped_file_close(struct mapped_file *file);

// Whether size and time of modification are as they were at open. A file that was replaced by renaming
// another one over it is unchanged: the mapping is still the old one's. Errors: STATUS_RESTART,
// ERROR_MODEL_FILE.
enum status mapped_file_check(const struct mapped_file *file, const char *path,
                              struct error *error) WARN_UNUSED;

// The `size` bytes from `data`, which is in the file's mapping, read into `buffer`: at start-up that takes less time
// than the page faults of the mapping, and leaves no pages of it resident. Returns where they are: the buffer, or
// `data` where they cannot be read, there is no buffer, or they are outside of the mapping (file: NULL is fine).
const unsigned char *mapped_file_read(const struct mapped_file *file, const void *data, size_t size,
                                      unsigned char *buffer);

// Hash of all bytes and of `seed`, at the speed of memory: chunks are hashed on the pool (NULL: by the caller
// alone). 0 after an interrupt (may be NULL).
uint64_t mapped_file_hash(const struct mapped_file *file, uint64_t seed, struct pool *pool,
                          const struct interrupt *interrupt);
