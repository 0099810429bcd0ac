// Matches any of several texts, by an expression that branches where they differ. The pool is hash-consed, so
// equal suffixes are equal nodes, and the expression is the minimal acyclic automaton of the texts.
#include "engine/regex/expression_parts.h"

#include <string.h>

struct text_trie {
    struct expressions *pool;
    const struct text *texts; // ascending
};

static int compare_texts(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    size_t n = x->size < y->size ? x->size : y->size;
    int order = n ? memcmp(x->data, y->data, n) : 0;
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

// Size of the common prefix in whole characters.
static size_t shared_bytes(struct text a, struct text b, size_t from)
{
    size_t n = from;
    while (n < a.size && n < b.size && a.data[n] == b.data[n])
        n++;
    while (n > from && n < b.size && ((unsigned char)b.data[n] & 0xC0) == 0x80)
        n--;
    return n;
}

static size_t character_bytes(struct text text, size_t at)
{
    uint32_t code_point;
    size_t size = utf8_decode(text.data + at, text.size - at, &code_point);
    return size ? size : 1;
}

static uint32_t build_node(const struct text_trie *trie, size_t first, size_t stop, size_t from);

// Builds the texts first..stop - 1, whose common prefix has `shared` bytes.
static uint32_t join_branches(const struct text_trie *trie, size_t first, size_t stop, size_t shared)
{
    VECTOR(uint32_t) ids = {0};
    bool whole = true;
    for (size_t at = first; at < stop && whole;) {
        struct text text = trie->texts[at];
        size_t end = at + 1;
        if (text.size == shared) {
            whole = VECTOR_ADD(&ids, EXPRESSION_EMPTY);
        } else {
            size_t n = character_bytes(text, shared);
            while (end < stop && trie->texts[end].size >= shared + n &&
                   memcmp(trie->texts[end].data + shared, text.data + shared, n) == 0)
                end++;
            whole = VECTOR_ADD(&ids, build_node(trie, at, end, shared));
        }
        at = end;
    }
    uint32_t id =
        whole ? expression_either_many(trie->pool, ids.items, ids.n) : expressions_fail_memory(trie->pool);
    VECTOR_FINISH(&ids);
    return id;
}

// Builds the texts first..stop - 1 without their first `from` bytes, which they share. The recursion is as
// deep as the longest chain of texts that are prefixes of one another.
static uint32_t build_node(const struct text_trie *trie, size_t first, size_t stop, size_t from)
{
    struct text text = trie->texts[first];
    size_t shared = first + 1 == stop ? text.size : shared_bytes(text, trie->texts[stop - 1], from);
    uint32_t rest = EXPRESSION_EMPTY;
    if (first + 1 < stop)
        rest = join_branches(trie, first, stop, shared);
    return expression_concat(trie->pool,
                             expression_literal(trie->pool, (struct text){text.data + from, shared - from}),
                             rest);
}

uint32_t expression_texts(struct expressions *pool, struct text *texts, size_t n_texts)
{
    if (pool->status != STATUS_OK || n_texts == 0)
        return EXPRESSION_NOTHING;
    qsort(texts, n_texts, sizeof *texts, compare_texts);
    size_t n = 1;
    for (size_t i = 1; i < n_texts; i++)
        if (!text_equal(texts[n - 1], texts[i]))
            texts[n++] = texts[i];
    return build_node(&(struct text_trie){pool, texts}, 0, n, 0);
}
