// Binds a session of a model (engine/session.h) as the batcher's executor.
#pragma once

#include "batching/batcher.h"
#include "engine/session.h"

// `ahead`: submits a step while the previous one runs, if the session supports it. The session must outlive
// the batcher.
struct step_executor session_executor_bind(struct session *session, bool ahead);
