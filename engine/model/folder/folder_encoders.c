// Tensor names of encoders' folders, for the families of folder_names.c. Models with a head (masked
// language model, classifier) have a prefix, which is absent in the encoder alone.
#include "engine/model/folder/folder_parts.h"

#include <string.h>

// Older checkpoints name a norm's weight and bias gamma and beta.
#define NORM(from, to)                                                                                       \
    {from, to, FORM_AS_IS}, {"=" from ".gamma", to ".weight", FORM_AS_IS},                                   \
    {                                                                                                        \
        "=" from ".beta", to ".bias", FORM_AS_IS                                                             \
    }
#define EMBEDDINGS(prefix)                                                                                   \
    {prefix "embeddings.word_embeddings", "token_embd", FORM_AS_IS},                                         \
        {prefix "embeddings.position_embeddings", "position_embd", FORM_POSITIONS},                          \
        {prefix "embeddings.token_type_embeddings", "token_types", FORM_AS_IS},                              \
        NORM(prefix "embeddings.LayerNorm", "token_embd_norm")
#define END                                                                                                  \
    {                                                                                                        \
        0                                                                                                    \
    }

#define BERT_ATTENTION(prefix)                                                                               \
    {prefix "encoder.layer.*.attention.self.query", "attn_q", FORM_AS_IS},                                   \
        {prefix "encoder.layer.*.attention.self.key", "attn_k", FORM_AS_IS},                                 \
        {prefix "encoder.layer.*.attention.self.value", "attn_v", FORM_AS_IS},                               \
        {prefix "encoder.layer.*.attention.output.dense", "attn_output", FORM_AS_IS},                        \
        NORM(prefix "encoder.layer.*.attention.output.LayerNorm", "attn_output_norm")
#define BERT_MLP(prefix)                                                                                     \
    {prefix "encoder.layer.*.intermediate.dense", "ffn_up", FORM_AS_IS},                                     \
        {prefix "encoder.layer.*.output.dense", "ffn_down", FORM_AS_IS},                                     \
        NORM(prefix "encoder.layer.*.output.LayerNorm", "layer_output_norm")

const struct folder_rule folder_bert_globals[] = {EMBEDDINGS("bert."), EMBEDDINGS(""), END};
const struct folder_rule folder_bert_layers[] = {BERT_ATTENTION("bert."), BERT_MLP("bert."),
                                                 BERT_ATTENTION(""), BERT_MLP(""), END};
const struct folder_rule folder_electra_globals[] = {EMBEDDINGS("electra."),
                                                     {"electra.embeddings_project", "token_embd_proj",
                                                      FORM_AS_IS},
                                                     EMBEDDINGS(""),
                                                     {"embeddings_project", "token_embd_proj", FORM_AS_IS},
                                                     END};
// ALBERT: one layer, whose weights all layers share.
#define ALBERT_LAYER(prefix)                                                                                 \
    {prefix "attention.query", "attn_q", FORM_AS_IS}, {prefix "attention.key", "attn_k", FORM_AS_IS},        \
        {prefix "attention.value", "attn_v", FORM_AS_IS},                                                    \
        {prefix "attention.dense", "attn_output", FORM_AS_IS},                                               \
        {prefix "attention.LayerNorm", "attn_output_norm", FORM_AS_IS},                                      \
        {prefix "ffn", "ffn_up", FORM_AS_IS}, {prefix "ffn_output", "ffn_down", FORM_AS_IS},                 \
    {                                                                                                        \
        prefix "full_layer_layer_norm", "layer_output_norm", FORM_AS_IS                                      \
    }
const struct folder_rule folder_albert_globals[] = {
    EMBEDDINGS("albert."),
    {"albert.encoder.embedding_hidden_mapping_in", "token_embd_proj", FORM_AS_IS},
    EMBEDDINGS(""),
    {"encoder.embedding_hidden_mapping_in", "token_embd_proj", FORM_AS_IS},
    END};
const struct folder_rule folder_albert_layers[] = {
    ALBERT_LAYER("albert.encoder.albert_layer_groups.0.albert_layers.0."),
    ALBERT_LAYER("encoder.albert_layer_groups.0.albert_layers.0."), END};
const struct folder_rule folder_electra_layers[] = {BERT_ATTENTION("electra."), BERT_MLP("electra."),
                                                    BERT_ATTENTION(""), BERT_MLP(""), END};
const struct folder_rule folder_roberta_globals[] = {EMBEDDINGS("roberta."), EMBEDDINGS(""), END};
const struct folder_rule folder_roberta_layers[] = {BERT_ATTENTION("roberta."), BERT_MLP("roberta."),
                                                    BERT_ATTENTION(""), BERT_MLP(""), END};

#define DISTILBERT_LAYER(prefix)                                                                             \
    {prefix "transformer.layer.*.attention.q_lin", "attn_q", FORM_AS_IS},                                    \
        {prefix "transformer.layer.*.attention.k_lin", "attn_k", FORM_AS_IS},                                \
        {prefix "transformer.layer.*.attention.v_lin", "attn_v", FORM_AS_IS},                                \
        {prefix "transformer.layer.*.attention.out_lin", "attn_output", FORM_AS_IS},                         \
        {prefix "transformer.layer.*.sa_layer_norm", "attn_output_norm", FORM_AS_IS},                        \
        {prefix "transformer.layer.*.ffn.lin1", "ffn_up", FORM_AS_IS},                                       \
        {prefix "transformer.layer.*.ffn.lin2", "ffn_down", FORM_AS_IS},                                     \
    {                                                                                                        \
        prefix "transformer.layer.*.output_layer_norm", "layer_output_norm", FORM_AS_IS                      \
    }
const struct folder_rule folder_distilbert_globals[] = {EMBEDDINGS("distilbert."), EMBEDDINGS(""), END};
const struct folder_rule folder_distilbert_layers[] = {DISTILBERT_LAYER("distilbert."), DISTILBERT_LAYER(""),
                                                       END};

#define MPNET_GLOBALS(prefix)                                                                                \
    EMBEDDINGS(prefix),                                                                                      \
    {                                                                                                        \
        prefix "encoder.relative_attention_bias", "attn_rel_b", FORM_AS_IS                                   \
    }
#define MPNET_ATTENTION(prefix)                                                                              \
    {prefix "encoder.layer.*.attention.attn.q", "attn_q", FORM_AS_IS},                                       \
        {prefix "encoder.layer.*.attention.attn.k", "attn_k", FORM_AS_IS},                                   \
        {prefix "encoder.layer.*.attention.attn.v", "attn_v", FORM_AS_IS},                                   \
        {prefix "encoder.layer.*.attention.attn.o", "attn_output", FORM_AS_IS},                              \
        NORM(prefix "encoder.layer.*.attention.LayerNorm", "attn_output_norm")
const struct folder_rule folder_mpnet_globals[] = {MPNET_GLOBALS("mpnet."), MPNET_GLOBALS(""), END};
const struct folder_rule folder_mpnet_layers[] = {MPNET_ATTENTION("mpnet."), BERT_MLP("mpnet."),
                                                  MPNET_ATTENTION(""), BERT_MLP(""), END};

// One matrix for gate and up: the first half of its rows is activated.
#define JINA_MLP(prefix)                                                                                     \
    {prefix "encoder.layer.*.mlp.gated_layers", "ffn_up", FORM_AS_IS},                                       \
        {prefix "encoder.layer.*.mlp.wo", "ffn_down", FORM_AS_IS},                                           \
        NORM(prefix "encoder.layer.*.mlp.layernorm", "layer_output_norm")
const struct folder_rule folder_jina_layers[] = {BERT_ATTENTION("bert."), JINA_MLP("bert."),
                                                 BERT_ATTENTION(""), JINA_MLP(""), END};

// The authors' names, then the names of transformers' NomicBertModel.
#define NOMIC_GLOBALS(prefix)                                                                                \
    EMBEDDINGS(prefix),                                                                                      \
    {                                                                                                        \
        prefix "emb_ln", "token_embd_norm", FORM_AS_IS                                                       \
    }
#define NOMIC_AUTHORS_LAYER(prefix)                                                                          \
    {prefix "encoder.layers.*.attn.Wqkv", "attn_qkv", FORM_AS_IS},                                           \
        {prefix "encoder.layers.*.attn.out_proj", "attn_output", FORM_AS_IS},                                \
        {prefix "encoder.layers.*.norm1", "attn_output_norm", FORM_AS_IS},                                   \
        {prefix "encoder.layers.*.mlp.fc11", "ffn_up", FORM_AS_IS},                                          \
        {prefix "encoder.layers.*.mlp.fc12", "ffn_gate", FORM_AS_IS},                                        \
        {prefix "encoder.layers.*.mlp.fc2", "ffn_down", FORM_AS_IS},                                         \
    {                                                                                                        \
        prefix "encoder.layers.*.norm2", "layer_output_norm", FORM_AS_IS                                     \
    }
#define NOMIC_LAYER(prefix)                                                                                  \
    {prefix "layers.*.self_attn.q_proj", "attn_q", FORM_AS_IS},                                              \
        {prefix "layers.*.self_attn.k_proj", "attn_k", FORM_AS_IS},                                          \
        {prefix "layers.*.self_attn.v_proj", "attn_v", FORM_AS_IS},                                          \
        {prefix "layers.*.self_attn.o_proj", "attn_output", FORM_AS_IS},                                     \
        {prefix "layers.*.post_attention_layernorm", "attn_output_norm", FORM_AS_IS},                        \
        {prefix "layers.*.mlp.gate_proj", "ffn_gate", FORM_AS_IS},                                           \
        {prefix "layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},                                               \
        {prefix "layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},                                           \
    {                                                                                                        \
        prefix "layers.*.post_mlp_layernorm", "layer_output_norm", FORM_AS_IS                                \
    }
const struct folder_rule folder_nomic_globals[] = {NOMIC_GLOBALS(""), NOMIC_GLOBALS("bert."),
                                                   NOMIC_GLOBALS("nomic_bert."), END};
const struct folder_rule folder_nomic_layers[] = {
    NOMIC_AUTHORS_LAYER(""), NOMIC_AUTHORS_LAYER("bert."), NOMIC_AUTHORS_LAYER("nomic_bert."),
    NOMIC_LAYER(""),         NOMIC_LAYER("nomic_bert."),   END};

#define POST_NORM_ATTENTION(prefix)                                                                          \
    {prefix "layers.*.self_attn.q_proj", "attn_q", FORM_AS_IS},                                              \
        {prefix "layers.*.self_attn.k_proj", "attn_k", FORM_AS_IS},                                          \
        {prefix "layers.*.self_attn.v_proj", "attn_v", FORM_AS_IS},                                          \
        {prefix "layers.*.self_attn.o_proj", "attn_output", FORM_AS_IS},                                     \
        {prefix "layers.*.post_attention_layernorm", "attn_output_norm", FORM_AS_IS},                        \
    {                                                                                                        \
        prefix "layers.*.post_mlp_layernorm", "layer_output_norm", FORM_AS_IS                                \
    }
#define JINA3_LAYER(prefix)                                                                                  \
    POST_NORM_ATTENTION(prefix), {prefix "layers.*.mlp.fc1", "ffn_up", FORM_AS_IS},                          \
    {                                                                                                        \
        prefix "layers.*.mlp.fc2", "ffn_down", FORM_AS_IS                                                    \
    }
#define JINA3_AUTHORS_LAYER(prefix)                                                                          \
    {prefix "encoder.layers.*.mixer.Wqkv", "attn_qkv", FORM_AS_IS},                                          \
        {prefix "encoder.layers.*.mixer.out_proj", "attn_output", FORM_AS_IS},                               \
        {prefix "encoder.layers.*.norm1", "attn_output_norm", FORM_AS_IS},                                   \
        {prefix "encoder.layers.*.mlp.fc1", "ffn_up", FORM_AS_IS},                                           \
        {prefix "encoder.layers.*.mlp.fc2", "ffn_down", FORM_AS_IS},                                         \
    {                                                                                                        \
        prefix "encoder.layers.*.norm2", "layer_output_norm", FORM_AS_IS                                     \
    }
const struct folder_rule folder_jina3_globals[] = {NOMIC_GLOBALS(""), NOMIC_GLOBALS("roberta."), END};
const struct folder_rule folder_jina3_layers[] = {JINA3_AUTHORS_LAYER(""), JINA3_AUTHORS_LAYER("roberta."),
                                                  JINA3_LAYER(""), JINA3_LAYER("roberta."), END};

// The authors' names ("new" in published files), then the names of transformers' GteModel. up_gate_proj: up, then gate.
#define GTE_AUTHORS_LAYER(prefix)                                                                            \
    {prefix "encoder.layer.*.attention.qkv_proj", "attn_qkv", FORM_AS_IS},                                   \
        {prefix "encoder.layer.*.attention.o_proj", "attn_output", FORM_AS_IS},                              \
        {prefix "encoder.layer.*.attn_ln", "attn_output_norm", FORM_AS_IS},                                  \
        {prefix "encoder.layer.*.mlp.up_gate_proj", "ffn_up", FORM_FIRST_ROWS},                              \
        {prefix "encoder.layer.*.mlp.up_gate_proj", "ffn_gate", FORM_SECOND_ROWS},                           \
        {prefix "encoder.layer.*.mlp.down_proj", "ffn_down", FORM_AS_IS},                                    \
    {                                                                                                        \
        prefix "encoder.layer.*.mlp_ln", "layer_output_norm", FORM_AS_IS                                     \
    }
#define GTE_LAYER(prefix)                                                                                    \
    POST_NORM_ATTENTION(prefix), {prefix "layers.*.mlp.gate_proj", "ffn_gate", FORM_AS_IS},                  \
        {prefix "layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},                                               \
    {                                                                                                        \
        prefix "layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS                                              \
    }
const struct folder_rule folder_gte_globals[] = {EMBEDDINGS(""), EMBEDDINGS("gte."), EMBEDDINGS("new."), END};
const struct folder_rule folder_gte_layers[] = {GTE_AUTHORS_LAYER(""),     GTE_AUTHORS_LAYER("new."),
                                                GTE_AUTHORS_LAYER("gte."), GTE_LAYER(""),
                                                GTE_LAYER("gte."),         END};

// The authors' names, then transformers'.
#define PRE_NORM_LAYER(prefix)                                                                               \
    {prefix "layers.*.self_attn.q_proj", "attn_q", FORM_AS_IS},                                              \
        {prefix "layers.*.self_attn.k_proj", "attn_k", FORM_AS_IS},                                          \
        {prefix "layers.*.self_attn.v_proj", "attn_v", FORM_AS_IS},                                          \
        {prefix "layers.*.self_attn.o_proj", "attn_output", FORM_AS_IS},                                     \
        {prefix "layers.*.input_layernorm", "attn_norm", FORM_AS_IS},                                        \
        {prefix "layers.*.post_attention_layernorm", "ffn_norm", FORM_AS_IS},                                \
        {prefix "layers.*.mlp.gate_proj", "ffn_gate", FORM_AS_IS},                                           \
        {prefix "layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},                                               \
    {                                                                                                        \
        prefix "layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS                                              \
    }
const struct folder_rule folder_ultrabert_globals[] = {{"ultrabert.embed_tokens", "token_embd", FORM_AS_IS},
                                                       {"ultrabert.norm", "output_norm", FORM_AS_IS},
                                                       {"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                       {"model.norm", "output_norm", FORM_AS_IS},
                                                       END};
const struct folder_rule folder_ultrabert_layers[] = {PRE_NORM_LAYER("ultrabert."), PRE_NORM_LAYER("model."),
                                                      END};

const struct folder_rule folder_modernbert_globals[] = {
    {"model.embeddings.tok_embeddings", "token_embd", FORM_AS_IS},
    {"model.embeddings.norm", "token_embd_norm", FORM_AS_IS},
    {"model.final_norm", "output_norm", FORM_AS_IS},
    END};
// Wi: gate and up, as JINA_MLP.
const struct folder_rule folder_modernbert_layers[] = {{"model.layers.*.attn_norm", "attn_norm", FORM_AS_IS},
                                                       {"model.layers.*.attn.Wqkv", "attn_qkv", FORM_AS_IS},
                                                       {"model.layers.*.attn.Wo", "attn_output", FORM_AS_IS},
                                                       {"model.layers.*.mlp_norm", "ffn_norm", FORM_AS_IS},
                                                       {"model.layers.*.mlp.Wi", "ffn_up", FORM_AS_IS},
                                                       {"model.layers.*.mlp.Wo", "ffn_down", FORM_AS_IS},
                                                       END};

const struct folder_rule folder_modernbert_decoder_globals[] = {
    {"model.embeddings.tok_embeddings", "token_embd", FORM_AS_IS},
    {"model.embeddings.norm", "token_embd_norm", FORM_AS_IS},
    {"model.final_norm", "output_norm", FORM_AS_IS},
    {"lm_head.dense", "output_head", FORM_AS_IS},
    {"lm_head.norm", "output_head_norm", FORM_AS_IS},
    {"decoder", "output", FORM_AS_IS},
    END};
const struct folder_rule folder_modernbert_decoder_layers[] = {
    {"model.layers.*.attn_norm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.attn.q_proj", "attn_q", FORM_AS_IS},
    {"model.layers.*.attn.k_proj", "attn_k", FORM_AS_IS},
    {"model.layers.*.attn.v_proj", "attn_v", FORM_AS_IS},
    {"model.layers.*.attn.Wo", "attn_output", FORM_AS_IS},
    {"model.layers.*.mlp_norm", "ffn_norm", FORM_AS_IS},
    {"model.layers.*.mlp.Wi", "ffn_up", FORM_AS_IS},
    {"model.layers.*.mlp.Wo", "ffn_down", FORM_AS_IS},
    END};

#define OWN_INPUT                                                                                            \
    {"model.layers.*.ple_block.per_layer_input_gate", "inp_gate", FORM_AS_IS},                               \
        {"model.layers.*.ple_block.per_layer_projection", "proj", FORM_AS_IS},                               \
    {                                                                                                        \
        "model.layers.*.ple_block.post_per_layer_input_norm", "post_norm", FORM_AS_IS                        \
    }
const struct folder_rule folder_embedding_gemma2_globals[] = {
    {"model.embed_tokens", "token_embd", FORM_AS_IS},
    {"model.norm", "output_norm", FORM_AS_IS},
    {"model.ple.per_layer_model_projection", "per_layer_model_proj", FORM_AS_IS},
    {"model.ple.per_layer_projection_norm", "per_layer_proj_norm", FORM_AS_IS},
    {"model.embedding_projection", "dense_2", FORM_AS_IS}, // projects each token; the same as projecting the mean
    END};
const struct folder_rule folder_embedding_gemma2_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.pre_feedforward_layernorm", "ffn_norm", FORM_AS_IS},
    {"model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_AS_IS},
    {"model.layers.*.self_attn.q_proj", "attn_q", FORM_AS_IS},
    {"model.layers.*.self_attn.k_proj", "attn_k", FORM_AS_IS},
    {"model.layers.*.self_attn.v_proj", "attn_v", FORM_AS_IS},
    {"model.layers.*.self_attn.o_proj", "attn_output", FORM_AS_IS},
    {"model.layers.*.self_attn.q_norm", "attn_q_norm", FORM_AS_IS},
    {"model.layers.*.self_attn.k_norm", "attn_k_norm", FORM_AS_IS},
    {"model.layers.*.mlp.gate_proj", "ffn_gate", FORM_AS_IS},
    {"model.layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
    OWN_INPUT,
    {"=model.layers.*.layer_scalar", "layer_output_scale.weight", FORM_AS_IS},
    END};

const struct folder_rule folder_t5_globals[] = {
    {"shared", "token_embd", FORM_AS_IS},
    {"encoder.final_layer_norm", "output_norm", FORM_AS_IS},
    {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias", "attn_rel_b", FORM_AS_IS},
    END};
const struct folder_rule folder_t5_layers[] = {
    {"encoder.block.*.layer.0.layer_norm", "attn_norm", FORM_AS_IS},
    {"encoder.block.*.layer.0.SelfAttention.q", "attn_q", FORM_AS_IS},
    {"encoder.block.*.layer.0.SelfAttention.k", "attn_k", FORM_AS_IS},
    {"encoder.block.*.layer.0.SelfAttention.v", "attn_v", FORM_AS_IS},
    {"encoder.block.*.layer.0.SelfAttention.o", "attn_output", FORM_AS_IS},
    {"encoder.block.*.layer.1.layer_norm", "ffn_norm", FORM_AS_IS},
    {"encoder.block.*.layer.1.DenseReluDense.wi", "ffn_up", FORM_AS_IS},
    {"encoder.block.*.layer.1.DenseReluDense.wi_0", "ffn_gate", FORM_AS_IS},
    {"encoder.block.*.layer.1.DenseReluDense.wi_1", "ffn_up", FORM_AS_IS},
    {"encoder.block.*.layer.1.DenseReluDense.wo", "ffn_down", FORM_AS_IS},
    END};

bool folder_is_head(struct text name)
{
    static const char *const prefixes[] = {"pooler.",
                                           "classifier.",
                                           "pre_classifier.",
                                           "cls.",
                                           "lm_head.",
                                           "head.",
                                           "decoder.",
                                           "vocab_transform.",
                                           "vocab_layer_norm.",
                                           "vocab_projector.",
                                           "lm_predictions.",
                                           "mask_predictions.",
                                           "discriminator_predictions.",
                                           "predictions.",
                                           "sop_classifier."};
    static const char *const models[] = {"bert.", "roberta.", "mpnet.",   "nomic_bert.", "gte.",
                                         "new.",  "deberta.", "electra.", "albert."};
    static const char positions[] = "embeddings.position_ids";
    if (text_equals_string(
            name,
            "deberta.embeddings.position_embeddings.weight")) // unused: the model adds no positions
        return true;
    if (text_equals_string(name, "encoder.embed_tokens.weight")) // T5: a copy of "shared"
        return true;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        size_t size = strlen(models[i]);
        if (name.size > size && memcmp(name.data, models[i], size) == 0)
            name = (struct text){name.data + size, name.size - size};
    }
    if (text_equals_string(name, positions))
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (name.size > strlen(prefixes[i]) && memcmp(name.data, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}
