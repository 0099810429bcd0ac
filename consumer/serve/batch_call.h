// The calls of /v1/batches. Thread: the connection's.
#pragma once

#include "consumer/serve/call.h"

void batch_call_create(struct call *call);
void batch_call_list(struct call *call);
void batch_call_get(struct call *call, struct text id);
void batch_call_cancel(struct call *call, struct text id);
