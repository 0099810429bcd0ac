// The sampling kernels (gpu/kernels/kernels_sample.h). One block per slice of an output's logits finds the
// largest logit; the other kernels have one block per output. engine/sampler.c defines the draw. Sums are
// added in the same order as there: in its lanes, or in order of rank. Maxima, counts and weights do not
// depend on the order.
//
// Candidates are ranked by a 64-bit key: the logit in the upper half, the complement of the id in the lower,
// so that the largest key is the best candidate. They are selected in chunks of at most RANK_CHUNK keys above
// a threshold, and sorted in shared memory. The first threshold tried is a fixed distance below the largest
// logit; if that does not give a chunk, radix select finds the threshold.
#include "gpu/kernels/kernels_sample.h"

#include "gpu/kernels/elementary_device.h"

#include <float.h>
#include <math.h>

enum {
    THREADS = 1024, // also the number of lanes of the sum of weights in engine/sampler.c
    WARP = 32,
    RANK_CHUNK = 1024, // candidates sorted at a time
    RANK_LEAST = 64,   // if a chunk is smaller, the threshold is refined further
    // Copies of the histogram. Most logits have one of a few first digits, so the atomics on a single copy
    // would contend.
    COUNT_COPIES = 8,
};

// ---- logits ----

// Loads 4 logits from index i on; minus infinity beyond the end.
static __device__ __forceinline__ float4 load_logits(const float *logits, int i, int n)
{
    if ((uintptr_t)logits % 16 == 0 && i + 4 <= n)
        return *(const float4 *)(logits + i);
    return make_float4(i < n ? logits[i] : -INFINITY, i + 1 < n ? logits[i + 1] : -INFINITY,
                       i + 2 < n ? logits[i + 2] : -INFINITY, i + 3 < n ? logits[i + 3] : -INFINITY);
}

enum { FOURS_HELD = 4 }; // loads in flight per thread

// Calls visit(logit, token) for the thread's tokens in [begin, end), ascending. The last four tokens may
// extend beyond `end`, with logits of minus infinity. `begin` is a multiple of 4.
template <int n_threads, class V>
static __device__ __forceinline__ void visit_logits(const float *logits, int begin, int end, const V &visit)
{
    for (int first = begin + (int)threadIdx.x * 4; first < end; first += FOURS_HELD * n_threads * 4) {
        float4 held[FOURS_HELD];
#pragma unroll
        for (int j = 0; j < FOURS_HELD; j++)
            held[j] = load_logits(logits, first + j * n_threads * 4, end);
#pragma unroll
        for (int j = 0; j < FOURS_HELD; j++) {
            int token = first + j * n_threads * 4;
            visit(held[j].x, token);
            visit(held[j].y, token + 1);
            visit(held[j].z, token + 2);
            visit(held[j].w, token + 3);
        }
    }
}

// Updates the largest logit, its lowest token, and whether a logit is NaN or +infinity.
static __device__ __forceinline__ void see_logit(struct sample_extreme *extreme, float logit, int token)
{
    extreme->bad |= !(logit <= FLT_MAX);
    if (logit > extreme->largest) {
        extreme->largest = logit;
        extreme->first = token;
    }
}

static __device__ struct sample_extreme warp_extreme(struct sample_extreme own)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        uint64_t mine =
                     (uint64_t)__float_as_uint(own.largest) << 32 | (uint32_t)own.first << 1 | (own.bad != 0),
                 other = __shfl_xor_sync(0xFFFFFFFFu, mine, offset);
        float largest = __uint_as_float((uint32_t)(other >> 32));
        int first = (int)((uint32_t)other >> 1);
        own.bad |= (int)(other & 1);
        if (largest > own.largest || (largest == own.largest && first < own.first)) {
            own.largest = largest;
            own.first = first;
        }
    }
    own.largest = own.bad ? NAN : own.largest;
    return own;
}

// Combines a warp's extremes after visit_logits. A warp without logits skips the exchange.
static __device__ struct sample_extreme warp_extreme_of(struct sample_extreme own, int begin, int end)
{
    return begin + (int)threadIdx.x / WARP * WARP * 4 < end ? warp_extreme(own) : own;
}

// Combines the extremes of an output's slices. Every warp does it separately.
static __device__ struct sample_extreme find_extreme(const struct sample_state *state)
{
    static_assert((int)SAMPLE_SLICES == (int)WARP, "a lane per slice");
    return warp_extreme(state->slices[threadIdx.x % WARP]);
}

// ---- block reductions ----

struct extremes {
    struct sample_extreme warps[THREADS / WARP];
    int given[2];
};

// Finds the extreme of logits that were adjusted after the slices were searched. All threads get it.
// `largest` is NaN if a logit is NaN or +infinity, and minus infinity if all logits are minus infinity.
static __device__ struct sample_extreme search_logits(struct extremes *shared, const float *logits, int n)
{
    struct sample_extreme extreme = {-INFINITY, n, 0};
    visit_logits<THREADS>(logits, 0, n,
                          [&extreme](float logit, int token) { see_logit(&extreme, logit, token); });
    extreme = warp_extreme_of(extreme, 0, n);
    __syncthreads(); // earlier readers of the shared memory are done
    if (threadIdx.x % WARP == 0)
        shared->warps[threadIdx.x / WARP] = extreme;
    __syncthreads();
    static_assert((int)THREADS / (int)WARP == (int)WARP, "a lane per warp");
    return warp_extreme(shared->warps[threadIdx.x % WARP]);
}

// ---- the sum of all weights ----

// Sums the weights. Each thread adds the weights of one lane of engine/sampler.c. `sums` is [THREADS] in
// shared memory.
static __device__ double sum_weights(double *sums, const float *logits, int n, float largest,
                                     float temperature)
{
    int lane = (int)threadIdx.x;
    double sum = 0.0;
#pragma unroll 8
    for (int i = lane; i < n; i += THREADS)
        sum += (double)device_exp_negative((logits[i] - largest) / temperature);
    __syncthreads(); // earlier readers of the shared memory are done
    sums[lane] = sum;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half)
            sums[lane] += sums[lane + half];
    }
    __syncthreads();
    return sums[0];
}

// ---- candidates in order of rank ----

struct device_ranking {
    uint64_t keys[RANK_CHUNK];
    float weights[RANK_CHUNK];
    int histogram[256 * COUNT_COPIES]; // the copies of a digit are adjacent; their sum goes to the first
    int n, n_above, overflow;
    uint64_t threshold, prefix;
    int shift;
};

// Returns a sortable key; 0 for minus infinity, which is never drawn.
static __device__ uint64_t rank_key(float logit, int token)
{
    uint32_t bits = __float_as_uint(logit == 0.0f ? 0.0f : logit); // -0 ranks like 0
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return logit > -INFINITY ? (uint64_t)bits << 32 | ~(uint32_t)token : 0;
}

static __device__ float key_logit(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7FFFFFFFu : ~bits);
}

static __device__ int key_token(uint64_t key)
{
    return (int)~(uint32_t)key;
}

// Collects the keys in [threshold, below), unordered. Keys that exceed the capacity are only counted.
static __device__ void collect_keys(struct device_ranking *ranking, const float *logits, int n,
                                    uint64_t threshold, uint64_t below)
{
    __syncthreads();
    if (threadIdx.x == 0)
        ranking->n = 0;
    __syncthreads();
    visit_logits<THREADS>(logits, 0, n, [ranking, threshold, below](float logit, int token) {
        uint64_t key = rank_key(logit, token);
        if (key == 0 || key < threshold || key >= below)
            return;
        int at = atomicAdd(&ranking->n, 1);
        if (at < RANK_CHUNK)
            ranking->keys[at] = key;
    });
    __syncthreads();
}

// Sorts the keys in descending order with a bitonic network (K. E. Batcher, Sorting networks and their
// applications, 1968).
static __device__ void sort_keys(struct device_ranking *ranking)
{
    int size = 2;
    while (size < ranking->n)
        size *= 2;
    for (int i = ranking->n + (int)threadIdx.x; i < size; i += THREADS)
        ranking->keys[i] = 0;
    for (int run = 2; run <= size; run *= 2)
        for (int step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int pair = (int)threadIdx.x; pair < size / 2; pair += THREADS) {
                int i = 2 * pair - (pair & (step - 1)), other = i + step; // all pairs at distance `step`
                uint64_t a = ranking->keys[i], b = ranking->keys[other];
                if (i & run ? a > b : a < b) {
                    ranking->keys[i] = b;
                    ranking->keys[other] = a;
                }
            }
        }
    __syncthreads();
}

// Does one step of the radix select: counts the next digit of the keys below `below` that begin with
// `prefix`.
static __device__ void count_digits(struct device_ranking *ranking, const float *logits, int n,
                                    uint64_t below)
{
    for (int i = (int)threadIdx.x; i < 256 * COUNT_COPIES; i += THREADS)
        ranking->histogram[i] = 0;
    __syncthreads();
    int shift = ranking->shift;
    uint64_t prefix = ranking->prefix;
    visit_logits<THREADS>(logits, 0, n, [ranking, shift, prefix, below](float logit, int token) {
        uint64_t key = rank_key(logit, token);
        bool inside = shift == 56 || key >> (shift + 8) == prefix;
        if (key != 0 && key < below && inside)
            atomicAdd(&ranking->histogram[(int)(key >> shift & 255) * COUNT_COPIES +
                                          (int)threadIdx.x % COUNT_COPIES],
                      1);
    });
    __syncthreads();
    for (int digit = (int)threadIdx.x; digit < 256; digit += THREADS)
        for (int copy = 1; copy < COUNT_COPIES; copy++)
            ranking->histogram[digit * COUNT_COPIES] += ranking->histogram[digit * COUNT_COPIES + copy];
    __syncthreads();
}

// Called by thread 0 only. Includes digits in descending order while their keys fit. Returns true if the
// threshold is final.
static __device__ bool pick_digit(struct device_ranking *ranking)
{
    int digit = 255;
    while (digit >= 0 && ranking->n_above + ranking->histogram[digit * COUNT_COPIES] <= RANK_CHUNK)
        ranking->n_above += ranking->histogram[digit-- * COUNT_COPIES];
    uint64_t begin = ranking->shift == 56 ? 0 : ranking->prefix << 8;
    bool stands = digit < 0 || ranking->n_above >= RANK_LEAST || ranking->shift == 0;
    // Includes the digits above `digit`; at the last shift the chunk is full.
    ranking->threshold = (begin + (uint64_t)(digit + 1)) << ranking->shift;
    if (digit < 0 && ranking->shift == 56)
        ranking->threshold = 0;
    ranking->prefix = begin | (uint64_t)(digit < 0 ? 0 : digit);
    ranking->shift -= 8;
    return stands;
}

// Finds and sorts the next chunk: the best candidates with keys below `below`. For the first chunk all bits
// of `below` are set. The first threshold tried is the largest logit minus `width`; with width 0 none is
// tried. Returns the number of candidates; 0: none is left.
static __device__ int rank_chunk(struct device_ranking *ranking, const float *logits, int n, uint64_t below,
                                 float largest, float width)
{
    if (width > 0.0f) {
        collect_keys(ranking, logits, n, rank_key(largest - width, n - 1), below);
        if (ranking->n > 0 && ranking->n <= RANK_CHUNK) {
            sort_keys(ranking);
            return ranking->n;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ranking->shift = 56;
        ranking->prefix = 0;
        ranking->n_above = 0;
    }
    for (bool stands = false; !stands;) {
        __syncthreads();
        count_digits(ranking, logits, n, below);
        if (threadIdx.x == 0)
            ranking->overflow = pick_digit(ranking);
        __syncthreads();
        stands = ranking->overflow != 0;
    }
    collect_keys(ranking, logits, n, ranking->threshold, below);
    sort_keys(ranking);
    return ranking->n;
}

// ---- passes over the candidates in order of rank ----

enum walk_kind { WALK_COUNT, WALK_FILTER, WALK_DRAW };

struct walk {
    enum walk_kind kind;
    int n, n_most;      // candidates visited, and their maximum
    double sum, enough; // WALK_FILTER ends when sum >= enough, WALK_DRAW when sum > enough
    float min_p;
    int token;
    int over;
};

struct drawing {
    union {
        struct extremes extremes;
        double sums[THREADS];
        struct device_ranking ranking;
    };
    struct walk walk;
    double total;
    int n_chunk; // size of the first chunk if it is in `ranking`, else 0
    bool first;
};

// Called by thread 0 only. Visits one chunk, like the loops in engine/sampler.c.
static __device__ void walk_chunk(struct walk *walk, const struct device_ranking *ranking, int n)
{
    for (int i = 0; i < n; i++) {
        float weight = ranking->weights[i];
        bool enough =
            walk->kind == WALK_FILTER && walk->n > 0 && (walk->sum >= walk->enough || weight < walk->min_p);
        if (walk->n >= walk->n_most || enough || (walk->kind == WALK_DRAW && weight == 0.0f)) {
            walk->over = 1;
            return;
        }
        walk->token = key_token(ranking->keys[i]);
        walk->sum += (double)weight;
        walk->n++;
        if (walk->kind == WALK_DRAW && walk->sum > walk->enough) {
            walk->over = 1;
            return;
        }
    }
}

static __device__ void walk_candidates(struct drawing *shared, const float *logits, int n_vocab,
                                       float largest, float temperature)
{
    uint64_t below = ~0ull;
    for (bool first = true;; first = false) {
        int n = first && shared->n_chunk > 0 ? shared->n_chunk
                                             : rank_chunk(&shared->ranking, logits, n_vocab, below, largest,
                                                          first ? 8.0f * temperature : 0.0f);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < n; i += THREADS)
            shared->ranking.weights[i] =
                device_exp_negative((key_logit(shared->ranking.keys[i]) - largest) / temperature);
        __syncthreads();
        if (threadIdx.x == 0) {
            shared->n_chunk = first ? n : 0;
            walk_chunk(&shared->walk, &shared->ranking, n);
        }
        __syncthreads();
        if (n == 0 || shared->walk.over)
            return;
        below = shared->ranking.keys[n - 1];
    }
}

static __device__ void start_walk(struct drawing *shared, enum walk_kind kind, int n_most, double enough,
                                  float min_p)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        shared->walk.kind = kind;
        shared->walk.n = 0;
        shared->walk.n_most = n_most;
        shared->walk.sum = 0.0;
        shared->walk.enough = enough;
        shared->walk.min_p = min_p;
        shared->walk.token = -1;
        shared->walk.over = 0;
    }
    __syncthreads();
}

// Applies top-k, top-p and min-p. Returns the number of candidates left; sets `total` to the sum of their
// weights.
static __device__ int filter_candidates(struct drawing *shared, const float *logits, int n_vocab,
                                        const struct sample_settings *settings, float largest, double *total)
{
    int n_kept = n_vocab;
    float temperature = settings->temperature;
    if (settings->top_k > 0 && settings->top_k < n_vocab) {
        start_walk(shared, WALK_COUNT, settings->top_k, 0.0, 0.0f);
        walk_candidates(shared, logits, n_vocab, largest, temperature);
        n_kept = shared->walk.n;
        *total = shared->walk.sum;
    } else {
        *total = sum_weights(shared->sums, logits, n_vocab, largest, temperature);
        if (threadIdx.x == 0)
            shared->n_chunk = 0;
        __syncthreads();
    }
    if (settings->top_p >= 1.0f && settings->min_p <= 0.0f)
        return n_kept;
    double enough = settings->top_p < 1.0f ? (double)settings->top_p * *total : (double)INFINITY;
    start_walk(shared, WALK_FILTER, n_kept, enough, settings->min_p);
    walk_candidates(shared, logits, n_vocab, largest, temperature);
    *total = shared->walk.sum;
    return shared->walk.n;
}

static __device__ int draw_token(struct drawing *shared, const float *logits, int n_vocab,
                                 const struct sample_settings *settings, float largest)
{
    if (threadIdx.x == 0)
        shared->n_chunk = 0;
    __syncthreads();
    double total = 0.0;
    int n_kept = filter_candidates(shared, logits, n_vocab, settings, largest, &total);
    double target = device_uniform(settings->index, settings->choice, settings->seed) * total;
    start_walk(shared, WALK_DRAW, n_kept, target, 0.0f);
    walk_candidates(shared, logits, n_vocab, largest, settings->temperature);
    return shared->walk.token;
}

// ---- kernels ----

enum { SCAN_THREADS = 256 };

// The grid is [slices, outputs]. Applies the mask and finds the largest logit of the slice.
static __global__ void __launch_bounds__(SCAN_THREADS) sample_scan(struct sample_arguments a)
{
    launch_next();
    launch_wait();
    __shared__ struct sample_extreme warps[SCAN_THREADS / WARP];
    int output = (int)blockIdx.y, slice = (int)blockIdx.x;
    const struct sample_settings *settings = &a.settings[output];
    if (!(settings->flags & SAMPLE_WANTED))
        return;
    float *logits = a.logits + output * a.stride;
    const uint32_t *mask = settings->flags & SAMPLE_MASKED ? a.masks + settings->first_mask : NULL;
    int length = (a.n_vocab + 4 * SAMPLE_SLICES - 1) / (4 * SAMPLE_SLICES) * 4, begin = slice * length;
    int end = begin + length < a.n_vocab ? begin + length : a.n_vocab;
    struct sample_extreme extreme = {-INFINITY, a.n_vocab, 0};
    visit_logits<SCAN_THREADS>(logits, begin, end, [&extreme, logits, mask, end](float logit, int token) {
        if (mask && token < end && !(mask[token / 32] >> (token % 32) & 1))
            logit = logits[token] = -INFINITY;
        see_logit(&extreme, logit, token);
    });
    extreme = warp_extreme_of(extreme, begin, end);
    if (threadIdx.x % WARP == 0)
        warps[threadIdx.x / WARP] = extreme;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < SCAN_THREADS / WARP; i++) {
        extreme.bad |= warps[i].bad;
        if (warps[i].largest > extreme.largest ||
            (warps[i].largest == extreme.largest && warps[i].first < extreme.first)) {
            extreme.largest = warps[i].largest;
            extreme.first = warps[i].first;
        }
    }
    a.states[output].slices[slice] = extreme;
    if (slice == 0)
        a.outcomes[output].n_top = 0;
}

static __global__ void __launch_bounds__(THREADS, 1) sample_logprobs(struct sample_arguments a)
{
    launch_next();
    launch_wait();
    __shared__ struct drawing shared;
    int output = (int)blockIdx.x, wanted = SAMPLE_WANTED | SAMPLE_LOGPROBS;
    const struct sample_settings *settings = &a.settings[output];
    if ((settings->flags & wanted) != wanted)
        return;
    const float *logits = a.logits + output * a.stride;
    float largest = find_extreme(&a.states[output]).largest;
    if (!(largest > -INFINITY)) // the whole block
        return;
    double log_sum = (double)largest + device_log(sum_weights(shared.sums, logits, a.n_vocab, largest, 1.0f));
    struct token_logprob *top = a.top + output * JOB_TOP_LOGPROBS_MAX;
    uint64_t below = ~0ull;
    int n_top = 0;
    while (n_top < settings->n_top) {
        int n = rank_chunk(&shared.ranking, logits, a.n_vocab, below, largest, n_top ? 0.0f : 8.0f);
        if (n == 0)
            break;
        int count = n < settings->n_top - n_top ? n : settings->n_top - n_top;
        for (int i = (int)threadIdx.x; i < count; i += THREADS) {
            uint64_t key = shared.ranking.keys[i];
            top[n_top + i].token = key_token(key);
            top[n_top + i].logprob = (float)((double)key_logit(key) - log_sum);
        }
        n_top += count;
        below = shared.ranking.keys[n - 1];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        a.states[output].log_sum = log_sum;
        a.outcomes[output].n_top = n_top;
    }
}

static __device__ float bound_logit(float logit)
{
    return logit > FLT_MAX ? FLT_MAX : logit < -FLT_MAX ? -FLT_MAX : logit;
}

// Adds the biases. If a token is listed more than once, the thread of its first entry adds all its biases, in
// the order of the list.
static __device__ void add_biases(const struct sample_arguments *a, const struct sample_settings *settings,
                                  float *logits)
{
    const struct sample_bias *biases = a->biases + settings->first_bias;
    float *given = a->given_biased + settings->first_bias;
    for (int i = (int)threadIdx.x; i < settings->n_biases; i += THREADS) {
        int token = biases[i].token;
        given[i] = -INFINITY;
        bool first = true;
        for (int j = 0; j < i && first; j++)
            first = biases[j].token != token;
        float logit = logits[token];
        if (!first || !(logit > -INFINITY))
            continue;
        given[i] = logit;
        for (int j = i; j < settings->n_biases; j++)
            if (biases[j].token == token)
                logit = bound_logit(logit + biases[j].bias);
        logits[token] = logit;
    }
}

static const int seen = 1 << 30;

static __device__ void penalize_logits(const struct sample_arguments *a,
                                       const struct sample_settings *settings, int *counts, float *logits)
{
    const int32_t *tokens = a->history + settings->history.first_token;
    float *given = a->given_history + settings->history.first_token;
    int n = settings->history.n_prompt + settings->history.n_generated;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        atomicMax(&counts[tokens[i]], (int)seen);
    __syncthreads();
    for (int i = settings->history.n_prompt + (int)threadIdx.x; i < n; i += THREADS)
        atomicAdd(&counts[tokens[i]], 1);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        // The first thread to reset the token's count applies its penalties.
        int token = tokens[i], noted = atomicAdd(&counts[token], 0);
        given[i] = -INFINITY;
        if (noted == 0 || atomicCAS(&counts[token], noted, 0) != noted)
            continue;
        float logit = logits[token];
        if (!(logit > -INFINITY))
            continue;
        given[i] = logit;
        logit =
            logit > 0.0f ? logit / settings->penalties.repetition : logit * settings->penalties.repetition;
        int count = noted & ~seen;
        if (count > 0)
            logit = logit - settings->penalties.presence - settings->penalties.frequency * (float)count;
        logits[token] = bound_logit(logit);
    }
}

static __global__ void __launch_bounds__(THREADS, 1) sample_adjust(struct sample_arguments a)
{
    launch_next();
    launch_wait();
    int *counts = a.counts + (int64_t)blockIdx.x * a.n_vocab;
    for (int output = (int)blockIdx.x; output < a.n_outputs; output += (int)gridDim.x) {
        const struct sample_settings *settings = &a.settings[output];
        if (!(settings->flags & SAMPLE_ADJUSTS) || !(find_extreme(&a.states[output]).largest > -INFINITY))
            continue;
        float *logits = a.logits + output * a.stride;
        add_biases(&a, settings, logits);
        __syncthreads();
        penalize_logits(&a, settings, counts, logits);
        __syncthreads();
    }
}

// Returns the token's logit before biases and penalties. If the token is in a list, one of its entries has
// this logit.
static __device__ float given_logit(struct extremes *shared, const struct sample_arguments *a,
                                    const struct sample_settings *settings, const float *logits, int token)
{
    if (!(settings->flags & SAMPLE_ADJUSTS))
        return logits[token];
    __syncthreads();
    if (threadIdx.x == 0) {
        shared->given[0] = -1;
        shared->given[1] = -1;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < settings->n_biases; i += THREADS) {
        int at = settings->first_bias + i;
        if (a->biases[at].token == token && a->given_biased[at] > -INFINITY)
            shared->given[0] = at; // at most one entry has it
    }
    for (int i = (int)threadIdx.x; i < settings->history.n_prompt + settings->history.n_generated;
         i += THREADS) {
        int at = settings->history.first_token + i;
        if (a->history[at] == token && a->given_history[at] > -INFINITY)
            shared->given[1] = at;
    }
    __syncthreads();
    // The bias list is checked first, because the history entry of a biased token has the logit after the
    // bias.
    return shared->given[0] >= 0   ? a->given_biased[shared->given[0]]
           : shared->given[1] >= 0 ? a->given_history[shared->given[1]]
                                   : logits[token];
}

static __global__ void __launch_bounds__(THREADS, 1) sample_draw(struct sample_arguments a)
{
    launch_next();
    launch_wait();
    __shared__ struct drawing shared;
    int output = (int)blockIdx.x;
    const struct sample_settings *settings = &a.settings[output];
    if (!(settings->flags & SAMPLE_WANTED))
        return;
    const float *logits = a.logits + output * a.stride;
    struct sample_extreme extreme = find_extreme(&a.states[output]);
    int token = -1;
    float logprob = 0.0f;
    if (extreme.largest > -INFINITY) { // uniform over the block
        if (settings->flags & SAMPLE_ADJUSTS)
            extreme = search_logits(&shared.extremes, logits, a.n_vocab);
        token = settings->temperature > 0.0f
                    ? draw_token(&shared, logits, a.n_vocab, settings, extreme.largest)
                : extreme.first < a.n_vocab ? extreme.first
                                            : -1;
        if (settings->flags & SAMPLE_LOGPROBS)
            logprob = (float)((double)given_logit(&shared.extremes, &a, settings, logits, token) -
                              a.states[output].log_sum);
    }
    if (threadIdx.x == 0) {
        a.outcomes[output].token = token;
        a.outcomes[output].logprob = logprob;
    }
}

// ---- pending tokens ----

static __device__ void resolve_token(int32_t *token, const struct sample_outcome *outcomes)
{
    if (*token >= 0)
        return;
    int32_t drawn = outcomes[-1 - *token].token;
    *token = drawn < 0 ? 0 : drawn;
}

static __global__ void resolve_tokens(int32_t *tokens, int32_t n_rows, const struct sample_settings *settings,
                                      int32_t n_outputs, int32_t *history,
                                      const struct sample_outcome *outcomes)
{
    launch_next();
    launch_wait();
    int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n_rows)
        resolve_token(&tokens[i], outcomes);
    if (i < n_outputs && settings[i].history.n_generated > 0)
        resolve_token(&history[settings[i].history.first_token + settings[i].history.n_prompt +
                               settings[i].history.n_generated - 1],
                      outcomes);
}

// --- Launches ---

void launch_resolve(void *stream, int32_t *tokens, int32_t n_rows, const struct sample_settings *settings,
                    int32_t n_outputs, int32_t *history, const struct sample_outcome *outcomes)
{
    launch_overlapped<resolve_tokens>({(unsigned)(n_rows + THREADS - 1) / THREADS, 1, 1, THREADS, 0}, stream,
                                      tokens, n_rows, settings, n_outputs, history, outcomes);
}

void launch_sample_logprobs(void *stream, const struct sample_arguments *arguments)
{
    launch_overlapped<sample_scan>({SAMPLE_SLICES, (unsigned)arguments->n_outputs, 1, SCAN_THREADS, 0},
                                   stream, *arguments);
    launch_overlapped<sample_logprobs>({(unsigned)arguments->n_outputs, 1, 1, THREADS, 0}, stream,
                                       *arguments);
}

void launch_sample_adjust(void *stream, const struct sample_arguments *arguments)
{
    int32_t n_blocks = arguments->n_outputs < SAMPLE_SLOTS ? arguments->n_outputs : (int32_t)SAMPLE_SLOTS;
    launch_overlapped<sample_adjust>({(unsigned)n_blocks, 1, 1, THREADS, 0}, stream, *arguments);
}

void launch_sample_draw(void *stream, const struct sample_arguments *arguments)
{
    launch_overlapped<sample_draw>({(unsigned)arguments->n_outputs, 1, 1, THREADS, 0}, stream, *arguments);
}
