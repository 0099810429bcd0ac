// Forced continuation: the only byte that can follow, or the end of the text. In a JSON string, a forced
// character is written unescaped, as serializers write it, although its escape would be valid too. Internal
// to engine/grammar/.
//
//   text so far   can follow       forced
//   {"na          m or \u006d      m
//   {"name"       : or blank       nothing
//   {"a":1}       -                end
#pragma once

#include "engine/grammar/recognizer.h"

enum forced {
    FORCED_UNKNOWN,
    FORCED_NOTHING,     // several bytes can follow, or the text may also end
    FORCED_END,         // the text may end, and no byte can follow
    FORCED_BYTE = 0x100 // | byte: the only byte that can follow
};

// Returns the forced continuation of the set. FORCED_UNKNOWN: the pool has failed.
uint16_t recognizer_forced(struct recognizer *recognizer, uint32_t set);
// True if an allowed token spells `bytes` and continues after them. `set` is the set after `bytes`.
bool recognizer_goes_on(struct recognizer *recognizer, uint32_t set, struct text bytes);
