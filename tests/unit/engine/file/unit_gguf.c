// GGUF files made here, good and hostile, on both sides of each limit.
#include "engine/file/gguf.h"
#include "engine/file/gguf_made.h"
#include "engine/file/gguf_file.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/shared_data.h"
#include "tests/unit/engine/file/gguf_files.h"

#include <dirent.h>

TEST(a_file_with_every_kind_of_value_reads_back)
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
        assert_ok(gguf_u32(gguf, integers[i].key, &value, &found, &error), &error);
        assert_true(found && value == integers[i].bits);
    }
    float number = 0;
    assert_ok(gguf_f32(gguf, "f32", &number, NULL, &error), &error);
    assert_true(number == 1.5f);
    assert_ok(gguf_f32(gguf, "f64", &number, NULL, &error), &error);
    assert_true(number == 2.5f);
    bool yes = false;
    assert_ok(gguf_bool(gguf, "yes", &yes, NULL, &error), &error);
    assert_true(yes);
    struct text name;
    assert_ok(gguf_text(gguf, "name", &name, NULL, &error), &error);
    assert_true(text_equals_string(name, "a\nmodel"));
    struct gguf_array array;
    assert_ok(gguf_array(gguf, "numbers", &array, NULL, &error), &error);
    assert_int_equal(array.n_items, 5);
    assert_int_equal(gguf_array_integer(&array, 0), -2);
    assert_true(gguf_array_number(&array, 4) == 2.0);
    assert_ok(gguf_array(gguf, "words", &array, NULL, &error), &error);
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

TEST(a_missing_key_keeps_the_default_and_a_wrong_type_is_refused)
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
    assert_ok(gguf_u32(gguf, "absent", &value, &found, &error), &error);
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

TEST(tensors_that_overlap_are_refused)
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

TEST(tensors_are_found_by_name_with_shape_and_data)
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

TEST(a_long_shape_text_stays_in_its_buffer)
{
    struct tensor tensor = {.n_dims = 4, .dims = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    char shape[64];
    tensor_shape_text(&tensor, shape);
    assert_true(strlen(shape) == 63);
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

TEST(a_split_model_opens_by_any_part)
{
    struct error error;
    write_part(1, 3, (struct split){0, 3, 3}, "a");
    write_part(2, 3, (struct split){1, 3, 3}, "b");
    write_part(3, 3, (struct split){2, 3, 3}, "c");
    for (int part = 1; part <= 3; part++) {
        struct gguf *gguf;
        snprintf(path, sizeof path, "%s/m-%05d-of-00003.gguf", directory, part);
        assert_ok(gguf_open(&gguf, path, &error), &error);
        assert_int_equal(gguf_n_tensors(gguf), 3);
        uint32_t first = 0;
        assert_ok(gguf_u32(gguf, "first", &first, NULL, &error), &error);
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

TEST(a_split_model_whose_parts_do_not_fit_is_refused)
{
    write_part(1, 2, (struct split){0, 2, 2}, "a");
    assert_split_refused("No such file");
    write_part(2, 2, (struct split){0, 2, 2}, "b");
    assert_split_refused("says it is part 1 of 2, expected 2 of 2");
    write_part(2, 2, (struct split){1, 3, 2}, "b");
    assert_split_refused("says it is part 2 of 3, expected 2 of 2");
    write_part(2, 2, (struct split){1, 2, 2}, "a");
    assert_split_refused("tensor a occurs twice");
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

TEST(every_shared_model_file_opens)
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
            assert_ok(gguf_open(&gguf, name, &error), &error);
            gguf_close(gguf);
            n_opened++;
        }
        closedir(listing);
    }
    assert_true(n_opened > 0);
}

TEST(items_of_each_kind_have_the_format_s_sizes)
{
    static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; // 0: by the item
    for (int kind = 0; kind < (int)(sizeof bytes / sizeof *bytes); kind++) {
        assert_int_equal(gguf_kind_bytes((enum gguf_kind)kind), bytes[kind]);
        assert_non_null(gguf_kind_name((enum gguf_kind)kind));
    }
}

TEST(arrays_that_are_written_are_read_back)
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
    gguf_writer_texts(&keys, "t", texts, 2); // each array is followed by a key
    gguf_writer_bools(&keys, "b", truths, 3);
    gguf_writer_i32s(&keys, "i", numbers, 3);
    gguf_writer_f32s(&keys, "f", floats, 2);
    gguf_writer_u32(&keys, "n", 5);
    assert_ok(gguf_create(&gguf, "made", &keys, NULL, 0, (struct gguf_source){0}, &error), &error);
    assert_ok(gguf_array(gguf, "b", &array, &found, &error), &error);
    assert_true(array.kind == GGUF_BOOL && array.n_items == 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(gguf_array_integer(&array, i), truths[i]);
    assert_ok(gguf_array(gguf, "i", &array, &found, &error), &error);
    assert_true(array.kind == GGUF_I32 && array.n_items == 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(gguf_array_integer(&array, i), numbers[i]);
    assert_ok(gguf_array(gguf, "f", &array, &found, &error), &error);
    assert_true(array.kind == GGUF_F32 && array.n_items == 2);
    assert_true(gguf_array_number(&array, 0) == -0.5 && gguf_array_number(&array, 1) == 3);
    assert_ok(gguf_array(gguf, "t", &array, &found, &error), &error);
    assert_true(array.n_items == 2 && text_equals_string(array.strings[0], "a") &&
                array.strings[1].size == 0);
    gguf_close(gguf);
    gguf_writer_finish(&keys);
}

GROUP_FIXTURE(set_up, tear_down);
