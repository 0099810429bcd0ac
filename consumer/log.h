// Messages for people, on standard error: "sheaf: text", of a service "TIME sheaf: text". With --log-json one JSON object a line. Only
// consumer/ logs, each fault once, where it is handled. A reader that stops reading must not stop the work:
// after a second lines are lost, and counted in the next one that is written. Thread: main.
#pragma once

#include "schemas/error.h"

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log_settings {
    enum log_level level;
    int json;
    const char *path; // NULL: standard error. Lines in a file have a timestamp
    // so have those on standard error, where that is no terminal and not the journal, which has its own
    bool is_service;
};

// STATUS_REFUSE: the file cannot be opened, or is not a log.
enum status log_configure(const struct log_settings *settings, struct error *error) WARN_UNUSED;
bool log_has_file(void);
// Reopens the file, for log rotation. If that fails, the old file stays open.
void log_reopen(void);
bool log_shows(enum log_level level);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
// For the last line of a process. Like log_write it takes no lock of stdio. Thread: any.
void log_write_unlocked(enum log_level level, const char *text);
