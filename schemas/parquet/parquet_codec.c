#include "schemas/parquet/parquet_codec.h"

#include <brotli/decode.h>
#include <endian.h>
#include <limits.h>
#include <lz4.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

const char *parquet_codec_name(int codec)
{
    static const char *const names[CODEC_COUNT] = {"none",   "Snappy",       "gzip",      "LZO",
                                                   "Brotli", "LZ4 (Hadoop)", "Zstandard", "LZ4"};
    return codec >= 0 && codec < CODEC_COUNT ? names[codec] : "number";
}

bool parquet_codec_is_read(int codec)
{
    return codec >= 0 && codec < CODEC_COUNT && codec != CODEC_LZO;
}

static bool expand_snappy(struct text input, char *out, size_t n)
{
    size_t size = 0;
    return snappy_uncompressed_length(input.data, input.size, &size) == SNAPPY_OK && size == n &&
           snappy_uncompress(input.data, input.size, out, &size) == SNAPPY_OK;
}

// Members of gzip, one after another, or a stream of zlib.
static bool expand_gzip(struct text input, char *out, size_t n)
{
    z_stream stream = {0};
    if (input.size > UINT_MAX || n > UINT_MAX || inflateInit2(&stream, 15 + 32) != Z_OK)
        return false;
    stream.next_in = (unsigned char *)(uintptr_t)input.data;
    stream.avail_in = (unsigned)input.size;
    stream.next_out = (unsigned char *)out;
    stream.avail_out = (unsigned)n;
    int code = Z_OK;
    do
        code = inflate(&stream, Z_FINISH);
    while (code == Z_STREAM_END && stream.avail_in && inflateReset(&stream) == Z_OK);
    bool is_whole = code == Z_STREAM_END && !stream.avail_out;
    inflateEnd(&stream);
    return is_whole;
}

static bool expand_brotli(struct text input, char *out, size_t n)
{
    size_t size = n;
    return BrotliDecoderDecompress(input.size, (const uint8_t *)input.data, &size, (uint8_t *)out) ==
               BROTLI_DECODER_RESULT_SUCCESS &&
           size == n;
}

static bool expand_lz4(struct text input, char *out, size_t n)
{
    return input.size <= INT_MAX && n <= INT_MAX &&
           LZ4_decompress_safe(input.data, out, (int)input.size, (int)n) == (int)n;
}

static uint32_t read_size(const char *at)
{
    uint32_t size;
    memcpy(&size, at, sizeof size);
    return be32toh(size);
}

// Hadoop's frame: the size of the data, then blocks, each with the size of its compressed bytes before it.
static bool expand_hadoop(struct text input, char *out, size_t n)
{
    size_t at = 0, written = 0;
    while (input.size - at >= 8) {
        size_t size = read_size(input.data + at), packed = read_size(input.data + at + 4);
        at += 8;
        if (packed > input.size - at || size > n - written ||
            !expand_lz4((struct text){input.data + at, packed}, out + written, size))
            return false;
        at += packed;
        written += size;
    }
    return at == input.size && written == n;
}

bool parquet_codec_expand(int codec, struct text input, char *out, size_t n)
{
    switch (codec) {
    case CODEC_SNAPPY:
        return expand_snappy(input, out, n);
    case CODEC_GZIP:
        return expand_gzip(input, out, n);
    case CODEC_BROTLI:
        return expand_brotli(input, out, n);
    case CODEC_LZ4_HADOOP:
        return expand_hadoop(input, out, n) || expand_lz4(input, out, n);
    case CODEC_LZ4:
        return expand_lz4(input, out, n);
    case CODEC_ZSTD:
        return ZSTD_decompress(out, n, input.data, input.size) == n;
    default:
        return false;
    }
}

void parquet_codec_shrink_snappy(struct text input, struct buffer *out)
{
    size_t size = snappy_max_compressed_length(input.size);
    buffer_clear(out);
    if (!buffer_reserve(out, size))
        return;
    if (snappy_compress(input.data, input.size, out->data, &size) == SNAPPY_OK)
        out->size = size;
    else
        out->failed = true;
}

uint32_t parquet_codec_crc(struct text bytes)
{
    return (uint32_t)crc32_z(0, (const unsigned char *)bytes.data, bytes.size);
}
