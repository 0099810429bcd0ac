// The launches of operations on rows (gpu/operations.c): which are made, in what order, with which arguments, and
// which wait for the next operation.
#include "tests/support/cases.h"
#include "tests/unit/gpu/launch_lines.h"

// ---- rows ----
TEST(rows_are_padded_in_graphs_alone)
{
    assert_int_equal(gpu_rows(&backend, N_TOKENS), N_TOKENS);
    assert_int_equal(gpu_rows(&backend, 5), 5);
    is_captured();
    assert_int_equal(gpu_rows(&backend, N_TOKENS), N_ROWS);
    assert_int_equal(gpu_rows(&backend, 2 * N_TOKENS), 2 * N_ROWS); // pairs of a row and an expert
    assert_int_equal(gpu_rows(&backend, 0), 0);
}

TEST(operations_on_rows_are_launched_with_the_step_s_inputs)
{
    struct matrix gate = narrow; // one number a row
    gate.n_cols = 1;
    for (int captured = 0; captured < 2; captured++) {
        if (captured)
            is_captured();
        gpu_embed(&backend.base, &x, &table, 2, NULL, NULL);
        expect(captured ? "embed x:96 4x64 table[up+16] *2 + -[up+32]\n"
                        : "embed x:96 3x64 table[up+16] *2 + -[up+32]\n");
        gpu_activate(&backend.base, &x, &y, &z, N_TOKENS, ACTIVATION_GELU);
        expect(captured ? "activate x:96 <- y:64 z:64 4x64 1\n" : "activate x:96 <- y:64 z:64 3x64 1\n");
        gpu_scale(&backend.base, &x, N_TOKENS, 0.5f, 30);
        expect(captured ? "scale x:96 4x64 *0.5 cap 30\n" : "scale x:96 3x64 *0.5 cap 30\n");
        gpu_gate_rows(&backend.base, &x, &gate, N_TOKENS);
        expect(captured ? "gate x:96 narrow:32/1 4x64\n" : "gate x:96 narrow:32/1 3x64\n");
        gpu_copy_columns(&backend.base, &x, (struct head_columns){4, 16}, &y, (struct head_columns){2, 15}, 4,
                         4, N_TOKENS);
        expect(captured ? "columns x+4:96 by 16 <- y+2:64 by 15, 4 heads of 4, 4 rows\n"
                        : "columns x+4:96 by 16 <- y+2:64 by 15, 4 heads of 4, 3 rows\n");
        gpu_gather(&backend.base, &x, &y); // its rows are the padded outputs
        expect("gather x:96 <- y:64[up+48] 4x64\n");
    }
    gpu_embed(&backend.base, &x, &table, 1, &table, NULL);
    expect("embed x:96 4x64 table[up+16] *1 + table[up+32]\n");
    gpu_activate(&backend.base, &x, &y, NULL, N_TOKENS, ACTIVATION_SILU);
    expect("activate x:96 <- y:64 - 4x64 0\n");
}

TEST(rows_are_written_and_read_at_their_stride)
{
    float rows[128];
    gpu_add(&backend.base, &z, &y, N_TOKENS, 1);
    gpu_write(&backend.base, &x, 2, rows);
    expect("add z:64 y:64 3x64 *1\nupload x 2 rows of 256 by 384\n");
    gpu_add(&backend.base, &z, &y, N_TOKENS, 1);
    gpu_read(&backend.base, &x, 2, rows);
    expect("add z:64 y:64 3x64 *1\ndownload x 2 rows of 256 by 384\n");
}

TEST(a_step_that_failed_or_is_replayed_launches_nothing)
{
    float rows[128];
    struct product product = {.y = &y, .weight = &q4};
    struct norm_parameters norm = {.weight = &gain, .n_groups = 1};
    struct matrix gate = narrow;
    gate.n_cols = 1;
    struct route_parameters route = {.n_used = 2, .n_groups = 1};
    for (int i = 0; i < 2; i++) {
        backend.fault.failed = i == 0;
        backend.submitted.slot->part->way = i == 0 ? STEP_EAGER : STEP_REPLAYS;
        gpu_embed(&backend.base, &x, &table, 1, NULL, NULL);
        gpu_norm(&backend.base, &x, &y, N_TOKENS, &norm);
        gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
        gpu_activate(&backend.base, &x, &y, &z, N_TOKENS, ACTIVATION_SILU);
        gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
        gpu_scale(&backend.base, &x, N_TOKENS, 1, 0);
        gpu_gather(&backend.base, &x, &y);
        gpu_copy_columns(&backend.base, &x, (struct head_columns){0, 4}, &y, (struct head_columns){0, 4}, 4,
                         4, N_TOKENS);
        gpu_gate_rows(&backend.base, &x, &gate, N_TOKENS);
        gpu_route(&backend.base, &narrow, N_TOKENS, &route);
        gpu_expert_sum(&backend.base, &x, &y, N_TOKENS);
        gpu_write(&backend.base, &x, 2, rows);
        gpu_read(&backend.base, &x, 2, rows);
        gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
        gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, false);
        gpu_gated_products(&backend.base, &product, &product, &x, N_TOKENS, false, ACTIVATION_SILU);
        gpu_head_products(&backend.base, &y, (struct head_columns){0, 16}, &f16_heads, &x,
                          (struct head_columns){0, 0}, N_TOKENS);
        gpu_sample(&backend.base, &x);
        assert_true(backend.submitted.slot->drawn); // its outcomes are there all the same
        assert_false(gpu_enqueues(&backend));
        expect("");
        assert_null(backend.current.pending.x);
        assert_null(backend.current.pending_rows.out);
        assert_int_equal(backend.current.ropes.n, 0);
    }
}

// ---- what waits ----

TEST(a_sum_waits_for_a_norm_of_the_same_matrix)
{
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .epsilon = 0.5f, .n_groups = 1};
    gpu_add(&backend.base, &x, &y, N_TOKENS, 2);
    expect("");
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    expect("");
    flush();
    expect("norm z:64 <- x:96 3x1x64 rms gain - 0.5 + y:64 *2\n");
    flush(); // once
    expect("");
    gpu_add(&backend.base, &x, &y, N_TOKENS, 2);
    gpu_norm(&backend.base, &z, &y, N_TOKENS, &norm); // of another matrix
    expect("add x:96 y:64 3x64 *2\n");
    flush();
    expect("norm z:64 <- y:64 3x1x64 rms gain - 0.5\n");
    gpu_add(&backend.base, &x, &y, 2, 1);
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm); // of other rows
    expect("add x:96 y:64 2x64 *1\n");
    flush();
    buffer_clear(&out);
    norm.n_groups = 2;
    norm.own_weights = true;
    gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm); // of each head
    expect("add x:96 y:64 3x64 *1\n");
    flush();
    expect("norm z:64 <- x:96 3x2x32 rms own gain - 0.5\n");
    gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
    gpu_add(&backend.base, &x, &z, N_TOKENS, 3);
    expect("add x:96 y:64 3x64 *1\n");
    flush();
    expect("add x:96 z:64 3x64 *3\n");
}

TEST(a_norm_has_its_kind_s_weights)
{
    struct norm_parameters norm = {.kind = NORM_LAYER, .weight = &gain, .bias = &bias, .n_groups = 1};
    struct weight head = gain;
    is_captured();
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    flush();
    expect("norm z:64 <- x:96 4x1x64 gain bias 0\n");
    norm.bias = NULL;
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    flush();
    expect("norm z:64 <- x:96 4x1x64 gain - 0\n");
    norm = (struct norm_parameters){.kind = NORM_RMS, .weight = &head, .bias = &bias, .n_groups = 4};
    head.n_items = 16; // one vector for all heads
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    flush();
    expect("norm z:64 <- x:96 4x4x16 rms gain - 0\n");
}

TEST(two_rotations_of_different_matrices_wait)
{
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_NONE, 0);
    flush();
    expect("");
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
    gpu_rope(&backend.base, &y, N_TOKENS, 2, 32, 4, ROPE_ADJACENT, 1);
    expect("");
    assert_int_equal(backend.current.ropes.n, 2);
    flush();
    expect("rope x:96 3 rows 4 heads of 16, 4 dims in halves up+80\n"
           "rope y:64 3 rows 2 heads of 32, 4 dims up+96\n");
    is_captured();
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 1); // again
    expect("rope x:96 4 rows 4 heads of 16, 4 dims in halves up+80\n");
    gpu_rope(&backend.base, &y, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
    expect("");
    gpu_rope(&backend.base, &z, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0); // a third
    expect("rope x:96 4 rows 4 heads of 16, 4 dims in halves up+96\n"
           "rope y:64 4 rows 4 heads of 16, 4 dims in halves up+80\n");
    assert_int_equal(backend.current.ropes.n, 1);
    gpu_scale(&backend.base, &x, N_TOKENS, 1, 0);
    expect("rope z:64 4 rows 4 heads of 16, 4 dims in halves up+80\nscale x:96 4x64 *1 cap 0\n");
}

// ---- experts ----

TEST(experts_are_routed_and_summed)
{
    struct route_parameters route = {.kind = ROUTE_SIGMOID,
                                     .n_used = 2,
                                     .scale = 2.5f,
                                     .pick_bias = &bias,
                                     .n_groups = 4,
                                     .n_groups_used = 2};
    gpu_route(&backend.base, &narrow, N_TOKENS, &route);
    expect("route narrow:32 3 rows 2 of 8 sigmoid *2.5 bias 2 of 4 groups experts order first weights\n");
    gpu_expert_sum(&backend.base, &x, &y, N_TOKENS);
    expect("sum x:96 <- y:64 weights 3 rows of 2, 64\n");
    is_captured();
    route = (struct route_parameters){.kind = ROUTE_SOFTMAX, .n_used = 3, .scale = 1, .normalized = true};
    gpu_route(&backend.base, &narrow, N_TOKENS, &route);
    expect("route narrow:32 4 rows 3 of 8 normalized *1 - 0 of 0 groups experts order first weights\n");
    gpu_expert_sum(&backend.base, &x, &y, N_TOKENS);
    expect("sum x:96 <- y:64 weights 4 rows of 3, 64\n");
}

TEST_FIXTURE(begin, end);
