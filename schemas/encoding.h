// Removes prefix bytes before a record's JSON.
#pragma once

#include "schemas/base/text.h"

// Returns the record without prefixes that serializers write: a zero byte and a schema id of 4 bytes
// (Confluent's wire format, also Debezium's), or a byte order mark.
struct text encoding_body(struct text record);
