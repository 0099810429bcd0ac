// sheaf inspect: prints a model file's properties and problems.
#include "consumer/command/commands.h"
#include "consumer/command/inspect_head.h"
#include "consumer/worker/runtime.h"
#include "engine/embedding.h"
#include "engine/embedding_head.h"
#include "engine/file/gguf.h"
#include "engine/model/folder/model_folder.h"
#include "schemas/base/machine.h"
#include "schemas/value.h"

#include <stdio.h>

struct type_count {
    int64_t n_tensors;
    uint64_t n_bytes;
};

static void count_types(const struct gguf *gguf, struct type_count counts[TENSOR_TYPE_COUNT])
{
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
        const struct tensor *tensor = gguf_tensor_at(gguf, i);
        counts[tensor->type].n_tensors++;
        counts[tensor->type].n_bytes += tensor->size_bytes;
    }
}

// Plans the memory that a worker would need here. If the model is too large for this machine, `error` says
// so, and the file is still described.
static void plan_memory(const struct model *model, struct limits_plan *plan, struct error *error)
{
    struct limits_wanted wanted = {0};
    if (!model_has_logits(model))
        limits_set_embedding(&wanted, model, model->shape.n_context);
    if (limits_derive(plan, model, machine_available_bytes(), &wanted, error) != STATUS_OK)
        plan->batch.n_pages = 0;
}

static const char *template_state(const struct runtime *runtime)
{
    if (runtime->chat.template)
        return "yes";
    if (!runtime->tokenizer)
        return "not read";
    return gguf_has(runtime->model->gguf, "tokenizer.chat_template") ? "unreadable" : "none";
}

static const char *tool_format_name(const struct runtime *runtime)
{
    return runtime->tools.format.tools ? runtime->tools.format.tools->name : "none";
}

static const char *thinking_format_name(const struct runtime *runtime)
{
    return runtime->chat.format.thinking ? runtime->chat.format.thinking->name : "none";
}

// `model` is "none" if the tokenizer was not read.
struct tokenizer_facts {
    const char *model, *pre;
    int32_t bos, eos;
    bool adds_bos, adds_eos;
    size_t n_suppressed; // never sampled
};

static struct tokenizer_facts describe_tokenizer(const struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return (struct tokenizer_facts){.model = "none", .pre = "", .bos = -1, .eos = -1};
    size_t n_suppressed;
    (void)tokenizer_suppressed(tokenizer, &n_suppressed);
    return (struct tokenizer_facts){.model = tokenizer_model_name(tokenizer),
                                    .pre = tokenizer_pre_name(tokenizer),
                                    .bos = tokenizer_bos(tokenizer),
                                    .eos = tokenizer_eos(tokenizer),
                                    .adds_bos = tokenizer_adds_bos(tokenizer),
                                    .adds_eos = tokenizer_adds_eos(tokenizer),
                                    .n_suppressed = n_suppressed};
}

static void print_outside(const char *name, const char *text)
{
    struct buffer shown = {0};
    buffer_add_printable(&shown, text_from_string(text), 0);
    printf("%-11s %.*s", name, (int)shown.size, shown.data ? shown.data : "");
    buffer_finish(&shown);
}

// Prints the tokens that the tokenizer adds to a text and to a pair, and whether it is cased.
static void print_input(const struct tokenizer *tokenizer)
{
    struct buffer texts[3] = {{0}}, shown = {0};
    if (!tokenizer)
        return;
    tokenizer_describe_case(tokenizer, &texts[0]);
    if (texts[0].size)
        printf("letters     %.*s\n", (int)texts[0].size, texts[0].data);
    for (size_t i = 1; i <= 2; i++) {
        tokenizer_describe_input(tokenizer, i, &texts[i]);
        buffer_clear(&shown);
        buffer_add_printable(&shown, (struct text){texts[i].data, texts[i].size}, 0);
        printf("%s%.*s%s", i == 1 ? "input       " : "; of a pair ", (int)shown.size, shown.data,
               i == 2 ? "\n" : "");
    }
    for (size_t i = 0; i < 3; i++)
        buffer_finish(&texts[i]);
    buffer_finish(&shown);
}

static void add_input(const struct tokenizer *tokenizer, struct buffer *out)
{
    static const char *const names[] = {"letters", "input", "input_pair"};
    for (size_t i = 0; tokenizer && i < 3; i++) {
        struct buffer text = {0};
        if (i)
            tokenizer_describe_input(tokenizer, i, &text);
        else
            tokenizer_describe_case(tokenizer, &text);
        if (text.size) {
            buffer_add_format(out, "\"%s\":", names[i]);
            json_encode_string((struct text){text.data, text.size}, out);
            buffer_add_byte(out, ',');
        }
        buffer_finish(&text);
    }
}

// The heads of windowed and of other layers, and how many layers read an earlier layer's keys and values.
static void print_layers(const struct model *model)
{
    int32_t n_layers[2] = {0}, n_shared = 0;
    struct layer_heads heads[2] = {{0}};
    for (int32_t i = 0; i < model->shape.n_layers; i++) {
        bool windowed = model->layers[i].windowed;
        n_layers[windowed]++;
        n_shared += model->layers[i].kv_layer != i;
        heads[windowed] = model_layer_heads(model, i);
    }
    printf("layers     ");
    for (int windowed = 1; windowed >= 0; windowed--)
        if (n_layers[windowed])
            printf(" %d %s a window, %d key-value heads of %d;", n_layers[windowed],
                   windowed ? "with" : "without", heads[windowed].n_kv_heads, heads[windowed].key_dim);
    printf(" %d share earlier keys and values\n", n_shared);
}

// The settings of embeddings in the model's files.
struct embedding_facts {
    bool known; // false: nothing
    char pooling[ERROR_TEXT_BYTES];
    struct embedding_defaults defaults;
    struct text prompts; // a JSON object; empty: none
};

static struct embedding_facts describe_embedding(const struct model *model)
{
    struct embedding_facts facts = {0};
    struct error error = {0};
    enum pooling pooling;
    char key[128];
    snprintf(key, sizeof key, "%s.pooling_type", model_family_name(model));
    facts.known = !model_has_logits(model) || gguf_has(model->gguf, key) ||
                  gguf_has(model->gguf, MODEL_FOLDER_NORMALIZES);
    bool fits = embedding_check_model(model, &error) == STATUS_OK &&
                pooling_of_model(model, &pooling, &error) == STATUS_OK &&
                embedding_read_defaults(&facts.defaults, model, &error) == STATUS_OK &&
                gguf_text(model->gguf, MODEL_FOLDER_PROMPTS, &facts.prompts, NULL, &error) == STATUS_OK;
    snprintf(facts.pooling, sizeof facts.pooling, "%s", fits ? pooling_name(pooling) : error.text);
    return facts;
}

static int32_t longest_text(const struct embedding_facts *facts, const struct model *model)
{
    int32_t n_max = facts->defaults.n_tokens_max;
    return n_max && n_max < model->shape.n_context ? n_max : model->shape.n_context;
}

static void print_embedding(const struct model *model)
{
    const struct embedding_facts facts = describe_embedding(model);
    struct buffer shown = {0};
    if (!facts.known)
        return;
    buffer_add_printable(&shown, facts.prompts, 0);
    printf("embeddings  pooling %s, width %d, %s, texts of up to %d tokens\n", facts.pooling,
           embedding_width(model), facts.defaults.normalize ? "normalized" : "not normalized",
           longest_text(&facts, model));
    if (shown.size)
        printf("prompts     %.*s\n", (int)shown.size, shown.data);
    if (facts.defaults.prompt.size) {
        buffer_clear(&shown);
        buffer_add_printable(&shown, facts.defaults.prompt, 0);
        printf("prompt      \"%.*s\" before each text\n", (int)shown.size, shown.data);
    }
    buffer_finish(&shown);
}

static void add_embedding(struct buffer *out, const struct model *model)
{
    const struct embedding_facts facts = describe_embedding(model);
    if (!facts.known)
        return;
    buffer_add_string(out, "\"embeddings\":{\"pooling\":");
    json_encode_string(text_from_string(facts.pooling), out);
    buffer_add_format(out,
                      ",\"width\":%d,\"normalized\":%s,\"longest\":%d,\"prompt\":", embedding_width(model),
                      facts.defaults.normalize ? "true" : "false", longest_text(&facts, model));
    json_encode_string(facts.defaults.prompt, out);
    buffer_add_string(out, ",\"prompts\":");
    buffer_add_text(out, facts.prompts.size ? facts.prompts : TEXT("{}"));
    buffer_add_string(out, "},");
}

static void print_recurrent(const struct model *model)
{
    const struct recurrent_shape *shape = &model->shape.recurrent;
    printf("recurrent   %d layers ", shape->n_layers);
    if (shape->kind == RECURRENT_SELECTIVE)
        printf("of a selective scan, %d x %d", shape->key_dim, shape->value_dim);
    else if (shape->n_heads)
        printf("of %d heads (%d key) of %d x %d", shape->n_heads, shape->n_key_heads, shape->key_dim,
               shape->value_dim);
    else
        printf("of short convolutions, %d taps", shape->n_taps);
    printf("; a state of %.1f MB a sequence\n", (double)forward_state_bytes(model, NULL) / 1e6);
}

static void print_text(const struct runtime *runtime, const struct type_count *counts,
                       const struct limits_plan *plan, const struct error *memory_error)
{
    const struct model *model = runtime->model;
    const struct model_shape *shape = &model->shape;
    print_outside("file", gguf_path(model->gguf));
    printf(", %.1f MB\n", (double)gguf_file_bytes(model->gguf) / 1e6);
    print_outside("name", model->name);
    putchar('\n');
    printf("family      %s, %.1f M parameters\n", model_family_name(model),
           (double)model_n_parameters(model) / 1e6);
    if (shape->attention.n_layers)
        printf("shape       %d layers, width %d, %d heads (%d key-value) of %d, feed-forward %d\n",
               shape->n_layers, shape->n_embd, shape->attention.n_heads, shape->attention.n_kv_heads,
               shape->attention.key_dim, shape->n_ff);
    else
        printf("shape       %d layers, width %d, no attention\n", shape->n_layers, shape->n_embd);
    if (model->heads)
        print_layers(model);
    if (shape->experts.n)
        printf("experts     %d, %d used\n", shape->experts.n, shape->experts.n_used);
    if (shape->recurrent.n_layers)
        print_recurrent(model);
    printf("context     %d tokens\n", shape->n_context);
    const struct tokenizer_facts tokenizer = describe_tokenizer(runtime->tokenizer);
    printf("vocabulary  %d tokens", shape->n_vocab);
    if (tokenizer.n_suppressed)
        printf(", %zu of them never sampled", tokenizer.n_suppressed);
    putchar('\n');
    printf("tokenizer   %s%s%s, bos %d%s, eos %d%s\n", tokenizer.model, tokenizer.pre[0] ? " " : "",
           tokenizer.pre, tokenizer.bos, tokenizer.adds_bos ? " (added)" : "", tokenizer.eos,
           tokenizer.adds_eos ? " (added)" : "");
    print_input(runtime->tokenizer);
    print_embedding(model);
    inspect_head_print(model);
    printf("template    %s\n", template_state(runtime));
    printf("tools       %s\n", tool_format_name(runtime));
    printf("thinking    %s\n", thinking_format_name(runtime));
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        if (!counts[type].n_tensors)
            continue;
        printf("%-11s %-6s %4lld tensors, %.1f MB\n", "weights", tensor_traits((uint32_t)type)->name,
               (long long)counts[type].n_tensors, (double)counts[type].n_bytes / 1e6);
    }
    char states[96] = "";
    if (plan->state_bytes)
        snprintf(states, sizeof states, "%d states of sequences and %d of shared prefixes %.1f MB, ",
                 plan->batch.n_sequences_max, plan->batch.n_state_slots - plan->batch.n_sequences_max,
                 (double)plan->state_bytes / 1e6);
    if (plan->batch.n_pages)
        printf("memory      weights %.1f MB, matrices %.1f MB, %sKV %.1f MB for %d pages; %.1f KB "
               "a token\n",
               (double)plan->weight_bytes / 1e6, (double)plan->matrix_bytes / 1e6, states,
               (double)plan->page_bytes / 1e6, plan->batch.n_pages,
               (double)plan->page_bytes / ((double)plan->batch.n_pages * plan->batch.page_positions) / 1e3);
    else
        printf("memory      does not fit here: %s\n", memory_error->text);
    if (model_mapped_bytes(model))
        printf("mapped      inputs of the layers, %.1f MB, read from the file row by row\n",
               (double)model_mapped_bytes(model) / 1e6);
    printf("fingerprint %016llx\n", (unsigned long long)model_fingerprint(model, runtime->device.pool, NULL));
}

static void print_json(const struct runtime *runtime, const struct type_count *counts,
                       const struct limits_plan *plan)
{
    const struct model *model = runtime->model;
    const struct model_shape *shape = &model->shape;
    const struct tokenizer_facts tokenizer = describe_tokenizer(runtime->tokenizer);
    struct buffer out = {0};
    buffer_add_byte(&out, '{');
    add_embedding(&out, model);
    inspect_head_add(model, &out);
    buffer_add_string(&out, "\"name\":");
    json_encode_string(text_from_string(model->name), &out);
    buffer_add_format(
        &out,
        ",\"family\":\"%s\",\"parameters\":%llu,\"file_bytes\":%llu,\"layers\":%d,\"width\":%d,\"heads\":%d,"
        "\"key_value_heads\":%d,\"head_dim\":%d,\"feed_forward\":%d,\"experts\":%d,\"experts_used\":%d,"
        "\"context\":%d,\"vocabulary\":%d,\"tokenizer\":\"%s\",\"pre\":\"%s\",\"bos\":%d,\"eos\":%d,\"suppressed\":%zu,"
        "\"template\":\"%s\",\"tools\":\"%s\",\"thinking\":\"%s\",\"weights\":{",
        model_family_name(model), (unsigned long long)model_n_parameters(model),
        (unsigned long long)gguf_file_bytes(model->gguf), shape->n_layers, shape->n_embd,
        shape->attention.n_heads, shape->attention.n_kv_heads, shape->attention.key_dim, shape->n_ff,
        shape->experts.n, shape->experts.n_used, shape->n_context, shape->n_vocab, tokenizer.model,
        tokenizer.pre, tokenizer.bos, tokenizer.eos, tokenizer.n_suppressed, template_state(runtime),
        tool_format_name(runtime), thinking_format_name(runtime));
    bool first = true;
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (counts[type].n_tensors) {
            buffer_add_format(&out, "%s\"%s\":{\"tensors\":%lld,\"bytes\":%llu}", first ? "" : ",",
                              tensor_traits((uint32_t)type)->name, (long long)counts[type].n_tensors,
                              (unsigned long long)counts[type].n_bytes);
            first = false;
        }
    buffer_add_format(&out,
                      "},\"memory\":{\"weights\":%llu,\"mapped\":%llu,\"matrices\":%llu,\"states\":%llu,"
                      "\"pages\":%llu,\"n_states\":%d,\"n_pages\":%d},",
                      (unsigned long long)plan->weight_bytes, (unsigned long long)model_mapped_bytes(model),
                      (unsigned long long)plan->matrix_bytes, (unsigned long long)plan->state_bytes,
                      (unsigned long long)plan->page_bytes, plan->batch.n_state_slots, plan->batch.n_pages);
    add_input(runtime->tokenizer, &out);
    buffer_add_format(&out, "\"fingerprint\":\"%016llx\"}\n",
                      (unsigned long long)model_fingerprint(model, runtime->device.pool, NULL));
    fwrite(out.data, 1, out.size, stdout);
    buffer_finish(&out);
}

enum status command_inspect(const struct settings *settings, struct error *error)
{
    struct runtime runtime = {0};
    struct limits_plan plan = {0};
    struct type_count counts[TENSOR_TYPE_COUNT] = {{0}};
    enum status status = runtime_open_model(&runtime, settings, settings->line.positionals[0], error);
    // A model is described even if its tokenizer is missing or not supported; the command still returns the
    // error.
    if (status == STATUS_OK || (runtime.model && !runtime.tokenizer)) {
        struct error memory_error = {0};
        plan_memory(runtime.model, &plan, &memory_error);
        count_types(runtime.model->gguf, counts);
        if (settings->output.json)
            print_json(&runtime, counts, &plan);
        else
            print_text(&runtime, counts, &plan, &memory_error);
    }
    runtime_close(&runtime);
    return status;
}
