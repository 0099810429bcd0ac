#include "consumer/log.h"

#include "schemas/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static struct log_settings current = {.level = LOG_INFO}; // set once at start, before any other thread

void log_configure(const struct log_settings *settings)
{
    current = *settings;
}

static void write_json(enum log_level level, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    struct timespec now;
    struct tm utc;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
    struct buffer line = {0};
    buffer_add_format(&line, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":", stamp, now.tv_nsec / 1000000,
                      names[level]);
    json_encode_string(text_from_string(text), &line);
    buffer_add_string(&line, "}\n");
    if (!line.failed)
        fwrite(line.data, 1, line.size, stderr);
    buffer_finish(&line);
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
    else
        fprintf(stderr, "sheaf: %s%s\n", level == LOG_WARNING ? "warning: " : "", text);
}

void log_error(const struct error *error)
{
    log_write(error->status == STATUS_RETRY ? LOG_WARNING : LOG_ERROR, "%s", error->text);
}
