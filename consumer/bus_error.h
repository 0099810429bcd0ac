// SIGBUS: a mapped file was cut, or its disk can't be read. The process ends with a message and status 1; what it had not committed is
// given to others as after a kill.
#pragma once

// Before the model is mapped; a later call names another model.
void bus_error_handle(const char *model);
