// Pieces of a forward pass in double precision: private to reference_forward.c, reference_recurrent.c and
// reference_gemma.c. Arrays
// are owned by the caller: free() them.
#pragma once

#include "engine/file/gguf.h"
#include "tests/support/reference_forward.h"

#include <stdio.h>
#include <string.h>

struct reference {
    struct gguf *gguf;
    char family[32];
    int n_layers, n_embd, n_heads, n_kv_heads, head_dim, value_dim, n_rope, n_ff, n_ff_expert, n_ff_shared,
        n_experts, n_experts_used, window, n_context;
    bool layer_norm, parallel, exact_gelu;
    double epsilon, rope_base, attention_scale, residual_scale, embedding_scale, logit_scale, attention_cap,
        logit_cap, value_scale;
    int n_rope_original; // context before YaRN; 0: no YaRN
    double yarn_factor;
    int n; // positions
    // [SELECTIONS_MAX, n, n] positions that a row sees, in sparse attention; of the last layer with an indexer
    bool *selected;
};

enum { SELECTIONS_MAX = 16 }; // key-value heads of such a model

// One head's queries, keys and values, all heads' of a position one after the other.
struct heads {
    const double *q, *k, *v;
    int n_kv, key, value; // key-value heads and dims of a head
    const double *gates;  // multiply the heads' results; NULL: none
    const bool *selected; // [n, n]; NULL: all
    bool by_head;         // selected is [n_kv, n, n]
};

// Whether the family is one of several names, separated by blanks.
static inline bool is_of(const struct reference *r, const char *families)
{
    char padded[64], list[256];
    snprintf(padded, sizeof padded, " %s ", r->family);
    snprintf(list, sizeof list, " %s ", families);
    return strstr(list, padded) != NULL;
}

void give_up(const char *what);
double number_of_key(const struct reference *r, const char *suffix, double otherwise);
double layer_number(const struct reference *r, const char *suffix,
                    int layer); // of an array with an item a layer
double *load(const struct reference *r, int layer, const char *name);
double *zeros(size_t n);
double *multiply(const struct reference *r, int layer, const char *name, const double *x, int n, int n_in,
                 int first, int n_out);
void normalize(const struct reference *r, int layer, const char *name, double *x, int n_vectors, int width);
void normalize_by(const struct reference *r, int layer, const char *name, double *x, int n_vectors, int width,
                  int n_weights);
bool has_tensor(const struct reference *r, int layer, const char *name);
double *copy_vector(const double *x, size_t n);
bool is_windowed(const struct reference *r, int layer);
void rotate(const struct reference *r, double *x, int n_heads, int step, double base, const double *divisors,
            bool is_query);
double activate(const struct reference *r, double x);
double *attend(const struct reference *r, int layer, const struct heads *heads);
void add_expert(double *out, const double *y, double weight, int n);
void choose_experts(const struct reference *r, int layer, double *route, int *chosen);

// Recurrent layers (reference_recurrent.c): whether a layer is one, and its branch of the residual sum.
double sigmoid(double x);
bool is_single(const struct reference *r); // a layer has one mixer, or an MLP only
bool is_recurrent(const struct reference *r, int layer);
double *run_recurrence(const struct reference *r, int layer, const double *x);

// All layers of Gemma 3n or 4; x [n, n_embd] is the embedded tokens, and becomes the output norm's input.
void run_gemma(struct reference *r, const int32_t *ids, double *x);

// Attention of a layer without latents, and its MLP or experts (reference_forward.c).
double *attention(const struct reference *r, int layer, const double *x);
double *feed_forward(const struct reference *r, int layer, const double *x);
// All layers of Qwen4-Exp (reference_hyper.c), as run_gemma; x becomes the input of the output matrix. select_means sets
// r->selected [n, n].
void run_hyper(const struct reference *r, const int32_t *ids, double *x);
void select_means(const struct reference *r, int layer, const double *x);
