// SIGBUS: a mapped file was truncated, or its disk cannot be read. The process ends with a message and status
// 1; uncommitted jobs are delivered to other workers, as after a kill.
#pragma once

// Call before the model is mapped. The message names `model`; a later call replaces the name.
void bus_error_handle(const char *model);
