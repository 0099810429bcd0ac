// safetensors files: valid files open, others are refused with the tensor's name.
#include "engine/file/safetensors.h"
#include "tests/support/cases.h"
#include "tests/support/safetensors_writer.h"

struct weights_folder {
    char directory[64], path[128];
};

static int make_place(void **state)
{
    struct weights_folder *place = calloc(1, sizeof *place);
    make_directory(place->directory);
    snprintf(place->path, sizeof place->path, "%s/model.safetensors", place->directory);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct weights_folder *place = *state;
    remove_directory(place->directory);
    free(place);
    return 0;
}

static struct safetensors *open_or_fail(const char *path)
{
    struct safetensors *safetensors;
    struct error error;
    assert_ok(safetensors_open(&safetensors, path, &error), &error);
    return safetensors;
}

static void assert_refused(const char *path, const char *words)
{
    struct safetensors *safetensors;
    struct error error = {0};
    assert_int_equal(safetensors_open(&safetensors, path, &error), STATUS_REFUSE);
    assert_null(safetensors);
    if (!strstr(error.text, words))
        fail_msg("expected \"%s\" in: %s", words, error.text);
}

TEST(a_file_s_tensors_are_found_by_name_with_rows_first)
{
    struct weights_folder *place = *state;
    struct safetensors_writer writer = {0};
    float items[6] = {1, 2, 3, 4, 5, 6};
    put_entry(&writer, "b", "F32", 2, (uint64_t[]){2, 3}, items, sizeof items);
    put_entry(&writer, "a", "BF16", 1, (uint64_t[]){4}, "12345678", 8);
    put_entry(&writer, "s", "F16", 0, NULL, "12", 2);
    put_entry(&writer, "mask", "BOOL", 1, (uint64_t[]){3}, "123", 3);
    write_safetensors(&writer, place->path);
    struct safetensors *safetensors = open_or_fail(place->path);
    assert_int_equal(safetensors_n_tensors(safetensors), 4);
    const struct safetensors_tensor *b =
        safetensors_at(safetensors, safetensors_find(safetensors, TEXT("b")));
    assert_int_equal(b->tensor.dims[0], 3);
    assert_int_equal(b->tensor.dims[1], 2);
    assert_int_equal(b->tensor.type, TENSOR_F32);
    assert_memory_equal(b->tensor.data, items, sizeof items);
    const struct safetensors_tensor *scalar =
        safetensors_at(safetensors, safetensors_find(safetensors, TEXT("s")));
    assert_int_equal(scalar->tensor.n_dims, 1);
    assert_int_equal(scalar->tensor.dims[0], 1);
    const struct safetensors_tensor *mask =
        safetensors_at(safetensors, safetensors_find(safetensors, TEXT("mask")));
    assert_false(mask->readable);
    assert_string_equal(mask->dtype, "BOOL");
    assert_true(safetensors_find(safetensors, TEXT("c")) == SIZE_MAX);
    safetensors_close(safetensors);
}

TEST(dimensions_beyond_four_are_multiplied_into_the_last)
{
    struct weights_folder *place = *state;
    struct safetensors_writer writer = {0};
    float items[24] = {0};
    put_entry(&writer, "kernel", "F32", 5, (uint64_t[]){3, 2, 1, 1, 4}, items, sizeof items);
    put_entry(&writer, "most", "U8", SAFETENSORS_DIMS_MAX, (uint64_t[]){2, 1, 1, 1, 1, 1, 1, 1}, "12", 2);
    write_safetensors(&writer, place->path);
    struct safetensors *safetensors = open_or_fail(place->path);
    const struct tensor *kernel =
        &safetensors_at(safetensors, safetensors_find(safetensors, TEXT("kernel")))->tensor;
    assert_int_equal(kernel->n_dims, TENSOR_DIMS_MAX);
    assert_int_equal(kernel->dims[0], 4);
    assert_int_equal(kernel->dims[3], 6);
    assert_int_equal(kernel->size_bytes, sizeof items);
    safetensors_close(safetensors);
}

TEST(headers_that_make_no_sense_are_refused)
{
    static const struct {
        const char *header, *words;
    } cases[] = {
        {"", "header"},
        {"[]", "expected an object"},
        {"{\"a\":1}", "\"dtype\" is missing"},
        {"{\"a\":{\"dtype\":\"F32\"}}", "\"shape\" is missing"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", "unknown dtype \"F33\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "ascending"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}", "ascending"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "whole numbers above 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", "whole numbers above 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
         "too many items"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "9 dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", "(truncated?)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", "needs 4 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "after the last tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "hole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", "multiple"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "uplicate"},
    };
    struct weights_folder *place = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_header_and_data(place->path, text_from_string(cases[i].header), TEXT("01234567"));
        assert_refused(place->path, cases[i].words);
    }
    write_file(place->path, "1234567", 7);
    assert_refused(place->path, "7 bytes");
    write_file(place->path, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10);
    assert_refused(place->path, "truncated");
    assert_refused("/nonexistent", "No such file");
}

TEST(a_name_s_size_is_limited)
{
    struct weights_folder *place = *state;
    for (int over = 0; over < 2; over++) {
        char name[SAFETENSORS_NAME_BYTES_MAX + 2];
        struct safetensors_writer writer = {0};
        memset(name, 'n', sizeof name);
        name[SAFETENSORS_NAME_BYTES_MAX + over] = '\0';
        put_entry(&writer, name, "U8", 1, (uint64_t[]){1}, "1", 1);
        write_safetensors(&writer, place->path);
        if (over)
            assert_refused(place->path, "expected 1 to 512");
        else
            safetensors_close(open_or_fail(place->path));
    }
}

static void write_text(const struct weights_folder *place, const char *name, const char *text)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    write_file(path, text, strlen(text));
}

TEST(a_folder_opens_by_its_index_or_its_single_file)
{
    struct weights_folder *place = *state;
    char path[192];
    for (int i = 0; i < 2; i++) {
        struct safetensors_writer writer = {0};
        put_entry(&writer, i ? "y" : "x", "F16", 1, (uint64_t[]){2}, i ? "abcd" : "efgh", 4);
        snprintf(path, sizeof path, "%s/part-%d.safetensors", place->directory, i);
        write_safetensors(&writer, path);
    }
    assert_refused(place->directory, "No such file");
    write_text(place, "model.safetensors.index.json",
               "{\"weight_map\":{\"x\":\"part-0.safetensors\",\"y\":\"part-1.safetensors\"}}");
    struct safetensors *safetensors = open_or_fail(place->directory);
    assert_int_equal(safetensors_n_tensors(safetensors), 2);
    assert_memory_equal(safetensors_at(safetensors, safetensors_find(safetensors, TEXT("y")))->tensor.data,
                        "abcd", 4);
    safetensors_close(safetensors);
    static const char *const elsewhere[] = {"../part-0.safetensors",
                                            "sub/../../x",
                                            "sub/part-0.safetensors",
                                            "/etc/passwd",
                                            "./part-0.safetensors",
                                            ".hidden",
                                            "..",
                                            "",
                                            "part-0.safetensors\\u0000"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        char index[256];
        snprintf(index, sizeof index, "{\"weight_map\":{\"x\":\"%s\"}}", elsewhere[i]);
        write_text(place, "model.safetensors.index.json", index);
        assert_refused(place->directory, "not the name of a file in the folder");
    }
    for (int over = 0; over < 2; over++) { // the longest name of a file, and one byte more
        char index[512];
        snprintf(index, sizeof index, "{\"weight_map\":{\"x\":\"%0*d\"}}", 255 + over, 7);
        write_text(place, "model.safetensors.index.json", index);
        assert_refused(place->directory, over ? "not the name of a file in the folder" : "No such file");
    }
    write_text(place, "model.safetensors.index.json", "{\"weight_map\":{}}");
    assert_refused(place->directory, "weight_map");
    write_text(place, "model.safetensors.index.json", "{");
    assert_refused(place->directory, "JSON");
    struct safetensors_writer writer = {0};
    put_entry(&writer, "x", "F16", 1, (uint64_t[]){2}, "abcd", 4);
    snprintf(path, sizeof path, "%s/part-2.safetensors", place->directory);
    write_safetensors(&writer, path);
    write_text(place, "model.safetensors.index.json",
               "{\"weight_map\":{\"x\":\"part-0.safetensors\",\"y\":\"part-2.safetensors\"}}");
    assert_refused(place->directory, "tensor x is in two files");
}

TEST_FIXTURE(make_place, remove_place);
