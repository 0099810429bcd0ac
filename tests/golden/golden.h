// Golden files: bytes that must not change by accident, in tests/golden/. With SHEAF_GOLDEN_WRITE set they
// are written instead of compared; the difference is then visible in the version control.
#pragma once

#include "schemas/base/text.h"
#include "tests/support/cases.h"

static inline void golden_path(char *path, size_t size, const char *name)
{
    snprintf(path, size, SOURCE_ROOT "/tests/golden/%s", name);
}

// The file's bytes; the caller finishes the buffer.
static inline struct buffer golden_read(const char *name)
{
    char path[4096], block[4096];
    golden_path(path, sizeof path, name);
    struct buffer bytes = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: cannot be read", path);
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        buffer_add(&bytes, block, n);
    fclose(file);
    return bytes;
}

static inline void golden_check(const char *name, struct text bytes)
{
    if (getenv("SHEAF_GOLDEN_WRITE")) {
        char path[4096];
        golden_path(path, sizeof path, name);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
        assert_int_equal(fclose(file), 0);
    }
    struct buffer golden = golden_read(name);
    if (golden.size != bytes.size || memcmp(golden.data, bytes.data, bytes.size) != 0)
        fail_msg("%s differs: got %.*s", name, (int)bytes.size, bytes.data);
    buffer_finish(&golden);
}
