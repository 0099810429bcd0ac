// Adapters as files: what is read, what is refused and by which name, and the scales that result.
#include "engine/model/adapter.h"
#include "tests/support/cases.h"
#include "tests/support/make_adapter.h"
#include "tests/support/make_encoder.h"
#include "tests/support/make_model.h"
#include "tests/support/safetensors_writer.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_EMBD = 64, N_KV = 32, N_FF = 96, RANK = 2 };
#define MODULE "base_model.model.model.layers.%d.self_attn.%s_proj.lora_%c.weight"

static struct {
    char directory[64], base[96], folder[96], file[96];
    struct model *model;
    struct safetensors_writer tensors;
    struct buffer unknown;
} made;

static void begin(const struct model_recipe *recipe)
{
    struct error error = {0};
    memset(&made, 0, sizeof made);
    make_directory(made.directory);
    snprintf(made.base, sizeof made.base, "%s/model.gguf", made.directory);
    snprintf(made.folder, sizeof made.folder, "%s/adapter", made.directory);
    snprintf(made.file, sizeof made.file, "%s/adapter.gguf", made.directory);
    make_model(made.base, recipe);
    assert_int_equal(mkdir(made.folder, 0700), 0);
    assert_ok(model_open(&made.model, made.base, &error), &error);
}

static int begin_llama(void **state)
{
    begin(&(struct model_recipe){.seed = 3});
    return 0;
}

static int end(void **state)
{
    model_close(made.model);
    buffer_finish(&made.tensors.header);
    buffer_finish(&made.tensors.data);
    buffer_finish(&made.unknown);
    remove_directory(made.directory);
    return 0;
}

TEST_FIXTURE(begin_llama, end);

static void put_matrix(const char *name, uint64_t n_rows, uint64_t n_cols, float first)
{
    float *items = malloc(n_rows * n_cols * sizeof *items);
    for (uint64_t i = 0; i < n_rows * n_cols; i++)
        items[i] = first + (float)i;
    put_entry(&made.tensors, name, "F32", 2, (uint64_t[2]){n_rows, n_cols}, items,
              n_rows * n_cols * sizeof *items);
    free(items);
}

static void put_module(int layer, const char *projection, uint64_t n_outputs, uint64_t rank)
{
    char name[128];
    snprintf(name, sizeof name, MODULE, layer, projection, 'A');
    put_matrix(name, rank, N_EMBD, 1.0f);
    snprintf(name, sizeof name, MODULE, layer, projection, 'B');
    put_matrix(name, n_outputs, rank, 1.0f);
}

static void write_config(const char *config)
{
    char path[160];
    snprintf(path, sizeof path, "%s/adapter_config.json", made.folder);
    write_file(path, config, strlen(config));
}

static void write_tensors(void)
{
    char path[160];
    if (!made.tensors.header.size)
        buffer_add_string(&made.tensors.header, "{");
    buffer_add_string(&made.tensors.header, "}");
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", made.folder);
    write_header_and_data(path, (struct text){made.tensors.header.data, made.tensors.header.size},
                          (struct text){made.tensors.data.data, made.tensors.data.size});
}

static void expect_refused(const char *path, const char *text)
{
    struct error error = {0};
    assert_int_equal(model_add_adapter(made.model, path, 1.0, &made.unknown, &error), STATUS_REFUSE);
    if (!strstr(error.text, text) || !strstr(error.text, path))
        fail_msg("expected \"%s\" and the path, got \"%s\"", text, error.text);
}

static void expect_opened(const char *path, double scale)
{
    struct error error = {0};
    assert_ok(model_add_adapter(made.model, path, scale, &made.unknown, &error), &error);
}

#define LORA(more) "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4" more "}"

// The factor of B's first item in the layer's value projection.
static float scale_of(int32_t layer, enum layer_slot slot)
{
    static float down[16 * N_FF], up[16 * N_FF];
    assert_int_equal(model_adapter_rank(made.model, 0, layer, slot), RANK);
    model_adapter_read(made.model, 0, layer, slot, down, up);
    assert_true(down[0] == 1.0f && down[1] == 2.0f && down[N_EMBD] == 1.0f + N_EMBD);
    return up[0];
}

TEST(settings_that_are_not_computed_are_refused_by_their_names)
{
    static const struct {
        const char *config, *text;
    } cases[] = {
        {"[]", "expected an object"},
        {"{", "adapter_config.json"},
        {"{}", "peft_type: expected \"LORA\", got none"},
        {"{\"peft_type\":\"ADALORA\",\"r\":2,\"lora_alpha\":4}",
         "peft_type: expected \"LORA\", got \"ADALORA\""},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":4}", "r: expected a number from 1, got none"},
        {"{\"peft_type\":\"LORA\",\"r\":0,\"lora_alpha\":4}", "r: expected a number from 1, got 0"},
        {"{\"peft_type\":\"LORA\",\"r\":2}", "lora_alpha: expected a number, got none"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":\"4\"}", "lora_alpha: expected a number, got \"4\""},
        {LORA(",\"use_rslora\":1"), "use_rslora: expected true or false, got 1"},
        {LORA(",\"use_dora\":true"), "use_dora true is not built"},
        {LORA(",\"bias\":\"all\""), "bias \"all\" is not built"},
        {LORA(",\"lora_bias\":true"), "lora_bias true is not built"},
        {LORA(",\"modules_to_save\":[\"score\"]"), "modules_to_save [\"score\"] is not built"},
        {LORA(",\"layer_replication\":[[0,1]]"), "layer_replication"},
        {LORA(",\"trainable_token_indices\":[1]"), "trainable_token_indices"},
        {LORA(",\"target_parameters\":[\"experts.down_proj\"]"), "target_parameters"},
        {LORA(",\"alora_invocation_tokens\":[1]"), "alora_invocation_tokens"},
        {LORA(",\"init_lora_weights\":\"pissa_niter_4\""),
         "init_lora_weights \"pissa_niter_4\" is not built"},
        {LORA(",\"init_lora_weights\":\"olora\""), "init_lora_weights"},
        {LORA(",\"init_lora_weights\":\"later\""), "init_lora_weights \"later\" is not built"},
        {LORA(",\"alpha_pattern\":{\"(q|k)_proj\":3}"),
         "expected names of modules, got the pattern \"(q|k)_proj\""},
        {LORA(",\"rank_pattern\":{\".*q_proj\":3}"),
         "expected names of modules, got the pattern \".*q_proj\""},
        {LORA(",\"alpha_pattern\":{\"v_proj\":\"x\"}"), "alpha_pattern: expected numbers"},
        {LORA(",\"rank_pattern\":{\"v_proj\":2.5}"), "rank_pattern: expected whole numbers"},
        {LORA(",\"rank_pattern\":{\"v_proj\":3}"), "says rank 3, the tensor has 2"},
        {LORA(",\"rank_pattern\":[\"v_proj\"]"), "rank_pattern: expected an object, got [\"v_proj\"]"},
        {LORA(",\"alpha_pattern\":3"), "alpha_pattern: expected an object, got 3"},
    };
    put_module(0, "v", N_KV, RANK);
    write_tensors();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {0};
        write_config(cases[i].config);
        expect_refused(made.folder, cases[i].text);
        model_close(made.model);
        assert_ok(model_open(&made.model, made.base, &error), &error);
    }
}

TEST(settings_of_training_have_no_effect_and_unknown_ones_are_named)
{
    put_module(0, "v", N_KV, RANK);
    write_tensors();
    write_config(LORA(
        ",\"use_dora\":false,\"bias\":\"none\",\"modules_to_save\":null,\"init_lora_weights\":true,"
        "\"lora_dropout\":0.1,\"fan_in_fan_out\":true,\"target_modules\":[\"v_proj\"],\"rank_pattern\":{},"
        "\"new_and_off\":false,\"new_and_on\":3,\"another\":\"x\""));
    expect_opened(made.folder, 1.0);
    assert_true(
        text_equals_string((struct text){made.unknown.data, made.unknown.size}, "new_and_on, another"));
}

TEST(a_scale_is_alpha_by_rank_or_by_its_root_times_the_callers)
{
    put_module(0, "v", N_KV, RANK);
    write_tensors();
    write_config(LORA(""));
    expect_opened(made.folder, 0.25);
    assert_true(scale_of(0, SLOT_ATTN_V) == 0.5f);
    assert_int_equal(model_adapter_rank(made.model, 0, 1, SLOT_ATTN_V), 0);
    assert_int_equal(model_adapter_rank(made.model, 0, 0, SLOT_ATTN_Q), 0);
    assert_int_equal(model_adapter_rank_max(made.model), RANK);
    assert_int_equal(model_adapter_bytes(made.model), 4 * RANK * (N_EMBD + N_KV));
    struct error error = {0};
    model_close(made.model);
    assert_ok(model_open(&made.model, made.base, &error), &error);
    write_config(LORA(",\"use_rslora\":true"));
    expect_opened(made.folder, 1.0);
    assert_true(scale_of(0, SLOT_ATTN_V) == (float)(4.0 / sqrt(2.0)));
}

TEST(the_first_pattern_that_names_the_module_gives_its_alpha)
{
    put_module(0, "v", N_KV, RANK);
    put_module(1, "v", N_KV, RANK);
    put_module(1, "k", N_KV, RANK);
    write_tensors();
    write_config(LORA(",\"alpha_pattern\":{\"_proj\":64,\"layers.1.self_attn.v_proj\":8,\"v_proj\":6,"
                      "\"^k_proj\":64,\"^model.layers.1.self_attn.k_proj\":10}"));
    expect_opened(made.folder, 1.0);
    assert_true(scale_of(0, SLOT_ATTN_V) == 3.0f);
    assert_true(scale_of(1, SLOT_ATTN_V) == 4.0f);
    assert_int_equal(model_adapter_rank(made.model, 0, 1, SLOT_ATTN_K), RANK);
    static float down[RANK * N_EMBD], up[RANK * N_KV];
    model_adapter_read(made.model, 0, 1, SLOT_ATTN_K, down, up);
    assert_true(up[0] == 5.0f);
}

TEST(a_scale_changes_the_fingerprint_of_a_folder_and_its_name_does_not)
{
    struct error error = {0};
    uint64_t hashes[3];
    const char *const configs[] = {LORA(""), LORA(",\"base_model_name_or_path\":\"x\""),
                                   "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":5}"};
    put_module(0, "v", N_KV, RANK);
    write_tensors();
    for (int i = 0; i < 3; i++) {
        write_config(configs[i]);
        expect_opened(made.folder, 1.0);
        hashes[i] = model_adapter_fingerprint(made.model, 0, NULL, NULL);
        model_close(made.model);
        assert_ok(model_open(&made.model, made.base, &error), &error);
    }
    assert_true(hashes[0] == hashes[1] && hashes[0] != hashes[2]);
}

static void forget_tensors(void)
{
    buffer_finish(&made.tensors.header);
    buffer_finish(&made.tensors.data);
    made.tensors = (struct safetensors_writer){0};
}

static void expect_refused_tensors(const char *text)
{
    struct error error = {0};
    write_tensors();
    expect_refused(made.folder, text);
    model_close(made.model);
    assert_ok(model_open(&made.model, made.base, &error), &error);
    forget_tensors();
}

TEST(tensors_without_a_place_or_of_another_shape_are_refused_by_their_names)
{
    char down[128], up[128];
    write_config(LORA(""));
    snprintf(down, sizeof down, MODULE, 0, "v", 'A');
    snprintf(up, sizeof up, MODULE, 0, "v", 'B');
    expect_refused_tensors("an adapter without tensors");
    put_matrix(down, RANK, N_EMBD + 1, 1.0f);
    put_matrix(up, N_KV, RANK, 1.0f);
    expect_refused_tensors("v_proj.lora_A.weight: expected 2x64, the adapter has 2x65");
    put_matrix(down, RANK, N_EMBD, 1.0f);
    put_matrix(up, N_KV + 2, RANK, 1.0f);
    expect_refused_tensors("v_proj.lora_B.weight: expected 32x2, the adapter has 34x2");
    put_matrix(down, RANK, N_EMBD, 1.0f);
    put_matrix(up, N_KV, RANK + 1, 1.0f);
    expect_refused_tensors("v_proj.lora_B.weight: expected 32x2, the adapter has 32x3");
    put_matrix(down, RANK, N_EMBD, 1.0f);
    expect_refused_tensors("v_proj.lora_A.weight: has no lora_B");
    put_matrix(up, N_KV, RANK, 1.0f);
    expect_refused_tensors("v_proj.lora_B.weight: has no lora_A");
    put_module(2, "v", N_KV, RANK);
    expect_refused_tensors("layers.2.self_attn.v_proj.lora_B.weight: ");
    put_module(99999, "v", N_KV, RANK);
    expect_refused_tensors("that can be adapted");
    put_matrix("base_model.model.model.layers.0.mlp.experts.0.up_proj.lora_A.weight", RANK, N_EMBD, 1.0f);
    put_matrix("base_model.model.model.layers.0.mlp.experts.0.up_proj.lora_B.weight", N_FF, RANK, 1.0f);
    expect_refused_tensors("experts.0.up_proj.lora_A.weight: no matrix of the model that can be adapted");
    put_matrix("base_model.model.model.embed_tokens.lora_embedding_A", RANK, 320, 1.0f);
    expect_refused_tensors("embed_tokens.lora_embedding_A: expected names");
    put_matrix("base_model.model.model.layers.0.self_attn.v_proj.lora_magnitude_vector.weight", 1, N_KV,
               1.0f);
    expect_refused_tensors("lora_magnitude_vector.weight: expected names");
    put_matrix("model.layers.0.self_attn.v_proj.lora_A.weight", RANK, N_EMBD, 1.0f);
    expect_refused_tensors("expected names base_model.model.MODULE");
    put_module(0, "v", N_KV, RANK);
    put_matrix("base_model.model.layers.0.self_attn.v_proj.lora_A.weight", RANK, N_EMBD, 1.0f);
    put_matrix("base_model.model.layers.0.self_attn.v_proj.lora_B.weight", N_KV, RANK, 1.0f);
    expect_refused_tensors("two for the same matrix");
}

TEST(integers_are_no_adapter)
{
    static const int32_t items[RANK * N_EMBD];
    char down[128], up[128];
    write_config(LORA(""));
    snprintf(down, sizeof down, MODULE, 0, "v", 'A');
    snprintf(up, sizeof up, MODULE, 0, "v", 'B');
    put_entry(&made.tensors, down, "I32", 2, (uint64_t[2]){RANK, N_EMBD}, items, sizeof items);
    put_matrix(up, N_KV, RANK, 1.0f);
    expect_refused_tensors("v_proj.lora_A.weight: expected F32, F16 or BF16");
}

TEST(copies_of_a_base_weight_and_bias_are_ignored)
{
    write_config(LORA(""));
    put_module(0, "v", N_KV, RANK);
    put_matrix("base_model.model.model.layers.0.self_attn.v_proj.base_layer.weight", N_KV, N_EMBD, 1.0f);
    put_matrix("base_model.model.model.layers.0.self_attn.v_proj.base_layer.bias", 1, N_KV, 1.0f);
    write_tensors();
    expect_opened(made.folder, 1.0);
}

TEST(an_adapter_of_a_pooler_is_ignored_if_the_model_has_no_classifier)
{
    enum { WIDTH = 48 }; // make_encoder's
    struct error error = {0};
    put_matrix("base_model.model.bert.encoder.layer.0.attention.self.value.lora_A.weight", RANK, WIDTH, 1.0f);
    put_matrix("base_model.model.bert.encoder.layer.0.attention.self.value.lora_B.weight", WIDTH, RANK, 1.0f);
    put_matrix("base_model.model.bert.pooler.dense.lora_A.weight", RANK, WIDTH, 1.0f);
    put_matrix("base_model.model.bert.pooler.dense.lora_B.weight", WIDTH, RANK, 1.0f);
    write_tensors();
    write_config(LORA(""));
    for (int n_labels = 0; n_labels <= 2; n_labels += 2) {
        model_close(made.model);
        make_encoder(made.base, &(struct encoder_recipe){.seed = 3, .n_labels = n_labels});
        assert_ok(model_open(&made.model, made.base, &error), &error);
        if (n_labels) {
            expect_refused(made.folder, "bert.pooler.dense.lora_A.weight: no matrix of the model");
        } else {
            expect_opened(made.folder, 1.0);
            assert_int_equal(model_adapter_rank(made.model, 0, 0, SLOT_ATTN_V), RANK);
        }
    }
}

// ALBERT's folders have one layer in place of all.
TEST(a_matrix_that_all_layers_share_is_adapted_in_each)
{
    enum { WIDTH = 48 }; // make_encoder's
    struct error error = {0};
#define SHARED "base_model.model.encoder.albert_layer_groups.0.albert_layers.0.attention.value"
    put_matrix(SHARED ".lora_A.weight", RANK, WIDTH, 1.0f);
    put_matrix(SHARED ".lora_B.weight", WIDTH, RANK, 1.0f);
    write_tensors();
    write_config(LORA(""));
    model_close(made.model);
    make_encoder(made.base, &(struct encoder_recipe){.seed = 3, .shared = true});
    assert_ok(model_open(&made.model, made.base, &error), &error);
    expect_opened(made.folder, 1.0);
    for (int32_t layer = 0; layer < made.model->shape.n_layers; layer++)
        assert_int_equal(model_adapter_rank(made.model, 0, layer, SLOT_ATTN_V), RANK);
}

// transformers 4 names GPT-NeoX's output matrix embed_out, as its folders do, and 5 lm_head.
TEST(the_output_matrix_is_named_as_in_the_folder_or_lm_head)
{
    static const char *const names[] = {"embed_out", "lm_head"};
    struct error error = {0};
    write_config(LORA(""));
    for (int i = 0; i < 2; i++) {
        char name[96];
        model_close(made.model);
        make_model(made.base, &(struct model_recipe){.family = "gptneox", .seed = 3});
        assert_ok(model_open(&made.model, made.base, &error), &error);
        snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", names[i]);
        put_matrix(name, RANK, made.model->output.dims[0], 1.0f);
        snprintf(name, sizeof name, "base_model.model.%s.lora_B.weight", names[i]);
        put_matrix(name, made.model->output.dims[1], RANK, 1.0f);
        write_tensors();
        expect_opened(made.folder, 1.0);
        assert_int_equal(model_adapter_rank(made.model, 0, LAYER_OUTPUT, SLOT_COUNT), RANK);
        forget_tensors();
    }
}

TEST(a_rank_has_a_limit)
{
    char config[96];
    for (int over = 0; over < 2; over++) {
        snprintf(config, sizeof config, "{\"peft_type\":\"LORA\",\"r\":%d,\"lora_alpha\":4}",
                 ADAPTER_RANK_MAX + over);
        write_config(config);
        put_module(0, "v", N_KV, (uint64_t)ADAPTER_RANK_MAX + (uint64_t)over);
        if (over)
            expect_refused_tensors("expected a rank from 1 to 1024, the adapter has 1025");
        else {
            struct error error = {0};
            write_tensors();
            expect_opened(made.folder, 1.0);
            assert_int_equal(model_adapter_rank_max(made.model), ADAPTER_RANK_MAX);
            model_close(made.model);
            assert_ok(model_open(&made.model, made.base, &error), &error);
            forget_tensors();
        }
    }
}

TEST(a_model_has_a_limit_of_adapters)
{
    write_config(LORA(""));
    put_module(0, "v", N_KV, RANK);
    write_tensors();
    for (int i = 0; i < ADAPTERS_MAX; i++)
        expect_opened(made.folder, 1.0);
    assert_int_equal(model_adapter_rank(made.model, 0, 0, SLOT_ATTN_V), RANK * ADAPTERS_MAX);
    expect_refused(made.folder, "a model has at most 64 adapters");
}

TEST(a_scale_that_is_no_number_is_refused)
{
    struct error error = {0};
    assert_int_equal(model_add_adapter(made.model, made.folder, (double)NAN, &made.unknown, &error),
                     STATUS_REFUSE);
    write_config("{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":1e308}");
    put_module(0, "v", N_KV, RANK);
    write_tensors();
    assert_int_equal(model_add_adapter(made.model, made.folder, 1e10, &made.unknown, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "its scale is not finite"));
}

TEST(a_folder_without_its_files_says_which_is_missing)
{
    expect_refused(made.folder, "a folder without adapter_config.json");
    write_config(LORA(""));
    expect_refused(made.folder, "adapter_model.safetensors");
    expect_refused("/nowhere/adapter", "/nowhere/adapter");
}

TEST(files_that_are_not_regular_are_refused_at_once)
{
    char path[160];
    write_config(LORA(""));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", made.folder,
                 i ? "adapter_config.json" : "adapter_model.safetensors");
        (void)unlink(path);
        assert_int_equal(mkfifo(path, 0600), 0);
        expect_refused(made.folder, "not a regular file");
        unlink(path);
        assert_int_equal(symlink("/dev/zero", path), 0);
        expect_refused(made.folder, "not a regular file");
    }
    expect_refused("/dev/zero", "not a regular file");
}

// --- GGUF ---

static void put_gguf(const char *type, const char *family, const char *kind, bool alora, const char *tensor,
                     uint64_t n_outputs, bool has_up)
{
    struct buffer file = {0};
    char name[96];
    put_header(&file, 3, 1 + has_up, 3u + alora);
    put_key_string(&file, "general.type", type);
    put_key_string(&file, "general.architecture", family);
    put_key_string(&file, "adapter.type", kind);
    if (alora) {
        put_key_array(&file, "adapter.alora.invocation_tokens", GGUF_U32, 1);
        put_integer(&file, 1, 4);
    }
    snprintf(name, sizeof name, "%s.lora_a", tensor);
    put_tensor(&file, name, 2, (uint64_t[2]){N_EMBD, RANK}, 0, 0);
    snprintf(name, sizeof name, "%s.lora_b", tensor);
    if (has_up)
        put_tensor(&file, name, 2, (uint64_t[2]){RANK, n_outputs}, 0, N_EMBD * RANK * 4);
    put_padding(&file, 32);
    for (int i = 0; i < N_EMBD * RANK; i++)
        put_float(&file, 1.0f + (float)i);
    for (uint64_t i = 0; i < n_outputs * RANK && has_up; i++)
        put_float(&file, 1.0f + (float)i);
    put_padding(&file, 32);
    write_file(made.file, file.data, file.size);
    buffer_finish(&file);
}

TEST(a_gguf_file_without_alpha_has_the_scale_1)
{
    put_gguf("adapter", "llama", "lora", false, "blk.1.attn_v.weight", N_KV, true);
    expect_opened(made.file, 1.0);
    assert_true(scale_of(1, SLOT_ATTN_V) == 1.0f);
}

TEST(gguf_files_that_are_no_adapters_of_the_model_are_refused_by_name)
{
    expect_refused(made.base, "key general.type: expected \"adapter\"");
    put_gguf("model", "llama", "lora", false, "blk.0.attn_v.weight", N_KV, true);
    expect_refused(made.file, "key general.type: expected \"adapter\", file has \"model\"");
    put_gguf("adapter", "qwen2", "lora", false, "blk.0.attn_v.weight", N_KV, true);
    expect_refused(made.file, "key general.architecture: expected \"llama\", file has \"qwen2\"");
    put_gguf("adapter", "llama", "control", false, "blk.0.attn_v.weight", N_KV, true);
    expect_refused(made.file, "key adapter.type: expected \"lora\", file has \"control\"");
    put_gguf("adapter", "llama", "lora", true, "blk.0.attn_v.weight", N_KV, true);
    expect_refused(made.file, "adapter.alora.invocation_tokens");
    put_gguf("adapter", "llama", "lora", false, "blk.0.attn_v.weight", N_KV, false);
    expect_refused(made.file, "tensor blk.0.attn_v.weight.lora_a has no .lora_b");
    put_gguf("adapter", "llama", "lora", false, "blk.0.attn_v.weight", N_KV + 1, true);
    expect_refused(made.file, "tensor blk.0.attn_v.weight.lora_b: expected 32x2, the adapter has 33x2");
    put_gguf("adapter", "llama", "lora", false, "blk.2.attn_v.weight", N_KV, true);
    expect_refused(made.file, "has no matrix blk.2.attn_v.weight that can be adapted");
    put_gguf("adapter", "llama", "lora", false, "token_embd.weight", 320, true);
    expect_refused(made.file, "has no matrix token_embd.weight that can be adapted");
}

static void close_without(void)
{
    model_close(made.model);
    made.model = NULL;
    remove_directory(made.directory);
}

TEST(a_folder_of_a_model_names_its_own_kind_and_refuses_experts)
{
    close_without();
    begin(&(struct model_recipe){.family = "mixtral", .seed = 3});
    put_gguf("adapter", "llama", "lora", false, "blk.0.ffn_gate_inp.weight", 4, true);
    expect_opened(made.file, 1.0);
    put_gguf("adapter", "llama", "lora", false, "blk.0.ffn_up_exps.weight", N_FF, true);
    expect_refused(made.file, "has no matrix blk.0.ffn_up_exps.weight that can be adapted");
}

TEST(a_latent_projection_is_refused)
{
    close_without();
    begin(&(struct model_recipe){.family = "deepseek2", .seed = 3});
    put_gguf("adapter", "deepseek2", "lora", false, "blk.0.attn_q.weight", N_EMBD, true);
    expect_refused(made.file, "has no matrix blk.0.attn_q.weight that can be adapted");
}
