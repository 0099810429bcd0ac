#include "consumer/log.h"

#include "schemas/value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct log_settings current = {.level = LOG_INFO}; // set once at start, before any other thread
static FILE *file;                                        // NULL: standard error

static enum status open_file(struct error *error)
{
    int fd = open(current.path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    FILE *opened = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (!opened) {
        if (fd >= 0)
            close(fd);
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "--log %s: %s", current.path, strerror(errno));
    }
    setlinebuf(opened);
    if (file)
        fclose(file);
    file = opened;
    return STATUS_OK;
}

enum status log_configure(const struct log_settings *settings, struct error *error)
{
    current = *settings;
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
    return file != NULL;
}

static FILE *sink(void)
{
    return file ? file : stderr;
}

// ISO 8601 in UTC, with milliseconds.
static void write_time(char stamp[40])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t length = strftime(stamp, 32, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
    snprintf(stamp + length, 40 - length, ".%03ldZ", now.tv_nsec / 1000000);
}

static void write_json(enum log_level level, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char stamp[40];
    write_time(stamp);
    struct buffer line = {0};
    buffer_add_format(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", stamp, names[level]);
    json_encode_string(text_from_string(text), &line);
    buffer_add_string(&line, "}\n");
    if (!line.failed)
        fwrite(line.data, 1, line.size, sink());
    buffer_finish(&line);
}

static void write_line(enum log_level level, const char *text)
{
    char stamp[40];
    write_time(stamp);
    fprintf(file, "%s %s%s\n", stamp, level == LOG_WARNING ? "warning: " : "", text);
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level > current.level)
        return;
    char text[2 * ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (current.json)
        write_json(level, text);
    else if (file)
        write_line(level, text);
    else
        fprintf(stderr, "sheaf: %s%s\n", level == LOG_WARNING ? "warning: " : "", text);
}

void log_error(const struct error *error)
{
    log_write(error->status == STATUS_RETRY ? LOG_WARNING : LOG_ERROR, "%s", error->text);
}
