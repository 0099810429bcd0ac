// GGUF files made here, good and hostile, on both sides of each limit.
#include "engine/file/gguf.h"
#include "engine/file/gguf_made.h"
#include "engine/file/gguf_file.h"
#include "tests/gguf_writer.h"
#include "tests/shared_data.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

static char directory[64];
static char path[128];

static int set_up(void **state)
{
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    return 0;
}

static int tear_down(void **state)
{
    remove_directory(directory);
    return 0;
}

// Opens what `file` holds and gives the buffer back. NULL: refused, `error` says why.
static struct gguf *open_bytes(struct buffer *file, struct error *error)
{
    assert_false(file->failed);
    write_file(path, file->data, file->size);
    buffer_finish(file);
    *file = (struct buffer){0};
    struct gguf *gguf;
    enum status status = gguf_open(&gguf, path, error);
    assert_true((status == STATUS_OK) == (gguf != NULL));
    assert_true(status == STATUS_OK || status == STATUS_REFUSE);
    return gguf;
}

static void assert_opens(struct buffer *file)
{
    struct error error;
    struct gguf *gguf = open_bytes(file, &error);
    if (!gguf)
        fail_msg("refused: %s", error.text);
    gguf_close(gguf);
}

static void assert_refused(struct buffer *file, enum error_code code, const char *part_of_text)
{
    struct error error;
    struct gguf *gguf = open_bytes(file, &error);
    assert_null(gguf);
    if (!strstr(error.text, part_of_text) || error.code != code)
        fail_msg("expected \"%s\" (code %d), got \"%s\" (code %d)", part_of_text, code, error.text,
                 error.code);
}

static void put_one_tensor(struct buffer *file, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                           uint64_t offset, size_t data_bytes)
{
    put_header(file, 3, 1, 0);
    put_tensor(file, "w", n_dims, dims, type, offset);
    put_padding(file, 32);
    put_zeros(file, data_bytes);
}

static void a_file_with_every_kind_of_value_reads_back(void **state)
{
    struct buffer file = {0};
    struct error error;
    put_header(&file, 2, 0, 15);
    static const struct {
        const char *key;
        uint32_t kind;
        uint64_t bits;
        size_t size;
    } integers[] = {{"u8", GGUF_U8, 250, 1},           {"i8", GGUF_I8, 7, 1},
                    {"u16", GGUF_U16, 65000, 2},       {"i16", GGUF_I16, 300, 2},
                    {"u32", GGUF_U32, 4000000000u, 4}, {"i32", GGUF_I32, 70000, 4},
                    {"u64", GGUF_U64, 4294967295u, 8}, {"i64", GGUF_I64, 12, 8}};
    for (size_t i = 0; i < 8; i++) {
        put_key(&file, integers[i].key, integers[i].kind);
        put_integer(&file, integers[i].bits, integers[i].size);
    }
    put_key(&file, "f32", GGUF_F32);
    put_float(&file, 1.5f);
    put_key(&file, "f64", GGUF_F64);
    put_integer(&file, 0x4004000000000000u, 8); // 2.5
    put_key_bool(&file, "yes", true);
    put_key_string(&file, "name", "a\nmodel");
    put_key_array(&file, "numbers", GGUF_I16, 5);
    for (int i = 0; i < 5; i++)
        put_integer(&file, (uint64_t)(i - 2), 2);
    put_key_array(&file, "words", GGUF_STRING, 2);
    put_string(&file, TEXT("one"));
    put_string(&file, TEXT(""));
    put_key_array(&file, "empty", GGUF_F32, 0);
    struct gguf *gguf = open_bytes(&file, &error);
    assert_non_null(gguf);
    for (size_t i = 0; i < 8; i++) {
        uint32_t value = 0;
        bool found = false;
        assert_int_equal(gguf_u32(gguf, integers[i].key, &value, &found, &error), STATUS_OK);
        assert_true(found && value == integers[i].bits);
    }
    float number = 0;
    assert_int_equal(gguf_f32(gguf, "f32", &number, NULL, &error), STATUS_OK);
    assert_true(number == 1.5f);
    assert_int_equal(gguf_f32(gguf, "f64", &number, NULL, &error), STATUS_OK);
    assert_true(number == 2.5f);
    bool yes = false;
    assert_int_equal(gguf_bool(gguf, "yes", &yes, NULL, &error), STATUS_OK);
    assert_true(yes);
    struct text name;
    assert_int_equal(gguf_text(gguf, "name", &name, NULL, &error), STATUS_OK);
    assert_true(text_equals_string(name, "a\nmodel"));
    struct gguf_array array;
    assert_int_equal(gguf_array(gguf, "numbers", &array, NULL, &error), STATUS_OK);
    assert_int_equal(array.n_items, 5);
    assert_int_equal(gguf_array_integer(&array, 0), -2);
    assert_true(gguf_array_number(&array, 4) == 2.0);
    assert_int_equal(gguf_array(gguf, "words", &array, NULL, &error), STATUS_OK);
    assert_true(array.n_items == 2 && text_equals_string(array.strings[0], "one") &&
                array.strings[1].size == 0);
    struct buffer rendered = {0};
    assert_int_equal(gguf_n_keys(gguf), 15);
    assert_true(text_equals_string(gguf_key_at(gguf, 11, &rendered), "name"));
    gguf_key_at(gguf, 12, &rendered);
    assert_string_equal(rendered.data, "\"a\\nmodel\"5 x int16 [-2, -1, 0, 1, …]");
    buffer_finish(&rendered);
    gguf_close(gguf);
}

static void a_missing_key_keeps_the_default_and_a_wrong_type_is_refused(void **state)
{
    struct buffer file = {0};
    struct error error;
    put_header(&file, 3, 0, 3);
    put_key_string(&file, "text", "x");
    put_key(&file, "negative", GGUF_I32);
    put_integer(&file, (uint32_t)-1, 4);
    put_key(&file, "large", GGUF_U64);
    put_integer(&file, 1ull << 32, 8);
    struct gguf *gguf = open_bytes(&file, &error);
    uint32_t value = 42;
    bool found = true;
    assert_int_equal(gguf_u32(gguf, "absent", &value, &found, &error), STATUS_OK);
    assert_true(value == 42 && !found && !gguf_has(gguf, "absent") && gguf_has(gguf, "text"));
    assert_int_equal(gguf_u32(gguf, "text", &value, NULL, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "key text: expected an integer, file has string");
    assert_int_equal(gguf_u32(gguf, "negative", &value, NULL, &error), STATUS_REFUSE);
    assert_int_equal(gguf_u32(gguf, "large", &value, NULL, &error), STATUS_REFUSE);
    float number;
    bool yes;
    struct text text;
    struct gguf_array array;
    assert_int_equal(gguf_f32(gguf, "negative", &number, NULL, &error), STATUS_REFUSE);
    assert_int_equal(gguf_bool(gguf, "text", &yes, NULL, &error), STATUS_REFUSE);
    assert_int_equal(gguf_text(gguf, "large", &text, NULL, &error), STATUS_REFUSE);
    assert_int_equal(gguf_array(gguf, "text", &array, NULL, &error), STATUS_REFUSE);
    gguf_close(gguf);
}

static void tensors_that_overlap_are_refused(void **state)
{
    static const struct {
        uint64_t first, second; // offsets of 40 bytes each
        const char *refused;    // NULL: opens
    } cases[] = {{0, 64, NULL},
                 {64, 0, NULL},
                 {0, 32, "tensor b: overlaps tensor a"},
                 {32, 0, "tensor a: overlaps tensor b"},
                 {32, 32, "overlaps tensor"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer file = {0};
        put_header(&file, 3, 2, 0);
        put_tensor(&file, "a", 1, (uint64_t[]){10}, TENSOR_F32, cases[i].first);
        put_tensor(&file, "b", 1, (uint64_t[]){10}, TENSOR_F32, cases[i].second);
        put_padding(&file, 32);
        put_zeros(&file, 128);
        if (cases[i].refused)
            assert_refused(&file, ERROR_MODEL_FILE, cases[i].refused);
        else
            assert_opens(&file);
    }
}

static void tensors_are_found_by_name_with_shape_and_data(void **state)
{
    struct buffer file = {0};
    struct error error;
    put_header(&file, 3, 2, 1);
    put_key_u32(&file, "general.alignment", 64);
    put_tensor(&file, "a", 2, (uint64_t[]){64, 3}, TENSOR_Q8_0, 0);
    put_tensor(&file, "b", 1, (uint64_t[]){2}, TENSOR_F32, 256);
    put_padding(&file, 64);
    put_zeros(&file, 256);
    put_float(&file, 3.0f);
    put_float(&file, 4.0f);
    struct gguf *gguf = open_bytes(&file, &error);
    assert_non_null(gguf);
    assert_int_equal(gguf_n_tensors(gguf), 2);
    const struct tensor *a = gguf_tensor(gguf, "a");
    assert_ptr_equal(a, gguf_tensor_at(gguf, 0));
    assert_int_equal(tensor_row_bytes(a), 68);
    assert_int_equal(tensor_n_rows(a), 3);
    assert_int_equal(a->size_bytes, 204);
    char shape[64];
    tensor_shape_text(a, shape);
    assert_string_equal(shape, "3x64");
    const struct tensor *b = gguf_tensor(gguf, "b");
    float values[2];
    tensor_traits(b->type)->dequantize(b->data, values, 2);
    assert_true(values[0] == 3.0f && values[1] == 4.0f);
    gguf_release(gguf, a);
    gguf_release(gguf, b);
    tensor_traits(b->type)->dequantize(b->data, values, 2);
    assert_true(values[0] == 3.0f);
    assert_null(gguf_tensor(gguf, "c"));
    gguf_close(gguf);
}

static void a_long_shape_text_stays_in_its_buffer(void **state)
{
    struct tensor tensor = {.n_dims = 4, .dims = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    char shape[64];
    tensor_shape_text(&tensor, shape);
    assert_true(strlen(shape) == 63);
}

static void what_is_no_gguf_file_of_a_known_version_is_refused(void **state)
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
static void a_file_that_changes_while_it_is_open_is_noticed(void **state)
{
    (void)state;
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

static void a_file_cut_at_any_byte_is_refused(void **state)
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

static void any_single_changed_byte_gives_an_answer_and_no_crash(void **state)
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

static void counts_beyond_their_limits_are_refused(void **state)
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

static void keys_are_unique_printable_and_bounded(void **state)
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
    assert_refused(&file, ERROR_MODEL_FILE, "key same stands twice");
    put_header(&file, 3, 0, 1);
    put_key_u32(&file, "line\nbreak", 1);
    assert_refused(&file, ERROR_MODEL_FILE, "not text");
    put_header(&file, 3, 0, 1);
    put_key_u32(&file, "bad \xff utf-8", 1);
    assert_refused(&file, ERROR_MODEL_FILE, "not text");
}

static void strings_longer_than_the_file_are_refused(void **state)
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

static void values_of_unknown_types_nested_arrays_and_bad_bools_are_refused(void **state)
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

static void arrays_hold_at_most_their_limit(void **state)
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

static void tensors_have_one_to_four_dimensions_none_zero(void **state)
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

static void rows_are_whole_blocks_of_a_known_type(void **state)
{
    struct buffer file = {0};
    for (uint32_t type = 0; type < TENSOR_TYPE_COUNT + 2; type++) {
        const struct tensor_traits *traits = tensor_traits(type);
        put_one_tensor(&file, 1, (uint64_t[]){traits->name ? traits->block_items : 1}, type, 0, 512);
        if (!traits->name) {
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

static void tensor_data_lies_in_the_file_and_aligned(void **state)
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

static void tensor_names_are_unique_and_bounded(void **state)
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
    assert_refused(&file, ERROR_MODEL_FILE, "tensor same stands twice");
}

struct split {
    uint32_t number, count, n_tensors; // as the part declares them
};

static void write_part(uint32_t file_number, uint32_t file_count, struct split split, const char *tensor)
{
    struct buffer file = {0};
    put_header(&file, 3, 1, 4);
    put_key_u32(&file, "first", file_number);
    put_key_u32(&file, "split.no", split.number);
    put_key_u32(&file, "split.count", split.count);
    put_key_u32(&file, "split.tensors.count", split.n_tensors);
    put_tensor(&file, tensor, 1, (uint64_t[]){1}, TENSOR_F32, 0);
    put_padding(&file, 32);
    put_float(&file, (float)file_number);
    snprintf(path, sizeof path, "%s/m-%05u-of-%05u.gguf", directory, file_number, file_count);
    write_file(path, file.data, file.size);
    buffer_finish(&file);
}

static void a_split_model_opens_by_any_part(void **state)
{
    struct error error;
    write_part(1, 3, (struct split){0, 3, 3}, "a");
    write_part(2, 3, (struct split){1, 3, 3}, "b");
    write_part(3, 3, (struct split){2, 3, 3}, "c");
    for (int part = 1; part <= 3; part++) {
        struct gguf *gguf;
        snprintf(path, sizeof path, "%s/m-%05d-of-00003.gguf", directory, part);
        assert_int_equal(gguf_open(&gguf, path, &error), STATUS_OK);
        assert_int_equal(gguf_n_tensors(gguf), 3);
        uint32_t first = 0;
        assert_int_equal(gguf_u32(gguf, "first", &first, NULL, &error), STATUS_OK);
        assert_int_equal(first, 1);
        float value;
        memcpy(&value, gguf_tensor(gguf, "c")->data, 4);
        assert_true(value == 3.0f);
        assert_non_null(strstr(gguf_path(gguf), "m-00001-of-00003.gguf"));
        gguf_close(gguf);
    }
}

static void assert_split_refused(const char *part_of_text)
{
    struct error error;
    struct gguf *gguf;
    snprintf(path, sizeof path, "%s/m-00001-of-00002.gguf", directory);
    assert_int_equal(gguf_open(&gguf, path, &error), STATUS_REFUSE);
    if (!strstr(error.text, part_of_text))
        fail_msg("expected \"%s\", got \"%s\"", part_of_text, error.text);
}

static void a_split_model_whose_parts_do_not_fit_is_refused(void **state)
{
    write_part(1, 2, (struct split){0, 2, 2}, "a");
    assert_split_refused("No such file");
    write_part(2, 2, (struct split){0, 2, 2}, "b");
    assert_split_refused("says it is part 1 of 2, expected 2 of 2");
    write_part(2, 2, (struct split){1, 3, 2}, "b");
    assert_split_refused("says it is part 2 of 3, expected 2 of 2");
    write_part(2, 2, (struct split){1, 2, 2}, "a");
    assert_split_refused("tensor a stands twice");
    write_part(1, 2, (struct split){0, 2, 3}, "a");
    write_part(2, 2, (struct split){1, 2, 3}, "b");
    assert_split_refused("the parts hold 2 tensors, expected 3");
    write_part(1, 2, (struct split){2, 2, 2}, "a");
    assert_split_refused("says it is part 3 of 2");
    write_part(1, 2, (struct split){0, 3, 2}, "a");
    assert_split_refused("expected a name ending in -00001-of-00003.gguf");
    write_part(1, 2, (struct split){0, GGUF_PARTS_MAX, 2}, "a");
    assert_split_refused("expected a name ending");
    write_part(1, 2, (struct split){0, GGUF_PARTS_MAX + 1, 2}, "a");
    assert_split_refused("split into 513 parts, at most 512");
}

static void every_shared_model_file_opens(void **state)
{
    static const char *const folders[] = {"vocab", "oracle"};
    int n_opened = 0;
    for (int i = 0; i < 2; i++) {
        char folder[256];
        if (!shared_path(folder, sizeof folder, folders[i]))
            skip();
        DIR *listing = opendir(folder);
        for (struct dirent *entry; (entry = readdir(listing));) {
            if (!strstr(entry->d_name, ".gguf"))
                continue;
            char name[600];
            struct gguf *gguf;
            struct error error;
            snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
            if (gguf_open(&gguf, name, &error) != STATUS_OK)
                fail_msg("%s", error.text);
            gguf_close(gguf);
            n_opened++;
        }
        closedir(listing);
    }
    assert_true(n_opened > 0);
}

static void items_of_each_kind_have_the_format_s_sizes(void **state)
{
    static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; // 0: by the item
    for (int kind = 0; kind < (int)(sizeof bytes / sizeof *bytes); kind++) {
        assert_int_equal(gguf_kind_bytes((enum gguf_kind)kind), bytes[kind]);
        assert_non_null(gguf_kind_name((enum gguf_kind)kind));
    }
}

static void arrays_that_are_written_are_read_back(void **state)
{
    static const bool truths[] = {true, false, true};
    static const int32_t numbers[] = {-1, 0, INT32_MAX};
    static const float floats[] = {-0.5f, 3.0f};
    static const struct text texts[] = {TEXT("a"), TEXT("")};
    struct gguf_writer keys = {0};
    struct gguf_array array;
    struct gguf *gguf;
    struct error error;
    bool found;
    gguf_writer_bools(&keys, "b", truths, 3);
    gguf_writer_i32s(&keys, "i", numbers, 3);
    gguf_writer_f32s(&keys, "f", floats, 2);
    gguf_writer_texts(&keys, "t", texts, 2);
    assert_int_equal(gguf_create(&gguf, "made", &keys, NULL, 0, (struct gguf_source){0}, &error), STATUS_OK);
    assert_int_equal(gguf_array(gguf, "b", &array, &found, &error), STATUS_OK);
    assert_true(array.kind == GGUF_BOOL && array.n_items == 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(gguf_array_integer(&array, i), truths[i]);
    assert_int_equal(gguf_array(gguf, "i", &array, &found, &error), STATUS_OK);
    assert_true(array.kind == GGUF_I32 && array.n_items == 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(gguf_array_integer(&array, i), numbers[i]);
    assert_int_equal(gguf_array(gguf, "f", &array, &found, &error), STATUS_OK);
    assert_true(array.kind == GGUF_F32 && array.n_items == 2);
    assert_true(gguf_array_number(&array, 0) == -0.5 && gguf_array_number(&array, 1) == 3);
    assert_int_equal(gguf_array(gguf, "t", &array, &found, &error), STATUS_OK);
    assert_true(array.n_items == 2 && text_equals_string(array.strings[0], "a") &&
                array.strings[1].size == 0);
    gguf_close(gguf);
    gguf_writer_finish(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_of_each_kind_have_the_format_s_sizes),
        cmocka_unit_test(arrays_that_are_written_are_read_back),
        cmocka_unit_test(a_file_with_every_kind_of_value_reads_back),
        cmocka_unit_test(a_missing_key_keeps_the_default_and_a_wrong_type_is_refused),
        cmocka_unit_test(tensors_that_overlap_are_refused),
        cmocka_unit_test(tensors_are_found_by_name_with_shape_and_data),
        cmocka_unit_test(a_long_shape_text_stays_in_its_buffer),
        cmocka_unit_test(what_is_no_gguf_file_of_a_known_version_is_refused),
        cmocka_unit_test(a_file_that_changes_while_it_is_open_is_noticed),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
        cmocka_unit_test(any_single_changed_byte_gives_an_answer_and_no_crash),
        cmocka_unit_test(counts_beyond_their_limits_are_refused),
        cmocka_unit_test(keys_are_unique_printable_and_bounded),
        cmocka_unit_test(strings_longer_than_the_file_are_refused),
        cmocka_unit_test(values_of_unknown_types_nested_arrays_and_bad_bools_are_refused),
        cmocka_unit_test(arrays_hold_at_most_their_limit),
        cmocka_unit_test(tensors_have_one_to_four_dimensions_none_zero),
        cmocka_unit_test(rows_are_whole_blocks_of_a_known_type),
        cmocka_unit_test(tensor_data_lies_in_the_file_and_aligned),
        cmocka_unit_test(tensor_names_are_unique_and_bounded),
        cmocka_unit_test(a_split_model_opens_by_any_part),
        cmocka_unit_test(a_split_model_whose_parts_do_not_fit_is_refused),
        cmocka_unit_test(every_shared_model_file_opens),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
