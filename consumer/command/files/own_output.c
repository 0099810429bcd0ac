#include "consumer/command/files/own_output.h"

#include "schemas/base/file.h"
#include "store/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 65536 };

// Resolves the path. False: there is no path, or it is a stream.
static bool find_place(const char *path, struct file_place *place)
{
    return path && !file_is_stream(path) && file_follow(path, place);
}

static enum status fail(const char *path, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", path, strerror(errno));
}

// A chain of digests: each covers the previous digest and the next PIECE_BYTES bytes.
static enum status digest_file(const char *path, struct digest *digest, struct error *error)
{
    struct {
        struct digest before;
        char bytes[PIECE_BYTES];
    } piece;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(path, error);
    ssize_t n = 0;
    memset(&piece.before, 0, sizeof piece.before);
    do {
        size_t size = 0;
        while (size < PIECE_BYTES && (n = read(fd, piece.bytes + size, PIECE_BYTES - size)) > 0)
            size += (size_t)n;
        piece.before = digest_of(&piece, sizeof piece.before + size);
    } while (n > 0);
    *digest = piece.before;
    enum status status = n < 0 ? fail(path, error) : STATUS_OK;
    close(fd);
    return status;
}

enum status own_output_check(struct store *store, struct text dataset, const char *path, bool may_overwrite,
                             struct error *error)
{
    struct file_place place;
    struct stat about;
    struct written_output output;
    if (may_overwrite || !find_place(path, &place) || stat(place.path, &about) != 0 || about.st_size == 0)
        return STATUS_OK;
    enum status status = store_output_find(store, dataset, place.path, &output, error);
    if (status != STATUS_OK || output.is_found)
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s exists, and was not written for dataset %.*s of %s: give another name, or"
                     " --overwrite",
                     path, (int)dataset.size, dataset.data, store_path(store));
}

// Whether `old` is a subsequence of the lines of `new`.
static bool has_lines(FILE *new, FILE *old)
{
    char *line = NULL, *found = NULL;
    size_t capacity = 0, found_capacity = 0;
    bool is_there = true;
    for (ssize_t n; is_there && (n = getline(&line, &capacity, old)) >= 0;) {
        ssize_t m = 0;
        is_there = false;
        while (!is_there && (m = getline(&found, &found_capacity, new)) >= 0)
            is_there = m == n && memcmp(found, line, (size_t)n) == 0;
    }
    free(line);
    free(found);
    return is_there && !ferror(old) && !ferror(new);
}

enum status own_output_check_lines(const struct output_file *written, const char *lines, bool may_overwrite,
                                   struct error *error)
{
    char path[64];
    struct stat about;
    if (may_overwrite || !written->file || !written->target || stat(written->target, &about) != 0 ||
        about.st_size == 0)
        return STATUS_OK;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(written->file));
    FILE *old = fopen(written->target, "re"), *new = fflush(written->file) == 0 ? fopen(path, "re") : NULL;
    bool is_own = old && new &&has_lines(new, old);
    if (old)
        fclose(old);
    if (new)
        fclose(new);
    if (is_own)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s exists, and has other lines than %s: give another name, or --overwrite",
                     written->name, lines);
}

enum status own_output_claim(struct store *store, struct text dataset, const char *path, struct error *error)
{
    static const struct digest none;
    struct file_place place;
    struct written_output output;
    if (store_is_read_only(store) || !find_place(path, &place))
        return STATUS_OK;
    enum status status = store_output_find(store, dataset, place.path, &output, error);
    return status == STATUS_OK && !output.is_found
               ? store_output_written(store, dataset, place.path, &none, error)
               : status;
}

enum status own_output_note(struct store *store, struct text dataset, const char *path, struct error *error)
{
    struct file_place place;
    struct digest digest;
    if (store_is_read_only(store) || !find_place(path, &place))
        return STATUS_OK;
    enum status status = digest_file(place.path, &digest, error);
    return status == STATUS_OK ? store_output_written(store, dataset, place.path, &digest, error) : status;
}

enum status own_output_is_unchanged(struct store *store, struct text dataset, const char *path,
                                    bool *is_unchanged, struct error *error)
{
    struct file_place place;
    struct digest digest;
    struct written_output output;
    *is_unchanged = !path;
    if (!find_place(path, &place) || access(place.path, R_OK) != 0)
        return STATUS_OK;
    enum status status = store_output_find(store, dataset, place.path, &output, error);
    if (status == STATUS_OK && output.is_found)
        status = digest_file(place.path, &digest, error);
    *is_unchanged = status == STATUS_OK && output.is_found && digest_equal(&digest, &output.digest);
    return status;
}
