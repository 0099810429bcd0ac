// The quantizer against the dequantizers: what a type can represent is read back exactly, and random weights
// are read back as near as the number of bits allows.
#include "engine/cpu/backend.h"
#include "engine/file/dequantize.h"
#include "engine/logits.h"
#include "engine/file/gguf_quantize.h"
#include "engine/file/gguf_write.h"
#include "engine/philox.h"
#include "engine/file/quantize.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

#include <math.h>

enum { N_ITEMS = 256 * 64, BLOCK_BYTES_MAX = 256 };

static const enum tensor_type types[] = {TENSOR_F32,  TENSOR_F16,  TENSOR_BF16, TENSOR_Q8_0,
                                         TENSOR_Q4_0, TENSOR_Q4_K, TENSOR_Q5_K, TENSOR_Q6_K};
enum { N_TYPES = sizeof types / sizeof *types };

static uint32_t random_bits(uint32_t index)
{
    return philox4x32((struct philox){{index / 4, 0, 0, 0}}, 7).words[index % 4];
}

static float random_normal(uint32_t index)
{
    double a = (random_bits(2 * index) + 0.5) * 0x1p-32, b = random_bits(2 * index + 1) * 0x1p-32;
    return (float)(sqrt(-2.0 * log(a)) * cos(6.283185307179586 * b));
}

static void quantize_or_fail(enum tensor_type type, const float *items, size_t n_items, void *blocks)
{
    struct error error;
    if (quantize_items(type, items, n_items, blocks, &error) != STATUS_OK)
        fail_msg("%s: %s", tensor_traits(type)->name, error.text);
}

// Root of the mean squared error over that of the items.
static double relative_error(enum tensor_type type, const float *items, size_t n_items)
{
    static uint8_t blocks[N_ITEMS * 4];
    static float back[N_ITEMS];
    quantize_or_fail(type, items, n_items, blocks);
    tensor_traits(type)->dequantize(blocks, back, n_items);
    double error = 0.0, norm = 0.0;
    for (size_t i = 0; i < n_items; i++) {
        error += ((double)back[i] - (double)items[i]) * ((double)back[i] - (double)items[i]);
        norm += (double)items[i] * (double)items[i];
    }
    return sqrt(error / norm);
}

TEST(random_weights_come_back_as_near_as_the_bits_allow)
{
    // For normal items; what other quantizers of these formats reach is about the same (Q4_K 0.070, Q4_0
    // 0.092).
    static const double bounds[N_TYPES] = {0.0, 3e-4, 2.2e-3, 6e-3, 0.09, 0.072, 0.036, 0.019};
    static float items[N_ITEMS];
    for (uint32_t i = 0; i < N_ITEMS; i++)
        items[i] = random_normal(i);
    for (int scale = -1; scale < 2; scale++) {
        for (int t = 0; t < N_TYPES; t++) {
            static float scaled[N_ITEMS];
            for (int i = 0; i < N_ITEMS; i++)
                scaled[i] = items[i] * powf(30.0f, (float)scale);
            double error = relative_error(types[t], scaled, N_ITEMS);
            print_message("%s: %.5f\n", tensor_traits(types[t])->name, error);
            assert_true(error <= bounds[t]);
        }
    }
}

TEST(an_outlier_costs_its_own_run_only)
{
    static float items[N_ITEMS];
    for (uint32_t i = 0; i < N_ITEMS; i++)
        items[i] = i % 256 == 100 ? 50.0f : 0.5f * random_normal(i);
    assert_true(relative_error(TENSOR_Q6_K, items, N_ITEMS) < 0.04);
    assert_true(relative_error(TENSOR_Q4_K, items, N_ITEMS) < 0.1);
}

// Widens blocks of random bits with chosen scales, quantizes the floats, and expects the same floats again.
static void assert_comes_back(enum tensor_type type, const uint8_t *block)
{
    uint8_t again[BLOCK_BYTES_MAX];
    float items[256], back[256];
    uint32_t n_items = tensor_traits(type)->block_items;
    tensor_traits(type)->dequantize(block, items, n_items);
    quantize_or_fail(type, items, n_items, again);
    tensor_traits(type)->dequantize(again, back, n_items);
    for (uint32_t i = 0; i < n_items; i++)
        if (back[i] != items[i])
            fail_msg("%s: item %u: %.9g came back as %.9g", tensor_traits(type)->name, i, (double)items[i],
                     (double)back[i]);
}

static void set_half(uint8_t *bytes, float value)
{
    uint16_t half = float_to_half(value);
    bytes[0] = (uint8_t)half;
    bytes[1] = (uint8_t)(half >> 8);
}

TEST(blocks_of_32_come_back_exactly)
{
    for (uint32_t n = 0; n < 500; n++) {
        uint8_t block[34];
        for (uint32_t i = 0; i < sizeof block; i++)
            block[i] = (uint8_t)random_bits(64 * n + i);
        float d = ldexpf(1.0f + (float)(n % 1024) / 1024.0f, (int)(n % 12) - 8);
        for (uint32_t i = 2; i < 34; i++)
            block[i] = block[i] == 0x80 ? 0x81 : block[i];
        set_half(block, d);
        block[2 + n % 32] = n % 2 ? 127 : 0x81;
        assert_comes_back(TENSOR_Q8_0, block);
        set_half(block, n % 2 ? d : -d);
        block[2 + n % 16] = n % 3 ? 0x00 : 0xFF; // a -8, or a 7 with some -8 elsewhere
        assert_comes_back(TENSOR_Q4_0, block);
    }
}

TEST(blocks_of_six_bits_come_back_exactly)
{
    for (uint32_t n = 0; n < 200; n++) {
        uint8_t block[210];
        for (uint32_t i = 0; i < sizeof block; i++)
            block[i] = (uint8_t)random_bits(256 * n + i);
        for (uint32_t j = 0; j < 32; j += 16) // a -32 in each run: low nibbles and high bits 0
            for (uint32_t half = 0; half < 2; half++) {
                block[half * 64 + j] = block[half * 64 + j + 32] = 0;
                block[128 + half * 32 + j] = 0;
            }
        block[192 + n % 16] = n % 2 ? 0x80 : 0x7F;
        set_half(block + 208, ldexpf(1.0f + (float)(n % 64) / 64.0f, -10));
        assert_comes_back(TENSOR_Q6_K, block);
    }
}

TEST(blocks_with_minima_come_back_exactly)
{
    for (uint32_t n = 0; n < 200; n++) {
        uint8_t block[176];
        for (int five_bits = 0; five_bits < 2; five_bits++) {
            for (uint32_t i = 0; i < sizeof block; i++)
                block[i] = (uint8_t)random_bits(256 * n + i + 17);
            set_half(block, ldexpf(1.0f + (float)(n % 8) / 8.0f, -8));
            set_half(block + 2, ldexpf(1.0f + (float)(n % 4) / 4.0f, -6));
            memset(block + 4, 0x3F, 8);  // scales and minima of runs 0 to 3: 63
            memset(block + 12, 0xFF, 4); // those of runs 4 to 7: 15
            uint8_t *nibbles = block + (five_bits ? 48 : 16);
            for (uint32_t run = 0; run < 4; run++) { // each run holds its lowest and its highest integer
                nibbles[32 * run] = 0x00;
                nibbles[32 * run + 1] = 0xFF;
            }
            if (five_bits) {
                block[16] = 0x00;
                block[17] = 0xFF;
            }
            assert_comes_back(five_bits ? TENSOR_Q5_K : TENSOR_Q4_K, block);
        }
    }
}

TEST(every_half_comes_back)
{
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = half_to_float((uint16_t)half);
        if (!isnan(value))
            assert_int_equal(float_to_half(value), half);
        else
            assert_true(isnan(half_to_float(float_to_half(value))));
    }
    assert_int_equal(float_to_half(65519.99f), 0x7BFF);
    assert_int_equal(float_to_half(65520.0f), 0x7C00);
    assert_int_equal(float_to_half(0x1p-25f), 0);        // a tie: to even
    assert_int_equal(float_to_half(0x1.8p-24f), 2);      // a tie: to even
    assert_int_equal(float_to_half(0x1.002p0f), 0x3C00); // a tie: to even
    assert_int_equal(float_to_half(0x1.006p0f), 0x3C02);
}

TEST(zeros_and_the_smallest_numbers_are_no_fault)
{
    static const float values[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-126f, 0x1p-41f, -0x1p-39f, 0x1p-24f};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (int t = 0; t < N_TYPES; t++) {
            float items[256], back[256];
            uint8_t blocks[1024];
            for (int i = 0; i < 256; i++)
                items[i] = i % 3 ? values[v] : 0.0f;
            quantize_or_fail(types[t], items, 256, blocks);
            tensor_traits(types[t])->dequantize(blocks, back, 256);
            for (int i = 0; i < 256; i++)
                assert_true(fabsf(back[i] - items[i]) <= 0x1p-18f);
        }
}

TEST(what_is_no_number_or_too_large_is_refused)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int t = 0; t < N_TYPES; t++) {
        float items[512] = {0};
        uint8_t blocks[2048];
        struct error error = {0};
        for (size_t i = 0; i < 3; i++) {
            items[300] = bad[i];
            assert_int_equal(quantize_items(types[t], items, 512, blocks, &error), STATUS_REFUSE);
            assert_non_null(strstr(error.text, "item 300 "));
            assert_non_null(strstr(error.text, tensor_traits(types[t])->name));
        }
        items[300] = 3e38f;
        bool wide = types[t] == TENSOR_F32 || types[t] == TENSOR_BF16;
        assert_int_equal(quantize_items(types[t], items, 512, blocks, &error),
                         wide ? STATUS_OK : STATUS_REFUSE);
        items[300] = 3.4e38f; // rounds up to infinity in BF16
        assert_int_equal(quantize_items(types[t], items, 512, blocks, &error),
                         types[t] == TENSOR_F32 ? STATUS_OK : STATUS_REFUSE);
        items[300] = 60000.0f;
        assert_ok(quantize_items(types[t], items, 512, blocks, &error), &error);
    }
    assert_false(quantize_knows(TENSOR_Q2_K));
    assert_false(quantize_knows(TENSOR_TYPE_COUNT));
}

// --- Whole models ---

enum { N_IDS = 12, N_VOCAB = 320 };

static struct gguf *open_quantized(const char *path, enum tensor_type type, struct pool *pool)
{
    struct error error;
    struct gguf *source, *quantized;
    assert_ok(gguf_open(&source, path, &error), &error);
    assert_ok(gguf_quantize(&quantized, source, type, pool, &error), &error);
    return quantized;
}

static void compute_logits(struct gguf *gguf, struct pool *pool, float logits[N_IDS * N_VOCAB])
{
    struct error error;
    struct model *model;
    struct backend *backend;
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++)
        ids[i] = i * 7 % N_VOCAB;
    assert_ok(model_open_taking(&model, gguf, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
    assert_ok(logits_of_text(model, backend, KV_F32, ids, N_IDS, logits, &error), &error);
    backend->device.destroy(backend);
    model_close(model);
}

TEST(a_model_quantized_on_load_equals_the_file_written_of_it)
{
    static const char *const families[] = {"llama", "mixtral", "phi3", "gpt2", "llama3"};
    static const enum tensor_type wanted[] = {TENSOR_Q4_K, TENSOR_Q8_0, TENSOR_Q6_K, TENSOR_F16, TENSOR_Q4_0};
    static float logits[2][N_IDS * N_VOCAB];
    char directory[64], path[96], written[96];
    struct error error;
    struct pool *pool;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    snprintf(written, sizeof written, "%s/written.gguf", directory);
    assert_ok(pool_create(&pool, 3, &error), &error);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        make_model(path,
                   &(struct model_recipe){.family = families[i], .seed = 3, .n_embd = 256, .n_ff = 512});
        struct gguf *gguf = open_quantized(path, wanted[i], NULL);
        FILE *file = fopen(written, "w");
        assert_non_null(file);
        assert_ok(gguf_write(gguf, NULL, file, NULL, NULL, &error), &error);
        assert_int_equal(fclose(file), 0);
        gguf_close(gguf);
        compute_logits(open_quantized(path, wanted[i], pool), pool, logits[0]);
        assert_ok(gguf_open(&gguf, written, &error), &error);
        compute_logits(gguf, pool, logits[1]);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    }
    pool_destroy(pool);
    remove_directory(directory);
}

static enum tensor_type type_of(const struct gguf *gguf, const char *name)
{
    const struct tensor *tensor = gguf_tensor(gguf, name);
    if (!tensor)
        fail_msg("%s is missing", name);
    return tensor->type;
}

TEST(vectors_stay_float_and_rows_that_do_not_fit_get_another_type)
{
    char directory[64], path[96];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path,
               &(struct model_recipe){.family = "qwen2moe", .n_embd = 256, .n_ff = 192, .type = TENSOR_F16});
    struct gguf *gguf = open_quantized(path, TENSOR_Q4_K, NULL);
    assert_int_equal(type_of(gguf, "blk.0.attn_norm.weight"), TENSOR_F32);
    assert_int_equal(type_of(gguf, "blk.0.attn_q.bias"), TENSOR_F32);
    assert_int_equal(type_of(gguf, "blk.0.ffn_gate_inp.weight"), TENSOR_F32);
    assert_int_equal(type_of(gguf, "blk.0.attn_q.weight"), TENSOR_Q4_K);
    assert_int_equal(type_of(gguf, "blk.1.ffn_up_exps.weight"), TENSOR_Q4_K);
    assert_int_equal(type_of(gguf, "blk.1.ffn_down_exps.weight"), TENSOR_Q4_0); // rows of 192 or less
    assert_int_equal(type_of(gguf, "output.weight"), TENSOR_Q6_K);
    assert_int_equal(type_of(gguf, "token_embd.weight"), TENSOR_Q4_K);
    gguf_close(gguf);
    make_model(path, &(struct model_recipe){.family = "qwen35", .n_embd = 256});
    gguf = open_quantized(path, TENSOR_F16, NULL);
    assert_int_equal(type_of(gguf, "blk.0.ssm_conv1d.weight"), TENSOR_F32);
    assert_int_equal(type_of(gguf, "blk.0.ssm_a"), TENSOR_F32);
    assert_int_equal(type_of(gguf, "blk.0.ssm_out.weight"), TENSOR_F16);
    gguf_close(gguf);
    make_model(path,
               &(struct model_recipe){.n_embd = 52, .n_heads = 2, .head_dim = 26, .n_ff = 64, .tied = true});
    gguf = open_quantized(path, TENSOR_Q8_0, NULL);
    assert_int_equal(type_of(gguf, "blk.0.attn_q.weight"), TENSOR_F16); // rows of 52
    assert_int_equal(type_of(gguf, "blk.0.ffn_down.weight"), TENSOR_Q8_0);
    gguf_close(gguf);
    remove_directory(directory);
}

static uint32_t file_type(const struct gguf *gguf)
{
    uint32_t number = 0;
    bool found = false;
    struct error error;
    assert_ok(gguf_u32(gguf, "general.file_type", &number, &found, &error), &error);
    assert_true(found);
    return number;
}

// SmolLM2-135M has rows of 576 items, Qwen2.5-0.5B of 896: no multiple of 256. stories260K has rows of 172.
TEST(rows_that_a_block_does_not_divide_get_the_type_nearest_in_size_and_say_so)
{
    static const struct {
        enum tensor_type wanted, made;
        uint32_t file_type;
    } fallbacks[] = {{TENSOR_Q4_K, TENSOR_Q4_0, 2},
                     {TENSOR_Q5_K, TENSOR_Q4_0, 2},
                     {TENSOR_Q6_K, TENSOR_Q8_0, 7}};
    char directory[64], path[96], text[256] = "";
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &(struct model_recipe){.n_embd = 64, .n_ff = 172});
    for (size_t i = 0; i < sizeof fallbacks / sizeof *fallbacks; i++) {
        struct gguf *gguf = open_quantized(path, fallbacks[i].wanted, NULL);
        assert_int_equal(type_of(gguf, "blk.0.attn_q.weight"), fallbacks[i].made);
        assert_int_equal(type_of(gguf, "blk.0.ffn_down.weight"), TENSOR_F16);
        assert_int_equal(type_of(gguf, "output.weight"), TENSOR_Q8_0);
        assert_int_equal(file_type(gguf), fallbacks[i].file_type);
        assert_true(gguf_quantize_replaced(gguf, fallbacks[i].wanted, text, sizeof text) > 6);
        assert_non_null(strstr(text, "F16 (rows of 172 items)"));
        assert_non_null(strstr(text, "(rows of 64 items)"));
        gguf_close(gguf);
    }
    struct gguf *gguf = open_quantized(path, TENSOR_F16, NULL);
    assert_int_equal(gguf_quantize_replaced(gguf, TENSOR_F16, text, sizeof text), 0);
    gguf_close(gguf);
    remove_directory(directory);
}

TEST(a_model_that_holds_a_nan_is_refused_by_tensor_and_row)
{
    char directory[64], path[96];
    struct error error;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &(struct model_recipe){.n_embd = 64});
    struct gguf *gguf;
    assert_ok(gguf_open(&gguf, path, &error), &error);
    const struct tensor *tensor = gguf_tensor(gguf, "blk.1.ffn_down.weight");
    FILE *file = fopen(path, "r+b");
    size_t offset = 0;
    while (memcmp((const char *)gguf_tensor_at(gguf, 0)->data - offset, "GGUF", 4))
        offset++; // the start of the mapping
    offset += (size_t)((const char *)tensor->data - (const char *)gguf_tensor_at(gguf, 0)->data);
    assert_int_equal(fseek(file, (long)(offset + 96 * 4 * 5), SEEK_SET), 0);
    assert_int_equal(fwrite(&(float){NAN}, 4, 1, file), 1);
    fclose(file);
    gguf_close(gguf);
    gguf = open_quantized(path, TENSOR_Q8_0, NULL);
    assert_ok(gguf_load(gguf, gguf_tensor(gguf, "blk.0.ffn_down.weight"), &error), &error);
    assert_int_equal(gguf_load(gguf, gguf_tensor(gguf, "blk.1.ffn_down.weight"), &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "blk.1.ffn_down.weight: row 5: item 0 "));
    file = fopen("/dev/full", "w");
    assert_non_null(file);
    setvbuf(file, NULL, _IONBF, 0);
    assert_int_equal(gguf_write(gguf, NULL, file, NULL, NULL, &error), STATUS_REFUSE);
    fclose(file);
    gguf_close(gguf);
    remove_directory(directory);
}

TEST(what_can_not_stand_in_a_file_is_refused_when_written)
{
    struct error error;
    struct buffer out = {0};
    struct gguf_writer writer = {0};
    gguf_writer_u32(&writer, "", 1);
    assert_int_equal(gguf_writer_encode(&writer, &out, &error), STATUS_REFUSE);
    gguf_writer_finish(&writer);
    gguf_writer_text(&writer, "bad\xFF", TEXT("x"));
    assert_int_equal(gguf_writer_encode(&writer, &out, &error), STATUS_REFUSE);
    gguf_writer_finish(&writer);
    struct tensor tensor = {
        .name = TEXT("t"), .type = TENSOR_Q8_0, .n_dims = 1, .dims = {33, 1, 1, 1}, .size_bytes = 34};
    gguf_writer_tensor(&writer, &tensor);
    assert_int_equal(gguf_writer_encode(&writer, &out, &error), STATUS_REFUSE);
    gguf_writer_finish(&writer);
    tensor.dims[0] = 32;
    gguf_writer_tensor(&writer, &tensor);
    assert_ok(gguf_writer_encode(&writer, &out, &error), &error);
    assert_int_equal(out.size % GGUF_WRITE_ALIGNMENT, 0);
    gguf_writer_finish(&writer);
    buffer_finish(&out);
}
