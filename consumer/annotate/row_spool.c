#include "consumer/annotate/row_spool.h"

#include "schemas/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status fail_spool(const char *doing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s: %s",
                     file_temporary_folder(), doing, strerror(errno));
}

enum status row_spool_open(struct row_spool *spool, struct error *error)
{
    int fd = file_open_temporary(file_temporary_folder());
    *spool = (struct row_spool){.file = fd >= 0 ? fdopen(fd, "w+") : NULL};
    if (spool->file)
        return STATUS_OK;
    fail_spool("opening", error);
    if (fd >= 0)
        close(fd);
    return error->status;
}

void row_spool_close(struct row_spool *spool)
{
    if (spool->file)
        fclose(spool->file);
    free(spool->rows);
    *spool = (struct row_spool){0};
}

enum status row_spool_add(struct row_spool *spool, struct text request, int64_t seed, int64_t number,
                          struct error *error)
{
    if (spool->n == spool->capacity) {
        size_t capacity = spool->capacity ? 2 * spool->capacity : 1024;
        struct row_spooled *rows = realloc(spool->rows, capacity * sizeof *rows);
        if (!rows)
            return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "--reorder: out of memory");
        spool->rows = rows;
        spool->capacity = capacity;
    }
    if (request.size && fwrite(request.data, 1, request.size, spool->file) != request.size)
        return fail_spool("writing", error);
    spool->rows[spool->n++] = (struct row_spooled){spool->end, seed, number, (uint32_t)request.size};
    spool->end += request.size;
    return STATUS_OK;
}

enum status row_spool_read(struct row_spool *spool, size_t i, struct buffer *request, struct error *error)
{
    char bytes[65536];
    const struct row_spooled *row = &spool->rows[i];
    buffer_clear(request);
    if (fflush(spool->file) != 0)
        return fail_spool("writing", error);
    for (uint32_t done = 0; done < row->size;) {
        size_t size = row->size - done < sizeof bytes ? row->size - done : sizeof bytes;
        ssize_t n = pread(fileno(spool->file), bytes, size, (off_t)(row->offset + done));
        if (n <= 0)
            return fail_spool("reading", error);
        buffer_add(request, bytes, (size_t)n);
        done += (uint32_t)n;
    }
    return STATUS_OK;
}
