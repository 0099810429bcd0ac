#include "consumer/observe/log.h"

#include "schemas/base/clock.h"
#include "schemas/value.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WRITABLE_MS_MAX = 1000 }; // the wait for a full pipe; then lines are dropped until it is read again

static struct log_settings current = {.level = LOG_INFO}; // set once at start, before any other thread
static int log_fd = -1;                                   // -1: standard error
static bool has_times;                                    // on standard error
static _Atomic long n_lost;                               // lines since the last one that was written

// Refuses to append to a file that is not a log: a model or an input given by mistake would be damaged.
static enum status check_is_log(int fd, struct error *error)
{
    struct stat about;
    char first[9] = "";
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return STATUS_OK;
    ssize_t n = pread(fd, first, sizeof first - 1, 0);
    bool has_time = n >= 5 && isdigit((unsigned char)first[0]) && first[4] == '-'; // 2026-11-22T12:00:00.000Z
    if (has_time || (n >= 7 && memcmp(first, "{\"time\"", 7) == 0))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--log %s: expected a log or an empty file, and the file begins with something else",
                     current.path);
}

static enum status open_file(struct error *error)
{
    int fd = open(current.path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) // a pipe, or a file that is writable but not readable
        fd = open(current.path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0 && check_is_log(fd, error) != STATUS_OK) {
        close(fd);
        return error->status;
    }
    if (fd < 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "--log %s: %s", current.path, strerror(errno));
    if (log_fd < 0) {
        log_fd = fd;
    } else { // the number stays the log's: another thread may be about to write to it
        dup3(fd, log_fd, O_CLOEXEC);
        close(fd);
    }
    return STATUS_OK;
}

// JOURNAL_STREAM has device and inode of the journal's socket (systemd.exec(5)); it is inherited by processes
// whose standard error goes elsewhere.
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat about;
    unsigned long long device, inode;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &about) == 0 &&
           about.st_dev == device && about.st_ino == inode;
}

enum status log_configure(const struct log_settings *settings, struct error *error)
{
    current = *settings;
    has_times = settings->is_service && !isatty(STDERR_FILENO) && !is_journal(STDERR_FILENO);
    return current.path ? open_file(error) : STATUS_OK;
}

void log_reopen(void)
{
    struct error error;
    if (current.path && open_file(&error) != STATUS_OK)
        log_write(LOG_WARNING, "%s; going on with the old one", error.text);
}

bool log_has_file(void)
{
    return log_fd >= 0;
}

static int log_sink(void)
{
    return log_fd >= 0 ? log_fd : STDERR_FILENO;
}

// ISO 8601 in UTC, with milliseconds.
static void write_time(char stamp[40])
{
    int64_t now_ms = clock_wall_us() / 1000;
    time_t now_s = now_ms / 1000;
    struct tm utc;
    size_t length = strftime(stamp, 32, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now_s, &utc));
    snprintf(stamp + length, 40 - length, ".%03dZ", (int)(now_ms % 1000));
}

static void add_count(const char *name, int64_t n, struct buffer *line)
{
    if (n >= 0)
        buffer_add_format(line, ",\"%s\":%lld", name, (long long)n);
}

static void add_fields(const struct log_fields *fields, struct buffer *line)
{
    buffer_add_format(line, ",\"event\":\"%s\"", fields->event);
    if (fields->code)
        buffer_add_format(line, ",\"code\":\"%s\"", fields->code);
    if (fields->dataset.size) {
        buffer_add_string(line, ",\"dataset\":");
        json_encode_string(fields->dataset, line);
    }
    const struct log_counts *counts = fields->counts;
    if (!counts)
        return;
    add_count("done", counts->done, line);
    add_count("failed", counts->failed, line);
    add_count("total", counts->total, line);
    add_count("tokens", counts->tokens, line);
    if (counts->rate >= 0)
        buffer_add_format(line, ",\"rate\":%.1f", counts->rate);
}

// fields: NULL: none.
static void add_json(enum log_level level, const struct log_fields *fields, const char *text,
                     struct buffer *line)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char stamp[40];
    write_time(stamp);
    buffer_add_format(line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", stamp, names[level]);
    json_encode_string(text_from_string(text), line);
    if (fields)
        add_fields(fields, line);
    buffer_add_string(line, "}\n");
}

static void add_line(enum log_level level, const struct log_fields *fields, const char *text,
                     struct buffer *line)
{
    char stamp[40] = "";
    const char *mark = level == LOG_WARNING ? "warning: " : "";
    if (log_fd >= 0 || has_times)
        write_time(stamp);
    if (current.json)
        add_json(level, fields, text, line);
    else if (log_fd >= 0)
        buffer_add_format(line, "%s %s%s\n", stamp, mark, text);
    else
        buffer_add_format(line, "%s%ssheaf: %s%s\n", stamp, stamp[0] ? " " : "", mark, text);
}

// False: the sink did not accept everything within timeout_ms. A writable pipe accepts PIPE_BUF bytes at
// once.
static bool write_bytes(const char *data, size_t size, int timeout_ms)
{
    struct pollfd fd = {log_sink(), POLLOUT, 0};
    while (size > 0) {
        if (poll(&fd, 1, timeout_ms) != 1)
            return false;
        ssize_t n = write(fd.fd, data, size < PIPE_BUF ? size : PIPE_BUF);
        if (n < 0)
            return errno != EINTR && errno != EAGAIN; // the sink is gone, not slow: nothing counts as lost
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static void write_line(enum log_level level, const struct log_fields *fields, const char *text)
{
    struct buffer line = {0};
    char lost[80];
    if (n_lost > 0) {
        snprintf(lost, sizeof lost, "%ld messages were lost: nobody read them", n_lost);
        add_line(LOG_WARNING, NULL, lost, &line);
    }
    add_line(level, fields, text, &line);
    if (!line.failed && write_bytes(line.data, line.size, n_lost ? 0 : WRITABLE_MS_MAX))
        n_lost = 0;
    else
        n_lost++;
    buffer_finish(&line);
}

bool log_shows(enum log_level level)
{
    return level <= current.level;
}

static void write_format(enum log_level level, const struct log_fields *fields, const char *format,
                         va_list arguments)
{
    char text[2 * ERROR_TEXT_BYTES];
    if (!log_shows(level))
        return;
    vsnprintf(text, sizeof text, format, arguments);
    utf8_make_printable(text);
    write_line(level, fields, text);
}

void log_write(enum log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_format(level, NULL, format, arguments);
    va_end(arguments);
}

void log_write_fields(enum log_level level, const struct log_fields *fields, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_format(level, fields, format, arguments);
    va_end(arguments);
}

void log_write_unlocked(enum log_level level, const char *text)
{
    char shown[2 * ERROR_TEXT_BYTES];
    snprintf(shown, sizeof shown, "%s", text);
    utf8_make_printable(shown);
    struct buffer line = {0};
    add_line(level, NULL, shown, &line);
    if (!line.failed)
        (void)write_bytes(line.data, line.size, WRITABLE_MS_MAX);
    buffer_finish(&line);
}
