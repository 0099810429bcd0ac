// sheaf perplexity: how well a model predicts a text, and how far another model (a quantization of it, say)
// is from it. The method is llama-perplexity's (llama.cpp, tools/perplexity), so that figures can be compared:
// windows of --context tokens that don't overlap, each beginning with the tokenizer's bos, and the second half
// of each window scored. A text shorter than one window is one window, scored from its second token on.
#include "consumer/command/commands.h"
#include "consumer/worker/runtime.h"
#include "engine/likelihood.h"
#include "engine/logits.h"
#include "schemas/base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 30, CONTEXT_DEFAULT = 512 };

struct windows {
    struct token_array ids;
    int32_t bos; // -1: windows begin with the text's own token
    int32_t n_tokens, n_windows;
    int32_t first_scored; // position within the window
};

struct perplexity {
    const struct settings *settings;
    struct runtime models[2]; // [1]: of --against
    struct logits_reader *readers[2];
    int n_models;
    struct windows windows;
    int32_t *window;  // [n_tokens]
    float *logits[2]; // [LOGITS_CHUNK_TOKENS, n_vocab]
    struct likelihood *scored;
    size_t n_scored;
};

static enum status open_text(struct perplexity *perplexity, struct error *error)
{
    const char *path = perplexity->settings->line.positionals[1];
    struct windows *windows = &perplexity->windows;
    const struct runtime *runtime = &perplexity->models[0];
    struct buffer text = {0};
    enum status status = file_read_text(path, TEXT_BYTES_MAX, &text, error);
    if (status == STATUS_OK)
        status = tokenizer_encode(runtime->tokenizer, (struct text){text.data, text.size},
                                  TOKENIZER_ADD_SPECIAL, &windows->ids, error);
    buffer_finish(&text);
    if (status != STATUS_OK)
        return status;
    int32_t n_context = runtime->model->shape.n_context;
    int64_t wanted = perplexity->settings->tool.context;
    if (wanted > n_context)
        return error_set(error, STATUS_REFUSE, ERROR_CONTEXT_LENGTH,
                         "--context: expected at most %d, the model's context, got %lld", n_context,
                         (long long)wanted);
    if (wanted == 0)
        wanted = n_context < CONTEXT_DEFAULT ? n_context : CONTEXT_DEFAULT;
    if (windows->ids.n_ids < 2)
        return error_set(error, STATUS_REFUSE, ERROR_EMPTY_PROMPT, "%s: expected at least 2 tokens, got %zu",
                         path, windows->ids.n_ids);
    bool is_whole = windows->ids.n_ids < (size_t)wanted;
    windows->n_tokens = is_whole ? (int32_t)windows->ids.n_ids : (int32_t)wanted;
    windows->n_windows = (int32_t)(windows->ids.n_ids / (size_t)windows->n_tokens);
    windows->first_scored = is_whole ? 1 : windows->n_tokens / 2;
    windows->bos = tokenizer_adds_bos(runtime->tokenizer) ? windows->ids.ids[0] : -1;
    return STATUS_OK;
}

static enum status check_vocabularies(const struct perplexity *perplexity, struct error *error)
{
    if (perplexity->n_models == 1)
        return STATUS_OK;
    int32_t n = perplexity->models[0].model->shape.n_vocab,
            other = perplexity->models[1].model->shape.n_vocab;
    return n == other ? STATUS_OK
                      : error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                  "%s: expected a vocabulary of %d tokens, as the model's, got %d",
                                  perplexity->settings->tool.against, n, other);
}

static enum status open_model(struct perplexity *perplexity, int at, const char *path, struct error *error)
{
    struct runtime *runtime = &perplexity->models[at];
    struct settings other = *perplexity->settings;
    other.model.adapters = NULL; // of the first model alone
    enum status status = at == 0 ? runtime_open_model(runtime, perplexity->settings, path, error)
                                 : runtime_open_weights(runtime, &other, path, error);
    return status == STATUS_OK ? runtime_open_backend(runtime, perplexity->settings, error) : status;
}

// Weights into the backend's memory, with pages for one window.
static enum status load_model(struct perplexity *perplexity, int at, struct error *error)
{
    struct runtime *runtime = &perplexity->models[at];
    enum kv_type kv_type = KV_F32;
    enum status status = runtime_kv_type(&perplexity->settings->engine, &kv_type, error);
    if (status != STATUS_OK)
        return status;
    int32_t n_tokens = perplexity->windows.n_tokens;
    uint64_t n_pages = (uint64_t)n_tokens / LIMITS_PAGE_POSITIONS + 2;
    struct limits_wanted wanted = {
        .n_sequences_max = LOGITS_CHUNK_TOKENS,
        .n_tokens_max = LOGITS_CHUNK_TOKENS,
        .n_state_slots = 1,
        .kv_type = &kv_type,
        .page_bytes = n_pages * forward_page_bytes(runtime->model, NULL, LIMITS_PAGE_POSITIONS, kv_type)};
    status = runtime_plan(runtime, &perplexity->settings->engine, &wanted, error);
    if (status == STATUS_OK)
        status = logits_open(&perplexity->readers[at], runtime->model, runtime->device.backend, kv_type,
                             n_tokens, error);
    return status;
}

static enum status allocate(struct perplexity *perplexity, struct error *error)
{
    const struct windows *windows = &perplexity->windows;
    size_t n_vocab = (size_t)perplexity->models[0].model->shape.n_vocab;
    size_t n_scored = (size_t)windows->n_windows * (size_t)(windows->n_tokens - windows->first_scored);
    perplexity->window = calloc((size_t)windows->n_tokens, sizeof *perplexity->window);
    perplexity->scored = calloc(n_scored, sizeof *perplexity->scored);
    bool failed = !perplexity->window || !perplexity->scored;
    for (int i = 0; i < perplexity->n_models; i++) {
        perplexity->logits[i] = malloc(LOGITS_CHUNK_TOKENS * n_vocab * sizeof(float));
        failed |= !perplexity->logits[i];
    }
    return failed ? error_memory(error, STATUS_REFUSE, "scores of %zu tokens", n_scored) : STATUS_OK;
}

struct scoring {
    const struct perplexity *perplexity;
    const int32_t *next; // the token after each row's
    struct likelihood *scored;
};

static void score_row(void *context, int index, int thread)
{
    (void)thread;
    const struct scoring *scoring = context;
    const struct perplexity *perplexity = scoring->perplexity;
    int32_t n_vocab = perplexity->models[0].model->shape.n_vocab;
    const float *row = perplexity->logits[0] + (ptrdiff_t)index * n_vocab;
    const float *other = perplexity->n_models > 1 ? perplexity->logits[1] + (ptrdiff_t)index * n_vocab : NULL;
    scoring->scored[index] = likelihood_of(row, other, n_vocab, scoring->next[index]);
}

// Scores rows [first, first + n) of the window from their logits.
static void score_rows(struct perplexity *perplexity, int32_t first, int32_t n)
{
    struct scoring scoring = {perplexity, perplexity->window + first + 1,
                              perplexity->scored + perplexity->n_scored};
    pool_run(perplexity->models[0].device.pool, n, score_row, &scoring);
    perplexity->n_scored += (size_t)n;
}

static enum status score_window(struct perplexity *perplexity, int32_t index, struct error *error)
{
    const struct windows *windows = &perplexity->windows;
    const int32_t *ids = windows->ids.ids + (ptrdiff_t)index * windows->n_tokens;
    for (int32_t i = 0; i < windows->n_tokens; i++)
        perplexity->window[i] = ids[i];
    if (windows->bos >= 0)
        perplexity->window[0] = windows->bos;
    // The row of a token predicts the next one.
    int32_t from = windows->first_scored - 1, end = windows->n_tokens - 1;
    for (int32_t first = 0, n; first < end; first += n) {
        n = first < from ? from - first : end - first;
        n = n < LOGITS_CHUNK_TOKENS ? n : LOGITS_CHUNK_TOKENS;
        for (int i = 0; i < perplexity->n_models; i++) {
            enum status status = logits_read(perplexity->readers[i], perplexity->window + first, first, n,
                                             first < from ? NULL : perplexity->logits[i], error);
            if (status != STATUS_OK)
                return status;
        }
        if (first >= from)
            score_rows(perplexity, first, n);
    }
    return STATUS_OK;
}

static void print_text(const struct perplexity *perplexity, const struct likelihood_summary *summary)
{
    const struct windows *windows = &perplexity->windows;
    printf("scored %zu of %zu tokens: %d window%s of %d, each from token %d on\n", perplexity->n_scored,
           windows->ids.n_ids, windows->n_windows, windows->n_windows == 1 ? "" : "s", windows->n_tokens,
           windows->first_scored + 1);
    printf("mean negative log-likelihood  %.6f +- %.6f\n", summary->nll.mean, summary->nll.error);
    printf("perplexity                    %.4f +- %.4f\n", exp(summary->nll.mean),
           exp(summary->nll.mean) * summary->nll.error);
    if (perplexity->n_models == 1)
        return;
    const struct likelihood_divergence *against = &summary->against;
    printf("\nagainst %s, the reference\n", perplexity->settings->tool.against);
    printf("its perplexity                %.4f +- %.4f\n", exp(against->nll.mean),
           exp(against->nll.mean) * against->nll.error);
    printf("perplexity ratio              %.6f +- %.6f\n", exp(against->log_ratio.mean),
           exp(against->log_ratio.mean) * against->log_ratio.error);
    printf("mean KL divergence            %.8f +- %.8f\n", against->kl.mean, against->kl.error);
    printf("KL divergence, median         %.8f\n", against->kl_median);
    printf("KL divergence, 99 %%           %.8f\n", against->kl_99);
    printf("KL divergence, largest        %.8f\n", against->kl_largest);
    printf("mean difference of p          %.4f %% +- %.4f %%\n", 100 * against->p_difference.mean,
           100 * against->p_difference.error);
    printf("RMS difference of p           %.4f %%\n", 100 * against->p_rms);
    printf("same most likely token        %.3f %% +- %.3f %%\n", 100 * against->same_top.mean,
           100 * against->same_top.error);
}

static void print_json(const struct perplexity *perplexity, const struct likelihood_summary *summary)
{
    const struct windows *windows = &perplexity->windows;
    const struct likelihood_divergence *against = &summary->against;
    printf(
        "{\"tokens\":%zu,\"scored\":%zu,\"windows\":%d,\"window_tokens\":%d,\"nll\":%.9g,\"nll_error\":%.9g,"
        "\"perplexity\":%.9g",
        windows->ids.n_ids, perplexity->n_scored, windows->n_windows, windows->n_tokens, summary->nll.mean,
        summary->nll.error, exp(summary->nll.mean));
    if (perplexity->n_models > 1)
        printf(",\"against\":{\"nll\":%.9g,\"perplexity\":%.9g,\"perplexity_ratio\":%.9g,\"kl\":%.9g,"
               "\"kl_error\":%.9g,\"kl_median\":%.9g,\"kl_99\":%.9g,\"kl_largest\":%.9g,"
               "\"p_difference\":%.9g,\"p_rms\":%.9g,\"same_top\":%.9g}",
               against->nll.mean, exp(against->nll.mean), exp(against->log_ratio.mean), against->kl.mean,
               against->kl.error, against->kl_median, against->kl_99, against->kl_largest,
               against->p_difference.mean, against->p_rms, against->same_top.mean);
    printf("}\n");
}

static enum status score_text(struct perplexity *perplexity, struct error *error)
{
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < perplexity->windows.n_windows && status == STATUS_OK; i++)
        status = score_window(perplexity, i, error);
    if (status != STATUS_OK)
        return status;
    struct likelihood_summary summary;
    if (!likelihood_summarize(perplexity->scored, perplexity->n_scored, &summary))
        return error_set(error, STATUS_REFUSE, ERROR_LOGITS_NAN, "%s: the logits have a NaN or an infinity",
                         perplexity->settings->line.positionals[1]);
    if (perplexity->settings->output.json)
        print_json(perplexity, &summary);
    else
        print_text(perplexity, &summary);
    return STATUS_OK;
}

static void close_all(struct perplexity *perplexity)
{
    for (int i = 0; i < 2; i++) {
        logits_close(perplexity->readers[i]);
        free(perplexity->logits[i]);
        runtime_close(&perplexity->models[i]);
    }
    token_array_finish(&perplexity->windows.ids);
    free(perplexity->window);
    free(perplexity->scored);
}

enum status command_perplexity(const struct settings *settings, struct error *error)
{
    struct perplexity perplexity = {.settings = settings, .n_models = settings->tool.against ? 2 : 1};
    enum status status = open_model(&perplexity, 0, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = open_text(&perplexity, error);
    if (status == STATUS_OK && settings->tool.against)
        status = open_model(&perplexity, 1, settings->tool.against, error);
    if (status == STATUS_OK)
        status = check_vocabularies(&perplexity, error);
    for (int i = 0; i < perplexity.n_models && status == STATUS_OK; i++)
        status = load_model(&perplexity, i, error);
    if (status == STATUS_OK)
        status = allocate(&perplexity, error);
    if (status == STATUS_OK)
        status = score_text(&perplexity, error);
    close_all(&perplexity);
    return status;
}
