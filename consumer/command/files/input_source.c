#include "consumer/command/files/input_source.h"

#include "consumer/command/files/parent_pipe.h"
#include "consumer/command/files/text_decoder.h"
#include "schemas/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <zlib.h>

enum { COPY_BYTES = 1 << 16 };

// A gzip file is a sequence of members, which zeros may follow (gzip's manual, "Tapes").
struct gzip_stream {
    z_stream zlib;
    bool in_member, has_ended;
    unsigned char bytes[COPY_BYTES]; // compressed, as they were read
};

static enum status fail_source(const struct input_source *source, const char *doing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s%s", source->name, doing, strerror(errno));
}

static ssize_t read_some(int fd, char *bytes, size_t n_max)
{
    ssize_t n;
    do
        n = read(fd, bytes, n_max);
    while (n < 0 && errno == EINTR);
    return n;
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);
        if (written < 0 && errno != EINTR)
            return false;
        bytes += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

// Copies a stream into a temporary file, and replaces its descriptor by that file's.
static enum status copy_source(struct input_source *source, bool is_standard, struct error *error)
{
    char bytes[COPY_BYTES];
    int copy = file_open_temporary(file_temporary_folder());
    if (copy < 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: a temporary file in %s: %s", source->name,
                         file_temporary_folder(), strerror(errno));
    ssize_t n;
    while ((n = read_some(source->fd, bytes, sizeof bytes)) > 0)
        if (!write_all(copy, bytes, (size_t)n)) {
            error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: copying it to %s: %s", source->name,
                      file_temporary_folder(), strerror(errno));
            close(copy);
            return error->status;
        }
    if (n < 0) {
        fail_source(source, "reading: ", error);
        close(copy);
        return error->status;
    }
    if (is_standard && !parent_pipe_input_is_complete()) {
        close(copy);
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: the process that writes it ended before its end", source->name);
    }
    close(source->fd);
    source->fd = copy;
    return STATUS_OK;
}

// ---- formats that are not read ----

static enum status refuse_packed(const struct input_source *source, struct error *error)
{
    static const struct {
        const char *name, *magic;
        size_t n_bytes, at;
        const char *advice;
    } formats[] = {{"zstd", "\x28\xb5\x2f\xfd", 4, 0, "decompress it, as with zstd -dc, or use gzip"},
                   {"xz", "\3757zXZ", 5, 0, "decompress it, as with xz -dc, or use gzip"},
                   {"bzip2", "1AY&", 4, 4, "decompress it, as with bzip2 -dc, or use gzip"}, // after "BZh9"
                   {"lz4", "\x04\x22\x4d\x18", 4, 0, "decompress it, as with lz4 -dc, or use gzip"},
                   {"zip (as .xlsx and .ods are)", "PK\3\4", 4, 0, "unpack it, or save the sheet as CSV"},
                   {"Parquet here", "PAR1\x15", 5, 0,
                    "sheaf annotate reads it, by a name that ends in .parquet or --input-format parquet"},
                   {"Arrow", "ARROW1", 7, 0, "convert it to CSV or JSON lines"}};
    char bytes[8];
    ssize_t n = pread(source->fd, bytes, sizeof bytes, 0);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (n >= (ssize_t)(formats[i].at + formats[i].n_bytes) &&
            memcmp(bytes + formats[i].at, formats[i].magic, formats[i].n_bytes) == 0)
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: sheaf reads no %s: %s", source->name,
                             formats[i].name, formats[i].advice);
    return STATUS_OK;
}

// ---- gzip ----

static void gzip_close(struct input_source *source)
{
    if (source->gzip)
        inflateEnd(&source->gzip->zlib);
    free(source->gzip);
    source->gzip = NULL;
}

static enum status gzip_open(struct input_source *source, struct error *error)
{
    unsigned char magic[2];
    if (pread(source->fd, magic, sizeof magic, 0) != sizeof magic || magic[0] != 0x1f || magic[1] != 0x8b)
        return STATUS_OK;
    source->gzip = calloc(1, sizeof *source->gzip);
    if (source->gzip && inflateInit2(&source->gzip->zlib, 15 + 16) == Z_OK) // 32 KiB window, gzip's header
        return STATUS_OK;
    free(source->gzip);
    source->gzip = NULL;
    return error_memory(error, STATUS_REFUSE, "%s: decompressing", source->name);
}

static enum status gzip_fill(struct input_source *source, struct error *error)
{
    struct gzip_stream *gzip = source->gzip;
    ssize_t n = read_some(source->fd, (char *)gzip->bytes, sizeof gzip->bytes);
    if (n < 0)
        return fail_source(source, "reading: ", error);
    gzip->zlib.next_in = gzip->bytes;
    gzip->zlib.avail_in = (unsigned)n;
    gzip->has_ended = n == 0;
    if (gzip->has_ended && gzip->in_member)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: the gzip data end too early: the file is not whole", source->name);
    return STATUS_OK;
}

static enum status gzip_inflate(struct input_source *source, struct error *error)
{
    struct gzip_stream *gzip = source->gzip;
    if (!gzip->in_member) {
        for (; gzip->zlib.avail_in && *gzip->zlib.next_in == 0; gzip->zlib.avail_in--)
            gzip->zlib.next_in++;
        if (!gzip->zlib.avail_in)
            return STATUS_OK;
        gzip->in_member = true;
        inflateReset(&gzip->zlib);
    }
    int code = inflate(&gzip->zlib, Z_NO_FLUSH);
    gzip->in_member = code != Z_STREAM_END;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: the gzip data are damaged: %s", source->name,
                     gzip->zlib.msg ? gzip->zlib.msg : "no reason given");
}

static enum status gzip_read(struct input_source *source, char *bytes, size_t n_max, size_t *n,
                             struct error *error)
{
    struct gzip_stream *gzip = source->gzip;
    enum status status = STATUS_OK;
    gzip->zlib.next_out = (unsigned char *)bytes;
    gzip->zlib.avail_out = (unsigned)n_max;
    while (status == STATUS_OK && !gzip->has_ended && gzip->zlib.avail_out) {
        status = gzip->zlib.avail_in ? STATUS_OK : gzip_fill(source, error);
        if (status == STATUS_OK)
            status = gzip_inflate(source, error);
    }
    *n = (size_t)(gzip->zlib.next_out - (unsigned char *)bytes);
    return status;
}

// ---- text ----

// A file is decoded a piece at a time.
struct text_stream {
    struct text_decoder decoder;
    struct buffer out; // decoded, and not yet read from `begin` on
    size_t begin;
    bool has_ended;
    char bytes[COPY_BYTES]; // as they were read
};

// ---- the source ----

// True for block devices, and for devices without an end such as /dev/zero. False for /dev/null and
// terminals.
static bool is_endless(int fd, const struct stat *about)
{
    bool is_null = S_ISCHR(about->st_mode) && about->st_rdev == makedev(1, 3);
    return S_ISBLK(about->st_mode) || (S_ISCHR(about->st_mode) && !is_null && !isatty(fd));
}

enum status input_source_open_bytes(struct input_source *source, const char *path, struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    *source = (struct input_source){.name = standard ? "standard input" : path};
    // /dev/stdin may be a socket, which open() refuses
    int own = standard ? STDIN_FILENO : file_own_descriptor(path);
    struct stat about;
    source->fd = own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    enum status status = STATUS_OK;
    if (source->fd < 0 || fstat(source->fd, &about) != 0)
        status = fail_source(source, "", error);
    else if (S_ISDIR(about.st_mode))
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected a file or a pipe, got a folder",
                           source->name);
    else if (is_endless(source->fd, &about))
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected a file or a pipe, got a device",
                           source->name);
    else if (!S_ISREG(about.st_mode) || (own >= 0 && lseek(source->fd, 0, SEEK_CUR) != 0))
        status = copy_source(source, own == STDIN_FILENO, error); // the rest of a partly read file
    if (status != STATUS_OK)
        input_source_close(source);
    return status;
}

enum status input_source_open(struct input_source *source, const char *path, struct error *error)
{
    enum status status = input_source_open_bytes(source, path, error);
    if (status != STATUS_OK)
        return status;
    status = refuse_packed(source, error);
    if (status == STATUS_OK)
        status = gzip_open(source, error);
    if (status == STATUS_OK)
        status = input_source_rewind(source, error);
    if (status != STATUS_OK)
        input_source_close(source);
    return status;
}

void input_source_close(struct input_source *source)
{
    gzip_close(source);
    if (source->text)
        buffer_finish(&source->text->out);
    free(source->text);
    if (source->name && source->fd >= 0)
        close(source->fd);
    *source = (struct input_source){.fd = -1};
}

enum status input_source_rewind(struct input_source *source, struct error *error)
{
    if (source->gzip) {
        source->gzip->in_member = source->gzip->has_ended = false;
        source->gzip->zlib.avail_in = 0;
    }
    if (source->text) {
        text_decoder_rewind(&source->text->decoder);
        buffer_clear(&source->text->out);
        source->text->begin = 0;
        source->text->has_ended = false;
    }
    return lseek(source->fd, 0, SEEK_SET) < 0 ? fail_source(source, "reading it again: ", error) : STATUS_OK;
}

static enum status read_bytes(struct input_source *source, char *bytes, size_t n_max, size_t *n,
                              struct error *error)
{
    if (source->gzip)
        return gzip_read(source, bytes, n_max, n, error);
    ssize_t got = read_some(source->fd, bytes, n_max);
    *n = got > 0 ? (size_t)got : 0;
    return got < 0 ? fail_source(source, "reading: ", error) : STATUS_OK;
}

// ---- text ----

static enum status fill_text(struct input_source *source, struct error *error)
{
    struct text_stream *text = source->text;
    size_t n;
    buffer_clear(&text->out);
    text->begin = 0;
    enum status status = read_bytes(source, text->bytes, sizeof text->bytes, &n, error);
    text->has_ended = status == STATUS_OK && n == 0;
    if (status != STATUS_OK)
        return status;
    status = n ? text_decoder_add(&text->decoder, (struct text){text->bytes, n}, &text->out, error)
               : text_decoder_end(&text->decoder, error);
    if (status != STATUS_OK)
        return error_prefix(error, "%s", source->name);
    return text->out.failed ? error_memory(error, STATUS_REFUSE, "%s: reading", source->name) : STATUS_OK;
}

enum status input_source_read(struct input_source *source, char *bytes, size_t n_max, size_t *n,
                              struct error *error)
{
    struct text_stream *text = source->text;
    if (!text)
        return read_bytes(source, bytes, n_max, n, error);
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text->begin == text->out.size && !text->has_ended)
        status = fill_text(source, error);
    size_t left = text->out.size - text->begin;
    *n = status == STATUS_OK ? (left < n_max ? left : n_max) : 0;
    if (*n)
        memcpy(bytes, text->out.data + text->begin, *n);
    text->begin += *n;
    return status;
}

// Chooses the encoding by the byte order mark, if the file has one.
static enum status choose_encoding(const struct input_source *source, const char *given, const char *bytes,
                                   size_t n, enum text_encoding *encoding, struct error *error)
{
    bool is_given = given != NULL, is_little = n >= 2 && memcmp(bytes, "\xFF\xFE", 2) == 0,
         is_big = n >= 2 && memcmp(bytes, "\xFE\xFF", 2) == 0,
         is_utf8 = n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0;
    *encoding = TEXT_UTF8;
    if (is_given && !text_encoding_parse(given, encoding))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--encoding: expected utf-8, utf-16, cp1252 or latin1, got \"%s\"", given);
    bool is_wide = *encoding == TEXT_UTF16 || *encoding == TEXT_UTF16_BIG;
    if (is_given && (is_utf8 ? *encoding != TEXT_UTF8 : (is_little || is_big) && !is_wide))
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: --encoding %s, but the file begins as UTF-%s does", source->name, given,
                         is_utf8 ? "8" : "16");
    if (is_little || is_big)
        *encoding = is_big ? TEXT_UTF16_BIG : TEXT_UTF16;
    return STATUS_OK;
}

// True if the beginning has CRs and no LF.
static bool has_returns_alone(const struct text_stream *text)
{
    const struct buffer *out = &text->out;
    return out->size && memchr(out->data, '\r', out->size - (out->data[out->size - 1] == '\r')) &&
           !memchr(out->data, '\n', out->size);
}

enum status input_source_decode(struct input_source *source, const struct input_text *text,
                                struct error *error)
{
    char first[4];
    size_t n = 0;
    enum text_encoding encoding = TEXT_UTF8;
    enum status status = input_source_rewind(source, error);
    if (status == STATUS_OK)
        status = read_bytes(source, first, sizeof first, &n, error);
    if (status == STATUS_OK)
        status = choose_encoding(source, text->encoding, first, n, &encoding, error);
    if (status != STATUS_OK)
        return status;
    source->text = calloc(1, sizeof *source->text);
    if (!source->text)
        return error_memory(error, STATUS_REFUSE, "%s: reading", source->name);
    source->text->decoder.encoding = encoding;
    status = input_source_rewind(source, error);
    if (status == STATUS_OK)
        status = fill_text(source, error);
    source->text->decoder.ends_at_returns = status == STATUS_OK && has_returns_alone(source->text);
    source->text->decoder.n_lines_skipped = source->n_lines_skipped = text->skip_lines;
    bool is_needed = encoding != TEXT_UTF8 || text->skip_lines || source->text->decoder.ends_at_returns;
    if (!is_needed) {
        buffer_finish(&source->text->out);
        free(source->text);
        source->text = NULL;
    }
    return status == STATUS_OK ? input_source_rewind(source, error) : status;
}

enum status input_source_guess(struct input_source *source, const char **fits, struct error *error)
{
    struct text_guess guess = text_guess_begin();
    char bytes[COPY_BYTES];
    size_t n = 1;
    enum status status = input_source_rewind(source, error);
    while (status == STATUS_OK && n) {
        status = input_source_read(source, bytes, sizeof bytes, &n, error);
        if (status == STATUS_OK)
            text_guess_add(&guess, (struct text){bytes, n});
    }
    *fits = status == STATUS_OK ? text_guess_name(&guess) : NULL;
    return status == STATUS_OK ? input_source_rewind(source, error) : status;
}
