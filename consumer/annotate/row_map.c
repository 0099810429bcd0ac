#include "consumer/annotate/row_map.h"

#include "schemas/base/file.h"

#include <errno.h>
#include <unistd.h>

static enum status fail_map(const char *doing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s: %s",
                     file_temporary_folder(), doing, strerror(errno));
}

enum status row_map_open(struct row_map *map, struct error *error)
{
    int fd = file_open_temporary(file_temporary_folder());
    map->file = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (map->file)
        return STATUS_OK;
    fail_map("opening", error);
    if (fd >= 0)
        close(fd);
    return error->status;
}

void row_map_close(struct row_map *map)
{
    if (map->file)
        fclose(map->file);
    map->file = NULL;
}

enum status row_map_add(struct row_map *map, const int64_t *jobs, size_t n, struct error *error)
{
    return fwrite(jobs, sizeof *jobs, n, map->file) == n ? STATUS_OK : fail_map("writing", error);
}

enum status row_map_rewind(struct row_map *map, struct error *error)
{
    return fseek(map->file, 0, SEEK_SET) == 0 ? STATUS_OK : fail_map("reading it again", error);
}

enum status row_map_next(struct row_map *map, int64_t *jobs, size_t n, struct error *error)
{
    errno = 0;
    if (fread(jobs, sizeof *jobs, n, map->file) == n)
        return STATUS_OK;
    return errno ? fail_map("reading", error)
                 : error_set(error, STATUS_REJECT, ERROR_FILE, "the table has more rows than before");
}
