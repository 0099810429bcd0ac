// The language model in a folder of a model that also reads images or audio: where its settings and tensors are.
// Without images and audio such a model computes exactly what its language model does alone. Models that compute a
// text otherwise have no row: PaliGemma's prompts are not causal, the logits of Aya Vision and
// Cohere 2 Vision are not scaled as Cohere 2's.
#include "engine/model/folder/folder_settings.h"

#include <stdio.h>
#include <string.h>

// The outer model_type, and the inner one if "text_config" names none. `flat`: older files have the language model's
// settings beside model_type, without "text_config".
static const struct {
    const char *outer, *inner;
    bool flat;
} kinds[] = {
    {"apertus1p5", "apertus1p5_text", false},
    {"deepseek_vl", "llama", false},
    {"deepseek_vl_hybrid", "llama", false},
    {"embedding_gemma2", "embedding_gemma2_text", false},
    {"ernie4_5_vl_moe", "ernie4_5_vl_moe_text", false},
    {"exaone4_5", "exaone4", false},
    {"fast_vlm", "qwen2", false},
    {"gemma3", "gemma3_text", false},
    {"gemma3n", "gemma3n_text", false},
    {"gemma4", "gemma4_text", false},
    {"gemma4_unified", "gemma4_unified_text", false},
    {"glm46v", "glm4v_text", false},
    {"glm4v", "glm4v_text", false},
    {"glm4v_moe", "glm4v_moe_text", false},
    {"glm_ocr", "glm_ocr_text", false},
    {"granite4_vision", "granite4_vision_text", false},
    {"granite_docling", "granite_docling_text", false},
    {"hunyuan_vl", "hunyuan_vl_text", true},
    {"idefics3", "llama", false},
    {"internvl", "qwen2", false},
    {"kimi_k25", "deepseek_v3", false},
    {"lfm2_vl", "lfm2", false},
    {"lfm3_vl", "lfm3", false},
    {"lighton_ocr", "qwen3", false},
    {"llama4", "llama4_text", false},
    {"llava", "llama", false},
    {"llava_next", "llama", false},
    {"llava_next_video", "llama", false},
    {"llava_onevision", "qwen2", false},
    {"minimax_m3_vl", "minimax_m3_vl_text", false},
    {"minicpmv4_6", "qwen3_5_text", false},
    {"minicpmv4_7", "qwen3_5_text", false},
    {"mistral3", "mistral", false},
    {"muse_glimmer", "muse_glimmer_text", false},
    {"nemotron_h_omni", "nemotron_h", false},
    {"ovis2", "qwen2", false},
    {"paddleocr_vl", "paddleocr_vl_text", true},
    {"perception_lm", "llama", false},
    {"qianfan_ocr", "qwen3", false},
    {"qwen2_5_omni", "qwen2_5_omni_text", false},
    {"qwen2_5_omni_thinker", "qwen2_5_omni_text", false},
    {"qwen2_5_vl", "qwen2_5_vl_text", true},
    {"qwen2_audio", "qwen2", false},
    {"qwen2_vl", "qwen2_vl_text", true},
    {"qwen3_5", "qwen3_5_text", false},
    {"qwen3_5_moe", "qwen3_5_moe_text", false},
    {"qwen3_omni_moe", "qwen3_omni_moe_text", false},
    {"qwen3_omni_moe_thinker", "qwen3_omni_moe_text", false},
    {"qwen3_vl", "qwen3_vl_text", false},
    {"qwen3_vl_moe", "qwen3_vl_moe_text", false},
    {"qwen4_exp", "qwen4_exp_text", false},
    {"smolvlm", "llama", false},
    {"step3p7", "step3p5", false},
    {"video_llama_3", "qwen2", false},
    {"vipllava", "llama", false},
    {"voxtral", "llama", false},
};

// Sizes that settings beside towers may lack, as LLaVA's do: the defaults of configuration_llama.py and
// configuration_mistral.py.
static enum status read_sizes(struct config *config, struct text model_type)
{
#define SIZES "\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32"
    bool llama = text_equals_string(model_type, "llama"), mistral = text_equals_string(model_type, "mistral");
    if (!llama && !mistral)
        return STATUS_OK;
    struct text sizes = llama ? TEXT("{" SIZES ",\"intermediate_size\":11008}")
                              : TEXT("{" SIZES ",\"intermediate_size\":14336}");
    return json_decode(sizes, config->arena, &config->sizes, config->error);
#undef SIZES
}

enum status folder_take_language(struct config *config, struct text *model_type)
{
    const struct value *json = config->json,
                       *outer = find_in(json, "thinker_config"); // of a model that also speaks
    outer = outer && outer->kind == VALUE_OBJECT ? outer : json;
    size_t i = 0, n = sizeof kinds / sizeof *kinds;
    while (i < n && !text_equals_string(*model_type, kinds[i].outer))
        i++;
    if (i == n)
        return STATUS_OK;
    const struct value *part = find_in(outer, "text_config");
    if (!part && kinds[i].flat)
        part = json;
    if (!part || part->kind != VALUE_OBJECT)
        return error_set(config->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "model_type \"%s\": expected an object \"text_config\"", kinds[i].outer);
    const struct value *own = part != json ? find_in(part, "model_type") : NULL;
    *model_type = own && own->kind == VALUE_STRING ? own->text : text_from_string(kinds[i].inner);
    config->json = part;
    config->outer = outer;
    config->out->language_part = true;
    return read_sizes(config, *model_type);
}

static bool begins_with(struct text name, const char *prefix)
{
    size_t size = strlen(prefix);
    return name.size > size && memcmp(name.data, prefix, size) == 0;
}

bool folder_is_tower(struct text name)
{
    static const char *const outer[] = {"model.", "thinker."};
    static const char *const towers[] = {
        "vision_tower.",
        "multi_modal_projector.",
        "audio_tower.",
        "embed_vision.",
        "embed_audio.",
        "visual.",
        "vision_model.",
        "connector.",
        "aligner.",
        "mm_projector.",
        "vision_projector.",
        "merger.",
        "projector.",
        "patch_merge_mlp.",
        "mlp1.",
        "image_newline",
        "talker.",
        "token2wav.",
        "code2wav.",
        "sound_encoder.",
        "sound_projection.",
        "vision_adapter.",
        "vision_projection.",
        "vit_large_projector.",
        "high_res_vision_",
        "vision_encoder.",
        "visual_embeddings_table.",
        "layerwise_projectors.",
        "spatial_projectors.",
        "density_router.",
        "mlp_AR.",
        "vit.",
        "vision_tokenizer.",
        "resampler_model.",
        "audio_tokenizer.",
    };
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        if (begins_with(name, outer[i])) {
            name = (struct text){name.data + strlen(outer[i]), name.size - strlen(outer[i])};
            break;
        }
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (begins_with(name, towers[i]) || text_equals_string(name, towers[i]))
            return true;
    return false;
}

const struct folder_naming *folder_find_naming(const struct safetensors *weights)
{
    static const struct folder_naming namings[] = {{"language_model.model.", "language_model."},
                                                   {"model.language_model.", ""},
                                                   {"model.text_model.", ""},
                                                   {"language_model.", ""},
                                                   {"thinker.model.", "thinker."},
                                                   {"model.", ""}};
    for (size_t i = 0; i < sizeof namings / sizeof *namings; i++) {
        char name[64];
        snprintf(name, sizeof name, "%sembed_tokens.weight", namings[i].model);
        if (safetensors_find(weights, text_from_string(name)) != SIZE_MAX)
            return &namings[i];
    }
    return &namings[0];
}

struct text folder_expand_name(const struct folder_names *names, const char *from, int64_t layer,
                               size_t index, const char *suffix, char out[512])
{
    size_t size = 0;
    from += *from == '=';
    if (names->language_part) {
        bool model = strncmp(from, "model.", 6) == 0;
        const char *prefix = model ? names->naming->model : names->naming->head;
        size = (size_t)snprintf(out, 512, "%s", prefix);
        from += model ? 6 : 0;
    } else if (names->is_bare && strncmp(from, "model.", 6) == 0)
        from += 6;
    for (; *from && size < 400; from++) {
        if (*from == '*')
            size += (size_t)snprintf(out + size, 512 - size, "%lld", (long long)layer);
        else if (from[0] == '{' && from[1] == '}')
            size += (size_t)snprintf(out + size, 512 - size, "%zu", index), from++;
        else if (from[0] == '{') {
            const char *one = from + 1, *end = from + strcspn(from, "}");
            for (; index > 0 && one < end; index--)
                one += strcspn(one, "|}") + 1;
            size_t n = one < end ? strcspn(one, "|}") : 0; // none is left: a name that no tensor has
            size += (size_t)snprintf(out + size, 512 - size, "%.*s", (int)n, one);
            from = end;
        } else
            out[size++] = *from;
    }
    size += (size_t)snprintf(out + size, 512 - size, "%s", suffix);
    return (struct text){out, size};
}
