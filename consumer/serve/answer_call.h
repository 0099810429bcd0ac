// /v1/chat/completions, /v1/completions and /v1/embeddings: a job of the most urgent priority, for which the connection waits.
// The result is the queue's, as of any job; the dataset is deleted when its answer was read. Thread: the
// connection's.
#pragma once

#include "consumer/serve/call.h"

// call->path is the endpoint.
void answer_call(struct call *call);
