// Messages for people. Only consumer/ logs, each fault once, where it is handled.
//
//   standard error                     sheaf: TEXT
//   standard error of a service (*)    2026-11-22T12:00:00.000Z sheaf: TEXT
//   a file (--log)                     2026-11-22T12:00:00.000Z TEXT
//   --log-json                         {"time":"2026-11-22T12:00:00.000Z","level":"info","message":"TEXT"}
//     with fields                      {"time":...,"level":"info","message":"TEXT","event":"progress","dataset":"d",
//                                       "done":30,"failed":2,"total":101,"tokens":100,"rate":4.0}
//
//   (*) unless it is a terminal, or systemd's journal, which adds times itself
//
// A reader that stops reading must not stop the work: after a second lines are dropped, and the next line
// that is written has their number. Thread: any, from log_configure on; log_reopen: main.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log_settings {
    enum log_level level;
    int json;
    const char *path; // NULL: standard error
    // Lines on standard error have a time, unless it is a terminal or the journal.
    bool is_service;
};

// Figures of a dataset's jobs, or of annotate's rows and embed's texts. A negative one is unknown: its member is
// absent.
struct log_counts {
    int64_t done, failed; // finished, failed ones included; of them failed
    int64_t total;
    int64_t tokens; // computed by this process: generated, or of the prompts of embeddings
    double rate;    // finished per second
};

// Members of a line of --log-json after its message, for programs.
struct log_fields {
    const char *event;               // progress; finished: the command did its work; failed: its last message
    struct text dataset;             // size 0: absent
    const struct log_counts *counts; // NULL: absent
    const char *code;                // of failed: error_code_name(); NULL: absent
};

// STATUS_REFUSE: the file cannot be opened, or is not a log.
enum status log_configure(const struct log_settings *settings, struct error *error) WARN_UNUSED;
bool log_has_file(void);
// Reopens the file, for log rotation. If that fails, the old file stays open.
void log_reopen(void);
bool log_shows(enum log_level level);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
void log_write_fields(enum log_level level, const struct log_fields *fields, const char *format, ...)
    PRINTF_LIKE(3, 4);
// Writes the last line of a process. Like log_write it takes no lock of stdio. Thread: any.
void log_write_unlocked(enum log_level level, const char *text);
