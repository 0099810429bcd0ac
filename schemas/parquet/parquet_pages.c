#include "schemas/parquet/parquet_pages.h"

#include "schemas/parquet/parquet_codec.h"
#include "schemas/parquet/thrift.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>

enum { WINDOW_BYTES = 64 << 10, HEADER_BYTES = 256 };
enum { PAGE_DATA = 0, PAGE_INDEX = 1, PAGE_DICTIONARY = 2, PAGE_DATA_2 = 3 };

struct page_header {
    int32_t type, plain_size, packed_size;
    bool has_crc;
    uint32_t crc;
    int32_t n_values, encoding, definition_encoding, repetition_encoding;
    int32_t definition_bytes, repetition_bytes; // version 2
    bool is_uncompressed;                       // version 2
};

void parquet_pages_start(struct parquet_pages *pages, const struct parquet_chunk *chunk)
{
    pages->chunk = *chunk;
    pages->next = pages->window_start = chunk->offset;
    buffer_clear(&pages->window);
}

void parquet_pages_finish(struct parquet_pages *pages)
{
    buffer_finish(&pages->window);
    buffer_finish(&pages->plain[0]);
    buffer_finish(&pages->plain[1]);
}

enum status parquet_pages_refuse(const struct parquet_pages *pages, int64_t offset, const char *what,
                                 struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: column \"%s\": page at byte %lld: %s",
                     pages->name, pages->column, (long long)offset, what);
}

static enum status refuse_memory(const struct parquet_pages *pages, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: column \"%s\": a page", pages->name, pages->column);
}

// ---- bytes of the chunk ----

static int64_t chunk_end(const struct parquet_pages *pages)
{
    return pages->chunk.offset + pages->chunk.size;
}

// Fills the window so that it has `size` bytes at the offset, which must be in the chunk.
static enum status fill_window(struct parquet_pages *pages, int64_t offset, size_t size, struct error *error)
{
    struct buffer *window = &pages->window;
    int64_t left = chunk_end(pages) - offset;
    size_t kept = (size_t)(pages->window_start + (int64_t)window->size - offset), n;
    size_t wanted = size > WINDOW_BYTES ? size : WINDOW_BYTES;
    if (offset < pages->window_start || kept > window->size)
        kept = 0;
    if (kept >= size)
        return STATUS_OK;
    if (kept)
        memmove(window->data, window->data + (offset - pages->window_start), kept);
    window->size = kept;
    pages->window_start = offset;
    if ((int64_t)wanted > left)
        wanted = (size_t)left;
    if (!buffer_reserve(window, wanted - kept))
        return refuse_memory(pages, error);
    if (!parquet_read_at(pages->fd, offset + (int64_t)kept, window->data + kept, wanted - kept, &n))
        return parquet_pages_refuse(pages, offset, strerror(errno), error);
    window->size += n;
    return window->size >= size ? STATUS_OK
                                : parquet_pages_refuse(pages, offset, "the file became shorter", error);
}

static struct text window_from(const struct parquet_pages *pages, int64_t offset)
{
    size_t skipped = (size_t)(offset - pages->window_start);
    return (struct text){pages->window.data + skipped, pages->window.size - skipped};
}

// ---- headers ----

static void read_details(struct thrift_reader *reader, struct page_header *header)
{
    bool is_second = header->type == PAGE_DATA_2;
    struct thrift_field field = {0};
    while (thrift_next_field(reader, &field)) {
        int32_t *integer = NULL;
        if (field.id == 1)
            integer = &header->n_values;
        else if (field.id == (is_second ? 4 : 2))
            integer = &header->encoding;
        else if (header->type == PAGE_DATA && (field.id == 3 || field.id == 4))
            integer = field.id == 3 ? &header->definition_encoding : &header->repetition_encoding;
        else if (is_second && (field.id == 5 || field.id == 6))
            integer = field.id == 5 ? &header->definition_bytes : &header->repetition_bytes;
        if (is_second && field.id == 7)
            header->is_uncompressed = field.type == THRIFT_FALSE;
        if (integer && field.type == THRIFT_I32)
            *integer = thrift_read_i32(reader);
        else
            thrift_skip(reader, field.type);
    }
}

static void read_header(struct thrift_reader *reader, struct page_header *header)
{
    struct thrift_field field = {0};
    *header = (struct page_header){.type = -1, .n_values = -1, .packed_size = -1};
    while (thrift_next_field(reader, &field)) {
        bool is_integer = field.type == THRIFT_I32;
        if (is_integer && field.id >= 1 && field.id <= 4) {
            int32_t integer = thrift_read_i32(reader);
            if (field.id == 1)
                header->type = integer;
            else if (field.id == 2)
                header->plain_size = integer;
            else if (field.id == 3)
                header->packed_size = integer;
            header->has_crc |= field.id == 4;
            header->crc = field.id == 4 ? (uint32_t)integer : header->crc;
        } else if (field.type == THRIFT_STRUCT && ((field.id == 5 && header->type == PAGE_DATA) ||
                                                   (field.id == 7 && header->type == PAGE_DICTIONARY) ||
                                                   (field.id == 8 && header->type == PAGE_DATA_2))) {
            read_details(reader, header);
        } else {
            thrift_skip(reader, field.type);
        }
    }
}

// A header has no length of its own, and statistics in it may be long.
static enum status next_header(struct parquet_pages *pages, struct page_header *header, int64_t *body,
                               struct error *error)
{
    int64_t offset = pages->next, left = chunk_end(pages) - offset;
    for (size_t size = HEADER_BYTES;; size *= 4) {
        size_t n = (int64_t)size < left ? size : (size_t)left;
        enum status status = fill_window(pages, offset, n, error);
        if (status != STATUS_OK)
            return status;
        struct thrift_reader reader = thrift_read_text(window_from(pages, offset));
        const char *start = reader.at;
        read_header(&reader, header);
        *body = offset + (reader.at - start);
        if (!reader.failed)
            break;
        if ((int64_t)n == left || size > PARQUET_PAGE_HEADER_BYTES_MAX)
            return parquet_pages_refuse(pages, offset, "its header is damaged", error);
    }
    if (header->packed_size < 0 || header->packed_size > chunk_end(pages) - *body)
        return parquet_pages_refuse(pages, offset, "it is larger than its column chunk", error);
    if (header->plain_size < 0 || header->plain_size > PARQUET_PAGE_BYTES_MAX)
        return parquet_pages_refuse(pages, offset, "it has more than 1 GiB, or a negative size", error);
    return STATUS_OK;
}

// ---- bodies ----

static enum status refuse_codec(const struct parquet_pages *pages, int64_t offset, const char *text,
                                struct error *error)
{
    char what[96];
    snprintf(what, sizeof what, text, parquet_codec_name(pages->chunk.codec), pages->chunk.codec);
    return parquet_pages_refuse(pages, offset, what, error);
}

// Decompresses to plain[which], after n_before bytes that are stored as they are.
static enum status expand(struct parquet_pages *pages, const struct page_header *header, size_t n_before,
                          int which, struct text *body, struct error *error)
{
    struct buffer *plain = &pages->plain[which];
    size_t size = (size_t)header->plain_size;
    struct text packed = {body->data + n_before, body->size - n_before};
    if (size < n_before)
        return parquet_pages_refuse(pages, pages->next, "its levels are larger than the page", error);
    buffer_clear(plain);
    if (!buffer_reserve(plain, size))
        return refuse_memory(pages, error);
    memcpy(plain->data, body->data, n_before);
    bool is_empty = size == n_before; // some writers compress nothing to nothing
    if (!is_empty &&
        !parquet_codec_expand(pages->chunk.codec, packed, plain->data + n_before, size - n_before))
        return refuse_codec(pages, pages->next, "it cannot be decompressed (%s, %d)", error);
    plain->size = size;
    *body = (struct text){plain->data, size};
    return STATUS_OK;
}

// Cuts levels of version 1 off the page: a length of 4 bytes, and as many bytes.
static bool cut_levels(struct text *body, struct text *levels)
{
    uint32_t size;
    if (body->size < sizeof size)
        return false;
    memcpy(&size, body->data, sizeof size);
    size = le32toh(size);
    if (size > body->size - sizeof size)
        return false;
    *levels = (struct text){body->data + sizeof size, size};
    *body = (struct text){levels->data + size, body->size - sizeof size - size};
    return true;
}

static enum status split_first(const struct parquet_pages *pages, const struct page_header *header,
                               struct text body, struct parquet_page *page, struct error *error)
{
    bool is_old = (pages->has_repetition && header->repetition_encoding != ENCODING_RLE) ||
                  (pages->has_definition && header->definition_encoding != ENCODING_RLE);
    if (is_old)
        return parquet_pages_refuse(pages, pages->next,
                                    "its levels have the encoding BIT_PACKED, which is not read", error);
    if ((pages->has_repetition && !cut_levels(&body, &page->repetition_levels)) ||
        (pages->has_definition && !cut_levels(&body, &page->definition_levels)))
        return parquet_pages_refuse(pages, pages->next, "its levels are longer than the page", error);
    page->values = body;
    return STATUS_OK;
}

static enum status split_second(const struct page_header *header, struct text body, struct parquet_page *page)
{
    size_t repetition = (size_t)header->repetition_bytes, definition = (size_t)header->definition_bytes;
    page->repetition_levels = (struct text){body.data, repetition};
    page->definition_levels = (struct text){body.data + repetition, definition};
    page->values = (struct text){body.data + repetition + definition, body.size - repetition - definition};
    return STATUS_OK;
}

static enum status read_body(struct parquet_pages *pages, const struct page_header *header, struct text body,
                             struct parquet_page *page, struct error *error)
{
    bool is_second = header->type == PAGE_DATA_2;
    int64_t n_levels = is_second ? (int64_t)header->definition_bytes + header->repetition_bytes : 0;
    if (header->n_values < 0)
        return parquet_pages_refuse(pages, pages->next, "its header has no number of values", error);
    if (header->has_crc && parquet_codec_crc(body) != header->crc)
        return parquet_pages_refuse(pages, pages->next, "its checksum is another: it is damaged", error);
    if (header->definition_bytes < 0 || header->repetition_bytes < 0 || n_levels > (int64_t)body.size)
        return parquet_pages_refuse(pages, pages->next, "its levels are longer than the page", error);
    enum status status = STATUS_OK;
    bool is_plain = pages->chunk.codec == CODEC_NONE || (is_second && header->is_uncompressed);
    if (is_plain && page->is_dictionary) { // it outlives the window
        buffer_clear(&pages->plain[0]);
        buffer_add_text(&pages->plain[0], body);
        body = (struct text){pages->plain[0].data, body.size};
        status = pages->plain[0].failed ? refuse_memory(pages, error) : STATUS_OK;
    } else if (!is_plain) {
        status = expand(pages, header, (size_t)n_levels, page->is_dictionary ? 0 : 1, &body, error);
    }
    if (status != STATUS_OK)
        return status;
    page->values = body;
    if (page->is_dictionary)
        return STATUS_OK;
    return is_second ? split_second(header, body, page) : split_first(pages, header, body, page, error);
}

enum status parquet_pages_next(struct parquet_pages *pages, struct parquet_page *page, bool *is_end,
                               struct error *error)
{
    struct page_header header;
    int64_t body = 0;
    for (;;) {
        *is_end = pages->next >= chunk_end(pages);
        if (*is_end)
            return STATUS_OK;
        if (!parquet_codec_is_read(pages->chunk.codec))
            return refuse_codec(pages, pages->next, "the compression %s (%d) is not read", error);
        enum status status = next_header(pages, &header, &body, error);
        if (status == STATUS_OK)
            status = fill_window(pages, body, (size_t)header.packed_size, error);
        if (status != STATUS_OK)
            return status;
        *page = (struct parquet_page){.is_dictionary = header.type == PAGE_DICTIONARY,
                                      .offset = pages->next,
                                      .n_values = header.n_values,
                                      .encoding = header.encoding};
        bool is_read = header.type == PAGE_DATA || header.type == PAGE_DATA_2 || page->is_dictionary;
        if (is_read)
            status = read_body(pages, &header,
                               (struct text){window_from(pages, body).data, (size_t)header.packed_size}, page,
                               error);
        pages->next = body + header.packed_size;
        if (status != STATUS_OK || is_read)
            return status;
    }
}
