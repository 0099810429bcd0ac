// Messages for people. Only consumer/ logs, each fault once, where it is handled.
//
//   standard error                     sheaf: TEXT
//   standard error of a service (*)    2026-11-22T12:00:00.000Z sheaf: TEXT
//   a file (--log)                     2026-11-22T12:00:00.000Z TEXT
//   --log-json                         {"time":"2026-11-22T12:00:00.000Z","level":"info","message":"TEXT"}
//
//   (*) unless it is a terminal, or systemd's journal, which adds times itself
//
// A reader that stops reading must not stop the work: after a second lines are dropped, and the next line
// that is written has their number. Thread: any, from log_configure on; log_reopen: main.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log_settings {
    enum log_level level;
    int json;
    const char *path; // NULL: standard error
    // Lines on standard error have a time, unless it is a terminal or the journal.
    bool is_service;
};

// STATUS_REFUSE: the file cannot be opened, or is not a log.
enum status log_configure(const struct log_settings *settings, struct error *error) WARN_UNUSED;
bool log_has_file(void);
// Reopens the file, for log rotation. If that fails, the old file stays open.
void log_reopen(void);
bool log_shows(enum log_level level);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
// Writes the last line of a process. Like log_write it takes no lock of stdio. Thread: any.
void log_write_unlocked(enum log_level level, const char *text);
