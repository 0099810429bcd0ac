// GGUF files that are cut, changed, contradictory or beyond a limit.
#include "engine/file/gguf.h"
#include "engine/file/gguf_made.h"
#include "engine/file/gguf_file.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/shared_data.h"
#include "tests/unit/engine/file/gguf_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static void put_one_tensor(struct buffer *file, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                           uint64_t offset, size_t data_bytes)
{
    put_header(file, 3, 1, 0);
    put_tensor(file, "w", n_dims, dims, type, offset);
    put_padding(file, 32);
    put_zeros(file, data_bytes);
}

TEST(what_is_no_gguf_file_of_a_known_version_is_refused)
{
    struct buffer file = {0};
    struct error error;
    struct gguf *gguf;
    assert_int_equal(gguf_open(&gguf, "/nonexistent/model.gguf", &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_FILE);
    assert_int_equal(gguf_open(&gguf, directory, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "not a regular file"));
    buffer_reserve(&file, 1);
    assert_refused(&file, ERROR_MODEL_FILE, "empty");
    buffer_add_string(&file, "GGU");
    assert_refused(&file, ERROR_MODEL_FILE, "not a GGUF file");
    buffer_add_string(&file, "GGML and more bytes than a header");
    assert_refused(&file, ERROR_MODEL_FILE, "not a GGUF file");
    for (uint32_t version = 0; version < 6; version++) {
        put_header(&file, version, 0, 0);
        if (version == 2 || version == 3)
            assert_opens(&file);
        else
            assert_refused(&file, ERROR_MODEL_FILE, "version");
    }
    put_header(&file, 3u << 24, 0, 0);
    assert_refused(&file, ERROR_MODEL_FILE, "big-endian");
}

static void put_complete(struct buffer *file)
{
    put_header(file, 3, 1, 3);
    put_key_u32(file, "number", 1);
    put_key_array(file, "words", GGUF_STRING, 2);
    put_string(file, TEXT("one"));
    put_string(file, TEXT("two"));
    put_key_array(file, "numbers", GGUF_U16, 3);
    put_zeros(file, 6);
    put_tensor(file, "w", 2, (uint64_t[]){32, 2}, TENSOR_Q4_0, 0);
    put_padding(file, 32);
    put_zeros(file, 36);
}

// Each of its size, the seconds and the nanoseconds of its time shows it.
TEST(a_file_that_changes_while_it_is_open_is_noticed)
{
    static const struct {
        time_t seconds;
        long nanoseconds;
        off_t bytes;
        bool is_noticed;
    } changes[] = {{0, 0, 0, false}, {1, 0, 0, true}, {-1, 0, 0, true}, {0, 1, 0, true}, {0, 0, 1, true}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct buffer file = {0};
        struct error error;
        put_complete(&file);
        struct gguf *gguf = open_bytes(&file, &error);
        assert_non_null(gguf);
        struct stat before;
        assert_int_equal(stat(path, &before), 0);
        assert_int_equal(truncate(path, before.st_size + changes[i].bytes), 0);
        const struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
                                         {before.st_mtim.tv_sec + changes[i].seconds,
                                          (before.st_mtim.tv_nsec + changes[i].nanoseconds) % 1000000000}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_int_equal(gguf_check_files(gguf, &error), changes[i].is_noticed ? STATUS_RESTART : STATUS_OK);
        if (changes[i].is_noticed) {
            assert_int_equal(error.code, ERROR_MODEL_FILE);
            assert_non_null(strstr(error.text, changes[i].bytes ? "expected" : "written to"));
        }
        gguf_close(gguf);
    }
}

TEST(a_file_cut_at_any_byte_is_refused)
{
    struct buffer whole = {0};
    put_complete(&whole);
    for (size_t size = 1; size < whole.size; size++) {
        struct buffer file = {0};
        buffer_add(&file, whole.data, size);
        struct error error;
        struct gguf *gguf = open_bytes(&file, &error);
        if (gguf)
            fail_msg("opened at %zu of %zu bytes", size, whole.size);
    }
    assert_opens(&whole);
}

TEST(any_single_changed_byte_gives_an_answer_and_no_crash)
{
    struct buffer whole = {0};
    put_complete(&whole);
    for (size_t at = 0; at < whole.size; at++) {
        static const unsigned char changes[] = {0x01, 0x80, 0xFF};
        for (size_t i = 0; i < 3; i++) {
            struct buffer file = {0};
            struct error error;
            buffer_add(&file, whole.data, whole.size);
            file.data[at] ^= (char)changes[i];
            gguf_close(open_bytes(&file, &error));
        }
    }
    buffer_finish(&whole);
}

TEST(counts_beyond_their_limits_are_refused)
{
    struct buffer file = {0};
    put_header(&file, 3, 0, GGUF_KEYS_MAX + 1);
    assert_refused(&file, ERROR_LIMIT_EXCEEDED, "65537 keys, at most 65536");
    put_header(&file, 3, 0, GGUF_KEYS_MAX);
    for (int i = 0; i < GGUF_KEYS_MAX; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        put_key(&file, key, GGUF_U8);
        put_integer(&file, 0, 1);
    }
    assert_opens(&file);
    put_header(&file, 3, GGUF_TENSORS_MAX + 1, 0);
    assert_refused(&file, ERROR_LIMIT_EXCEEDED, "131073 tensors, at most 131072");
    put_header(&file, 3, GGUF_TENSORS_MAX, 0);
    for (int i = 0; i < GGUF_TENSORS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        put_tensor(&file, name, 1, (uint64_t[]){1}, TENSOR_I8, (uint64_t)i * 32);
    }
    put_padding(&file, 32);
    put_zeros(&file, (size_t)GGUF_TENSORS_MAX * 32);
    assert_opens(&file);
    put_header(&file, 3, 0, UINT64_MAX);
    assert_refused(&file, ERROR_LIMIT_EXCEEDED, "keys");
    put_header(&file, 3, 0, 2);
    put_key_u32(&file, "one", 1);
    assert_refused(&file, ERROR_MODEL_FILE, "truncated");
}

static void put_long_key(struct buffer *file, size_t size)
{
    put_header(file, 3, 0, 1);
    put_integer(file, size, 8);
    for (size_t i = 0; i < size; i++)
        buffer_add_byte(file, 'k');
    put_integer(file, GGUF_U8, 4);
    put_integer(file, 0, 1);
}

TEST(keys_are_unique_printable_and_bounded)
{
    struct buffer file = {0};
    put_long_key(&file, GGUF_KEY_BYTES_MAX);
    assert_opens(&file);
    put_long_key(&file, GGUF_KEY_BYTES_MAX + 1);
    assert_refused(&file, ERROR_LIMIT_EXCEEDED, "65536 bytes");
    put_long_key(&file, 0);
    put_zeros(&file, 1);
    assert_refused(&file, ERROR_MODEL_FILE, "empty key");
    put_header(&file, 3, 0, 2);
    put_key_u32(&file, "same", 1);
    put_key_u32(&file, "same", 1);
    assert_refused(&file, ERROR_MODEL_FILE, "key same occurs twice");
    put_header(&file, 3, 0, 1);
    put_key_u32(&file, "line\nbreak", 1);
    assert_refused(&file, ERROR_MODEL_FILE, "not text");
    put_header(&file, 3, 0, 1);
    put_key_u32(&file, "bad \xff utf-8", 1);
    assert_refused(&file, ERROR_MODEL_FILE, "not text");
}

TEST(strings_longer_than_the_file_are_refused)
{
    static const uint64_t sizes[] = {4, 5, 1u << 31, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < 5; i++) {
        struct buffer file = {0};
        put_header(&file, 3, 0, 1);
        put_key(&file, "s", GGUF_STRING);
        put_integer(&file, sizes[i], 8);
        buffer_add_string(&file, "four");
        if (sizes[i] == 4)
            assert_opens(&file);
        else
            assert_refused(&file, ERROR_MODEL_FILE, "truncated");
    }
}

TEST(values_of_unknown_types_nested_arrays_and_bad_bools_are_refused)
{
    struct buffer file = {0};
    put_header(&file, 3, 0, 1);
    put_key(&file, "k", 13);
    put_zeros(&file, 16);
    assert_refused(&file, ERROR_MODEL_FILE, "key k: unknown value type 13");
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "k", 13, 0);
    assert_refused(&file, ERROR_MODEL_FILE, "array of an unknown type");
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "k", GGUF_ARRAY, 1);
    put_zeros(&file, 32);
    assert_refused(&file, ERROR_MODEL_FILE, "array of arrays");
    for (int value = 0; value < 3; value++) {
        put_header(&file, 3, 0, 1);
        put_key(&file, "k", GGUF_BOOL);
        put_integer(&file, (uint64_t)value, 1);
        if (value < 2)
            assert_opens(&file);
        else
            assert_refused(&file, ERROR_MODEL_FILE, "bool is 2");
        put_header(&file, 3, 0, 1);
        put_key_array(&file, "k", GGUF_BOOL, 2);
        put_integer(&file, 1, 1);
        put_integer(&file, (uint64_t)value, 1);
        if (value < 2)
            assert_opens(&file);
        else
            assert_refused(&file, ERROR_MODEL_FILE, "bool is 2");
    }
}

TEST(arrays_hold_at_most_their_limit)
{
    struct buffer file = {0};
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "k", GGUF_U8, GGUF_ARRAY_ITEMS_MAX);
    put_zeros(&file, GGUF_ARRAY_ITEMS_MAX);
    assert_opens(&file);
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "k", GGUF_U8, GGUF_ARRAY_ITEMS_MAX + 1);
    put_zeros(&file, GGUF_ARRAY_ITEMS_MAX + 1);
    assert_refused(&file, ERROR_LIMIT_EXCEEDED, "16777217 items, at most 16777216");
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "k", GGUF_STRING, GGUF_ARRAY_ITEMS_MAX);
    put_zeros(&file, 64);
    assert_refused(&file, ERROR_MODEL_FILE, "truncated");
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "k", GGUF_F64, UINT64_MAX / 8 + 1);
    assert_refused(&file, ERROR_LIMIT_EXCEEDED, "items");
}

TEST(tensors_have_one_to_four_dimensions_none_zero)
{
    static const uint64_t ones[5] = {1, 1, 1, 1, 1};
    struct buffer file = {0};
    for (uint32_t n_dims = 0; n_dims <= 5; n_dims++) {
        put_one_tensor(&file, n_dims, ones, TENSOR_F32, 0, 32);
        if (n_dims >= 1 && n_dims <= 4)
            assert_opens(&file);
        else
            assert_refused(&file, ERROR_MODEL_FILE, "dimensions, expected 1 to 4");
    }
    put_one_tensor(&file, 2, (uint64_t[]){4, 0}, TENSOR_F32, 0, 32);
    assert_refused(&file, ERROR_MODEL_FILE, "a dimension is 0");
    put_one_tensor(&file, 4, (uint64_t[]){1ull << 31, 1ull << 31, 1ull << 31, 2}, TENSOR_F32, 0, 32);
    assert_refused(&file, ERROR_MODEL_FILE, "2^63");
    put_one_tensor(&file, 2, (uint64_t[]){1ull << 62, 2}, TENSOR_F32, 0, 32);
    assert_refused(&file, ERROR_MODEL_FILE, "2^63");
    put_one_tensor(&file, 1, (uint64_t[]){1ull << 62}, TENSOR_F32, 0, 32);
    assert_refused(&file, ERROR_MODEL_FILE, "2^64");
    put_one_tensor(&file, 1, (uint64_t[]){1ull << 60}, TENSOR_F32, 0, 32);
    assert_refused(&file, ERROR_MODEL_FILE, "truncated?");
}

TEST(rows_are_whole_blocks_of_a_known_type)
{
    struct buffer file = {0};
    for (uint32_t type = 0; type < TENSOR_TYPE_COUNT + 2; type++) {
        const struct tensor_traits *traits = tensor_traits(type);
        put_one_tensor(&file, 1, (uint64_t[]){traits->name ? traits->block_items : 1}, type, 0, 512);
        if (!traits->name || type >= TENSOR_OWN_FIRST) {
            assert_refused(&file, ERROR_UNKNOWN_TYPE, "unknown tensor type");
            continue;
        }
        assert_opens(&file);
        put_one_tensor(&file, 1, (uint64_t[]){traits->block_items + 1}, type, 0, 1024);
        if (traits->block_items == 1)
            assert_opens(&file);
        else
            assert_refused(&file, ERROR_MODEL_FILE, "needs a multiple of");
        put_one_tensor(&file, 1, (uint64_t[]){traits->block_items}, type, 0, traits->block_bytes);
        assert_opens(&file);
        put_one_tensor(&file, 1, (uint64_t[]){traits->block_items}, type, 0, traits->block_bytes - 1);
        assert_refused(&file, ERROR_MODEL_FILE, "truncated?");
    }
}

TEST(tensor_data_lies_in_the_file_and_aligned)
{
    struct buffer file = {0};
    put_one_tensor(&file, 1, (uint64_t[]){8}, TENSOR_F32, 32, 64);
    assert_opens(&file);
    put_one_tensor(&file, 1, (uint64_t[]){8}, TENSOR_F32, 32, 63);
    assert_refused(&file, ERROR_MODEL_FILE, "needs 32 bytes at 32");
    put_one_tensor(&file, 1, (uint64_t[]){8}, TENSOR_F32, 16, 64);
    assert_refused(&file, ERROR_MODEL_FILE, "multiple of the alignment 32");
    put_one_tensor(&file, 1, (uint64_t[]){8}, TENSOR_F32, UINT64_MAX - 31, 64);
    assert_refused(&file, ERROR_MODEL_FILE, "of the data section");
    static const uint32_t alignments[] = {0,       1, 8, 24, 32, GGUF_ALIGNMENT_MAX, GGUF_ALIGNMENT_MAX * 2,
                                          1u << 31};
    for (size_t i = 0; i < 8; i++) {
        put_header(&file, 3, 1, 1);
        put_key_u32(&file, "general.alignment", alignments[i]);
        put_tensor(&file, "w", 1, (uint64_t[]){1}, TENSOR_F32, 0);
        put_zeros(&file, GGUF_ALIGNMENT_MAX + 4);
        if (alignments[i] == 0 || alignments[i] == 24 || alignments[i] > GGUF_ALIGNMENT_MAX)
            assert_refused(&file, ERROR_MODEL_FILE, "expected a power of two up to 65536");
        else
            assert_opens(&file);
    }
}

static void put_named_tensor(struct buffer *file, size_t size)
{
    char name[GGUF_TENSOR_NAME_BYTES_MAX + 2] = {0};
    memset(name, 'n', size);
    put_header(file, 3, 1, 0);
    put_tensor(file, name, 1, (uint64_t[]){1}, TENSOR_F32, 0);
    put_padding(file, 32);
    put_zeros(file, 4);
}

TEST(tensor_names_are_unique_and_bounded)
{
    struct buffer file = {0};
    put_named_tensor(&file, GGUF_TENSOR_NAME_BYTES_MAX);
    assert_opens(&file);
    put_named_tensor(&file, GGUF_TENSOR_NAME_BYTES_MAX + 1);
    assert_refused(&file, ERROR_LIMIT_EXCEEDED, "tensor name of 256 bytes");
    put_named_tensor(&file, 0);
    assert_refused(&file, ERROR_MODEL_FILE, "empty tensor name");
    put_header(&file, 3, 2, 0);
    put_tensor(&file, "same", 1, (uint64_t[]){1}, TENSOR_F32, 0);
    put_tensor(&file, "same", 1, (uint64_t[]){1}, TENSOR_F32, 32);
    put_padding(&file, 32);
    put_zeros(&file, 36);
    assert_refused(&file, ERROR_MODEL_FILE, "tensor same occurs twice");
}

GROUP_FIXTURE(set_up, tear_down);
