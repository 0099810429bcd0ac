// Compression of Parquet's pages, by the libraries of the system. Thread: any.
#pragma once

#include "schemas/base/text.h"

enum parquet_codec { // the numbers of the format
    CODEC_NONE = 0,
    CODEC_SNAPPY = 1,
    CODEC_GZIP = 2,
    CODEC_LZO = 3, // not read
    CODEC_BROTLI = 4,
    CODEC_LZ4_HADOOP = 5, // blocks as Hadoop frames them, or one block without a frame
    CODEC_ZSTD = 6,
    CODEC_LZ4 = 7,
    CODEC_COUNT,
};

const char *parquet_codec_name(int codec); // "number" for an unknown one
bool parquet_codec_is_read(int codec);
// Decompresses exactly n bytes to `out`. False: the input is damaged, has another size, or memory ran out.
bool parquet_codec_expand(int codec, struct text input, char *out, size_t n) WARN_UNUSED;
// Replaces the content of `out`, whose `failed` says that memory ran out.
void parquet_codec_shrink_snappy(struct text input, struct buffer *out);
uint32_t parquet_codec_crc(struct text bytes); // gzip's, as in page headers
