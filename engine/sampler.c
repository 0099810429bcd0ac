#include "engine/sampler.h"

#include "engine/philox.h"
#include "schemas/base/elementary.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

// A candidate token with its logit after bias and penalties.
struct token_candidate {
    float logit;
    int32_t token;
};

struct sampler {
    int32_t n_vocab;
    int32_t *counts;                       // [n_vocab] how often a token was generated; 0 between calls
    bool *seen;                            // [n_vocab] in prompt or generated; false between calls
    struct token_candidate *sorted, *heap; // [n_vocab] each
    float *given; // [n_vocab] the unmodified logits, if logprobs are needed after penalties
};

enum status sampler_create(struct sampler **sampler, int32_t n_vocab, struct error *error)
{
    assert(n_vocab > 0 && n_vocab <= MODEL_VOCABULARY_MAX);
    *sampler = NULL;
    struct sampler *created = calloc(1, sizeof *created);
    if (created) {
        created->n_vocab = n_vocab;
        created->counts = calloc((size_t)n_vocab, sizeof *created->counts);
        created->seen = calloc((size_t)n_vocab, sizeof *created->seen);
        created->sorted = calloc((size_t)n_vocab, sizeof *created->sorted);
        created->heap = calloc((size_t)n_vocab, sizeof *created->heap);
        created->given = calloc((size_t)n_vocab, sizeof *created->given);
    }
    if (!created || !created->counts || !created->seen || !created->sorted || !created->heap ||
        !created->given) {
        sampler_destroy(created);
        return error_memory(error, STATUS_REFUSE, "a sampler of %d tokens", n_vocab);
    }
    *sampler = created;
    return STATUS_OK;
}

void sampler_destroy(struct sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->counts);
    free(sampler->seen);
    free(sampler->sorted);
    free(sampler->heap);
    free(sampler->given);
    free(sampler);
}

// ---- reductions over the vocabulary ----
// In LANES lanes, so that compilers vectorize. Logits of forbidden tokens count as -infinity and have weight
// 0, so mask words without a bit are skipped with the same result, and their logits are never read. `allowed`
// NULL: all tokens.

enum { LANES = 16, WORD_TOKENS = 32, SUM_LANES = 1024 };

static bool is_skipped(const uint32_t *allowed, int32_t token)
{
    return allowed && allowed[token / WORD_TOKENS] == 0;
}

// Returns the largest logit; NaN if any logit is NaN or +infinity, -infinity if all are.
static float find_largest(const float *logits, int32_t n, const uint32_t *allowed)
{
    float largest[LANES];
    int32_t bad[LANES] = {0};
    for (int lane = 0; lane < LANES; lane++)
        largest[lane] = -INFINITY;
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (is_skipped(allowed, i))
            continue;
        for (int lane = 0; lane < LANES; lane++) {
            float x = logits[i + lane];
            bad[lane] |= !(x <= FLT_MAX);
            largest[lane] = x > largest[lane] ? x : largest[lane];
        }
    }
    for (; i < n && !is_skipped(allowed, i); i++) {
        bad[0] |= !(logits[i] <= FLT_MAX);
        largest[0] = logits[i] > largest[0] ? logits[i] : largest[0];
    }
    for (int lane = 1; lane < LANES; lane++) {
        bad[0] |= bad[lane];
        largest[0] = largest[lane] > largest[0] ? largest[lane] : largest[0];
    }
    return bad[0] ? NAN : largest[0];
}

// Returns the sum of exp((logit - largest) / temperature). Item i is added to lane i mod SUM_LANES in order.
// Then the upper half of the lanes is added to the lower half until one lane is left. So the result is the
// same everywhere. A GPU's block has one thread per lane.
static double sum_weights(const float *logits, int32_t n, const uint32_t *allowed, float largest,
                          float temperature)
{
    double sums[SUM_LANES] = {0};
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (is_skipped(allowed, i))
            continue;
        float weights[LANES]; // a separate loop, so that compilers vectorize it
        for (int lane = 0; lane < LANES; lane++)
            weights[lane] = elementary_exp_negative((logits[i + lane] - largest) / temperature);
        for (int lane = 0; lane < LANES; lane++)
            sums[i % SUM_LANES + lane] += (double)weights[lane];
    }
    for (; i < n && !is_skipped(allowed, i); i++) // the rest is in one mask word
        sums[i % SUM_LANES] += (double)elementary_exp_negative((logits[i] - largest) / temperature);
    for (int half = SUM_LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            sums[lane] += sums[lane + half];
    return sums[0];
}

// ---- candidates in order of logit (highest first), then id (lowest first) ----
// Sorted lazily: a band of logits is made a heap in linear time, and candidates are popped one by one.

static bool comes_before(struct token_candidate a, struct token_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

static void sift_down(struct token_candidate *heap, int32_t n, int32_t at)
{
    struct token_candidate moving = heap[at];
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(heap[child + 1], heap[child]))
            child++;
        if (!comes_before(heap[child], moving))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

struct logit_ranking {
    const float *logits;
    const uint32_t *allowed;
    int32_t n_vocab;
    float floor, width; // tokens from `floor` on are in the arrays; width of the next band
    struct token_candidate *sorted, *heap;
    int32_t n_sorted, n_heap, n_bands;
};

// `width` is the width of the first band, in logits below the largest.
static struct logit_ranking ranking_start(struct sampler *sampler, const float *logits,
                                          const uint32_t *allowed, float largest, float width)
{
    return (struct logit_ranking){.logits = logits,
                                  .allowed = allowed,
                                  .n_vocab = sampler->n_vocab,
                                  .floor = nextafterf(largest, INFINITY),
                                  .width = width,
                                  .sorted = sampler->sorted,
                                  .heap = sampler->heap};
}

// Returns the largest logit below `above` among tokens [first, end).
static float top_below(const float *logits, int32_t first, int32_t end, float above)
{
    float tops[LANES];
    for (int lane = 0; lane < LANES; lane++)
        tops[lane] = -INFINITY;
    int32_t i = first;
    for (; i + LANES <= end; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float logit = logits[i + lane] < above ? logits[i + lane] : -INFINITY;
            tops[lane] = logit > tops[lane] ? logit : tops[lane];
        }
    for (; i < end; i++)
        tops[0] = logits[i] < above && logits[i] > tops[0] ? logits[i] : tops[0];
    for (int lane = 1; lane < LANES; lane++)
        tops[0] = tops[lane] > tops[0] ? tops[lane] : tops[0];
    return tops[0];
}

// True if one of LANES logits is in the band.
static bool is_any_between(const float *logits, float floor, float above)
{
    int32_t n = 0;
    for (int lane = 0; lane < LANES; lane++)
        n += (logits[lane] >= floor) & (logits[lane] < above);
    return n > 0;
}

// Appends the tokens of the band from the ranking's floor to `above` to the heap, unordered.
static void collect_band(struct logit_ranking *ranking, float above)
{
    int32_t n = ranking->n_vocab;
    const float *logits = ranking->logits;
    for (int32_t first = 0; first < n; first += LANES) {
        int32_t end = n - first < LANES ? n : first + LANES;
        if (is_skipped(ranking->allowed, first) ||
            (end - first == LANES && !is_any_between(logits + first, ranking->floor, above)))
            continue;
        for (int32_t i = first; i < end; i++)
            if (logits[i] >= ranking->floor && logits[i] < above && logits[i] > -INFINITY)
                ranking->heap[ranking->n_heap++] = (struct token_candidate){logits[i], i};
    }
}

// Builds a heap of the next band, from the largest logit that was not collected yet. False: none is left.
static bool refill_heap(struct logit_ranking *ranking)
{
    int32_t n = ranking->n_vocab, step = ranking->allowed ? WORD_TOKENS : n;
    float above = ranking->floor, top = -INFINITY;
    for (int32_t first = 0; first < n; first += step)
        if (!is_skipped(ranking->allowed, first)) {
            float found = top_below(ranking->logits, first, first + step < n ? first + step : n, above);
            top = found > top ? found : top;
        }
    ranking->floor = top - ranking->width;
    if (top > -INFINITY)
        collect_band(ranking, above);
    if (++ranking->n_bands > 4) // bands grow, to limit the passes over the logits
        ranking->width *= 4.0f;
    for (int32_t at = ranking->n_heap / 2 - 1; at >= 0; at--)
        sift_down(ranking->heap, ranking->n_heap, at);
    return ranking->n_heap > 0;
}

// Returns the index-th best candidate; sorts more of them if needed. False: there are fewer.
static bool ranking_at(struct logit_ranking *ranking, int32_t index, struct token_candidate *candidate)
{
    while (ranking->n_sorted <= index) {
        if (ranking->n_heap == 0 && !refill_heap(ranking))
            return false;
        ranking->sorted[ranking->n_sorted++] = ranking->heap[0];
        ranking->heap[0] = ranking->heap[--ranking->n_heap];
        if (ranking->n_heap > 1)
            sift_down(ranking->heap, ranking->n_heap, 0);
    }
    *candidate = ranking->sorted[index];
    return true;
}

// --- Allowed tokens ---

static void mask_logits(float *logits, int32_t n_vocab, const uint32_t *allowed)
{
    for (int32_t first = 0; first < n_vocab; first += WORD_TOKENS) {
        uint32_t word = allowed[first / WORD_TOKENS];
        if (word == 0)
            continue; // their logits are never read
        int32_t n = n_vocab - first < WORD_TOKENS ? n_vocab - first : WORD_TOKENS;
        if (n == WORD_TOKENS) { // most words have all bits or few
            for (uint32_t off = ~word; off; off &= off - 1)
                logits[first + __builtin_ctz(off)] = -INFINITY;
            continue;
        }
        for (int32_t i = 0; i < n; i++)
            logits[first + i] = word >> i & 1 ? logits[first + i] : -INFINITY;
    }
}

// ---- bias and penalties ----

// Clamps to the finite range, because valid settings can still overflow a float.
static float bounded_logit(float logit)
{
    return logit > FLT_MAX ? FLT_MAX : logit < -FLT_MAX ? -FLT_MAX : logit;
}

static void note_tokens(struct sampler *sampler, const struct sample_request *request)
{
    for (int32_t i = 0; i < request->n_prompt; i++) {
        assert(request->prompt[i] >= 0 && request->prompt[i] < sampler->n_vocab);
        sampler->seen[request->prompt[i]] = true;
    }
    for (int32_t i = 0; i < request->n_generated; i++) {
        assert(request->generated[i] >= 0 && request->generated[i] < sampler->n_vocab);
        sampler->seen[request->generated[i]] = true;
        sampler->counts[request->generated[i]]++;
    }
}

// Applies each token's penalties once; resets `counts` and `seen`.
static void penalise_tokens(struct sampler *sampler, float *logits, const struct sampling *sampling,
                            const int32_t *tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t token = tokens[i], count = sampler->counts[token];
        if (!sampler->seen[token])
            continue;
        sampler->seen[token] = false;
        sampler->counts[token] = 0;
        float logit = logits[token];
        if (!(logit > -INFINITY))
            continue;
        logit = logit > 0.0f ? logit / sampling->repetition_penalty : logit * sampling->repetition_penalty;
        if (count > 0)
            logit = logit - sampling->presence_penalty - sampling->frequency_penalty * (float)count;
        logits[token] = bounded_logit(logit);
    }
}

static bool has_penalties(const struct sampling *sampling)
{
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

static void adjust_logits(struct sampler *sampler, float *logits, const struct sample_request *request)
{
    const struct sampling *sampling = request->sampling;
    for (int32_t i = 0; i < sampling->n_logit_bias; i++) {
        int32_t token = sampling->logit_bias[i].token;
        assert(token >= 0 && token < sampler->n_vocab);
        if (logits[token] > -INFINITY)
            logits[token] = bounded_logit(logits[token] + sampling->logit_bias[i].bias);
    }
    if (!has_penalties(sampling))
        return;
    note_tokens(sampler, request);
    penalise_tokens(sampler, logits, sampling, request->prompt, request->n_prompt);
    penalise_tokens(sampler, logits, sampling, request->generated, request->n_generated);
}

// ---- the draw ----

static int32_t find_first(const float *logits, int32_t n, const uint32_t *allowed, float value)
{
    for (int32_t i = 0; i < n; i++)
        if (logits[i] == value && !is_skipped(allowed, i))
            return i;
    return -1;
}

// Number of best candidates left by top-k, top-p and min-p; `total` is the sum of their weights.
struct kept {
    int32_t n;
    double total;
};

static float candidate_weight(struct token_candidate candidate, float largest, float temperature)
{
    return elementary_exp_negative((candidate.logit - largest) / temperature);
}

// Applies the filters. Without a filter n is the size of the vocabulary and nothing is sorted.
static struct kept filter_candidates(struct logit_ranking *ranking, const struct sampling *sampling,
                                     float largest)
{
    struct kept kept = {.n = ranking->n_vocab};
    struct token_candidate candidate;
    if (sampling->top_k > 0 && sampling->top_k < ranking->n_vocab) {
        for (kept.n = 0; kept.n < sampling->top_k && ranking_at(ranking, kept.n, &candidate); kept.n++)
            kept.total += (double)candidate_weight(candidate, largest, sampling->temperature);
    } else {
        kept.total =
            sum_weights(ranking->logits, ranking->n_vocab, ranking->allowed, largest, sampling->temperature);
    }
    if (sampling->top_p >= 1.0f && sampling->min_p <= 0.0f)
        return kept;
    double enough = sampling->top_p < 1.0f ? (double)sampling->top_p * kept.total : INFINITY, sum = 0.0;
    int32_t n = 0;
    while (n < kept.n && (n == 0 || sum < enough) && ranking_at(ranking, n, &candidate)) {
        float weight = candidate_weight(candidate, largest, sampling->temperature);
        if (n > 0 && weight < sampling->min_p) // the best candidate's weight is 1
            break;
        sum += (double)weight;
        n++;
    }
    return (struct kept){.n = n, .total = sum};
}

static int32_t draw_token(struct sampler *sampler, const float *logits, const struct sample_request *request,
                          float largest)
{
    const struct sampling *sampling = request->sampling;
    // The first band has weights above e^-8 of the largest. In a trained model few tokens have such weights,
    // and others are rarely drawn.
    struct logit_ranking ranking =
        ranking_start(sampler, logits, request->allowed, largest, 8.0f * sampling->temperature);
    struct kept kept = filter_candidates(&ranking, sampling, largest);
    struct philox counter = {{request->index, request->choice, 0, 0}};
    double target = philox_uniform(philox4x32(counter, sampling->seed)) * kept.total;
    double sum = 0.0;
    int32_t token = -1;
    struct token_candidate candidate;
    // If rounding leaves the sum below the target, draws the last candidate that has a weight.
    for (int32_t i = 0; i < kept.n && ranking_at(&ranking, i, &candidate); i++) {
        float weight = candidate_weight(candidate, largest, sampling->temperature);
        if (weight == 0.0f)
            break;
        token = candidate.token;
        sum += (double)weight;
        if (sum > target)
            break;
    }
    return token;
}

// ---- logprobs ----

// Fills in the alternatives: logprobs of the allowed tokens from the unmodified logits. Returns the logarithm
// of the sum of all weights.
static double fill_top(struct sampler *sampler, const float *logits, const struct sample_request *request,
                       float largest, struct sample_result *result)
{
    const struct sampling *sampling = request->sampling;
    double log_sum = (double)largest +
                     elementary_log(sum_weights(logits, sampler->n_vocab, request->allowed, largest, 1.0f));
    int32_t wanted =
        sampling->top_logprobs < JOB_TOP_LOGPROBS_MAX ? sampling->top_logprobs : JOB_TOP_LOGPROBS_MAX;
    if (wanted == 0)
        return log_sum;
    struct logit_ranking ranking = ranking_start(sampler, logits, request->allowed, largest, 8.0f);
    struct token_candidate candidate;
    for (int32_t i = 0; i < wanted && ranking_at(&ranking, i, &candidate); i++)
        result->top[result->n_top++] =
            (struct token_logprob){candidate.token, (float)((double)candidate.logit - log_sum)};
    return log_sum;
}

void sampler_draw(struct sampler *sampler, float *logits, const struct sample_request *request,
                  struct sample_result *result)
{
    const struct sampling *sampling = request->sampling;
    *result = (struct sample_result){.token = -1};
    assert(!request->allowed || request->n_allowed_words == token_mask_words(sampler->n_vocab));
    if (request->allowed)
        mask_logits(logits, sampler->n_vocab, request->allowed);
    float largest = find_largest(logits, sampler->n_vocab, request->allowed);
    if (!(largest > -INFINITY)) // NaN, or no candidate
        return;
    double log_sum = sampling->logprobs ? fill_top(sampler, logits, request, largest, result) : 0.0;
    const float *given = logits;
    if (sampling->n_logit_bias > 0 || has_penalties(sampling)) {
        if (sampling->logprobs)
            given = memcpy(sampler->given, logits, (size_t)sampler->n_vocab * sizeof *logits);
        adjust_logits(sampler, logits, request);
        largest = find_largest(logits, sampler->n_vocab, request->allowed);
    }
    result->token = sampling->temperature > 0.0f
                        ? draw_token(sampler, logits, request, largest)
                        : find_first(logits, sampler->n_vocab, request->allowed, largest);
    if (sampling->logprobs)
        result->logprob = (float)((double)given[result->token] - log_sum);
}
