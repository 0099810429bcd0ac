// The classification head of a folder: tensor names by model_type, and the keys of config.json that say what the head
// computes. Sources: github.com/huggingface/transformers (modeling_*.py, class *ForSequenceClassification;
// modeling_layers.py; pipelines/text_classification.py), github.com/huggingface/sentence-transformers
// (cross_encoder/model.py).
#include "engine/model/folder/folder_parts.h"
#include "engine/model/folder/model_folder.h"

#include <string.h>

#define END                                                                                                  \
    {                                                                                                        \
        0                                                                                                    \
    }

static const struct folder_rule pooler_rules[] = {{"bert.pooler.dense", "cls", FORM_AS_IS},
                                                  {"classifier", "cls.output", FORM_AS_IS},
                                                  END};
static const struct folder_rule nomic_rules[] = {{"nomic_bert.pooler.dense", "cls", FORM_AS_IS},
                                                 {"bert.pooler.dense", "cls",
                                                  FORM_AS_IS}, // the authors' class
                                                 {"classifier", "cls.output", FORM_AS_IS},
                                                 END};
static const struct folder_rule gte_rules[] = {{"gte.pooler.dense", "cls", FORM_AS_IS},
                                               {"new.pooler.dense", "cls", FORM_AS_IS},
                                               {"classifier", "cls.output", FORM_AS_IS},
                                               END};
static const struct folder_rule albert_rules[] = {{"albert.pooler", "cls", FORM_AS_IS},
                                                  {"classifier", "cls.output", FORM_AS_IS},
                                                  END};
static const struct folder_rule deberta_rules[] = {{"pooler.dense", "cls", FORM_AS_IS},
                                                   {"classifier", "cls.output", FORM_AS_IS},
                                                   END};
static const struct folder_rule ultrabert_rules[] = {{"classifier", "cls.output", FORM_AS_IS}, END};
static const struct folder_rule roberta_rules[] = {{"classifier.dense", "cls", FORM_AS_IS},
                                                   {"classifier.out_proj", "cls.output", FORM_AS_IS},
                                                   END};
static const struct folder_rule distilbert_rules[] = {{"pre_classifier", "cls", FORM_AS_IS},
                                                      {"classifier", "cls.output", FORM_AS_IS},
                                                      END};
static const struct folder_rule modernbert_rules[] = {{"head.dense", "cls", FORM_AS_IS},
                                                      {"head.norm", "cls.norm", FORM_AS_IS},
                                                      {"classifier", "cls.output", FORM_AS_IS},
                                                      END};
static const struct folder_rule eurobert_rules[] = {{"dense", "cls", FORM_AS_IS},
                                                    {"classifier", "cls.output", FORM_AS_IS},
                                                    END};
static const struct folder_rule score_rules[] = {{"score", "cls.output", FORM_AS_IS}, END};

// activation: of the head's first layer; NULL: named by classifier_activation or pooler_hidden_act.
static const struct head_kind {
    const char *model_type;
    const struct folder_rule *rules;
    const char *pooling; // NULL: classifier_pooling's
    const char *activation;
} kinds[] = {
    {"bert", pooler_rules, "first", "tanh"},
    {"jina_bert_v2", pooler_rules, "first", "tanh"},
    {"nomic_bert", nomic_rules, "first", "tanh"},
    {"roberta", roberta_rules, "first", "tanh"},
    {"albert", albert_rules, "first", "tanh"},
    {"electra", roberta_rules, "first", "gelu"},
    {"xlm-roberta", roberta_rules, "first", "tanh"},
    {"camembert", roberta_rules, "first", "tanh"},
    {"mpnet", roberta_rules, "first", "tanh"},
    {"distilbert", distilbert_rules, "first", "relu"},
    {"gte", gte_rules, "first", "tanh"},
    {"new", gte_rules, "first", "tanh"},
    {"jina_embeddings_v3", roberta_rules, "first", "tanh"},
    {"deberta", deberta_rules, "first", NULL},
    {"deberta_positions", deberta_rules, "first", NULL},
    {"deberta-v2", deberta_rules, "first", NULL},
    {"deberta-v2_positions", deberta_rules, "first", NULL},
    {"ultrabert", ultrabert_rules, NULL, "identity"},
    {"modernbert", modernbert_rules, NULL, NULL},
    {"eurobert", eurobert_rules, NULL, "gelu"},
};

static const struct head_kind score_kind = {"", score_rules, "last", "identity"};

static const struct head_kind *find_kind(const struct folder_config *config)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].model_type, config->family->model_type) == 0)
            return &kinds[i];
    return &score_kind;
}

const struct folder_rule *folder_classifier_rules(const struct folder_config *config)
{
    static const struct folder_rule none[] = {END};
    return config->classifies ? find_kind(config)->rules : none;
}

bool folder_classifies(const struct value *config)
{
    const struct value *names = value_get(config, "architectures");
    for (size_t i = 0; names && names->kind == VALUE_ARRAY && i < names->array.n_items; i++) {
        const struct value *name = &names->array.items[i];
        static const char suffix[] = "ForSequenceClassification";
        size_t size = sizeof suffix - 1;
        if (name->kind == VALUE_STRING && name->text.size >= size &&
            memcmp(name->text.data + name->text.size - size, suffix, size) == 0)
            return true;
    }
    return false;
}

// --- Keys ---

struct classifier_config {
    const struct folder_files *files;
    const struct folder_config *config;
    const struct value *json;
    struct value encoder; // config_sentence_transformers.json of a CrossEncoder; else null
    struct gguf_writer *keys;
    struct error *error;
    enum status status; // the first fault is kept
};

static const struct value *find(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind != VALUE_NULL ? value : NULL;
}

static void put_text(struct classifier_config *config, const char *suffix, struct text text)
{
    char key[128];
    snprintf(key, sizeof key, "%s.classifier.%s", config->config->family->name, suffix);
    gguf_writer_text(config->keys, key, text);
}

static void refuse(struct classifier_config *config, const char *name, const struct value *value,
                   const char *expected)
{
    char described[VALUE_DESCRIPTION_BYTES];
    value_describe(value, described);
    if (config->status == STATUS_OK)
        config->status = error_set(config->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "config.json: %s: expected %s, got %s", name, expected, described);
}

// id2label: {"0": "negative", "1": "positive"}. Names of labels 0, 1, ...; the weights say how many there are.
static void put_labels(struct classifier_config *config)
{
    const struct value *labels = find(config->json, "id2label");
    size_t n = labels && labels->kind == VALUE_OBJECT ? labels->object.n_members : 0;
    if (!n || n > MODEL_LABELS_MAX)
        return;
    struct text *names = arena_allocate_array(config->files->arena, n, sizeof *names);
    char key[128];
    if (!names) {
        config->status = error_memory(config->error, STATUS_REFUSE, "a model's folder");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        const struct value *name = value_get(labels, number);
        if (!name || name->kind != VALUE_STRING) {
            refuse(config, "id2label", labels, "a text for each number from 0 on");
            return;
        }
        names[i] = name->text;
    }
    snprintf(key, sizeof key, "%s.classifier.output_labels", config->config->family->name);
    gguf_writer_texts(config->keys, key, names, n);
}

// The rule of transformers' text-classification pipeline; without problem_type the number of labels decides.
static void put_function(struct classifier_config *config)
{
    static const char *const functions[][2] = {{"regression", "none"},
                                               {"multi_label_classification", "sigmoid"},
                                               {"single_label_classification", NULL}};
    const struct value *problem = find(config->json, "problem_type");
    for (size_t i = 0; problem && problem->kind == VALUE_STRING && i < sizeof functions / sizeof *functions;
         i++)
        if (text_equals_string(problem->text, functions[i][0])) {
            if (functions[i][1])
                put_text(config, "function", text_from_string(functions[i][1]));
            return;
        }
    if (problem)
        refuse(config, "problem_type", problem,
               "regression, single_label_classification or multi_label_classification");
}

// The activation of a cross-encoder, a class of PyTorch: kept as it is if it is not known, and refused by its name
// where a score is asked for.
static void put_score_function(struct classifier_config *config)
{
    static const char *const functions[][2] = {{"torch.nn.modules.linear.Identity", "none"},
                                               {"torch.nn.modules.activation.Sigmoid", "sigmoid"},
                                               {"torch.nn.modules.activation.Softmax", "softmax"}};
    const struct value *block = find(config->json, "sentence_transformers");
    const struct value *name = find(&config->encoder, "activation_fn");
    if (!name && block && block->kind == VALUE_OBJECT)
        name = find(block, "activation_fn");
    if (!name)
        name = find(config->json, "sbert_ce_default_activation_function");
    if (!name)
        return;
    if (name->kind != VALUE_STRING) {
        refuse(config, "activation_fn", name, "a text");
        return;
    }
    struct text function = name->text;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (text_equals_string(name->text, functions[i][0]))
            function = text_from_string(functions[i][1]);
    put_text(config, "score_function", function);
}

static void put_pooling(struct classifier_config *config, const struct head_kind *kind)
{
    static const struct {
        const char *name, *pooling;
        bool modern, euro; // the class that has it
    } names[] = {{"cls", "first", true, false},
                 {"bos", "first", false, true},
                 {"mean", "mean", true, true},
                 {"late", "late", false, true}};
    bool euro = kind->rules == eurobert_rules;
    const struct value *given = find(config->json, "classifier_pooling");
    if (kind->pooling || !given) {
        put_text(config, "pooling",
                 text_from_string(kind->pooling ? kind->pooling
                                  : euro        ? "late"
                                                : "first"));
        return;
    }
    for (size_t i = 0; given->kind == VALUE_STRING && i < sizeof names / sizeof *names; i++)
        if (text_equals_string(given->text, names[i].name) && (euro ? names[i].euro : names[i].modern)) {
            put_text(config, "pooling", text_from_string(names[i].pooling));
            return;
        }
    refuse(config, "classifier_pooling", given, euro ? "bos, mean or late" : "cls or mean");
}

static void put_activation(struct classifier_config *config, const struct head_kind *kind)
{
    const char *name = kind->rules == deberta_rules ? "pooler_hidden_act" : "classifier_activation";
    const struct value *given = find(config->json, name);
    if (kind->activation)
        put_text(config, "activation", text_from_string(kind->activation));
    else if (given && given->kind == VALUE_STRING)
        put_text(config, "activation", given->text);
    else if (given)
        refuse(config, name, given, "a text");
    else
        put_text(config, "activation", TEXT("gelu"));
}

// transformers reads the last token that is no padding, whatever has put it there.
static void put_padding(struct classifier_config *config)
{
    const struct value *id = find(config->json, "pad_token_id");
    char key[128];
    snprintf(key, sizeof key, "%s.classifier.padding_id", config->config->family->name);
    if (id && id->kind == VALUE_INTEGER && id->integer >= 0 && id->integer <= INT32_MAX)
        gguf_writer_u32(config->keys, key, (uint32_t)id->integer);
}

static enum status count_modules(struct classifier_config *config, size_t *n)
{
    struct text content;
    struct value modules = {.kind = VALUE_NULL};
    bool found;
    enum status status = folder_read_file(config->files, "modules.json", &content, &found, config->error);
    if (status == STATUS_OK && found)
        status = json_decode_document(content, config->files->arena, &modules, config->error);
    *n = modules.kind == VALUE_ARRAY ? modules.array.n_items : 0;
    return status;
}

// A CrossEncoder may have modules after the transformer, and a prompt.
static void check_encoder(struct classifier_config *config)
{
    struct text refused = {0};
    size_t n_modules = 0;
    const struct value *prompt = find(&config->encoder, "default_prompt_name");
    if (config->status == STATUS_OK)
        config->status = count_modules(config, &n_modules);
    if (config->status == STATUS_OK && prompt)
        config->status = folder_refuse(config->files, &refused, config->error,
                                       "config_sentence_transformers.json: default_prompt_name is not built");
    if (config->status == STATUS_OK && n_modules > 1)
        config->status = folder_refuse(config->files, &refused, config->error,
                                       "modules.json: a module after the transformer is not built");
    if (config->status == STATUS_OK && refused.data)
        gguf_writer_text(config->keys, MODEL_FOLDER_NO_SCORES, refused);
}

static void read_encoder(struct classifier_config *config)
{
    static const char file[] = "config_sentence_transformers.json";
    bool found;
    config->status = folder_read_json(config->files, file, &config->encoder, &found, config->error);
    const struct value *type = find(&config->encoder, "model_type");
    bool is_encoder = type && type->kind == VALUE_STRING && text_equals_string(type->text, "CrossEncoder");
    if (config->status == STATUS_OK && is_encoder)
        check_encoder(config);
    else
        config->encoder = (struct value){.kind = VALUE_NULL};
}

enum status folder_add_classifier(const struct folder_files *files, const struct folder_config *config,
                                  const struct value *json, struct gguf_writer *keys, struct error *error)
{
    struct classifier_config whole = {
        .files = files, .config = config, .json = json, .keys = keys, .error = error};
    if (!config->classifies)
        return STATUS_OK;
    const struct head_kind *kind = find_kind(config);
    read_encoder(&whole);
    put_labels(&whole);
    put_function(&whole);
    put_score_function(&whole);
    put_pooling(&whole, kind);
    put_activation(&whole, kind);
    if (kind == &score_kind)
        put_padding(&whole);
    return whole.status;
}
