// The classification head of a folder: which tensors become the head's, and what config.json says of it.
#include "engine/file/gguf.h"
#include "engine/model/folder/model_folder.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

enum { TENSORS_MAX = 8, KEYS_MAX = 4 };

struct classifier_case {
    const char *model_type, *settings;   // "" or ",\"key\":value"
    const char *tensors[TENSORS_MAX][2]; // the folder's, without .weight, and the GGUF's
    const char *keys[KEYS_MAX][2];       // suffix of NAME.classifier. and the text; NULL: the key is absent
    const char *encoder, *modules;       // config_sentence_transformers.json, modules.json; NULL: none
    const char *refused;                 // of the reason why no scores are computed; NULL: none
};

static const char sizes[] = "\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                            "\"intermediate_size\":8,\"max_position_embeddings\":16,\"pad_token_id\":1";

static const struct classifier_case cases[] = {
    {"bert",
     "",
     {{"bert.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}, {"function", NULL}, {"score_function", NULL}}},
    {"bert",
     ",\"problem_type\":\"multi_label_classification\"",
     {{"bert.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"function", "sigmoid"}, {"score_function", NULL}}},
    {"roberta",
     ",\"problem_type\":\"regression\",\"sbert_ce_default_activation_function\":"
     "\"torch.nn.modules.linear.Identity\"",
     {{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}, {"function", "none"}, {"score_function", "none"}}},
    {"xlm-roberta",
     ",\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules.activation.Sigmoid\",\"version\":\"4.1\"}",
     {{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}},
     {{"score_function", "sigmoid"}}},
    {"xlm-roberta", // an unknown function is kept, so that asking for it is refused by its name
     ",\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules.activation.Tanh\"}",
     {{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}},
     {{"score_function", "torch.nn.modules.activation.Tanh"}}},
    {"bert", // its own file comes first
     ",\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules.activation.Sigmoid\"}",
     {{"bert.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"score_function", "none"}},
     "{\"model_type\":\"CrossEncoder\",\"activation_fn\":\"torch.nn.modules.linear.Identity\",\"prompts\":{},"
     "\"default_prompt_name\":null}",
     "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.base.modules.Transformer\"}]"},
    {"bert",
     "",
     {{"bert.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"score_function", NULL}},
     "{\"model_type\":\"CrossEncoder\",\"prompts\":{\"q\":\"find: \"},\"default_prompt_name\":\"q\"}",
     NULL,
     "default_prompt_name is not built"},
    {"bert",
     "",
     {{"bert.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"score_function", NULL}},
     "{\"model_type\":\"CrossEncoder\"}",
     "[{\"path\":\"\",\"type\":\"x.Transformer\"},{\"path\":\"1\",\"type\":\"x.LogitScore\"}]",
     "a module after the transformer is not built"},
    {"bert", // a SentenceTransformer's file says nothing of scores
     "",
     {{"bert.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"score_function", NULL}},
     "{\"model_type\":\"SentenceTransformer\",\"prompts\":{\"q\":\"find: \"},\"default_prompt_name\":\"q\"}"},
    {"albert",
     ",\"embedding_size\":8",
     {{"albert.pooler", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}}},
    {"electra",
     ",\"embedding_size\":8",
     {{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}},
     {{"pooling", "first"}, {"activation", "gelu"}}},
    {"distilbert",
     ",\"problem_type\":\"single_label_classification\"",
     {{"pre_classifier", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "relu"}, {"function", NULL}}},
    {"mpnet",
     "",
     {{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}}},
    {"nomic_bert",
     "",
     {{"nomic_bert.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}}},
    {"gte",
     "",
     {{"gte.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}}},
    {"new",
     "",
     {{"new.pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}}},
    {"jina_embeddings_v3",
     "",
     {{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}}},
    {"deberta-v2",
     ",\"position_biased_input\":false",
     {{"pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "gelu"}}},
    {"deberta-v2",
     ",\"pooler_hidden_act\":\"tanh\"",
     {{"pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "tanh"}}},
    {"deberta",
     "",
     {{"pooler.dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "gelu"}}},
    {"ultrabert",
     ",\"classifier_pooling\":\"mean\"",
     {{"classifier", "cls.output"}},
     {{"pooling", "mean"}, {"activation", "identity"}}},
    {"modernbert",
     "",
     {{"head.dense", "cls"}, {"head.norm", "cls.norm"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}, {"activation", "gelu"}}},
    {"modernbert",
     ",\"classifier_pooling\":\"mean\",\"classifier_activation\":\"silu\"",
     {{"head.dense", "cls"}, {"head.norm", "cls.norm"}, {"classifier", "cls.output"}},
     {{"pooling", "mean"}, {"activation", "silu"}}},
    {"eurobert",
     "",
     {{"dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "late"}, {"activation", "gelu"}}},
    {"eurobert",
     ",\"classifier_pooling\":\"bos\"",
     {{"dense", "cls"}, {"classifier", "cls.output"}},
     {{"pooling", "first"}}},
    {"llama", "", {{"score", "cls.output"}}, {{"pooling", "last"}, {"activation", "identity"}}},
    {"qwen3", ",\"tie_word_embeddings\":true", {{"score", "cls.output"}}, {{"pooling", "last"}}},
};

static bool decodes(const char *model_type)
{
    return strcmp(model_type, "llama") == 0 || strcmp(model_type, "qwen3") == 0 ||
           strcmp(model_type, "eurobert") == 0;
}

// A folder of a head and its labels, and an embedding where names have a prefix without which they are a bare model's.
static enum status open_case(const struct classifier_case *item, const char *architecture, const char *labels,
                             struct gguf **gguf, struct error *error)
{
    static const float items[64] = {1, 2, 3};
    const uint64_t shape[2] = {8, 8};
    char directory[64], path[96], config[1024];
    struct safetensors_writer writer = {0};
    make_directory(directory);
    for (size_t i = 0; i < TENSORS_MAX && item->tensors[i][0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s.weight", item->tensors[i][0]);
        put_entry(&writer, name, "F32", 2, shape, items, sizeof items);
    }
    if (decodes(item->model_type))
        put_entry(&writer, "model.embed_tokens.weight", "F32", 2, shape, items, sizeof items);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    write_safetensors(&writer, path);
    snprintf(config, sizeof config,
             "{\"model_type\":\"%s\",\"architectures\":[\"X%s\"],\"id2label\":%s,%s%s}", item->model_type,
             architecture, labels, sizes, item->settings);
    const char *const files[][2] = {{"config.json", config},
                                    {"config_sentence_transformers.json", item->encoder},
                                    {"modules.json", item->modules}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i][0]);
        if (files[i][1])
            write_file(path, files[i][1], strlen(files[i][1]));
    }
    enum status status = model_folder_open(gguf, directory, error);
    remove_directory(directory);
    return status;
}

static void check_keys(const struct classifier_case *item, const struct gguf *gguf)
{
    struct text family = {0};
    struct error error;
    struct gguf_array labels = {0};
    char key[96];
    bool found;
    assert_ok(gguf_text(gguf, "general.architecture", &family, NULL, &error), &error);
    for (size_t k = 0; k < KEYS_MAX && item->keys[k][0]; k++) {
        struct text text = {0};
        snprintf(key, sizeof key, "%.*s.classifier.%s", (int)family.size, family.data, item->keys[k][0]);
        assert_ok(gguf_text(gguf, key, &text, &found, &error), &error);
        if (found != (item->keys[k][1] != NULL) || !text_equals_string(text, item->keys[k][1]))
            fail_msg("%s%s: %s is \"%.*s\"", item->model_type, item->settings, key, (int)text.size,
                     text.data);
    }
    snprintf(key, sizeof key, "%.*s.classifier.output_labels", (int)family.size, family.data);
    assert_ok(gguf_array(gguf, key, &labels, &found, &error), &error);
    struct text refused = {0};
    assert_ok(gguf_text(gguf, MODEL_FOLDER_NO_SCORES, &refused, NULL, &error), &error);
    assert_int_equal(refused.data != NULL, item->refused != NULL);
    assert_true(!item->refused || memmem(refused.data, refused.size, item->refused, strlen(item->refused)));
    assert_true(found && labels.n_items == 2 && text_equals_string(labels.strings[1], "good"));
}

#define LABELS "{\"0\":\"bad\",\"1\":\"good\"}"

TEST(the_head_of_each_class_has_its_place)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf *gguf;
        struct error error = {0};
        assert_ok(open_case(&cases[i], "ForSequenceClassification", LABELS, &gguf, &error), &error);
        for (size_t t = 0; t < TENSORS_MAX && cases[i].tensors[t][0]; t++) {
            char name[96];
            snprintf(name, sizeof name, "%s.weight", cases[i].tensors[t][1]);
            if (!gguf_tensor(gguf, name))
                fail_msg("%s: no tensor %s", cases[i].model_type, name);
        }
        check_keys(&cases[i], gguf);
        gguf_close(gguf);
    }
}

TEST(other_classes_have_no_head)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf *gguf;
        struct error error = {0};
        enum status status = open_case(&cases[i], "Model", LABELS, &gguf, &error);
        if (decodes(cases[i].model_type)) { // a tensor without a place
            assert_int_equal(status, STATUS_REFUSE);
            assert_non_null(strstr(error.text, "has no place"));
            continue;
        }
        assert_ok(status, &error);
        assert_null(gguf_tensor(gguf, "cls.weight"));
        assert_null(gguf_tensor(gguf, "cls.output.weight"));
        gguf_close(gguf);
    }
}

TEST(a_setting_of_a_head_that_is_not_known_is_refused_by_its_name)
{
    static const struct {
        const char *model_type, *settings, *labels, *expected;
    } rows[] = {
        {"bert", "", "{\"0\":\"bad\",\"2\":\"good\"}", "id2label: expected a text for each number from 0 on"},
        {"bert", "", "{\"0\":1}", "id2label: expected a text for each number"},
        {"bert", ",\"problem_type\":\"ranking\"", LABELS, "problem_type: expected regression, single_label"},
        {"modernbert", ",\"classifier_pooling\":\"late\"", LABELS,
         "classifier_pooling: expected cls or mean"},
        {"modernbert", ",\"classifier_activation\":1", LABELS,
         "classifier_activation: expected a text, got 1"},
        {"eurobert", ",\"classifier_pooling\":\"cls\"", LABELS,
         "classifier_pooling: expected bos, mean or late"},
        {"bert", ",\"sbert_ce_default_activation_function\":1", LABELS,
         "activation_fn: expected a text, got 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct classifier_case item = {.model_type = rows[i].model_type, .settings = rows[i].settings};
        struct gguf *gguf;
        struct error error = {0};
        assert_int_equal(open_case(&item, "ForSequenceClassification", rows[i].labels, &gguf, &error),
                         STATUS_REFUSE);
        if (!strstr(error.text, rows[i].expected))
            fail_msg("expected \"%s\" in: %s", rows[i].expected, error.text);
    }
}
