// LoRA adapters: a model with an adapter against the model whose weights the adapter was merged into, in float32; and
// PEFT's folders against GGUF files of the same adapter, byte for byte.
#include "engine/cpu/backend.h"
#include "engine/file/gguf_made.h"
#include "engine/logits.h"
#include "engine/model/adapter.h"
#include "tests/support/cases.h"
#include "tests/support/make_adapter.h"
#include "tests/support/make_model.h"
#include "tests/support/safetensors_writer.h"

#include <math.h>
#include <sys/stat.h>

enum { N_IDS = 40, N_VOCAB = 320, N_LOGITS = N_IDS * N_VOCAB };
#define ATTENTION_MLP "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down output"
// A model's logits in float32 are within 1e-10 of double precision's (golden_model.c); both models here round.
#define ROUNDING 1e-10

// How a folder names a matrix, and orders its rows.
enum order { ORDER_SAME, ORDER_HALVES, ORDER_BY_HEAD, ORDER_BY_GROUP };
struct module_name {
    const char *ours, *theirs;
    enum order order;
};

struct adapted {
    const char *family, *names;
    enum tensor_type type;         // of the adapter's items
    struct module_name modules[9]; // none: not compared with a folder
    bool larger;
};

struct adapter_bench {
    char directory[64], model[96], adapter[96], folder[96];
    struct made_adapter made;
};

static void bench_init(struct adapter_bench *bench, const struct adapted *item)
{
    struct model_recipe recipe = {.family = item->family, .seed = 11, .larger = item->larger};
    struct gguf *gguf;
    struct error error = {0};
    make_directory(bench->directory);
    snprintf(bench->model, sizeof bench->model, "%s/model.gguf", bench->directory);
    snprintf(bench->adapter, sizeof bench->adapter, "%s/adapter.gguf", bench->directory);
    snprintf(bench->folder, sizeof bench->folder, "%s/adapter", bench->directory);
    make_model(bench->model, &recipe);
    assert_ok(gguf_open(&gguf, bench->model, &error), &error);
    struct text family = {0};
    char name[32];
    assert_ok(gguf_text(gguf, "general.architecture", &family, NULL, &error), &error);
    snprintf(name, sizeof name, "%.*s", (int)family.size, family.data);
    make_adapter(&bench->made, gguf, item->names, 7, 4, 6.0f);
    write_adapter(&bench->made, bench->adapter, name, item->type);
    gguf_close(gguf);
}

static void bench_finish(struct adapter_bench *bench)
{
    finish_adapter(&bench->made);
    remove_directory(bench->directory);
}

// Takes ownership of the model.
static void evaluate(struct model *model, float *logits)
{
    struct error error = {0};
    struct pool *pool;
    struct backend *backend;
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 97 + 13) % N_VOCAB;
    assert_ok(pool_create(&pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
    assert_ok(logits_of_text(model, backend, KV_F32, ids, N_IDS, logits, &error), &error);
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
}

static struct model *open_with(const struct adapter_bench *bench, const char *adapter, double scale)
{
    struct error error = {0};
    struct buffer unknown = {0};
    struct model *model;
    assert_ok(model_open(&model, bench->model, &error), &error);
    if (adapter)
        assert_ok(model_add_adapter(model, adapter, scale, &unknown, &error), &error);
    assert_int_equal(unknown.size, 0);
    return model;
}

// W + scale * alpha / rank * B A, summed in double precision.
static void merge(const struct made_adapter *made, const struct made_pair *pair, double scale, float *weights)
{
    for (uint64_t o = 0; o < pair->n_outputs; o++)
        for (uint64_t i = 0; i < pair->n_inputs; i++) {
            double sum = 0.0;
            for (uint64_t k = 0; k < pair->rank; k++)
                sum += (double)pair->up[o * pair->rank + k] * (double)pair->down[k * pair->n_inputs + i];
            weights[o * pair->n_inputs + i] +=
                (float)(scale * (double)made->alpha / (double)pair->rank * sum);
        }
}

// The model file with merged weights, in memory; `merged` are the new items, to be freed after the model.
static struct model *open_merged(const struct adapter_bench *bench, double scale, struct gguf **base,
                                 float *merged[64], int *n_merged)
{
    struct error error = {0};
    struct gguf_writer keys = {0};
    struct gguf *gguf;
    struct model *model;
    assert_ok(gguf_open(base, bench->model, &error), &error);
    size_t n = gguf_n_tensors(*base);
    struct gguf_made_tensor *tensors = calloc(n, sizeof *tensors);
    *n_merged = 0;
    for (size_t i = 0; i < gguf_n_keys(*base); i++)
        gguf_writer_copy(&keys, *base, i);
    for (size_t i = 0; i < n; i++) {
        tensors[i].tensor = *gguf_tensor_at(*base, i);
        for (int p = 0; p < bench->made.n_pairs; p++) {
            if (!text_equals_string(tensors[i].tensor.name, bench->made.pairs[p].target))
                continue;
            assert_true(*n_merged < 64 && tensors[i].tensor.type == TENSOR_F32);
            float *items = merged[(*n_merged)++] = malloc(tensors[i].tensor.size_bytes);
            memcpy(items, tensors[i].tensor.data, tensors[i].tensor.size_bytes);
            merge(&bench->made, &bench->made.pairs[p], scale, items);
            tensors[i].tensor.data = items;
        }
    }
    assert_int_equal(*n_merged, bench->made.n_pairs);
    assert_ok(gguf_create(&gguf, bench->model, &keys, tensors, n, (struct gguf_source){0}, &error), &error);
    assert_ok(model_open_taking(&model, gguf, &error), &error);
    gguf_writer_finish(&keys);
    free(tensors);
    return model;
}

static double distance(const float *a, const float *b)
{
    double error = 0.0, norm = 0.0;
    for (int i = 0; i < N_LOGITS; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return error / norm;
}

static void an_adapter_is_its_merged_weights(void **state)
{
    static float logits[N_LOGITS], expected[N_LOGITS], plain[N_LOGITS];
    const struct adapted *item = *state;
    struct adapter_bench bench;
    struct gguf *base;
    float *merged[64];
    int n_merged;
    bench_init(&bench, item);
    evaluate(open_with(&bench, NULL, 1.0), plain);
    evaluate(open_with(&bench, bench.adapter, 0.75), logits);
    evaluate(open_merged(&bench, 0.75, &base, merged, &n_merged), expected);
    gguf_close(base);
    for (int i = 0; i < n_merged; i++)
        free(merged[i]);
    print_message("%s: %.2g, without the adapter %.2g\n", item->family, distance(logits, expected),
                  distance(plain, expected));
    assert_true(distance(logits, expected) <= ROUNDING);
    assert_true(distance(plain, expected) > 1e-3);
    bench_finish(&bench);
}

// The row of a folder that is row `row` of GGUF's, from the reshapes of the authors' code.
static uint64_t their_row(enum order order, struct layer_heads heads, bool is_key, uint64_t row,
                          uint64_t n_rows)
{
    uint64_t n = (uint64_t)heads.n_heads, kv = (uint64_t)heads.n_kv_heads, d = (uint64_t)heads.key_dim;
    uint64_t head = row / d, at = row % d, share = n / kv;
    if (order == ORDER_HALVES) {
        uint64_t width = n_rows / (is_key ? kv : n);
        return row / width * width + row % 2 * (width / 2) + row % width / 2;
    }
    if (order == ORDER_BY_HEAD) // [heads][q, k, v][head_dim]
        return (head % n * 3 + head / n) * d + at;
    if (order == ORDER_BY_GROUP && head < n) // [key-value heads][its queries, k, v][head_dim]
        return (head / share * (share + 2) + head % share) * d + at;
    if (order == ORDER_BY_GROUP)
        return ((head - n) % kv * (share + 2) + share + (head - n) / kv) * d + at;
    return row;
}

static const struct module_name *module_of(const struct adapted *item, const char *target, int *layer)
{
    char slot[64] = "output";
    *layer = -1;
    if (sscanf(target, "blk.%d.%63[^.].weight", layer, slot) != 2)
        *layer = -1;
    const struct module_name *module = item->modules;
    while (module->ours && strcmp(module->ours, slot) != 0)
        module++;
    assert_non_null(module->ours);
    return module;
}

static void put_pair(struct safetensors_writer *writer, const struct adapted *item, struct layer_heads heads,
                     const struct made_pair *pair, struct buffer *ranks)
{
    int layer;
    const struct module_name *module = module_of(item, pair->target, &layer);
    char theirs[96], name[160];
    snprintf(theirs, sizeof theirs, module->theirs, layer);
    float *up = malloc(pair->n_outputs * pair->rank * sizeof *up);
    bool is_key = strcmp(module->ours, "attn_k") == 0;
    for (uint64_t row = 0; row < pair->n_outputs; row++)
        memcpy(up + their_row(module->order, heads, is_key, row, pair->n_outputs) * pair->rank,
               pair->up + row * pair->rank, pair->rank * sizeof *up);
    snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", theirs);
    put_entry(writer, name, "F32", 2, (uint64_t[2]){pair->rank, pair->n_inputs}, pair->down,
              pair->rank * pair->n_inputs * sizeof *up);
    snprintf(name, sizeof name, "base_model.model.%s.lora_B.weight", theirs);
    put_entry(writer, name, "F32", 2, (uint64_t[2]){pair->n_outputs, pair->rank}, up,
              pair->n_outputs * pair->rank * sizeof *up);
    buffer_add_format(ranks, "%s\"%s\":%d", ranks->size ? "," : "", theirs, (int)pair->rank);
    free(up);
}

static void write_folder(const struct adapter_bench *bench, const struct adapted *item,
                         struct layer_heads heads)
{
    struct safetensors_writer writer = {0};
    struct buffer ranks = {0}, config = {0};
    char path[160];
    assert_int_equal(mkdir(bench->folder, 0700), 0);
    for (int i = 0; i < bench->made.n_pairs; i++)
        put_pair(&writer, item, heads, &bench->made.pairs[i], &ranks);
    buffer_add_string(&writer.header, "}");
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", bench->folder);
    write_header_and_data(path, (struct text){writer.header.data, writer.header.size},
                          (struct text){writer.data.data, writer.data.size});
    buffer_add_format(&config,
                      "{\"peft_type\":\"LORA\",\"r\":99,\"lora_alpha\":%g,\"rank_pattern\":{%.*s},"
                      "\"bias\":\"none\",\"modules_to_save\":null,\"peft_version\":\"0.18.0\"}",
                      (double)bench->made.alpha, (int)ranks.size, ranks.data);
    snprintf(path, sizeof path, "%s/adapter_config.json", bench->folder);
    write_file(path, config.data, config.size);
    buffer_finish(&writer.header);
    buffer_finish(&writer.data);
    buffer_finish(&ranks);
    buffer_finish(&config);
}

static void a_folder_is_the_gguf_file(void **state)
{
    static float logits[N_LOGITS], expected[N_LOGITS];
    const struct adapted *item = *state;
    struct adapted plain = *item;
    struct adapter_bench bench;
    plain.type = TENSOR_F32;
    bench_init(&bench, &plain);
    struct model *model = open_with(&bench, bench.adapter, 1.0);
    write_folder(&bench, item, model_layer_heads(model, 0));
    evaluate(model, expected);
    evaluate(open_with(&bench, bench.folder, 1.0), logits);
    assert_memory_equal(logits, expected, sizeof logits);
    bench_finish(&bench);
}

// The second one is the first with a scale that subtracts it again.
static void several_adapters_are_their_sum(void **state)
{
    static float logits[N_LOGITS], expected[N_LOGITS], one[N_LOGITS];
    const struct adapted item = {"llama", ATTENTION_MLP, TENSOR_F32, {{0}}, false};
    struct error error = {0};
    struct buffer unknown = {0};
    struct adapter_bench bench;
    bench_init(&bench, &item);
    evaluate(open_with(&bench, NULL, 1.0), expected);
    evaluate(open_with(&bench, bench.adapter, 1.0), one);
    struct model *model = open_with(&bench, bench.adapter, 1.5);
    assert_ok(model_add_adapter(model, bench.adapter, -1.5, &unknown, &error), &error);
    assert_int_equal(model_n_adapters(model), 2);
    evaluate(model, logits);
    assert_true(distance(logits, expected) <= ROUNDING);
    assert_true(distance(one, expected) > 1e-3);
    bench_finish(&bench);
}

static void a_backend_that_does_not_compute_adapters_refuses_them_by_name(void **state)
{
    const struct adapted item = {"llama", "attn_q", TENSOR_F32, {{0}}, false};
    static float logits[N_LOGITS];
    static const int32_t ids[N_IDS];
    struct error error = {0};
    struct adapter_bench bench;
    struct pool *pool;
    struct backend *backend;
    bench_init(&bench, &item);
    assert_ok(pool_create(&pool, 1, &error), &error);
    for (int adapted = 0; adapted < 2; adapted++) {
        struct model *model = open_with(&bench, adapted ? bench.adapter : NULL, 1.0);
        assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
        backend->operations.add_low_rank = NULL;
        assert_int_equal(logits_of_text(model, backend, KV_F32, ids, N_IDS, logits, &error),
                         adapted ? STATUS_REFUSE : STATUS_OK);
        backend->device.destroy(backend);
        model_close(model);
    }
    assert_non_null(strstr(error.text, "adapters (--lora) can't be computed on cpu/"));
    pool_destroy(pool);
    bench_finish(&bench);
}

#define HF_LAYER "model.layers.%d."
#define LLAMA_MODULES(order)                                                                                 \
    {                                                                                                        \
        {"attn_q", HF_LAYER "self_attn.q_proj", order}, {"attn_k", HF_LAYER "self_attn.k_proj", order},      \
            {"attn_v", HF_LAYER "self_attn.v_proj", ORDER_SAME},                                             \
            {"attn_output", HF_LAYER "self_attn.o_proj", ORDER_SAME},                                        \
            {"ffn_gate", HF_LAYER "mlp.gate_proj", ORDER_SAME},                                              \
            {"ffn_up", HF_LAYER "mlp.up_proj", ORDER_SAME},                                                  \
            {"ffn_down", HF_LAYER "mlp.down_proj", ORDER_SAME}, {"output", "lm_head", ORDER_SAME},           \
    }
#define FUSED "attn_qkv attn_output ffn_up ffn_down"

static struct adapted items[] = {
    {"llama", ATTENTION_MLP, TENSOR_F32, LLAMA_MODULES(ORDER_HALVES), false},
    {"qwen2", ATTENTION_MLP, TENSOR_F16, LLAMA_MODULES(ORDER_SAME), false},
    {"qwen3", ATTENTION_MLP, TENSOR_BF16, LLAMA_MODULES(ORDER_SAME), false},
    {"gemma2", ATTENTION_MLP, TENSOR_F32, LLAMA_MODULES(ORDER_SAME), false},
    {"smollm3", ATTENTION_MLP, TENSOR_F32, LLAMA_MODULES(ORDER_HALVES), false},
    {"granite", "attn_q ffn_down", TENSOR_F32, LLAMA_MODULES(ORDER_HALVES), false},
    {"phi3",
     FUSED,
     TENSOR_F32,
     {{"attn_qkv", HF_LAYER "self_attn.qkv_proj", ORDER_SAME},
      {"attn_output", HF_LAYER "self_attn.o_proj", ORDER_SAME},
      {"ffn_up", HF_LAYER "mlp.gate_up_proj", ORDER_SAME},
      {"ffn_down", HF_LAYER "mlp.down_proj", ORDER_SAME}},
     false},
    {"gpt2",
     FUSED,
     TENSOR_F32,
     {{"attn_qkv", "transformer.h.%d.attn.c_attn", ORDER_SAME},
      {"attn_output", "transformer.h.%d.attn.c_proj", ORDER_SAME},
      {"ffn_up", "transformer.h.%d.mlp.c_fc", ORDER_SAME},
      {"ffn_down", "transformer.h.%d.mlp.c_proj", ORDER_SAME}},
     false},
    {"gptneox",
     FUSED,
     TENSOR_F32,
     {{"attn_qkv", "gpt_neox.layers.%d.attention.query_key_value", ORDER_BY_HEAD},
      {"attn_output", "gpt_neox.layers.%d.attention.dense", ORDER_SAME},
      {"ffn_up", "gpt_neox.layers.%d.mlp.dense_h_to_4h", ORDER_SAME},
      {"ffn_down", "gpt_neox.layers.%d.mlp.dense_4h_to_h", ORDER_SAME}},
     false},
    {"falcon",
     FUSED,
     TENSOR_F32,
     {{"attn_qkv", "transformer.h.%d.self_attention.query_key_value", ORDER_BY_GROUP},
      {"attn_output", "transformer.h.%d.self_attention.dense", ORDER_SAME},
      {"ffn_up", "transformer.h.%d.mlp.dense_h_to_4h", ORDER_SAME},
      {"ffn_down", "transformer.h.%d.mlp.dense_4h_to_h", ORDER_SAME}},
     true},
    {"cohere2", ATTENTION_MLP, TENSOR_F32, LLAMA_MODULES(ORDER_SAME), false},
    {"mixtral", "attn_q attn_k attn_v attn_output ffn_gate_inp", TENSOR_F32, {{0}}, false},
    {"qwen2moe", "attn_q attn_v ffn_gate_shexp ffn_up_shexp ffn_down_shexp", TENSOR_F32, {{0}}, false},
    {"deepseek2", "attn_output ffn_gate ffn_up ffn_down ffn_up_shexp", TENSOR_F32, {{0}}, false},
    {"qwen3next", "attn_q attn_k attn_v attn_output", TENSOR_F32, {{0}}, false},
    {"deci", ATTENTION_MLP, TENSOR_F32, {{0}}, false},
    {"gemma3n", "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down", TENSOR_F32, {{0}}, false},
    {"apertus", "attn_q attn_output ffn_up ffn_down", TENSOR_F32, {{0}}, false},
};

int main(void)
{
    enum { N_ITEMS = sizeof items / sizeof *items };
    static struct CMUnitTest tests[2 * N_ITEMS + 2];
    static char names[2 * N_ITEMS][96];
    size_t n = 0;
    for (size_t i = 0; i < N_ITEMS; i++) {
        snprintf(names[n], sizeof names[n], "an adapter is its merged weights, %s", items[i].family);
        tests[n] = (struct CMUnitTest){names[n], an_adapter_is_its_merged_weights, NULL, NULL, &items[i]};
        n++;
        if (!items[i].modules[0].ours)
            continue;
        snprintf(names[n], sizeof names[n], "a folder is the GGUF file, %s", items[i].family);
        tests[n] = (struct CMUnitTest){names[n], a_folder_is_the_gguf_file, NULL, NULL, &items[i]};
        n++;
    }
    tests[n++] = (struct CMUnitTest){"several adapters are their sum", several_adapters_are_their_sum, NULL,
                                     NULL, NULL};
    tests[n++] =
        (struct CMUnitTest){"a backend that does not compute adapters refuses them by name",
                            a_backend_that_does_not_compute_adapters_refuses_them_by_name, NULL, NULL, NULL};
    return _cmocka_run_group_tests("golden_adapter", tests, n, NULL, NULL);
}
