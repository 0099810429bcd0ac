// GGUF files that a test writes and opens.
#pragma once

#include "engine/file/gguf.h"
#include "engine/file/gguf_made.h"
#include "engine/file/gguf_file.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/shared_data.h"

#include <dirent.h>

static char directory[64];

static char path[128];

static inline int set_up(void **state)
{
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    return 0;
}

static inline int tear_down(void **state)
{
    remove_directory(directory);
    return 0;
}

// Opens what `file` holds and gives the buffer back. NULL: refused, `error` says why.
static inline struct gguf *open_bytes(struct buffer *file, struct error *error)
{
    assert_false(file->failed);
    write_file(path, file->data, file->size);
    buffer_finish(file);
    *file = (struct buffer){0};
    struct gguf *gguf;
    enum status status = gguf_open(&gguf, path, error);
    assert_true((status == STATUS_OK) == (gguf != NULL));
    assert_true(status == STATUS_OK || status == STATUS_REFUSE);
    return gguf;
}

static inline void assert_opens(struct buffer *file)
{
    struct error error;
    struct gguf *gguf = open_bytes(file, &error);
    if (!gguf)
        fail_msg("refused: %s", error.text);
    gguf_close(gguf);
}

static inline void assert_refused(struct buffer *file, enum error_code code, const char *part_of_text)
{
    struct error error;
    struct gguf *gguf = open_bytes(file, &error);
    assert_null(gguf);
    if (!strstr(error.text, part_of_text) || error.code != code)
        fail_msg("expected \"%s\" (code %d), got \"%s\" (code %d)", part_of_text, code, error.text,
                 error.code);
}
