// The Arrow schema of a Parquet file, which writers keep beside Parquet's own as metadata ARROW:schema. It has types that
// Parquet lacks: durations, dictionaries, time zones, lists of a fixed size. Arrow ignores a schema with another number of
// fields than the file has columns, so a copy with new columns needs new fields. Thread: any.
//
//   base64( 0xffffffff, size of the message, message )        (apache/arrow, format/Message.fbs and Schema.fbs)
//
//   message, new:     root, Message, Schema, vector of fields, fields of the new columns
//   after 8-byte pad: the old message, whose fields and metadata are referred to where they are
//
// Offsets of FlatBuffers are unsigned and so point forward. A new root before the old bytes therefore needs no change of them.
#pragma once

#include "schemas/parquet/parquet_output.h"

enum { ARROW_MESSAGE_BYTES_MAX = 1 << 28 };

// Adds the schema, as base64, with nullable fields for the new columns after its own. Adds nothing if `schema` is not base64 of
// an Arrow schema of n_fields fields, or the new one has more than ARROW_MESSAGE_BYTES_MAX. out->failed: memory ran out.
void arrow_schema_extend(struct text schema, size_t n_fields, const struct parquet_new_column *columns,
                         size_t n_columns, struct buffer *out);
