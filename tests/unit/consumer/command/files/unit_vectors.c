// What sheaf embed of a table keeps: the row of each text, and vectors in other types.
#include "consumer/command/files/text_rows.h"
#include "consumer/command/files/vector_type.h"
#include "engine/file/dequantize.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"

#include <math.h>

TEST(each_text_has_its_first_row_also_after_the_table_has_grown)
{
    enum { N = 5000 };
    struct text_rows rows = {0};
    int64_t first;
    char name[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof name, "text %d", i);
            assert_true(text_rows_add(&rows, text_from_string(name), round * N + i, &first));
            assert_int_equal(first, round ? i : -1);
        }
    assert_true(text_rows_add(&rows, TEXT(""), 9, &first) && first == -1);
    assert_true(text_rows_add(&rows, TEXT(""), 10, &first) && first == 9);
    assert_int_equal(rows.n, N + 1);
    text_rows_finish(&rows);
}

TEST(a_table_that_cannot_grow_says_so_and_is_unchanged)
{
    struct text_rows rows = {0};
    int64_t first;
    char name[32];
    for (int n_good = 0; n_good < 9; n_good++) {
        int n = 0;
        failing_memory_after(n_good);
        for (bool added = true; added; n += added) {
            snprintf(name, sizeof name, "text %d", n);
            added = text_rows_add(&rows, text_from_string(name), n, &first);
        }
        failing_memory_after(-1);
        assert_int_equal(rows.n, n);
        assert_true(n == 0 || (text_rows_add(&rows, TEXT("text 0"), 1, &first) && first == 0));
        assert_true(n < 6 || (text_rows_add(&rows, TEXT("text 5"), 1, &first) && first == 5));
        text_rows_finish(&rows);
    }
}

TEST(vectors_are_converted_item_by_item)
{
    static const float vector[] = {1.0f, -1.0f,  0.5f,  0.003f, -0.003f, 0.0f,
                                   NAN,  0.004f, -0.0f, 1e-30f, -0.9999f};
    static const int8_t scaled[] = {127, -127, 64, 0, 0, 0, 0, 1, 0, 0, -127};
    enum { N = sizeof vector / sizeof *vector };
    unsigned char bytes[N * 4];
    vector_type_convert(VECTOR_F32, vector, N, bytes);
    assert_memory_equal(bytes, vector, sizeof vector);
    assert_int_equal(vector_type_bytes(VECTOR_F16, N), 2 * N);
    vector_type_convert(VECTOR_F16, vector, N, bytes);
    for (int i = 0; i < N; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        float back = half_to_float(half);
        assert_true(isnan(vector[i]) ? isnan(back)
                                     : fabsf(back - vector[i]) <= fabsf(vector[i]) / 1024 + 1e-7f);
    }
    vector_type_convert(VECTOR_INT8, vector, N, bytes);
    assert_memory_equal(bytes, scaled, N);
    assert_int_equal(vector_type_bytes(VECTOR_BINARY, N), 2);
    assert_int_equal(vector_type_items(VECTOR_BINARY, 8), 1);
    vector_type_convert(VECTOR_BINARY, vector, N, bytes);
    assert_int_equal(bytes[0], 0xB1); // 1 0 1 1 0 0 0 1
    assert_int_equal(bytes[1], 0x40); // 0 1 0, and zeros
}

TEST(types_are_found_by_their_names)
{
    enum vector_type type;
    assert_true(vector_type_find("f32", &type) && type == VECTOR_F32);
    assert_true(vector_type_find("binary", &type) && type == VECTOR_BINARY);
    assert_false(vector_type_find("f64", &type));
    assert_string_equal(vector_type_descr(VECTOR_INT8), "|i1");
}
