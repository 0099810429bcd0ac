// msgpack to and from value trees. msgpack-c's unpacking template runs the state machine and calls back once
// for each value; the callbacks build our tree directly in the arena. The library's msgpack_unpack_next is
// not used: it allocates whatever count the input declares, and accepts only 32 levels.
//
// A declared count is accepted only up to the size of the input: every item has at least one byte, so the
// items declared so far, over all containers, may not exceed the input's size. Memory is thus bounded by
// about 24 bytes for each input byte, and by VALUE_COUNT_MAX.
#include "schemas/value.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

#define MSGPACK_EMBED_STACK_SIZE VALUE_DEPTH_MAX
#include <msgpack/unpack_define.h>

enum {
    CALLBACK_FAILED = -100, // `error` is filled
    NUMBER_EXTENSION = 1,   // the JSON text of a number that is neither a 64-bit integer nor a double
};

struct decoder {
    struct arena *arena;
    struct error *error;
    size_t input_size;
    size_t n_declared; // items of all containers so far, including keys and the root
};

static int out_of_memory(struct decoder *decoder)
{
    error_set(decoder->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY,
              "msgpack: no memory for a record of %zu bytes", decoder->input_size);
    return CALLBACK_FAILED;
}

static int bad_encoding(struct decoder *decoder, const char *what)
{
    error_set(decoder->error, STATUS_REJECT, ERROR_INVALID_ENCODING, "not valid msgpack: %s", what);
    return CALLBACK_FAILED;
}

static int decode_nil(struct decoder *decoder, struct value *value)
{
    *value = (struct value){.kind = VALUE_NULL};
    return 0;
}

static int decode_true(struct decoder *decoder, struct value *value)
{
    *value = value_bool(true);
    return 0;
}

static int decode_false(struct decoder *decoder, struct value *value)
{
    *value = value_bool(false);
    return 0;
}

static int decode_int64(struct decoder *decoder, int64_t integer, struct value *value)
{
    *value = value_integer(integer);
    return 0;
}

static int decode_uint64(struct decoder *decoder, uint64_t integer, struct value *value)
{
    if (integer <= INT64_MAX)
        return decode_int64(decoder, (int64_t)integer, value);
    char digits[INTEGER_TEXT_BYTES];
    int size = snprintf(digits, sizeof digits, "%" PRIu64, integer);
    *value = value_float((double)integer);
    value->digits = arena_copy(decoder->arena, digits, (size_t)size + 1);
    return value->digits ? 0 : out_of_memory(decoder);
}

static int decode_double(struct decoder *decoder, double number, struct value *value)
{
    if (!isfinite(number))
        return bad_encoding(decoder, "a number that is not finite");
    *value = value_float(number);
    return 0;
}

static int decode_float(struct decoder *decoder, float number, struct value *value)
{
    if (!isfinite(number))
        return bad_encoding(decoder, "a number that is not finite");
    *value = value_single(number);
    return 0;
}

static int decode_str(struct decoder *decoder, const char *input, const char *data, unsigned size,
                      struct value *value)
{
    if (!utf8_valid(data, size))
        return bad_encoding(decoder, "a string that is not UTF-8");
    *value = value_string((struct text){size ? data : "", size}); // the template leaves `data` unset for ""
    return 0;
}

static int decode_bin(struct decoder *decoder, const char *input, const char *data, unsigned size,
                      struct value *value)
{
    *value = (struct value){.kind = VALUE_BYTES, .text = {size ? data : "", size}};
    return 0;
}

static int decode_ext(struct decoder *decoder, const char *input, const char *data, unsigned size,
                      struct value *value)
{
    struct text digits = {data + 1, size - 1};
    struct error fault;
    if (*(const signed char *)data != NUMBER_EXTENSION)
        return bad_encoding(decoder, "an extension type; only type 1 and the basic types are read");
    enum status status = json_decode(digits, decoder->arena, value, &fault);
    if (status == STATUS_RETRY)
        return out_of_memory(decoder);
    if (status != STATUS_OK || (value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT))
        return bad_encoding(decoder, "an extension of type 1 that is not the text of a JSON number");
    return 0;
}

static int declare_items(struct decoder *decoder, size_t n_items)
{
    decoder->n_declared += n_items; // at most 2^26 additions of at most 2^33: no overflow
    if (decoder->n_declared > decoder->input_size)
        return bad_encoding(decoder, "a container declares more items than the record holds");
    if (decoder->n_declared > VALUE_COUNT_MAX) {
        error_set(decoder->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: more than %d values",
                  VALUE_COUNT_MAX);
        return CALLBACK_FAILED;
    }
    return 0;
}

static int decode_array(struct decoder *decoder, unsigned n_items, struct value *array)
{
    int failed = declare_items(decoder, n_items);
    if (failed)
        return failed;
    if (!value_array_create(decoder->arena, n_items, array))
        return out_of_memory(decoder);
    array->array.n_items = 0; // decode_array_item counts up
    return 0;
}

static int decode_array_item(struct decoder *decoder, struct value *array, struct value item)
{
    array->array.items[array->array.n_items++] = item;
    return 0;
}

static int decode_map(struct decoder *decoder, unsigned n_members, struct value *object)
{
    int failed = declare_items(decoder, 2 * (size_t)n_members);
    if (failed)
        return failed;
    return value_object_create(decoder->arena, n_members, object) ? 0 : out_of_memory(decoder);
}

static int decode_map_item(struct decoder *decoder, struct value *object, struct value key,
                           struct value member)
{
    if (key.kind != VALUE_STRING)
        return bad_encoding(decoder, "a map key that is not a string");
    if (memchr(key.text.data, 0, key.text.size))
        return bad_encoding(decoder, "a map key with a NUL byte");
    object->object.members[object->object.n_members++] = (struct value_member){key.text, member};
    return 0;
}

static struct value decode_root(struct decoder *decoder)
{
    return (struct value){.kind = VALUE_NULL};
}

// The callbacks of wide integers also serve narrow ones.
#define decode_uint8  decode_int64
#define decode_uint16 decode_int64
#define decode_uint32 decode_int64
#define decode_int8   decode_int64
#define decode_int16  decode_int64
#define decode_int32  decode_int64

#define msgpack_unpack_struct(name)       struct template##name
#define msgpack_unpack_func(result, name) static inline result template##name
#define msgpack_unpack_callback(name)     decode##name
#define msgpack_unpack_object             struct value
#define msgpack_unpack_user               struct decoder
#include <msgpack/unpack_template.h>

// Refuses duplicate keys. Runs when the whole tree is complete, because the template has no callback for the
// end of a map.
static enum status check_unique(const struct value *value, struct error *error)
{
    enum status status = STATUS_OK;
    if (value->kind == VALUE_ARRAY)
        for (size_t i = 0; i < value->array.n_items && status == STATUS_OK; i++)
            status = check_unique(&value->array.items[i], error);
    if (value->kind != VALUE_OBJECT)
        return status;
    const struct text *duplicate;
    if (!value_find_duplicate(value, &duplicate))
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "msgpack: no memory to compare %zu keys",
                         value->object.n_members);
    if (duplicate)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING,
                         "not valid msgpack: duplicate key \"%.*s\"",
                         (int)(duplicate->size < 64 ? duplicate->size : 64), duplicate->data);
    for (size_t i = 0; i < value->object.n_members && status == STATUS_OK; i++)
        status = check_unique(&value->object.members[i].value, error);
    return status;
}

static enum status explain_failure(int returned, struct error *error)
{
    if (returned == CALLBACK_FAILED)
        return error->status;
    if (returned == MSGPACK_UNPACK_NOMEM_ERROR) // the template's stack is full; not out of memory
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: nested deeper than %d levels",
                         VALUE_DEPTH_MAX);
    if (returned == 0)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING,
                         "not valid msgpack: the record ends early");
    return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "not valid msgpack: an unknown type byte");
}

enum status msgpack_decode(struct text input, struct arena *arena, struct value *value, struct error *error)
{
    *value = (struct value){.kind = VALUE_NULL};
    if (input.size > VALUE_INPUT_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "record: %zu bytes, at most %d are read",
                         input.size, VALUE_INPUT_BYTES_MAX);
    char *copy = arena_copy(arena, input.data, input.size); // the strings of the tree point into it
    if (!copy)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY,
                         "msgpack: no memory for a record of %zu bytes", input.size);
    struct template_context context;
    context.user =
        (struct decoder){.arena = arena, .error = error, .input_size = input.size, .n_declared = 1};
    template_init(&context);
    size_t offset = 0;
    int returned = template_execute(&context, copy, input.size, &offset);
    if (returned != 1)
        return explain_failure(returned, error);
    if (offset != input.size)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING,
                         "not valid msgpack: %zu bytes after the end of the value", input.size - offset);
    struct value root = template_data(&context);
    enum status status = check_unique(&root, error);
    if (status == STATUS_OK)
        *value = root;
    return status;
}

static int write_bytes(void *data, const char *bytes, size_t size)
{
    struct buffer *buffer = data;
    buffer_add(buffer, bytes, size);
    return 0; // a full buffer latches `failed`
}

static void encode_value(const struct value *value, msgpack_packer *packer);

static void encode_text(struct text text, msgpack_packer *packer)
{
    msgpack_pack_str(packer, text.size);
    msgpack_pack_str_body(packer, text.data, text.size);
}

static bool is_uint64(const struct value *value, uint64_t *integer)
{
    if (!value_is_long_integer(value) || value->digits[0] == '-')
        return false;
    errno = 0;
    *integer = strtoull(value->digits, NULL, 10);
    return errno == 0;
}

static void encode_number(const struct value *value, msgpack_packer *packer)
{
    uint64_t integer;
    if (is_uint64(value, &integer))
        msgpack_pack_uint64(packer, integer);
    else if (value->digits) {
        msgpack_pack_ext(packer, strlen(value->digits), NUMBER_EXTENSION);
        msgpack_pack_ext_body(packer, value->digits, strlen(value->digits));
    } else if (value->single)
        msgpack_pack_float(packer, (float)value->number);
    else
        msgpack_pack_double(packer, value->number);
}

static void encode_object(const struct value *object, msgpack_packer *packer)
{
    msgpack_pack_map(packer, object->object.n_members);
    for (size_t i = 0; i < object->object.n_members; i++) {
        encode_text(object->object.members[i].key, packer);
        encode_value(&object->object.members[i].value, packer);
    }
}

static void encode_value(const struct value *value, msgpack_packer *packer)
{
    switch (value->kind) {
    case VALUE_NULL:
        msgpack_pack_nil(packer);
        break;
    case VALUE_BOOL:
        if (value->boolean)
            msgpack_pack_true(packer);
        else
            msgpack_pack_false(packer);
        break;
    case VALUE_INTEGER:
        msgpack_pack_int64(packer, value->integer);
        break;
    case VALUE_FLOAT:
        encode_number(value, packer);
        break;
    case VALUE_STRING:
        encode_text(value->text, packer);
        break;
    case VALUE_BYTES:
        msgpack_pack_bin(packer, value->text.size);
        msgpack_pack_bin_body(packer, value->text.data, value->text.size);
        break;
    case VALUE_ARRAY:
        msgpack_pack_array(packer, value->array.n_items);
        for (size_t i = 0; i < value->array.n_items; i++)
            encode_value(&value->array.items[i], packer);
        break;
    case VALUE_OBJECT:
        encode_object(value, packer);
        break;
    }
}

void msgpack_encode(const struct value *value, struct buffer *out)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, write_bytes);
    encode_value(value, &packer);
}
