// Says what a step showed that was computed twice. Thread: main, whose the log is.
#pragma once

#include "schemas/figures.h"

void check_log(const struct check_figures *check); // step 0: nothing
