// The batcher's engine over a model's session (engine/session.h).
#pragma once

#include "batching/batcher.h"
#include "engine/session.h"

// `ahead`: steps are submitted while the one before runs, where the session can. The session must outlive the
// batcher.
struct engine session_engine_bind(struct session *session, bool ahead);
