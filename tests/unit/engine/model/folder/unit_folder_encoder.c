// Folders of encoders: the same random weights as GGUF and as a folder under the names of their authors give
// the same vectors, byte for byte.
#include "engine/cpu/backend.h"
#include "engine/embedding.h"
#include "engine/file/gguf_quantize.h"
#include "engine/model/folder/model_folder.h"
#include "tests/support/cases.h"
#include "tests/support/make_encoder.h"
#include "tests/support/safetensors_writer.h"

enum { N_IDS = 60, N_EMBD = 48 };

// GGUF's name and the folder's; * is the layer.
struct rename {
    const char *to, *from;
};

#define BERT_EMBEDDINGS                                                                                      \
    {"token_embd", "embeddings.word_embeddings"}, {"position_embd", "embeddings.position_embeddings"},       \
        {"token_types", "embeddings.token_type_embeddings"},                                                 \
    {                                                                                                        \
        "token_embd_norm", "embeddings.LayerNorm"                                                            \
    }
#define BERT_ATTENTION                                                                                       \
    {"attn_q", "encoder.layer.*.attention.self.query"}, {"attn_k", "encoder.layer.*.attention.self.key"},    \
        {"attn_v", "encoder.layer.*.attention.self.value"},                                                  \
        {"attn_output", "encoder.layer.*.attention.output.dense"},                                           \
    {                                                                                                        \
        "attn_output_norm", "encoder.layer.*.attention.output.LayerNorm"                                     \
    }
#define BERT_MLP                                                                                             \
    {"ffn_up", "encoder.layer.*.intermediate.dense"}, {"ffn_down", "encoder.layer.*.output.dense"},          \
    {                                                                                                        \
        "layer_output_norm", "encoder.layer.*.output.LayerNorm"                                              \
    }

static const struct rename bert[] = {BERT_EMBEDDINGS, BERT_ATTENTION, BERT_MLP, {NULL, NULL}};
#define ALBERT "encoder.albert_layer_groups.0.albert_layers.0."
static const struct rename albert[] = {BERT_EMBEDDINGS,
                                       {"token_embd_proj", "encoder.embedding_hidden_mapping_in"},
                                       {"attn_q", ALBERT "attention.query"},
                                       {"attn_k", ALBERT "attention.key"},
                                       {"attn_v", ALBERT "attention.value"},
                                       {"attn_output", ALBERT "attention.dense"},
                                       {"attn_output_norm", ALBERT "attention.LayerNorm"},
                                       {"ffn_up", ALBERT "ffn"},
                                       {"ffn_down", ALBERT "ffn_output"},
                                       {"layer_output_norm", ALBERT "full_layer_layer_norm"},
                                       {NULL, NULL}};
static const struct rename distilbert[] = {BERT_EMBEDDINGS,
                                           {"attn_q", "transformer.layer.*.attention.q_lin"},
                                           {"attn_k", "transformer.layer.*.attention.k_lin"},
                                           {"attn_v", "transformer.layer.*.attention.v_lin"},
                                           {"attn_output", "transformer.layer.*.attention.out_lin"},
                                           {"attn_output_norm", "transformer.layer.*.sa_layer_norm"},
                                           {"ffn_up", "transformer.layer.*.ffn.lin1"},
                                           {"ffn_down", "transformer.layer.*.ffn.lin2"},
                                           {"layer_output_norm", "transformer.layer.*.output_layer_norm"},
                                           {NULL, NULL}};
static const struct rename mpnet[] = {BERT_EMBEDDINGS,
                                      {"attn_rel_b", "encoder.relative_attention_bias"},
                                      {"attn_q", "encoder.layer.*.attention.attn.q"},
                                      {"attn_k", "encoder.layer.*.attention.attn.k"},
                                      {"attn_v", "encoder.layer.*.attention.attn.v"},
                                      {"attn_output", "encoder.layer.*.attention.attn.o"},
                                      {"attn_output_norm", "encoder.layer.*.attention.LayerNorm"},
                                      BERT_MLP,
                                      {NULL, NULL}};
static const struct rename jina[] = {BERT_EMBEDDINGS,
                                     BERT_ATTENTION,
                                     {"ffn_up", "encoder.layer.*.mlp.gated_layers"},
                                     {"ffn_down", "encoder.layer.*.mlp.wo"},
                                     {"layer_output_norm", "encoder.layer.*.mlp.layernorm"},
                                     {NULL, NULL}};
static const struct rename nomic[] = {{"token_embd", "embeddings.word_embeddings"},
                                      {"token_types", "embeddings.token_type_embeddings"},
                                      {"token_embd_norm", "emb_ln"},
                                      {"attn_qkv", "encoder.layers.*.attn.Wqkv"},
                                      {"attn_output", "encoder.layers.*.attn.out_proj"},
                                      {"attn_output_norm", "encoder.layers.*.norm1"},
                                      {"ffn_up", "encoder.layers.*.mlp.fc11"},
                                      {"ffn_gate", "encoder.layers.*.mlp.fc12"},
                                      {"ffn_down", "encoder.layers.*.mlp.fc2"},
                                      {"layer_output_norm", "encoder.layers.*.norm2"},
                                      {NULL, NULL}};
#define TYPED_EMBEDDINGS                                                                                     \
    {"token_embd", "embeddings.word_embeddings"}, {"token_types", "embeddings.token_type_embeddings"},       \
    {                                                                                                        \
        "token_embd_norm", "embeddings.LayerNorm"                                                            \
    }
#define POST_NORM_ATTENTION                                                                                  \
    {"attn_q", "layers.*.self_attn.q_proj"}, {"attn_k", "layers.*.self_attn.k_proj"},                        \
        {"attn_v", "layers.*.self_attn.v_proj"}, {"attn_output", "layers.*.self_attn.o_proj"},               \
        {"attn_output_norm", "layers.*.post_attention_layernorm"},                                           \
    {                                                                                                        \
        "layer_output_norm", "layers.*.post_mlp_layernorm"                                                   \
    }
static const struct rename gte[] = {TYPED_EMBEDDINGS,
                                    POST_NORM_ATTENTION,
                                    {"ffn_gate", "layers.*.mlp.gate_proj"},
                                    {"ffn_up", "layers.*.mlp.up_proj"},
                                    {"ffn_down", "layers.*.mlp.down_proj"},
                                    {NULL, NULL}};
static const struct rename jina3[] = {TYPED_EMBEDDINGS,
                                      POST_NORM_ATTENTION,
                                      {"ffn_up", "layers.*.mlp.fc1"},
                                      {"ffn_down", "layers.*.mlp.fc2"},
                                      {NULL, NULL}};
static const struct rename modern[] = {{"token_embd", "embeddings.tok_embeddings"},
                                       {"token_embd_norm", "embeddings.norm"},
                                       {"output_norm", "final_norm"},
                                       {"attn_norm", "layers.*.attn_norm"},
                                       {"attn_qkv", "layers.*.attn.Wqkv"},
                                       {"attn_output", "layers.*.attn.Wo"},
                                       {"ffn_norm", "layers.*.mlp_norm"},
                                       {"ffn_up", "layers.*.mlp.Wi"},
                                       {"ffn_down", "layers.*.mlp.Wo"},
                                       {NULL, NULL}};
static const struct rename euro[] = {{"token_embd", "embed_tokens"},
                                     {"output_norm", "norm"},
                                     {"attn_norm", "layers.*.input_layernorm"},
                                     {"ffn_norm", "layers.*.post_attention_layernorm"},
                                     {"attn_q", "layers.*.self_attn.q_proj"},
                                     {"attn_k", "layers.*.self_attn.k_proj"},
                                     {"attn_v", "layers.*.self_attn.v_proj"},
                                     {"attn_output", "layers.*.self_attn.o_proj"},
                                     {"ffn_gate", "layers.*.mlp.gate_proj"},
                                     {"ffn_up", "layers.*.mlp.up_proj"},
                                     {"ffn_down", "layers.*.mlp.down_proj"},
                                     {NULL, NULL}};

static const struct rename gemma[] = {{"token_embd", "embed_tokens"},
                                      {"output_norm", "norm"},
                                      {"attn_norm", "layers.*.input_layernorm"},
                                      {"post_attention_norm", "layers.*.post_attention_layernorm"},
                                      {"ffn_norm", "layers.*.pre_feedforward_layernorm"},
                                      {"post_ffw_norm", "layers.*.post_feedforward_layernorm"},
                                      {"attn_q", "layers.*.self_attn.q_proj"},
                                      {"attn_k", "layers.*.self_attn.k_proj"},
                                      {"attn_v", "layers.*.self_attn.v_proj"},
                                      {"attn_q_norm", "layers.*.self_attn.q_norm"},
                                      {"attn_k_norm", "layers.*.self_attn.k_norm"},
                                      {"attn_output", "layers.*.self_attn.o_proj"},
                                      {"ffn_gate", "layers.*.mlp.gate_proj"},
                                      {"ffn_up", "layers.*.mlp.up_proj"},
                                      {"ffn_down", "layers.*.mlp.down_proj"},
                                      {NULL, NULL}};

static const struct rename gemma_2[] = {{"token_embd", "embed_tokens"},
                                        {"output_norm", "norm"},
                                        {"per_layer_model_proj", "ple.per_layer_model_projection"},
                                        {"per_layer_proj_norm", "ple.per_layer_projection_norm"},
                                        {"attn_norm", "layers.*.input_layernorm"},
                                        {"post_attention_norm", "layers.*.post_attention_layernorm"},
                                        {"ffn_norm", "layers.*.pre_feedforward_layernorm"},
                                        {"post_ffw_norm", "layers.*.post_feedforward_layernorm"},
                                        {"attn_q", "layers.*.self_attn.q_proj"},
                                        {"attn_k", "layers.*.self_attn.k_proj"},
                                        {"attn_v", "layers.*.self_attn.v_proj"},
                                        {"attn_q_norm", "layers.*.self_attn.q_norm"},
                                        {"attn_k_norm", "layers.*.self_attn.k_norm"},
                                        {"attn_output", "layers.*.self_attn.o_proj"},
                                        {"ffn_gate", "layers.*.mlp.gate_proj"},
                                        {"ffn_up", "layers.*.mlp.up_proj"},
                                        {"ffn_down", "layers.*.mlp.down_proj"},
                                        {"inp_gate", "layers.*.ple_block.per_layer_input_gate"},
                                        {"proj", "layers.*.ple_block.per_layer_projection"},
                                        {"post_norm", "layers.*.ple_block.post_per_layer_input_norm"},
                                        {"layer_output_scale", "layers.*.layer_scalar"}, // without ".weight"
                                        {NULL, NULL}};

#define EMBEDDING_GEMMA_2                                                                                    \
    "\"hidden_size\":48,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,"        \
    "\"head_dim\":12,\"intermediate_size\":56,\"rms_norm_eps\":1e-6,\"max_position_embeddings\":200,"        \
    "\"sliding_window\":16,\"hidden_size_per_layer_input\":10,\"rope_parameters\":{\"full_attention\":{"     \
    "\"rope_theta\":160000.0,\"rope_type\":\"default\"},\"sliding_attention\":{\"rope_theta\":10000.0}},"    \
    "\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"full_attention\"],"

// DeBERTa V1 has attn_q, attn_k and attn_v in one tensor (put_deberta).
static const struct rename deberta[] = {BERT_EMBEDDINGS,
                                        {"attn_rel_embd", "encoder.rel_embeddings"},
                                        {"attn_rel_embd_norm", "encoder.LayerNorm"},
                                        {"conv_norm", "encoder.conv.LayerNorm"},
                                        {"conv", "encoder.conv.conv"},
                                        {"attn_q", "encoder.layer.*.attention.self.query_proj"},
                                        {"attn_k", "encoder.layer.*.attention.self.key_proj"},
                                        {"attn_v", "encoder.layer.*.attention.self.value_proj"},
                                        {"attn_pos_q", "encoder.layer.*.attention.self.pos_query_proj"},
                                        {"attn_pos_k", "encoder.layer.*.attention.self.pos_key_proj"},
                                        {"attn_output", "encoder.layer.*.attention.output.dense"},
                                        {"attn_output_norm", "encoder.layer.*.attention.output.LayerNorm"},
                                        BERT_MLP,
                                        {NULL, NULL}};
static const struct rename deberta_1[] = {BERT_EMBEDDINGS,
                                          {"attn_rel_embd", "encoder.rel_embeddings"},
                                          {"attn_pos_q", "encoder.layer.*.attention.self.pos_q_proj"},
                                          {"attn_pos_k", "encoder.layer.*.attention.self.pos_proj"},
                                          {"attn_output", "encoder.layer.*.attention.output.dense"},
                                          {"attn_output_norm", "encoder.layer.*.attention.output.LayerNorm"},
                                          BERT_MLP,
                                          {NULL, NULL}};
static const struct rename t5[] = {{"token_embd", "shared"},
                                   {"output_norm", "encoder.final_layer_norm"},
                                   {"attn_rel_b",
                                    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
                                   {"attn_norm", "encoder.block.*.layer.0.layer_norm"},
                                   {"attn_q", "encoder.block.*.layer.0.SelfAttention.q"},
                                   {"attn_k", "encoder.block.*.layer.0.SelfAttention.k"},
                                   {"attn_v", "encoder.block.*.layer.0.SelfAttention.v"},
                                   {"attn_output", "encoder.block.*.layer.0.SelfAttention.o"},
                                   {"ffn_norm", "encoder.block.*.layer.1.layer_norm"},
                                   {"ffn_gate", "encoder.block.*.layer.1.DenseReluDense.wi_0"},
                                   {"ffn_up", "encoder.block.*.layer.1.DenseReluDense.wi_1"},
                                   {"ffn_down", "encoder.block.*.layer.1.DenseReluDense.wo"},
                                   {NULL, NULL}};
static const struct rename t5_plain[] = {{"token_embd", "shared"},
                                         {"output_norm", "encoder.final_layer_norm"},
                                         {"attn_rel_b",
                                          "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
                                         {"attn_norm", "encoder.block.*.layer.0.layer_norm"},
                                         {"attn_q", "encoder.block.*.layer.0.SelfAttention.q"},
                                         {"attn_k", "encoder.block.*.layer.0.SelfAttention.k"},
                                         {"attn_v", "encoder.block.*.layer.0.SelfAttention.v"},
                                         {"attn_output", "encoder.block.*.layer.0.SelfAttention.o"},
                                         {"ffn_norm", "encoder.block.*.layer.1.layer_norm"},
                                         {"ffn_up", "encoder.block.*.layer.1.DenseReluDense.wi"},
                                         {"ffn_down", "encoder.block.*.layer.1.DenseReluDense.wo"},
                                         {NULL, NULL}};

#define SIZES                                                                                                \
    "\"hidden_size\":48,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":56,"         \
    "\"layer_norm_eps\":1e-6"

#define NOMIC_SIZES                                                                                            \
    "\"n_embd\":48,\"n_layer\":3,\"n_head\":4,\"n_inner\":56,\"n_positions\":200,\"layer_norm_epsilon\":1e-6," \
    "\"activation_function\":\"swiglu\""

#define DEBERTA_SIZES                                                                                        \
    SIZES ",\"max_position_embeddings\":200,\"relative_attention\":true,\"pos_att_type\":\"p2c|c2p\","
#define V3                                                                                                   \
    DEBERTA_SIZES                                                                                            \
    "\"position_buckets\":16,\"max_relative_positions\":64,\"norm_rel_ebd\":\"layer_norm\","                 \
    "\"share_att_key\":true,\"position_biased_input\":false"
#define T5_SIZES                                                                                             \
    "\"d_model\":48,\"num_layers\":3,\"num_heads\":4,\"d_kv\":20,\"d_ff\":56,\"layer_norm_epsilon\":1e-6,"   \
    "\"n_positions\":200,\"is_encoder_decoder\":true"

struct encoder_case {
    const char *name, *made; // make_encoder's family
    const struct rename *renames;
    const char *config, *prefix;
    int first_position; // rows of the position embeddings before the first token's
    bool old_norms;     // gamma and beta
    const char *drop;   // a tensor that the family of the folder lacks
    bool less_one;      // norm weights are stored without their 1
    enum deberta_kind deberta;
    bool plain, shared;
};

static const struct encoder_case cases[] = {
    {"bert", "bert", bert, "{\"model_type\":\"bert\"," SIZES ",\"max_position_embeddings\":200}", "", 0,
     false, NULL},
    {"bert with a head and old norms", "bert", bert,
     "{\"model_type\":\"bert\"," SIZES ",\"max_position_embeddings\":200}", "bert.", 0, true, NULL},
    {"electra", "bert", bert,
     "{\"model_type\":\"electra\"," SIZES ",\"embedding_size\":48,\"max_position_embeddings\":200}",
     "electra.", 0, false, NULL},
    {"albert", "bert", albert,
     "{\"model_type\":\"albert\"," SIZES
     ",\"embedding_size\":20,\"hidden_act\":\"gelu\",\"max_position_embeddings\":200}",
     "albert.", 0, false, NULL, .shared = true},
    {"xlm-roberta", "bert", bert,
     "{\"model_type\":\"xlm-roberta\"," SIZES ",\"max_position_embeddings\":202,\"pad_token_id\":1}", "", 2,
     false, NULL},
    {"roberta with a head", "bert", bert,
     "{\"model_type\":\"roberta\"," SIZES ",\"max_position_embeddings\":205,\"pad_token_id\":4}", "roberta.",
     5, false, NULL},
    {"distilbert", "bert", distilbert,
     "{\"model_type\":\"distilbert\",\"dim\":48,\"n_layers\":3,\"n_heads\":4,\"hidden_dim\":56,"
     "\"layer_norm_eps\":1e-6,\"activation\":\"gelu\",\"max_position_embeddings\":200}",
     "distilbert.", 0, false, "token_types.weight"},
    {"mpnet", "mpnet", mpnet,
     "{\"model_type\":\"mpnet\"," SIZES ",\"max_position_embeddings\":202,\"pad_token_id\":1}", "mpnet.", 2,
     false, NULL},
    {"jina-bert-v2", "jina-bert-v2", jina,
     "{\"model_type\":\"bert\"," SIZES
     ",\"max_position_embeddings\":200,\"position_embedding_type\":\"alibi\",\"feed_forward_type\":\"geglu\"}",
     "", 0, false, NULL},
    {"nomic-bert", "nomic-bert", nomic,
     "{\"model_type\":\"nomic_bert\"," NOMIC_SIZES
     ",\"rotary_emb_base\":1000,\"rotary_emb_fraction\":1.0,\"causal\":false,\"prenorm\":false}",
     "", 0, false, NULL},
    {"modernbert", "modern-bert", modern,
     "{\"model_type\":\"modernbert\",\"hidden_size\":48,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
     "\"intermediate_size\":56,\"hidden_activation\":\"gelu\",\"norm_eps\":1e-6,\"max_position_embeddings\":200,"
     "\"local_attention\":32,\"global_attn_every_n_layers\":3,\"global_rope_theta\":160000.0,"
     "\"local_rope_theta\":10000.0}",
     "model.", 0, false, NULL},
    {"modernbert alone, layers and bases by kind", "modern-bert", modern,
     "{\"model_type\":\"modernbert\",\"hidden_size\":48,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
     "\"intermediate_size\":56,\"hidden_activation\":\"gelu\",\"norm_eps\":1e-6,\"max_position_embeddings\":200,"
     "\"local_attention\":32,\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\"],"
     "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":160000.0,\"rope_type\":\"default\"},"
     "\"sliding_attention\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}}}",
     "", 0, false, NULL},
    {"embeddinggemma", "gemma-embedding", gemma,
     "{\"model_type\":\"gemma3_text\",\"use_bidirectional_attention\":true,\"hidden_size\":48,"
     "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":12,"
     "\"intermediate_size\":56,\"rms_norm_eps\":1e-6,\"max_position_embeddings\":200,\"sliding_window\":32,"
     "\"_sliding_window_pattern\":6,\"rope_theta\":160000.0,\"query_pre_attn_scalar\":12}",
     "model.", 0, false, NULL, true},
    {"embeddinggemma 2", "gemma-embedding2", gemma_2,
     "{\"model_type\":\"embedding_gemma2_text\"," EMBEDDING_GEMMA_2
     "\"global_head_dim\":24,\"num_global_key_value_heads\":1}",
     "", 0, false, NULL},
    {"embeddinggemma 2 with towers", "gemma-embedding2", gemma_2,
     "{\"model_type\":\"embedding_gemma2\",\"vision_config\":{},\"text_config\":{" EMBEDDING_GEMMA_2
     "\"per_layer_config\":{\"02\":{\"head_dim\":24,\"num_key_value_heads\":1}}}}",
     "language_model.", 0, false, NULL},
    {"gte", "gte", gte,
     "{\"model_type\":\"gte\"," SIZES ",\"max_position_embeddings\":200,\"hidden_act\":\"gelu\"}", "", 0,
     false, NULL},
    {"gte with a head", "gte", gte, "{\"model_type\":\"gte\"," SIZES ",\"max_position_embeddings\":200}",
     "gte.", 0, false, NULL},
    {"jina-embeddings-v3", "jina-bert-v3", jina3,
     "{\"model_type\":\"jina_embeddings_v3\"," SIZES
     ",\"max_position_embeddings\":200,\"rope_theta\":160000}",
     "", 0, false, NULL},
    {"jina-embeddings-v3 with a head", "jina-bert-v3", jina3,
     "{\"model_type\":\"jina_embeddings_v3\"," SIZES
     ",\"max_position_embeddings\":200,\"rope_theta\":160000}",
     "roberta.", 0, false, NULL},
    {"ultrabert", "ultrabert", euro,
     "{\"model_type\":\"ultrabert\"," SIZES ",\"num_key_value_heads\":2,\"rms_norm_eps\":1e-6,"
     "\"hidden_act\":\"silu\",\"max_position_embeddings\":200,\"sliding_window\":16,\"rope_parameters\":{"
     "\"full_attention\":{\"rope_theta\":160000.0},\"sliding_attention\":{\"rope_theta\":10000.0}}}",
     "model.", 0, false, NULL},
    {"ultrabert, windows and bases by layer", "ultrabert", euro,
     "{\"model_type\":\"ultrabert\"," SIZES ",\"num_key_value_heads\":2,\"rms_norm_eps\":1e-6,"
     "\"hidden_act\":\"silu\",\"max_position_embeddings\":200,\"attention_windows\":[16,16,0],"
     "\"rope_theta\":[10000,10000,160000]}",
     "ultrabert.", 0, false, NULL},
    {"deberta-v3", "deberta", deberta, "{\"model_type\":\"deberta-v2\"," V3 "}", "", 0, false, NULL},
    {"deberta-v3 with a head", "deberta", deberta, "{\"model_type\":\"deberta-v2\"," V3 "}", "deberta.", 0,
     false, NULL},
    {"deberta-v2 xl", "deberta", deberta,
     "{\"model_type\":\"deberta-v2\"," V3 ",\"conv_kernel_size\":3,\"conv_act\":\"tanh\"}", "deberta.", 0,
     false, NULL, false, DEBERTA_V2_XL},
    {"deberta-v2, one term", "deberta", deberta,
     "{\"model_type\":\"deberta-v2\"," SIZES
     ",\"max_position_embeddings\":200,\"relative_attention\":true,\"pos_att_type\":[\"c2p\"],"
     "\"max_relative_positions\":8,\"position_biased_input\":false}",
     "", 0, false, NULL, false, DEBERTA_TO_POSITION},
    {"deberta-v2, learned positions", "deberta", deberta,
     "{\"model_type\":\"deberta-v2\"," SIZES ",\"max_position_embeddings\":200}", "deberta.", 0, false, NULL,
     false, DEBERTA_ABSOLUTE},
    {"deberta", "deberta", deberta_1,
     "{\"model_type\":\"deberta\"," DEBERTA_SIZES "\"max_relative_positions\":32}", "deberta.", 0, false,
     NULL, false, DEBERTA_V1},
    {"flan-t5", "t5encoder", t5, "{\"model_type\":\"t5\"," T5_SIZES ",\"feed_forward_proj\":\"gated-gelu\"}",
     "", 0, false, NULL},
    {"mt5", "t5encoder", t5, "{\"model_type\":\"mt5\"," T5_SIZES "}", "", 0, false, NULL},
    {"t5", "t5encoder", t5_plain, "{\"model_type\":\"t5\"," T5_SIZES "}", "", 0, false, NULL, false, 0, true},
    {"eurobert", "eurobert", euro,
     "{\"model_type\":\"eurobert\"," SIZES ",\"num_key_value_heads\":2,\"rms_norm_eps\":1e-6,"
     "\"hidden_act\":\"silu\",\"rope_theta\":160000,\"max_position_embeddings\":200}",
     "model.", 0, false, NULL},
};

// --- The folder ---

// "blk.2.attn_q.weight" of the GGUF as "encoder.layer.2.attention.self.query.weight".
static void rename_tensor(const struct encoder_case *item, struct text name, char out[128])
{
    char stem[64];
    int layer = 0;
    size_t at = 0, size = name.size;
    if (size > 4 && memcmp(name.data, "blk.", 4) == 0)
        for (at = 4; name.data[at++] != '.';)
            layer = 10 * layer + name.data[at - 1] - '0';
    while (name.data[size - 1] != '.')
        size--;
    char kind[16];
    snprintf(kind, sizeof kind, "%.*s", (int)(name.size - size + 1), name.data + size - 1);
    snprintf(stem, sizeof stem, "%.*s", (int)(size - 1 - at), name.data + at);
    bool is_norm = strstr(stem, "norm") != NULL;
    const char *suffix = !item->old_norms || !is_norm ? kind : kind[1] == 'w' ? ".gamma" : ".beta";
    suffix = strcmp(stem, "layer_output_scale") == 0 ? "" : suffix;
    for (const struct rename *rename = item->renames; rename->to; rename++) {
        if (strcmp(rename->to, stem) != 0)
            continue;
        const char *star = strchr(rename->from, '*');
        if (star)
            snprintf(out, 128, "%s%.*s%d%s%s", item->prefix, (int)(star - rename->from), rename->from, layer,
                     star + 1, suffix);
        else
            snprintf(out, 128, "%s%s%s", item->prefix, rename->from, suffix);
        return;
    }
    fail_msg("no name for %s", stem);
}

// Writes q, k and v of a layer as one tensor: for each head its q, k and v.
static void put_fused(struct safetensors_writer *writer, const struct gguf *gguf, int layer)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    enum { HEADS = 4, ROWS = N_EMBD / HEADS };
    struct buffer data = {0};
    char name[128];
    for (int head = 0; head < HEADS; head++)
        for (int part = 0; part < 3; part++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[part]);
            const struct tensor *tensor = gguf_tensor(gguf, name);
            size_t n = ROWS * tensor_row_bytes(tensor);
            buffer_add(&data, (const char *)tensor->data + (size_t)head * n, n);
        }
    snprintf(name, sizeof name, "deberta.encoder.layer.%d.attention.self.in_proj.weight", layer);
    put_entry(writer, name, "F32", 2, (uint64_t[2]){3 * N_EMBD, N_EMBD}, data.data, data.size);
    buffer_finish(&data);
    for (int part = 0; part < 3; part += 2) {
        snprintf(name, sizeof name, "blk.%d.%s.bias", layer, parts[part]);
        const struct tensor *bias = gguf_tensor(gguf, name);
        snprintf(name, sizeof name, "deberta.encoder.layer.%d.attention.self.%c_bias", layer, "qkv"[part]);
        put_entry(writer, name, "F32", 1, (uint64_t[1]){N_EMBD}, bias->data, bias->size_bytes);
    }
}

// [taps, outputs, inputs] -> [outputs, inputs, taps]
static void put_convolution(struct safetensors_writer *writer, const struct tensor *tensor, const char *name)
{
    struct buffer data = {0};
    const float *items = tensor->data;
    for (size_t i = 0; i < N_EMBD * N_EMBD; i++)
        for (size_t tap = 0; tap < 3; tap++)
            buffer_add(&data, &items[tap * N_EMBD * N_EMBD + i], sizeof *items);
    put_entry(writer, name, "F32", 3, (uint64_t[3]){N_EMBD, N_EMBD, 3}, data.data, data.size);
    buffer_finish(&data);
}

// Writes tensors that are not only renamed. False: the tensor is renamed.
static bool put_deberta(struct safetensors_writer *writer, const struct encoder_case *item,
                        const struct gguf *gguf, const struct tensor *tensor)
{
    bool fused = item->renames == deberta_1;
    int layer;
    char slot[32];
    snprintf(slot, sizeof slot, "%.*s", (int)tensor->name.size, tensor->name.data);
    if (strcmp(slot, "conv.weight") == 0) {
        put_convolution(writer, tensor, "deberta.encoder.conv.conv.weight");
        return true;
    }
    if (!fused || sscanf(slot, "blk.%d.attn_", &layer) != 1)
        return false;
    if (strstr(slot, "attn_q.weight"))
        put_fused(writer, gguf, layer);
    return strstr(slot, "attn_q.") || strstr(slot, "attn_k.") || strstr(slot, "attn_v.");
}

static void write_folder(const struct encoder_case *item, const char *gguf_path, const char *directory)
{
    struct error error;
    struct gguf *gguf;
    struct safetensors_writer writer = {0};
    char path[128];
    static const float head[4] = {1, 2, 3, 4};
    assert_ok(gguf_open(&gguf, gguf_path, &error), &error);
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        char name[128];
        uint64_t shape[2] = {tensor->dims[1], tensor->dims[0]};
        uint32_t n_dims = tensor->dims[1] > 1 ? 2 : 1;
        struct buffer data = {0};
        if (put_deberta(&writer, item, gguf, tensor))
            continue;
        rename_tensor(item, tensor->name, name);
        if (strstr(name, "position_embeddings")) {
            put_zeros(&data, (size_t)item->first_position * tensor_row_bytes(tensor));
            shape[0] += (uint64_t)item->first_position;
        }
        buffer_add(&data, tensor->data, tensor->size_bytes);
        for (size_t k = 0; item->less_one && n_dims == 1 && k < tensor->dims[0]; k++) {
            float weight;
            memcpy(&weight, data.data + 4 * k, 4);
            weight -= 1.0f;
            memcpy(data.data + 4 * k, &weight, 4);
        }
        put_entry(&writer, name, "F32", n_dims, n_dims == 2 ? shape : shape + 1, data.data, data.size);
        buffer_finish(&data);
    }
    gguf_close(gguf);
    put_entry(&writer, "pooler.dense.weight", "F32", 2, (uint64_t[2]){2, 2}, head, sizeof head);
    put_entry(&writer, "classifier.bias", "F32", 1, (uint64_t[1]){4}, head, sizeof head);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    write_safetensors(&writer, path);
    snprintf(path, sizeof path, "%s/config.json", directory);
    write_file(path, item->config, strlen(item->config));
}

// --- The vectors ---

static void compute(struct gguf *gguf, float vector[N_EMBD])
{
    struct error error = {0};
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct embedder *embedder;
    struct forward_limits limits = {.n_tokens_max = 64,
                                    .n_outputs_max = 64,
                                    .n_sequences_max = 4,
                                    .page_positions = 16,
                                    .kv_type = KV_F32,
                                    .hidden_only = true};
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 37 + 5) % 200;
    assert_ok(model_open_taking(&model, gguf, &error), &error);
    assert_int_equal(model->shape.n_context, 200);
    limits.n_pages = (int32_t)embedder_pages(&limits, 200);
    assert_ok(pool_create(&pool, 1, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
    assert_ok(forward_create(&forward, model, backend, &limits, NULL, NULL, &error), &error);
    struct embedder_options options = {.model = model,
                                       .forward = forward,
                                       .limits = limits,
                                       .pooling = POOLING_MEAN,
                                       .n_dimensions = N_EMBD,
                                       .n_longest = 200};
    struct embedding_text text = {ids, N_IDS, NULL};
    assert_ok(embedder_create(&embedder, &options, &error), &error);
    assert_ok(embedder_compute(embedder, &text, 1, vector, &error), &error);
    embedder_destroy(embedder);
    forward_destroy(forward);
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
}

TEST(vectors_equal_those_of_the_same_weights_as_gguf)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char directory[64], path[96];
        float expected[N_EMBD], vector[N_EMBD];
        struct gguf *gguf;
        struct error error = {0};
        make_directory(directory);
        snprintf(path, sizeof path, "%s/model.gguf", directory);
        make_encoder(path, &(struct encoder_recipe){.family = cases[i].made,
                                                    .seed = 3,
                                                    .drop_tensor = cases[i].drop,
                                                    .deberta = cases[i].deberta,
                                                    .plain = cases[i].plain,
                                                    .shared = cases[i].shared});
        assert_ok(gguf_open(&gguf, path, &error), &error);
        compute(gguf, expected);
        write_folder(&cases[i], path, directory);
        unlink(path);
        assert_ok(model_folder_open(&gguf, directory, &error), &error);
        compute(gguf, vector);
        if (memcmp(vector, expected, sizeof expected) != 0)
            fail_msg("%s: other bytes", cases[i].name);
        // tables are read in place, so quantized ones must stay
        assert_ok(model_folder_open(&gguf, directory, &error), &error);
        assert_ok(gguf_quantize(&gguf, gguf, TENSOR_F32, NULL, &error), &error);
        compute(gguf, vector);
        if (memcmp(vector, expected, sizeof expected) != 0)
            fail_msg("%s quantized to F32: other bytes", cases[i].name);
        remove_directory(directory);
    }
}

TEST(a_setting_that_an_encoder_does_not_compute_is_refused_by_its_name)
{
    static const char *const rows[][2] = {
        {"{\"model_type\":\"bert\"," SIZES ",\"is_decoder\":true}", "\"is_decoder\" is true"},
        {"{\"model_type\":\"bert\"," SIZES ",\"position_embedding_type\":\"relative_key\"}",
         "position_embedding_type \"relative_key\" is not built"},
        {"{\"model_type\":\"roberta\"," SIZES ",\"position_embedding_type\":\"alibi\"}",
         "\"position_embedding_type\" is \"alibi\""},
        {"{\"model_type\":\"roberta\"," SIZES ",\"max_position_embeddings\":2}",
         "\"max_position_embeddings\" is 2"},
        {"{\"model_type\":\"nomic_bert\"," NOMIC_SIZES ",\"causal\":true}", "\"causal\" is true"},
        {"{\"model_type\":\"nomic_bert\"," NOMIC_SIZES ",\"prenorm\":true}", "prenorm true is not built"},
        {"{\"model_type\":\"nomic_bert\"," NOMIC_SIZES ",\"rotary_scaling_factor\":2}",
         "rotary_scaling_factor 2 is not built"},
        {"{\"model_type\":\"mpnet\"," SIZES ",\"relative_attention_num_buckets\":64}",
         "relative_attention_num_buckets 64 is not built"},
        {"{\"model_type\":\"deberta-v2\"," SIZES ",\"pos_att_type\":\"p2p|c2p\"}",
         "\"pos_att_type\" is \"p2p|c2p\""},
        {"{\"model_type\":\"deberta-v2\"," SIZES ",\"norm_rel_ebd\":\"batch\"}",
         "\"norm_rel_ebd\" is \"batch\""},
        {"{\"model_type\":\"deberta-v2\"," SIZES ",\"conv_kernel_size\":3,\"conv_groups\":2}",
         "\"conv_groups\" is 2"},
        {"{\"model_type\":\"deberta-v2\"," SIZES ",\"embedding_size\":24}", "\"embedding_size\" is 24"},
        {"{\"model_type\":\"albert\"," SIZES ",\"num_hidden_groups\":2}", "\"num_hidden_groups\" is 2"},
        {"{\"model_type\":\"deberta\"," SIZES ",\"talking_head\":true}", "\"talking_head\" is true"},
        {"{\"model_type\":\"t5\"," T5_SIZES ",\"feed_forward_proj\":\"gated-relu\"}",
         "\"feed_forward_proj\" is \"gated-relu\""},
        {"{\"model_type\":\"t5\"," T5_SIZES ",\"relative_attention_num_buckets\":64}",
         "relative_attention_num_buckets 64 is not built"},
        {"{\"model_type\":\"distilbert\",\"sinusoidal_pos_embds\":true}", "\"sinusoidal_pos_embds\" is true"},
        {"{\"model_type\":\"mistral\"," SIZES
         ",\"num_key_value_heads\":2,\"sliding_window\":64,\"is_causal\":false}",
         "\"sliding_window\" is 64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char directory[64], path[96];
        struct gguf *gguf;
        struct error error = {0};
        struct safetensors_writer writer = {0};
        make_directory(directory);
        snprintf(path, sizeof path, "%s/model.safetensors", directory);
        write_safetensors(&writer, path);
        snprintf(path, sizeof path, "%s/config.json", directory);
        write_file(path, rows[i][0], strlen(rows[i][0]));
        assert_int_equal(model_folder_open(&gguf, directory, &error), STATUS_REFUSE);
        if (!strstr(error.text, rows[i][1]))
            fail_msg("expected \"%s\" in: %s", rows[i][1], error.text);
        remove_directory(directory);
    }
}
