// Thrift's compact protocol (apache/thrift, doc/specs/thrift-compact-protocol.md), as far as Parquet's
// metadata need it. A struct is a sequence of fields, each a header and a value, and a stop byte. Texts that
// are read point into the input. Thread: any, one at a time per reader.
#pragma once

#include "schemas/base/text.h"

enum thrift_type {
    THRIFT_STOP = 0,
    THRIFT_TRUE = 1, // a field's header is its value; in a list it has a byte
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12,
    THRIFT_UUID = 13,
};

enum { THRIFT_DEPTH_MAX = 32 }; // nested values that are skipped

// After a failure every call reads zeros, and thrift_next_field ends its struct: check `failed` once, at the
// end.
struct thrift_reader {
    const char *at, *end;
    bool failed;
};

struct thrift_field {
    int16_t id; // zero before the first field of a struct
    enum thrift_type type;
};

struct thrift_reader thrift_read_text(struct text text);
// Reads the header of the struct's next field. False: the struct ends, or the bytes are damaged.
bool thrift_next_field(struct thrift_reader *reader, struct thrift_field *field);
uint64_t thrift_read_varint(struct thrift_reader *reader);
int64_t thrift_read_integer(struct thrift_reader *reader); // of type I16, I32 and I64
// An integer within int32. One beyond fails.
int32_t thrift_read_i32(struct thrift_reader *reader);
struct text thrift_read_binary(struct thrift_reader *reader);
// Reads the header of a list, whose elements follow; their number is at most the number of bytes that are
// left.
size_t thrift_read_list(struct thrift_reader *reader, enum thrift_type *element);
// The same if the field is a list of structs; any other field fails.
size_t thrift_read_structs(struct thrift_reader *reader, const struct thrift_field *field);
// Skips the value of a field and returns its bytes.
struct text thrift_skip(struct thrift_reader *reader, enum thrift_type type);
// Skips an element of a list and returns its bytes.
struct text thrift_skip_element(struct thrift_reader *reader, enum thrift_type type);

// Writes one struct to the end of `out`. A nested struct is written by a writer of its own.
struct thrift_writer {
    struct buffer *out;
    int16_t last_id;
};

void thrift_write_header(struct thrift_writer *writer, int16_t id, enum thrift_type type);
void thrift_write_integer(struct thrift_writer *writer, int16_t id, enum thrift_type type, int64_t integer);
void thrift_write_binary(struct thrift_writer *writer, int16_t id, struct text text);
void thrift_write_list(struct thrift_writer *writer, int16_t id, enum thrift_type element, size_t n);
void thrift_write_stop(struct thrift_writer *writer);
// A value without a header, for the elements of lists.
void thrift_add_varint(struct buffer *out, uint64_t integer);
void thrift_add_integer(struct buffer *out, int64_t integer);
void thrift_add_binary(struct buffer *out, struct text text);
