#include "schemas/encoding.h"

#include "schemas/job.h"

#include <string.h>
#include <strings.h>

// Returns the media type without parameters: the part before the first ';' (RFC 9110, section 8.3.1), without
// surrounding white space.
static struct text media_type(struct text content_type)
{
    size_t start = 0, end = 0;
    while (end < content_type.size && content_type.data[end] != ';')
        end++;
    while (start < end && (content_type.data[start] == ' ' || content_type.data[start] == '\t'))
        start++;
    while (end > start && (content_type.data[end - 1] == ' ' || content_type.data[end - 1] == '\t'))
        end--;
    return (struct text){content_type.data + start, end - start};
}

static bool is_media_type(struct text type, const char *name)
{
    struct text wanted = text_from_string(name);
    return type.size == wanted.size && strncasecmp(type.data, wanted.data, wanted.size) == 0;
}

enum { FRAMING_BYTES = 5 };
static const unsigned char byte_order_mark[] = {0xEF, 0xBB, 0xBF};

static struct text after_byte_order_mark(struct text record)
{
    if (record.size < sizeof byte_order_mark ||
        memcmp(record.data, byte_order_mark, sizeof byte_order_mark) != 0)
        return record;
    return (struct text){record.data + sizeof byte_order_mark, record.size - sizeof byte_order_mark};
}

struct text encoding_body(struct text record)
{
    struct text body = record;
    if (record.size > FRAMING_BYTES && record.data[0] == 0)
        body = (struct text){record.data + FRAMING_BYTES, record.size - FRAMING_BYTES};
    body = after_byte_order_mark(body);
    return body.size > 0 && strchr("{ \t\r\n", body.data[0]) && body.data[0] != '\0' ? body : record;
}

bool encoding_detect(struct text content_type, struct text record, enum encoding *encoding)
{
    static const struct {
        const char *name;
        enum encoding encoding;
    } types[] = {{CONTENT_TYPE_JSON, ENCODING_JSON},
                 {"text/json", ENCODING_JSON},
                 {CONTENT_TYPE_MSGPACK, ENCODING_MSGPACK},
                 {"application/x-msgpack", ENCODING_MSGPACK},
                 {"application/vnd.msgpack", ENCODING_MSGPACK}};
    struct text type = content_type.size ? media_type(content_type) : (struct text){"", 0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (is_media_type(type, types[i].name)) {
            *encoding = types[i].encoding;
            return true;
        }
    }
    // Other content types (text/plain, application/octet-stream, none) do not name the encoding, so the first
    // byte decides. A job is an object. Maps of msgpack begin with a byte from 0x80 on; JSON texts never do.
    struct text body = encoding_body(record);
    if (body.size == 0)
        return false;
    unsigned char first = (unsigned char)body.data[0];
    if (first == '{' || first == ' ' || first == '\t' || first == '\n' || first == '\r')
        *encoding = ENCODING_JSON;
    else if ((first >= 0x80 && first <= 0x8F) || first == 0xDE || first == 0xDF) // fixmap, map 16, map 32
        *encoding = ENCODING_MSGPACK;
    else
        return false;
    return true;
}
