// Messages for people, on standard error: "sheaf: text". With --log-json one JSON object a line. Only consumer/ logs, each
// fault once, where it is dealt with. Thread: main.
#pragma once

#include "schemas/error.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log_settings {
    enum log_level level;
    int json;
};

void log_configure(const struct log_settings *settings);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
void log_error(const struct error *error); // its text, at the level its status deserves
