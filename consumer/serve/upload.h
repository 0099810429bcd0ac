// A form that uploads a file: the file's bytes go to disk as they arrive, unnamed until the form is complete.
// Thread: the connection's.
#pragma once

#include "consumer/command/files/output_file.h"
#include "consumer/serve/call.h"

#include <limits.h>

enum { UPLOAD_NAME_BYTES = 256, UPLOAD_FIELD_BYTES = 64 };

struct upload {
    char id[SERVE_ID_BYTES], path[PATH_MAX];
    struct output_file file; // file NULL: no field "file" yet
    uint64_t n_bytes, n_bytes_max;
    char filename[UPLOAD_NAME_BYTES];
    char purpose[UPLOAD_FIELD_BYTES], anchor[UPLOAD_FIELD_BYTES], seconds[UPLOAD_FIELD_BYTES];
    bool is_too_large;
    struct error fault; // of the form or of writing; status STATUS_OK: none
};

// NULL: out of memory.
struct upload *upload_create(const struct serve *serve);
// The next bytes of a field of the form. `filename` NULL: not given; is_first: the field's first bytes.
void upload_add(struct upload *upload, const char *field, const char *filename, struct text bytes,
                bool is_first);
// Whether it will not be stored whatever follows.
bool upload_is_refused(const struct upload *upload);
// Without upload_complete the file is removed.
enum status upload_complete(struct upload *upload, struct error *error) WARN_UNUSED;
void upload_destroy(struct upload *upload);
