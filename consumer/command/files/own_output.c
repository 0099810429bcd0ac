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

static bool has_bytes(FILE *new, FILE *old)
{
    char old_bytes[PIECE_BYTES], new_bytes[PIECE_BYTES];
    size_t n, m;
    do {
        n = fread(old_bytes, 1, sizeof old_bytes, old);
        m = fread(new_bytes, 1, sizeof new_bytes, new);
    } while (n == m && n > 0 && memcmp(old_bytes, new_bytes, n) == 0);
    return n == 0 && m == 0 && !ferror(old) && !ferror(new);
}

// Whether `compare` accepts the file that has the name of `written`. True also if there is none, or an empty one.
static bool may_replace(const struct output_file *written, bool (*compare)(FILE *new, FILE *old))
{
    char path[64];
    struct stat about;
    if (!written->file || !written->target || stat(written->target, &about) != 0 || about.st_size == 0)
        return true;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(written->file));
    FILE *old = fopen(written->target, "re"), *new = fflush(written->file) == 0 ? fopen(path, "re") : NULL;
    bool is_own = old && new &&compare(new, old);
    if (old)
        fclose(old);
    if (new)
        fclose(new);
    return is_own;
}

enum status own_output_check_lines(const struct output_file *written, const char *lines, bool may_overwrite,
                                   struct error *error)
{
    if (may_overwrite || may_replace(written, has_lines))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s exists, and has other lines than %s: give another name, or --overwrite",
                     written->name, lines);
}

enum status own_output_check_bytes(const struct output_file *written, bool may_overwrite, struct error *error)
{
    if (may_overwrite || may_replace(written, has_bytes))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s exists, and has other content than this output: give another name, or --overwrite",
                     written->name);
}

enum status own_output_check_rows(const struct output_file *written, uint64_t row_bytes, bool may_overwrite,
                                  struct error *error)
{
    struct stat about;
    if (may_overwrite || !written->target || stat(written->target, &about) != 0 ||
        (uint64_t)about.st_size % row_bytes == 0)
        return STATUS_OK;
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s exists, and has no rows of %llu bytes, as this output has: give another name, or --overwrite",
        written->name, (unsigned long long)row_bytes);
}

// ---- signed pages ----

enum { PAGE_BYTES_MAX = 256 << 20 };

static const char sign_begin[] = "<!-- written by sheaf, ", sign_end[] = " -->\n";
enum { SIGN_BYTES = sizeof sign_begin - 1 + DIGEST_HEX + sizeof sign_end - 1 };

static void make_sign(struct text page, struct text name, char sign[SIGN_BYTES])
{
    struct {
        struct digest page, name;
    } digests = {digest_of(page.data, page.size), digest_of(name.data, name.size)};
    struct digest digest = digest_of(&digests, sizeof digests);
    memcpy(sign, sign_begin, sizeof sign_begin - 1);
    digest_write_hex(&digest, sign + sizeof sign_begin - 1);
    memcpy(sign + SIGN_BYTES - (sizeof sign_end - 1), sign_end, sizeof sign_end - 1);
}

void own_output_sign(struct buffer *page, struct text name)
{
    char sign[SIGN_BYTES];
    make_sign((struct text){page->data, page->size}, name, sign);
    buffer_add(page, sign, sizeof sign);
}

enum status own_output_check_signed(const char *path, struct text name, bool may_overwrite,
                                    struct error *error)
{
    struct place place;
    struct stat about;
    struct buffer old = {0};
    struct error unread;
    char sign[SIGN_BYTES];
    if (may_overwrite || !find_place(path, NULL, &place) || stat(place.file.path, &about) != 0 ||
        about.st_size == 0)
        return STATUS_OK;
    bool is_own =
        file_read(place.file.path, PAGE_BYTES_MAX, &old, &unread) == STATUS_OK && old.size > sizeof sign;
    if (is_own) {
        make_sign((struct text){old.data, old.size - sizeof sign}, name, sign);
        is_own = memcmp(old.data + old.size - sizeof sign, sign, sizeof sign) == 0;
    }
    buffer_finish(&old);
    if (is_own)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s exists, and is not this dataset's report as it was written: give another name, or "
                     "--overwrite",
                     path);
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
