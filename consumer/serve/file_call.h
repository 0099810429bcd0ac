// The calls of /v1/files. Thread: the connection's.
#pragma once

#include "consumer/serve/call.h"

void file_call_create(struct call *call);
void file_call_list(struct call *call);
void file_call_get(struct call *call, struct text id);
void file_call_content(struct call *call, struct text id);
void file_call_remove(struct call *call, struct text id);
