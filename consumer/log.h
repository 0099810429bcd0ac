// Messages for people, on standard error: "sheaf: text". With --log-json one JSON object a line. Only consumer/ logs, each
// fault once, where it is dealt with. Thread: main.
#pragma once

#include "schemas/error.h"

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log_settings {
    enum log_level level;
    int json;
    const char *path; // NULL: standard error. Lines in a file have the time
};

// STATUS_REFUSE: the file can't be opened, or holds something else than a log.
enum status log_configure(const struct log_settings *settings, struct error *error) WARN_UNUSED;
bool log_has_file(void);
// Opens the file anew, where somebody moved it away. Where that fails the old one stays.
void log_reopen(void);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
// For the last line of a process: takes no lock of stdio, and is lost where the log's reader does not read. Thread: any.
void log_write_unlocked(enum log_level level, const char *text);
void log_error(const struct error *error); // its text, at the level its status deserves
