// Forced continuation of a text: its only next byte, or its end. A character of a JSON string that alone can
// follow is written as itself, not as an escape, as serializers write it. Internal to engine/grammar/.
#pragma once

#include "engine/grammar/recognizer.h"

enum forced {
    FORCED_UNKNOWN,
    FORCED_NOTHING,     // several bytes can follow, or the text may end as well
    FORCED_END,         // the text may end, and no byte can follow
    FORCED_BYTE = 0x100 // | byte: it alone can follow
};

// FORCED_UNKNOWN: the pool has failed.
uint16_t recognizer_forced(struct recognizer *recognizer, uint32_t set);
// Whether a token that is allowed behind the set begins with all of `bytes` and is longer, `set` being behind
// them.
bool recognizer_goes_on(struct recognizer *recognizer, uint32_t set, struct text bytes);
