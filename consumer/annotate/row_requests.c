#include "consumer/annotate/row_requests.h"

#include "schemas/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status fail_file(const char *doing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s: %s",
                     file_temporary_folder(), doing, strerror(errno));
}

enum status row_requests_open(struct row_requests *requests, struct error *error)
{
    int fd = file_open_temporary(file_temporary_folder());
    *requests = (struct row_requests){.file = fd >= 0 ? fdopen(fd, "w+") : NULL};
    if (requests->file)
        return STATUS_OK;
    fail_file("opening", error);
    if (fd >= 0)
        close(fd);
    return error->status;
}

void row_requests_close(struct row_requests *requests)
{
    if (requests->file)
        fclose(requests->file);
    free(requests->rows);
    *requests = (struct row_requests){0};
}

enum status row_requests_add(struct row_requests *requests, struct text request, int64_t seed, int64_t number,
                             struct error *error)
{
    if (requests->n == requests->capacity) {
        size_t capacity = requests->capacity ? 2 * requests->capacity : 1024;
        struct row_request *rows = realloc(requests->rows, capacity * sizeof *rows);
        if (!rows)
            return error_memory(error, STATUS_REFUSE, "--reorder");
        requests->rows = rows;
        requests->capacity = capacity;
    }
    if (request.size && fwrite(request.data, 1, request.size, requests->file) != request.size)
        return fail_file("writing", error);
    requests->rows[requests->n++] = (struct row_request){requests->end, seed, number, (uint32_t)request.size};
    requests->end += request.size;
    return STATUS_OK;
}

enum status row_requests_read(struct row_requests *requests, size_t i, struct buffer *request,
                              struct error *error)
{
    char bytes[65536];
    const struct row_request *row = &requests->rows[i];
    buffer_clear(request);
    if (fflush(requests->file) != 0)
        return fail_file("writing", error);
    for (uint32_t done = 0; done < row->size;) {
        size_t size = row->size - done < sizeof bytes ? row->size - done : sizeof bytes;
        ssize_t n = pread(fileno(requests->file), bytes, size, (off_t)(row->offset + done));
        if (n <= 0)
            return fail_file("reading", error);
        buffer_add(request, bytes, (size_t)n);
        done += (uint32_t)n;
    }
    return STATUS_OK;
}
