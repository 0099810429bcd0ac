// Qwen4-Exp as its authors write it: hyper-connections, n-gram embeddings, an indexer with one key a block.
#include "tests/support/reference_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void select_means(const struct reference *r, int layer, const double *x)
{
    int heads = (int)number_of_key(r, "attention.indexer.head_count", 0), n = r->n,
        dim = (int)number_of_key(r, "attention.indexer.key_length", 0),
        block = (int)number_of_key(r, "attention.indexer.block_size", 0),
        most = (int)number_of_key(r, "attention.indexer.top_k", 0) / block;
    double *q = multiply(r, layer, "indexer.qk_proj", x, n, r->n_embd, 0, heads * dim),
           *raw = multiply(r, layer, "indexer.qk_proj", x, n, r->n_embd, heads * dim, dim),
           *k = zeros((size_t)(n * dim)), *scores = zeros((size_t)n);
    for (int i = 0; i < n / block * block * dim; i++) // a block's key at its first position
        k[i / dim / block * block * dim + i % dim] += raw[i] / block;
    normalize(r, layer, "indexer.q_norm", q, n * heads, dim);
    normalize(r, layer, "indexer.k_norm", k, n, dim);
    rotate(r, q, heads, dim, r->rope_base, NULL, false);
    rotate(r, k, 1, dim, r->rope_base, NULL, false);
    for (int p = 0; p < n; p++) {
        bool *seen = r->selected + (size_t)p * (size_t)n;
        int n_blocks = (p + 1) / block;
        for (int j = 0; j < n; j++)
            seen[j] = j >= n_blocks * block && j <= p;
        for (int b = 0; b < n_blocks; b++) {
            scores[b] = 0.0;
            for (int h = 0; h < heads; h++) {
                double dot = 0.0;
                for (int i = 0; i < dim; i++)
                    dot += q[(p * heads + h) * dim + i] * k[b * block * dim + i];
                scores[b] += fmax(dot, 0.0);
            }
        }
        for (int i = 0; i < most && i < n_blocks; i++) {
            int best = 0;
            for (int b = 1; b < n_blocks; b++)
                best = scores[b] > scores[best] ? b : best;
            for (int j = best * block; j < (best + 1) * block; j++)
                seen[j] = true;
            scores[best] = -INFINITY;
        }
    }
    double *all[] = {q, raw, k, scores};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// Norms of all streams, with weights of their own.
static double *normed_streams(const struct reference *r, int layer, const char *name, const double *streams,
                              int n)
{
    double *out = copy_vector(streams, (size_t)(r->n * n * r->n_embd));
    normalize_by(r, layer, name, out, r->n * n, r->n_embd, n);
    return out;
}

// The mean of the gated streams. gates [n of rows, n] become what each stream gets of the result; NULL: not wanted.
static double *merge(const struct reference *r, int layer, const char *part, const double *streams, int n,
                     double **gates)
{
    int width = n * r->n_embd, rank = (int)number_of_key(r, "hyper_connection.rank", 0);
    char norm[48], low_name[48], mix_name[48], add_name[48];
    snprintf(norm, sizeof norm, "hyper_%s_norm", part);
    snprintf(low_name, sizeof low_name, "hyper_%s_low", part);
    snprintf(mix_name, sizeof mix_name, "hyper_%s_mix", part);
    snprintf(add_name, sizeof add_name, "hyper_%s_add", part);
    double *normed = normed_streams(r, layer, norm, streams, n),
           *low = multiply(r, layer, low_name, normed, r->n, width, 0, rank),
           *out = zeros((size_t)(r->n * r->n_embd));
    for (int i = 0; i < r->n * rank; i++)
        low[i] = low[i] / n * sigmoid(low[i] / n);
    double *mix = multiply(r, layer, mix_name, low, r->n, rank, 0, width);
    for (int i = 0; i < r->n * width; i++)
        out[i / width * r->n_embd + i % r->n_embd] += sigmoid(mix[i]) * normed[i] / n;
    if (gates) {
        *gates = multiply(r, layer, add_name, normed, r->n, width, 0, n);
        for (int i = 0; i < r->n * n; i++)
            (*gates)[i] = 2.0 * sigmoid((*gates)[i] / n);
    }
    free(normed);
    free(low);
    free(mix);
    return out;
}

static uint64_t split_mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static int next_prime(int n)
{
    for (bool prime = false; !prime;) {
        n++;
        prime = true;
        for (int d = 2; d < n; d++)
            prime = prime && n % d != 0;
    }
    return n;
}

// The token `back` positions before position p, as its authors shift texts.
static int64_t shifted(const int32_t *ids, int p, int back, int end)
{
    for (int i = 1; i <= back; i++)
        if (p - i < 0 || ids[p - i] == end)
            return end;
    return ids[p - back];
}

static double *embed_ngrams(const struct reference *r, int layer, int number, const int32_t *ids, int n_vocab)
{
    int size = (int)number_of_key(r, "ngram.size", 0), each = (int)number_of_key(r, "ngram.head_count", 0),
        dim = (int)number_of_key(r, "ngram.head_length", 0),
        end = (int)number_of_key(r, "ngram.end_token_id", 0), heads = (size - 1) * each,
        prime = (int)number_of_key(r, "ngram.vocabulary", 0) - 1, first = 0;
    uint64_t seed = (uint64_t)number_of_key(r, "ngram.seed", 0) + 10007u * (uint64_t)number,
             half = (uint64_t)(INT64_MAX / n_vocab / 2);
    double *table = load(r, layer, "ngram_embd.weight"), *out = zeros((size_t)(r->n * heads * dim));
    for (int i = 0; i < number * heads; i++)
        prime = next_prime(prime);
    for (int h = 0; h < heads; h++) {
        prime = next_prime(prime);
        for (int p = 0; p < r->n; p++) {
            int64_t mixed = 0;
            for (int back = 0; back < h / each + 2; back++) {
                uint64_t word = split_mix(seed + 0x9E3779B97F4A7C15u * (uint64_t)(back + 1));
                mixed ^= shifted(ids, p, back, end) * (int64_t)(2 * (word % half) + 1);
            }
            memcpy(out + (p * heads + h) * dim, table + (first + mixed % prime) * dim,
                   (size_t)dim * sizeof *out);
        }
        first += prime;
    }
    free(table);
    return out;
}

static void add_ngrams(const struct reference *r, int layer, int number, const int32_t *ids, double *streams,
                       int n)
{
    int d = r->n_embd, width = n * d, apart = (int)number_of_key(r, "ngram.size", 0),
        n_taps = (int)number_of_key(r, "ngram.conv_kernel", 0),
        n_vocab = (int)tensor_n_rows(gguf_tensor(r->gguf, "token_embd.weight")),
        n_in = (apart - 1) * (int)number_of_key(r, "ngram.head_count", 0) *
               (int)number_of_key(r, "ngram.head_length", 0);
    double *x = embed_ngrams(r, layer, number, ids, n_vocab),
           *key = multiply(r, layer, "ngram_key", x, r->n, n_in, 0, width),
           *value = multiply(r, layer, "ngram_value", x, r->n, n_in, 0, d),
           *query = normed_streams(r, layer, "ngram_query_norm", streams, n),
           *taps = load(r, layer, "ngram_conv1d.weight");
    normalize_by(r, layer, "ngram_key_norm", key, r->n * n, d, n);
    for (int i = 0; i < r->n * n; i++) {
        double dot = 0.0;
        for (int j = 0; j < d; j++)
            dot += key[i * d + j] * query[i * d + j] / sqrt(d);
        double gate = sigmoid(copysign(sqrt(fmax(fabs(dot), 1e-6)), dot));
        for (int j = 0; j < d; j++)
            key[i * d + j] = gate * value[i / n * d + j];
    }
    double *normed = normed_streams(r, layer, "ngram_conv_norm", key, n);
    for (int p = 0; p < r->n; p++)
        for (int c = 0; c < width; c++) {
            double sum = 0.0;
            for (int tap = 0; tap < n_taps; tap++) {
                int from = p - (n_taps - 1 - tap) * apart;
                sum += from < 0 ? 0.0 : taps[c * n_taps + tap] * normed[from * width + c];
            }
            streams[p * width + c] += key[p * width + c] + sum * sigmoid(sum);
        }
    double *all[] = {x, key, value, query, taps, normed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// streams += the branch's result, by the gates.
static void spread(const struct reference *r, double *streams, int n, double *gates, double *result)
{
    for (int i = 0; i < r->n * n; i++)
        for (int j = 0; j < r->n_embd; j++)
            streams[i * r->n_embd + j] += gates[i] * result[i / n * r->n_embd + j];
    free(gates);
    free(result);
}

void run_hyper(const struct reference *r, const int32_t *ids, double *x)
{
    int n = (int)number_of_key(r, "hyper_connection.count", 0), number = 0;
    double *streams = zeros((size_t)(r->n * n * r->n_embd)), *gates;
    for (int i = 0; i < r->n * n * r->n_embd; i++)
        streams[i] = x[i / (n * r->n_embd) * r->n_embd + i % r->n_embd];
    for (int layer = 0; layer < r->n_layers; layer++) {
        if (has_tensor(r, layer, "ngram_embd.weight"))
            add_ngrams(r, layer, number++, ids, streams, n);
        double *input = merge(r, layer, "attn", streams, n, &gates);
        spread(r, streams, n, gates,
               is_recurrent(r, layer) ? run_recurrence(r, layer, input) : attention(r, layer, input));
        free(input);
        input = merge(r, layer, "ffn", streams, n, &gates);
        spread(r, streams, n, gates, feed_forward(r, layer, input));
        free(input);
    }
    double *out = merge(r, -1, "output", streams, n, NULL);
    memcpy(x, out, (size_t)(r->n * r->n_embd) * sizeof *x);
    free(out);
    free(streams);
}
