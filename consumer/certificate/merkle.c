#include "consumer/certificate/merkle.h"

#include <assert.h>
#include <string.h>

enum { LEAF = 0, NODE = 1 };

struct sha256 merkle_leaf(const void *bytes, size_t size)
{
    unsigned char data[1 + MERKLE_LEAF_BYTES_MAX] = {LEAF};
    assert(size <= MERKLE_LEAF_BYTES_MAX);
    memcpy(data + 1, bytes, size);
    return sha256_of(data, 1 + size);
}

static struct sha256 join(const struct sha256 *left, const struct sha256 *right)
{
    unsigned char data[1 + 2 * SHA256_BYTES] = {NODE};
    memcpy(data + 1, left->bytes, SHA256_BYTES);
    memcpy(data + 1 + SHA256_BYTES, right->bytes, SHA256_BYTES);
    return sha256_of(data, sizeof data);
}

void merkle_add(struct merkle *merkle, const struct sha256 *leaf)
{
    struct sha256 tree = *leaf;
    int i = 0;
    for (; merkle->n >> i & 1; i++)
        tree = join(&merkle->peaks[i], &tree);
    merkle->peaks[i] = tree;
    merkle->n++;
}

struct sha256 merkle_root(const struct merkle *merkle)
{
    struct sha256 root = sha256_of(NULL, 0);
    bool is_empty = true;
    for (int i = 0; i < MERKLE_PEAKS; i++) { // the smallest tree is the rightmost
        if (!(merkle->n >> i & 1))
            continue;
        root = is_empty ? merkle->peaks[i] : join(&merkle->peaks[i], &root);
        is_empty = false;
    }
    return root;
}
