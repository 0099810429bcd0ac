#include "consumer/command/files/own_output.h"

#include "schemas/base/file.h"
#include "store/outputs.h"
#include "store/table_insert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 65536 };

struct place {
    struct file_place file;
    char key[2 * PATH_MAX]; // in the store: the file's path, or of a table "PATH#TABLE"
};

// Resolves the path. False: there is no path, or it is a stream.
static bool find_place(const char *path, const char *table, struct place *place)
{
    if (!path || file_is_stream(path) || !file_follow(path, &place->file))
        return false;
    snprintf(place->key, sizeof place->key, "%s%s%s", place->file.path, table ? "#" : "", table ? table : "");
    return true;
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

static enum status digest_output(const struct place *place, const char *table, struct digest *digest,
                                 struct error *error)
{
    return table ? table_insert_digest(place->file.path, table, digest, error)
                 : digest_file(place->file.path, digest, error);
}

enum status own_output_check(struct store *store, struct text dataset, const char *path, const char *table,
                             bool may_overwrite, struct error *error)
{
    struct place place;
    struct stat about;
    struct written_output output;
    if (may_overwrite || !find_place(path, table, &place) || stat(place.file.path, &about) != 0 ||
        about.st_size == 0)
        return STATUS_OK;
    enum status status = store_output_find(store, dataset, place.key, &output, error);
    if (status != STATUS_OK || (table && !output.is_found))
        return status;
    if (!output.is_found)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s exists, and was not written for dataset %.*s of %s: give another name, or"
                         " --overwrite",
                         path, (int)dataset.size, dataset.data, store_path(store));
    if (!digest_is_set(&output.digest))
        return STATUS_OK; // a command was killed between own_output_claim and own_output_note
    struct digest digest;
    status = digest_output(&place, table, &digest, error);
    if (status != STATUS_OK || digest_equal(&digest, &output.digest) || (table && !digest_is_set(&digest)))
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s%s%s was changed after dataset %.*s wrote it: give another name, or --overwrite",
                     path, table ? ", table " : "", table ? table : "", (int)dataset.size, dataset.data);
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

enum status own_output_claim(struct store *store, struct text dataset, const char *path, const char *table,
                             struct error *error)
{
    static const struct digest none;
    struct place place;
    if (store_is_read_only(store) || !find_place(path, table, &place))
        return STATUS_OK;
    return store_output_written(store, dataset, place.key, &none, error);
}

enum status own_output_note(struct store *store, struct text dataset, const char *path, const char *table,
                            struct error *error)
{
    struct place place;
    struct digest digest;
    if (store_is_read_only(store) || !find_place(path, table, &place))
        return STATUS_OK;
    enum status status = digest_output(&place, table, &digest, error);
    return status == STATUS_OK ? store_output_written(store, dataset, place.key, &digest, error) : status;
}

enum status own_output_complete(struct store *store, struct text dataset, const char *const paths[2],
                                bool may_overwrite, struct output *output, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < 2 && status == STATUS_OK; i++)
        status = own_output_check(store, dataset, paths[i], NULL, may_overwrite, error);
    for (size_t i = 0; i < 2 && status == STATUS_OK; i++)
        status = own_output_claim(store, dataset, paths[i], NULL, error);
    if (status == STATUS_OK)
        status = output_complete(output, error);
    for (size_t i = 0; i < 2 && status == STATUS_OK; i++)
        status = own_output_note(store, dataset, paths[i], NULL, error);
    return status;
}

enum status own_output_is_unchanged(struct store *store, struct text dataset, const char *path,
                                    bool *is_unchanged, struct error *error)
{
    struct place place;
    struct digest digest;
    struct written_output output;
    *is_unchanged = !path;
    if (!find_place(path, NULL, &place) || access(place.file.path, R_OK) != 0)
        return STATUS_OK;
    enum status status = store_output_find(store, dataset, place.key, &output, error);
    if (status == STATUS_OK && output.is_found)
        status = digest_file(place.file.path, &digest, error);
    *is_unchanged = status == STATUS_OK && output.is_found && digest_equal(&digest, &output.digest);
    return status;
}
