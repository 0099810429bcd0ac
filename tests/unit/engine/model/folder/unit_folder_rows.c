// The rows and columns of recurrent layers: the folder's order and GGUF's.
#include "engine/model/folder/folder_parts.h"
#include "tests/support/cases.h"

#include <math.h>

static const struct folder_shape shape = {
    .n_heads = 4,
    .n_kv_heads = 2,
    .head_dim = 8,
    .delta = {.n_heads = 6, .n_key_heads = 2, .key_dim = 3, .value_dim = 2, .tiled = true}};
enum { QUERIES_KEYS = 2 * 2 * 3, VALUES = 6 * 2, QKV = QUERIES_KEYS + VALUES };

// The folder's heads 0 1 2 share key head 0, and 3 4 5 share key head 1.
static const uint64_t heads[] = {0, 3, 1, 4, 2, 5};

TEST(heads_of_one_key_head_become_as_many_apart_as_there_are_key_heads)
{
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(folder_source_row(&shape, FORM_DELTA_HEADS, i, 6), heads[i]);
    for (uint64_t i = 0; i < VALUES; i++)
        assert_int_equal(folder_source_row(&shape, FORM_DELTA_HEADS, i, VALUES), heads[i / 2] * 2 + i % 2);
    for (uint64_t i = 0; i < QKV; i++) {
        uint64_t value = i - QUERIES_KEYS;
        uint64_t row = i < QUERIES_KEYS ? i : QUERIES_KEYS + heads[value / 2] * 2 + value % 2;
        assert_int_equal(folder_source_row(&shape, FORM_DELTA_HEADS, i, QKV), row);
        assert_int_equal(folder_source_row(&shape, FORM_DELTA_TAPS, i, QKV), row);
    }
    struct folder_shape grouped = shape;
    grouped.delta.tiled = false;
    for (uint64_t i = 0; i < QKV; i++)
        assert_int_equal(folder_source_row(&grouped, FORM_DELTA_HEADS, i, QKV), i);
}

TEST(columns_and_decays_of_heads_follow_their_rows)
{
    float matrix[2][VALUES], columns[2][VALUES], logs[6], decays[6];
    for (int i = 0; i < 2 * VALUES; i++)
        matrix[i / VALUES][i % VALUES] = (float)i;
    for (int i = 0; i < 6; i++)
        logs[i] = 0.25f * (float)i - 0.5f;
    struct tensor from = {.type = TENSOR_F32,
                          .n_dims = 2,
                          .dims = {VALUES, 2, 1, 1},
                          .data = matrix,
                          .size_bytes = sizeof matrix};
    folder_copy_columns(&shape, &from, (char *)columns);
    for (uint64_t i = 0; i < VALUES; i++)
        for (int row = 0; row < 2; row++)
            assert_true(columns[row][i] == matrix[row][heads[i / 2] * 2 + i % 2]);
    from = (struct tensor){
        .type = TENSOR_F32, .n_dims = 1, .dims = {6, 1, 1, 1}, .data = logs, .size_bytes = sizeof logs};
    folder_make_decay(&shape, &from, decays);
    for (int i = 0; i < 6; i++)
        assert_true(fabs((double)decays[i] + exp((double)logs[heads[i]])) < 1e-6);
}

// The authors' matrix: of each key head its query, its key, its heads' values, their gates.
TEST(queries_keys_values_and_gates_of_each_key_head_are_taken_apart)
{
    uint64_t place[QKV + VALUES], n = 0; // the folder's row of each of ours
    for (uint64_t key_head = 0; key_head < 2; key_head++) {
        for (uint64_t i = 0; i < 3; i++)
            place[key_head * 3 + i] = n++;
        for (uint64_t i = 0; i < 3; i++)
            place[6 + key_head * 3 + i] = n++;
        for (uint64_t i = 0; i < 6; i++)
            place[QUERIES_KEYS + key_head * 6 + i] = n++;
        for (uint64_t i = 0; i < 6; i++)
            place[QKV + key_head * 6 + i] = n++;
    }
    assert_int_equal(folder_made_rows(&shape, FORM_DELTA_QKV, n), QKV);
    assert_int_equal(folder_made_rows(&shape, FORM_DELTA_GATE, n), VALUES);
    for (uint64_t i = 0; i < QKV; i++)
        assert_int_equal(folder_source_row(&shape, FORM_DELTA_QKV, i, QKV), place[i]);
    for (uint64_t i = 0; i < VALUES; i++)
        assert_int_equal(folder_source_row(&shape, FORM_DELTA_GATE, i, VALUES), place[QKV + i]);
}

TEST(halves_of_rows_and_groups_of_a_norm_have_their_sizes)
{
    assert_int_equal(folder_made_rows(&shape, FORM_FIRST_ROWS, 10), 5);
    assert_int_equal(folder_source_row(&shape, FORM_FIRST_ROWS, 4, 5), 4);
    assert_int_equal(folder_source_row(&shape, FORM_SECOND_ROWS, 0, 5), 5);
    assert_int_equal(folder_source_row(&shape, FORM_SECOND_ROWS, 4, 5), 9);
    struct tensor rows = {.type = TENSOR_F32, .n_dims = 2, .dims = {3, 10, 1, 1}};
    assert_true(folder_rows_fit(&shape, FORM_SECOND_ROWS, &rows));
    rows.dims[1] = 9;
    assert_false(folder_rows_fit(&shape, FORM_SECOND_ROWS, &rows));
    struct folder_shape grouped = {.delta = {.n_key_heads = 3}};
    struct tensor norm = {.type = TENSOR_F32, .n_dims = 1, .dims = {12, 1, 1, 1}};
    assert_true(folder_rows_fit(&grouped, FORM_GROUPS, &norm));
    assert_true(folder_rows_fit(&grouped, FORM_COLUMN, &norm));
    norm.dims[0] = 13;
    assert_false(folder_rows_fit(&grouped, FORM_GROUPS, &norm));
    struct tensor taps = {.type = TENSOR_F32, .n_dims = 3, .dims = {4, 1, 7, 1}};
    assert_true(folder_rows_fit(&shape, FORM_TAPS, &taps));
    taps.dims[1] = 2;
    assert_false(folder_rows_fit(&shape, FORM_TAPS, &taps));
}

TEST(rows_are_multiplied_by_their_part_s_factor)
{
    struct folder_shape scaled = {.scales = {{"ssm_in", 2.0}, {"attn_k", 0.5}},
                                  .part_factors = {1.0, 3.0, 1.0, 1.0, 5.0},
                                  .part_rows = {2, 2, 1, 1, 1}};
    static const float items[7][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}, {13, 14}};
    static const float factors[] = {2, 2, 6, 6, 2, 2, 10};
    struct tensor from = {.type = TENSOR_F32, .n_dims = 2, .dims = {2, 7, 1, 1}, .data = items};
    float out[7][2];
    folder_make_scaled(&scaled, "ssm_in", &from, out[0]);
    for (int row = 0; row < 7; row++)
        for (int i = 0; i < 2; i++)
            assert_true(out[row][i] == factors[row] * items[row][i]);
    folder_make_scaled(&scaled, "attn_k", &from, out[0]);
    assert_true(out[6][1] == 7.0f);
    assert_true(folder_is_scaled(&scaled, "ssm_in") && folder_is_scaled(&scaled, "attn_k"));
    assert_false(folder_is_scaled(&scaled, "attn_q"));
    scaled.scales[0].factor = 1.0; // one part is enough
    assert_true(folder_is_scaled(&scaled, "ssm_in"));
}

TEST(decays_are_minus_the_exponential_of_what_a_folder_has)
{
    static const float items[] = {0.0f, 1.0f, -2.0f, 3.0f};
    struct tensor from = {.type = TENSOR_F32, .n_dims = 2, .dims = {2, 2, 1, 1}, .data = items};
    float out[4];
    folder_make_decays(&from, out);
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)out[i] + exp((double)items[i])) < 1e-6 * exp((double)items[i]));
}

TEST(tensors_of_other_sizes_do_not_fit)
{
    static const struct {
        enum folder_form form;
        uint64_t n_rows, n_cols;
        bool fits;
    } cases[] = {
        {FORM_DELTA_HEADS, 6, 5, true},      {FORM_DELTA_HEADS, VALUES, 5, true},
        {FORM_DELTA_HEADS, QKV, 5, true},    {FORM_DELTA_HEADS, QKV + 1, 5, false},
        {FORM_DELTA_HEADS, 5, 5, false},     {FORM_DELTA_COLUMNS, 5, VALUES, true},
        {FORM_DELTA_COLUMNS, 5, 6, false},   {FORM_DELTA_QKV, QKV + VALUES, 5, true},
        {FORM_DELTA_QKV, QKV, 5, false},     {FORM_DELTA_GATE, QKV + VALUES, 5, true},
        {FORM_DELTA_GATE, VALUES, 5, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensor from = {.type = TENSOR_F32,
                              .n_dims = 2,
                              .dims = {cases[i].n_cols, cases[i].n_rows, 1, 1}};
        assert_int_equal(folder_rows_fit(&shape, cases[i].form, &from), cases[i].fits);
    }
    struct tensor decay = {.type = TENSOR_F32, .n_dims = 1, .dims = {6, 1, 1, 1}};
    struct tensor taps = {.type = TENSOR_F32, .n_dims = 3, .dims = {4, 1, QKV, 1}};
    assert_true(folder_rows_fit(&shape, FORM_DELTA_DECAY, &decay));
    assert_true(folder_rows_fit(&shape, FORM_DELTA_TAPS, &taps));
    decay.dims[0] = 5;
    taps.dims[1] = 2;
    assert_false(folder_rows_fit(&shape, FORM_DELTA_DECAY, &decay));
    assert_false(folder_rows_fit(&shape, FORM_DELTA_TAPS, &taps));
}
