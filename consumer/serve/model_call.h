// /v1/models: the models of the store's living workers. Thread: the connection's.
#pragma once

#include "consumer/serve/call.h"

void model_call_list(struct call *call);
void model_call_get(struct call *call, struct text name);
