// The launches of products (gpu/products.c): which types are launched together, and which launch makes the operand of
// the next.
#include "tests/support/cases.h"
#include "tests/unit/gpu/launch_lines.h"

static void route_two(void)
{
    gpu_route(&backend.base, &narrow, N_TOKENS,
              &(struct route_parameters){.kind = ROUTE_SOFTMAX, .n_used = 2, .scale = 1});
    buffer_clear(&out);
}

TEST(products_of_experts_gather_their_rows)
{
    struct weight many = q4, more = f32;
    struct product product = {.y = &y, .weight = &many};
    many.n_matrices = more.n_matrices = 8;
    route_two();
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, false);
    expect("operand half 6x64 items scales <- x:96 [order / 2]\n"
           "products Q4_0 {half 6x64 items scales} q4 - -> y:64 64; 8 experts first order\n");
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, true);
    expect("operand half 6x64 items scales <- x:96 [order / 1]\n"
           "products Q4_0 {half 6x64 items scales} q4 - -> y:64 64; 8 experts first order\n");
    product.weight = &more;
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, false);
    expect("products F32 {floats} f32 - -> y:64 64; x x:96 [order / 2] 8 experts first order\n");
    facts.has_wgmma = true; // no kernel for experts
    is_captured();
    route_two();
    product.weight = &many;
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, true);
    expect("operand half 8x64 items scales <- x:96 [order / 1]\n"
           "products Q4_0 {half 8x64 items scales} q4 - -> y:64 64; 8 experts first order\n");
}

// ---- products ----

TEST(products_of_one_type_are_one_launch)
{
    struct product products[] = {{.y = &y, .weight = &q4, .bias = &bias}, {.y = &z, .weight = &q4}};
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("operand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 bias -> y:64 64;\n");
    is_captured();
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("operand half 4x64 items scales <- x:96\n"
           "products Q4_0 {half 4x64 items scales} q4 bias -> y:64 64; q4 - -> z:64 64;\n");
    gpu_products(&backend.base, products, 2, &x, 0);
    expect("");
}

TEST(types_of_one_form_of_operand_are_launched_together)
{
    struct matrix w = y;
    struct product products[] = {{.y = &y, .weight = &q4},
                                 {.y = &z, .weight = &q6},
                                 {.y = &w, .weight = &q4},
                                 {.y = &z, .weight = &f32}};
    gpu_products(&backend.base, products, 4, &x, N_TOKENS);
    expect("operand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64; q4 - -> y:64 64;"
           " Q6_K {half 3x64 items scales} q6 - -> z:64 64; F32 {floats} f32 - -> z:64 64; x x:96\n");
    products[2].weight = &b16; // another form, after the launches that read the first
    gpu_products(&backend.base, products, 4, &x, N_TOKENS);
    expect("operand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;"
           " Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n"
           "operand bfloat 3x64 items scales <- x:96\n"
           "products BF16 {bfloat 3x64 items scales} b16 - -> y:64 64; F32 {floats} f32 - -> z:64 64;"
           " x x:96\n");
    products[0].weight = &f32;
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("products F32 {floats} f32 - -> y:64 64; x x:96\noperand half 3x64 items scales <- x:96\n"
           "products Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n");
}

TEST(operands_of_many_rows_are_swizzled_for_wgmma)
{
    struct product product = {.y = &y, .weight = &q4};
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1};
    facts.has_wgmma = true;
    facts.shared_bytes_max = PRODUCT_SHARED_BYTES_WGMMA;
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST - 1);
    assert_null(strstr(out.data, "swizzled"));
    buffer_clear(&out);
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST);
    expect("operand half swizzled 17x64 items scales <- x:96\n"
           "products Q4_0 {half swizzled 17x64 items scales} q4 - -> y:64 64;\n");
    gpu_norm(&backend.base, &x, &z, WGMMA_ROWS_LEAST, &norm);
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST);
    expect("norm x:96 <- z:64 17x1x64 rms gain - 0 -> half swizzled 17x64 items scales\n"
           "products Q4_0 {half swizzled 17x64 items scales} q4 - -> y:64 64;\n");
    facts.has_wgmma = false;
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST);
    assert_null(strstr(out.data, "swizzled"));
}

TEST(a_norm_makes_the_operand_of_the_product_after_it)
{
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    struct product products[] = {{.y = &y, .weight = &q4}, {.y = &z, .weight = &q6}};
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales only\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;"
           " Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n");
    flush();
    expect("");
    norm.consumed = false;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    norm.consumed = true;
    products[1].weight = &b16; // reads the norm itself
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n"
           "operand bfloat 3x64 items scales <- x:96\n"
           "products BF16 {bfloat 3x64 items scales} b16 - -> z:64 64;\n");
    products[1].weight = &f32;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    assert_null(strstr(out.data, "only"));
    buffer_clear(&out);
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products + 1, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0\n"
           "products F32 {floats} f32 - -> z:64 64; x x:96\n");
}

TEST(a_norm_of_another_matrix_or_of_heads_is_launched_before)
{
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    struct product product = {.y = &y, .weight = &q4};
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
    expect("norm z:64 <- x:96 3x1x64 rms gain - 0\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    gpu_norm(&backend.base, &x, &z, 2, &norm); // of other rows
    gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 2x1x64 rms gain - 0\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    norm.n_groups = 2;
    norm.own_weights = true;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x2x32 rms own gain - 0\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
}

TEST(gated_products_of_one_type_are_one_launch)
{
    struct product gate = {.y = &y, .weight = &q4}, up = {.y = &z, .weight = &q4};
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, false, ACTIVATION_GELU);
    flush();
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales only\n"
           "products Q4_0 gated {half 3x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 1\n");
    gpu_gated_products(&backend.base, &gate, &up, &x, 0, false, ACTIVATION_GELU);
    expect("");
    for (int i = 0; i < 2; i++) { // of two types, or of floats: the activation is a launch of its own
        gate.weight = i == 0 ? &q4 : &f32;
        up.weight = i == 0 ? &q6 : &f32;
        gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, false, ACTIVATION_GELU);
        expect(i == 0 ? "operand half 3x64 items scales <- x:96\n"
                        "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;"
                        " Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n"
                        "activate y:64 <- y:64 z:64 3x64 1\n"
                      : "products F32 {floats} f32 - -> y:64 64; f32 - -> z:64 64; x x:96\n"
                        "activate y:64 <- y:64 z:64 3x64 1\n");
    }
}

TEST(gated_products_of_experts_leave_a_norm_as_it_is)
{
    struct weight many = q4;
    struct product gate = {.y = &y, .weight = &many}, up = {.y = &z, .weight = &many};
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    many.n_matrices = 8;
    route_two();
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, true, ACTIVATION_SILU);
    flush();
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0\n"
           "operand half 6x64 items scales <- x:96 [order / 2]\n"
           "products Q4_0 gated {half 6x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 0 8"
           " experts first order\n");
}

// As gpu_attend leaves it.
static void defer_attention(struct matrix *to, int32_t n_rows)
{
    flush();
    backend.current.pending_rows = (struct pending_rows){
        .out = to,
        .kind = PENDING_ATTENTION,
        .n_rows = n_rows,
        .attention = {.out = to->device.items, .strides.out = to->device.stride, .extent.n_rows = n_rows}};
}

TEST(attention_writes_the_operand_of_the_product_after_it)
{
    struct product products[] = {{.y = &y, .weight = &q4}, {.y = &z, .weight = &b16}};
    defer_attention(&x, N_TOKENS);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("attention x:96 3 rows next {half 3x64 items scales arrivals}\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n"
           "operand bfloat 3x64 items scales <- x:96\n"
           "products BF16 {bfloat 3x64 items scales} b16 - -> z:64 64;\n");
    struct step_times times;
    backend.current.times = &times;
    defer_attention(&x, N_TOKENS);
    backend.current.pending_rows.ends_phase = true;
    backend.current.pending_rows.phase = PHASE_PRODUCTS;
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("attention x:96 3 rows next {half 3x64 items scales arrivals}\nphase 3\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    backend.current.times = NULL; // not traced
    defer_attention(&x, N_TOKENS);
    backend.current.pending_rows.ends_phase = true;
    products[0].weight = &f32;
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("attention x:96 3 rows\nproducts F32 {floats} f32 - -> y:64 64; x x:96\n");
    products[0].weight = &q4;
    defer_attention(&z, N_TOKENS); // of another matrix
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("attention z:64 3 rows\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    defer_attention(&x, N_TOKENS);
    gpu_gather(&backend.base, &y, &x); // some of its rows
    expect("attention x:96 3 rows\ngather y:64 <- x:96[up+48] 4x64\n");
    flush();
    expect("");
}

TEST(gates_write_the_operand_of_the_product_after_them)
{
    struct product gate = {.y = &y, .weight = &q4}, up = {.y = &z, .weight = &q4},
                   down = {.y = &x, .weight = &b16};
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, false, ACTIVATION_SILU);
    expect("operand half 3x64 items scales <- x:96\n");
    gpu_products(&backend.base, &down, 1, &y, N_TOKENS);
    expect("products Q4_0 gated {half 3x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 0"
           " next {bfloat 3x64 next factors arrivals}\n"
           "products BF16 {bfloat 3x64 next factors} b16 - -> x:96 64;\n");
    for (int i = 0; i < 3; i++) { // of many rows; of no room; of another matrix
        int32_t n = i == 0 ? SKINNY_ROWS_MAX + 1 : N_TOKENS;
        backend.memory.next_items.size_bytes = i == 1 ? N_TOKENS * OPERAND_ALIGNMENT * 2 - 1 : 4096;
        gpu_gated_products(&backend.base, &gate, &up, &x, n, false, ACTIVATION_SILU);
        gpu_products(&backend.base, &down, 1, i == 2 ? &z : &y, n);
        assert_null(strstr(out.data, "next"));
        assert_non_null(strstr(out.data, i == 2 ? "<- z:64\n" : "<- y:64\n"));
        buffer_clear(&out);
    }
}

// In place of their result, with the scale that follows from the weights, if all that reads it has that form: of any
// number of rows.
TEST(gates_write_an_operand_of_known_scale_in_place)
{
    struct matrix wide, wide_up;
    struct weight gates = q4, down_bfloat = b16, down_half = q4, bias_of_gates = bias;
    make_matrix(&wide, "wide", 128, 128);
    make_matrix(&wide_up, "wide_up", 128, 128);
    gates.tensor.dims[1] = down_bfloat.tensor.dims[0] = down_half.tensor.dims[0] = 128;
    gates.bound = (struct output_bound){0x1p10f, 1}; // the scale: 2^10 * (2^10 + 2^11) is below 2^22
    bias_of_gates.n_items = 128;
    bias_of_gates.bound.largest = 0x1p11f;
    struct product gate = {.y = &wide, .weight = &gates},
                   up = {.y = &wide_up, .weight = &gates, .bias = &bias_of_gates},
                   down[] = {{.y = &y, .weight = &down_bfloat}, {.y = &z, .weight = &down_half}};
    facts.shared_bytes_max = PRODUCT_SHARED_BYTES_WGMMA;
    for (int i = 0; i < 2; i++) {
        const char *rows = i ? " swizzled 17x" : " 3x";
        int32_t n = i ? 17 : N_TOKENS;
        facts.has_wgmma = i;
        for (int n_down = 1; n_down <= i + 1; n_down++) {
            gpu_gated_products(&backend.base, &gate, &up, &x, n, false, ACTIVATION_SILU);
            gpu_products(&backend.base, down + (n_down == 1 ? i : 0), n_down, &wide, n);
            struct buffer wanted = {.size_max = 1 << 12};
            buffer_add_format(&wanted,
                              "operand half%s64 items scales <- x:96\n"
                              "products Q4_0 gated {half%s64 items scales} q4 - -> wide:128 128;"
                              " q4 bias -> wide_up:128 128; activation 0",
                              rows, rows);
            if (n_down == 1)
                buffer_add_format(&wanted,
                                  " next {%s%s128 wide scale %d arrivals}\n"
                                  "products %s {%s%s128 wide scale %d} %s - -> %s:64 64;\n",
                                  i ? "half" : "bfloat", rows, i ? 128 : 1, i ? "Q4_0" : "BF16",
                                  i ? "half" : "bfloat", rows, i ? 128 : 1, i ? "q4" : "b16", i ? "z" : "y");
            else
                buffer_add_format(&wanted,
                                  "\noperand bfloat%s128 items scales <- wide:128\n"
                                  "products BF16 {bfloat%s128 items scales} b16 - -> y:64 64;\n"
                                  "operand half%s128 items scales <- wide:128\n"
                                  "products Q4_0 {half%s128 items scales} q4 - -> z:64 64;\n",
                                  rows, rows, rows, rows);
            buffer_add_string(&wanted, "");
            expect(wanted.data);
            buffer_finish(&wanted);
        }
    }
}

TEST(gates_of_experts_write_the_operand_of_their_pairs)
{
    struct weight many = q4;
    struct product gate = {.y = &y, .weight = &many}, up = {.y = &z, .weight = &many},
                   down = {.y = &x, .weight = &many};
    many.n_matrices = 8;
    route_two();
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, true, ACTIVATION_SILU);
    gpu_expert_products(&backend.base, &down, 1, &y, N_TOKENS, true);
    expect("operand half 6x64 items scales <- x:96 [order / 2]\n"
           "products Q4_0 gated {half 6x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 0"
           " next {half 6x64 next factors arrivals} 8 experts first order\n"
           "products Q4_0 {half 6x64 next factors} q4 - -> x:96 64; 8 experts first order\n");
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, true, ACTIVATION_SILU);
    gpu_expert_products(&backend.base, &down, 1, &y, N_TOKENS, false); // rows and not pairs
    assert_null(strstr(out.data, "next"));
    buffer_clear(&out);
}

// One block converts them one after the other: both sides of the limit.
TEST(gates_write_the_next_operand_of_few_bytes)
{
    struct product_launch gated = {.n_parts = 2, .x.n_rows = 4, .floats.rows_divisor = 1, .gated = true};
    gated.parts[0].n_outputs = PRODUCT_NEXT_BYTES / 4 / 4;
    assert_true(product_converts_next(&gated));
    gated.parts[0].n_outputs++;
    assert_false(product_converts_next(&gated));
    gated.n_experts = 2; // tiles of as many rows as there are tokens
    gated.floats.rows_divisor = 2;
    assert_true(product_converts_next(&gated));
    gated.n_experts = 8;
    gated.x.n_rows = 8 * SKINNY_ROWS_ONE_COLUMN; // 8 of 32 tokens
    gated.parts[0].n_outputs = PRODUCT_NEXT_BYTES / 4 / SKINNY_ROWS_ONE_COLUMN;
    assert_true(product_converts_next(&gated));
    gated.x.n_rows++; // 16
    assert_false(product_converts_next(&gated));
    gated.parts[0].n_outputs /= 2;
    assert_true(product_converts_next(&gated));
    gated.x.n_rows = 8 * SKINNY_ROWS_MAX + 1;
    assert_false(product_converts_next(&gated));
    gated.x.n_rows = 1;
    gated.gated = false;
    assert_false(product_converts_next(&gated));
}

// Whole groups of inputs, at any number of rows.
TEST(operands_of_gates_have_a_known_scale)
{
    struct product_launch gated = {.n_parts = 2, .gated = true, .gated_scale = 0x1p-3f};
    gated.parts[0].n_outputs = 14336;
    assert_true(product_next_scale(&gated, OPERAND_BFLOAT) == 1);
    assert_true(product_next_scale(&gated, OPERAND_HALF) == 0x1p-3f);
    gated.gated_scale = 0; // not known
    assert_true(product_next_scale(&gated, OPERAND_BFLOAT) == 1);
    assert_true(product_next_scale(&gated, OPERAND_HALF) == 0);
    gated.gated_scale = 1;
    gated.parts[0].n_outputs += 64;
    assert_true(product_next_scale(&gated, OPERAND_BFLOAT) == 0);
    assert_true(product_next_scale(&gated, OPERAND_HALF) == 0);
    gated.parts[0].n_outputs += 64;
    gated.gated = false;
    assert_true(product_next_scale(&gated, OPERAND_BFLOAT) == 0);
}

// Every tile is one block's, and what device memory is asked for is counted as the second-level cache would
// have it: weights once a group of row tiles, x once.
TEST(blocks_are_ordered_by_groups_of_row_tiles)
{
    static const struct {
        int32_t n_output_tiles, n_row_tiles, n_group_tiles;
    } cases[] = {{1, 1, 1}, {3, 7, 2}, {5, 6, 3}, {4, 5, 5}, {224, 64, 16}, {7, 9, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int32_t n_outputs = cases[c].n_output_tiles, n_rows = cases[c].n_row_tiles,
                n_group = cases[c].n_group_tiles, n_weights = 0, last_outputs = -1;
        bool *seen = calloc((size_t)(n_outputs * n_rows), sizeof *seen);
        for (int32_t i = 0; i < n_outputs * n_rows; i++) {
            struct product_place place = product_place_of(i, n_outputs, n_rows, n_group);
            assert_in_range(place.outputs, 0, n_outputs - 1);
            assert_in_range(place.rows, 0, n_rows - 1);
            assert_false(seen[place.rows * n_outputs + place.outputs]);
            seen[place.rows * n_outputs + place.outputs] = true;
            assert_int_equal(place.rows / n_group, i / (n_group * n_outputs));
            n_weights += place.outputs != last_outputs;
            last_outputs = place.outputs;
        }
        int32_t n_groups = (n_rows + n_group - 1) / n_group;
        assert_int_equal(n_weights, n_outputs == 1 ? 1 : n_outputs * n_groups);
        assert_int_equal(product_place_of((int64_t)n_outputs * n_rows, n_outputs, n_rows, n_group).outputs,
                         -1);
        free(seen);
    }
    assert_int_equal(product_group_tiles(128, 4096, 64), 16);
    assert_int_equal(product_group_tiles(128, 14336, 64), 4);
    assert_int_equal(product_group_tiles(128, 4096, 2), 2);
    assert_int_equal(product_group_tiles(128, 1 << 20, 64), 1);
}

TEST(products_of_heads_are_launched_as_many_as_the_operand_holds)
{
    struct weight floats = f16_heads;
    f16_heads.tensor.dims[0] = floats.tensor.dims[0] = 16;
    struct head_columns from = {3, 12}, to = {1, 15};
    size_t head_bytes = (size_t)tiles_bytes(TENSOR_F16, 16, 16);
    char text[512];
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, N_TOKENS);
    expect("operand half 12x16 items scales <- x+3:96 heads of 3 rows, by 12\n"
           "product F16 {half 12x16 items scales} heads - -> y+1:64 16; 4 heads of 3 rows, by 12 to 15\n");
    backend.memory.operand_items.size_bytes = 3 * activation_operand_bytes(N_TOKENS, 16);
    snprintf(text, sizeof text,
             "operand half 9x16 items scales <- x+3:96 heads of 3 rows, by 12\n"
             "product F16 {half 9x16 items scales} heads - -> y+1:64 16; 3 heads of 3 rows, by 12 to 15\n"
             "operand half 3x16 items scales <- x+39:96 heads of 3 rows, by 12\n"
             "product F16 {half 3x16 items scales} heads+%zu - -> y+46:64 16; 1 heads of 3 rows, by 12 to"
             " 15\n",
             3 * head_bytes);
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, N_TOKENS);
    expect(text);
    backend.memory.operand_items.size_bytes = 65536;
    backend.memory.operand_scales.size_bytes = (4 * N_TOKENS - 1) * sizeof(float); // for three heads
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, N_TOKENS);
    expect(text);
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, 0);
    expect("");
    backend.memory.operand_scales.size_bytes = 4096;
    floats.tiles = TENSOR_F32;
    is_captured();
    gpu_head_products(&backend.base, &y, to, &floats, &x, from, N_TOKENS);
    expect("product F32 {floats} heads - -> y+1:64 16; x x+3:96 4 heads of 4 rows, by 12 to 15\n");
}

TEST_FIXTURE(begin, end);
