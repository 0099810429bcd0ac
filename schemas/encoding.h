// What stands before a record's JSON.
#pragma once

#include "schemas/text.h"

// The record without what serializers put before JSON: a zero byte and a schema's id of 4 bytes (Confluent's
// wire format, also Debezium's), and a byte order mark.
struct text encoding_body(struct text record);
