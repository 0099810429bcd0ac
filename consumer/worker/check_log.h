// Logs the result of a checked step. Thread: main.
#pragma once

#include "engine/session.h"

void check_log(const struct check_figures *check);        // logs nothing if check->step is 0
void check_log_totals(const struct check_totals *totals); // totals over all steps, at the end
