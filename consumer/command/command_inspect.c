// sheaf inspect: prints a model file's properties and problems.
#include "consumer/command/commands.h"
#include "consumer/worker/runtime.h"
#include "engine/file/gguf.h"
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
    bool adds_bos;
};

static struct tokenizer_facts describe_tokenizer(const struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return (struct tokenizer_facts){.model = "none", .pre = "", .bos = -1, .eos = -1};
    return (struct tokenizer_facts){.model = tokenizer_model_name(tokenizer),
                                    .pre = tokenizer_pre_name(tokenizer),
                                    .bos = tokenizer_bos(tokenizer),
                                    .eos = tokenizer_eos(tokenizer),
                                    .adds_bos = tokenizer_adds_bos(tokenizer)};
}

static void print_outside(const char *name, const char *text)
{
    struct buffer shown = {0};
    buffer_add_printable(&shown, text_from_string(text), 0);
    printf("%-11s %.*s", name, (int)shown.size, shown.data ? shown.data : "");
    buffer_finish(&shown);
}

// What the tokenizer adds to a text and to a pair, and whether it is cased.
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
    printf("shape       %d layers, width %d, %d heads (%d key-value) of %d, feed-forward %d\n",
           shape->n_layers, shape->n_embd, shape->attention.n_heads, shape->attention.n_kv_heads,
           shape->attention.key_dim, shape->n_ff);
    if (shape->experts.n)
        printf("experts     %d, %d used\n", shape->experts.n, shape->experts.n_used);
    if (shape->delta.n_layers)
        printf("recurrent   %d layers of %d heads (%d key) of %d x %d; a state of %.1f MB a sequence\n",
               shape->delta.n_layers, shape->delta.n_heads, shape->delta.n_key_heads, shape->delta.key_dim,
               shape->delta.value_dim, (double)forward_state_bytes(model, NULL) / 1e6);
    printf("context     %d tokens\n", shape->n_context);
    printf("vocabulary  %d tokens\n", shape->n_vocab);
    const struct tokenizer_facts tokenizer = describe_tokenizer(runtime->tokenizer);
    printf("tokenizer   %s%s%s, bos %d%s, eos %d\n", tokenizer.model, tokenizer.pre[0] ? " " : "",
           tokenizer.pre, tokenizer.bos, tokenizer.adds_bos ? " (added)" : "", tokenizer.eos);
    print_input(runtime->tokenizer);
    printf("template    %s\n", template_state(runtime));
    printf("tools       %s\n", tool_format_name(runtime));
    printf("thinking    %s\n", thinking_format_name(runtime));
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        if (!counts[type].n_tensors)
            continue;
        printf("%-11s %-6s %4lld tensors, %.1f MB\n", "weights", tensor_traits((uint32_t)type)->name,
               (long long)counts[type].n_tensors, (double)counts[type].n_bytes / 1e6);
    }
    if (plan->batch.n_pages)
        printf(
            "memory      weights %.1f MB, matrices %.1f MB, states %.1f MB, KV %.1f MB for %d pages; %.1f KB "
            "a token\n",
            (double)plan->weight_bytes / 1e6, (double)plan->matrix_bytes / 1e6,
            (double)plan->state_bytes / 1e6, (double)plan->page_bytes / 1e6, plan->batch.n_pages,
            (double)plan->page_bytes / ((double)plan->batch.n_pages * plan->batch.page_positions) / 1e3);
    else
        printf("memory      does not fit here: %s\n", memory_error->text);
    printf("fingerprint %016llx\n", (unsigned long long)model_fingerprint(model, runtime->device.pool, NULL));
}

static void print_json(const struct runtime *runtime, const struct type_count *counts,
                       const struct limits_plan *plan)
{
    const struct model *model = runtime->model;
    const struct model_shape *shape = &model->shape;
    const struct tokenizer_facts tokenizer = describe_tokenizer(runtime->tokenizer);
    struct buffer out = {0};
    buffer_add_string(&out, "{\"name\":");
    json_encode_string(text_from_string(model->name), &out);
    buffer_add_format(
        &out,
        ",\"family\":\"%s\",\"parameters\":%llu,\"file_bytes\":%llu,\"layers\":%d,\"width\":%d,\"heads\":%d,"
        "\"key_value_heads\":%d,\"head_dim\":%d,\"feed_forward\":%d,\"experts\":%d,\"experts_used\":%d,"
        "\"context\":%d,\"vocabulary\":%d,\"tokenizer\":\"%s\",\"pre\":\"%s\",\"bos\":%d,\"eos\":%d,"
        "\"template\":\"%s\",\"tools\":\"%s\",\"thinking\":\"%s\",\"weights\":{",
        model_family_name(model), (unsigned long long)model_n_parameters(model),
        (unsigned long long)gguf_file_bytes(model->gguf), shape->n_layers, shape->n_embd,
        shape->attention.n_heads, shape->attention.n_kv_heads, shape->attention.key_dim, shape->n_ff,
        shape->experts.n, shape->experts.n_used, shape->n_context, shape->n_vocab, tokenizer.model,
        tokenizer.pre, tokenizer.bos, tokenizer.eos, template_state(runtime), tool_format_name(runtime),
        thinking_format_name(runtime));
    bool first = true;
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (counts[type].n_tensors) {
            buffer_add_format(&out, "%s\"%s\":{\"tensors\":%lld,\"bytes\":%llu}", first ? "" : ",",
                              tensor_traits((uint32_t)type)->name, (long long)counts[type].n_tensors,
                              (unsigned long long)counts[type].n_bytes);
            first = false;
        }
    buffer_add_format(&out,
                      "},\"memory\":{\"weights\":%llu,\"matrices\":%llu,\"states\":%llu,\"pages\":%llu,"
                      "\"n_pages\":%d},",
                      (unsigned long long)plan->weight_bytes, (unsigned long long)plan->matrix_bytes,
                      (unsigned long long)plan->state_bytes, (unsigned long long)plan->page_bytes,
                      plan->batch.n_pages);
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
    enum status status = runtime_open_model(&runtime, settings, settings->positionals[0], error);
    // A model is described even if its tokenizer is missing or not supported; the command still returns the
    // error.
    if (status == STATUS_OK || (runtime.model && !runtime.tokenizer)) {
        struct error memory_error = {0};
        plan_memory(runtime.model, &plan, &memory_error);
        count_types(runtime.model->gguf, counts);
        if (settings->json)
            print_json(&runtime, counts, &plan);
        else
            print_text(&runtime, counts, &plan, &memory_error);
    }
    runtime_close(&runtime);
    return status;
}
