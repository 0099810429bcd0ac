// The tree against RFC 6962: the roots that Certificate Transparency's implementations test, and the recursive definition.
#include "consumer/certificate/merkle.h"
#include "tests/support/cases.h"

enum { LEAVES_MAX = 300 };

static void assert_root(const struct merkle *merkle, const char *expected)
{
    char hex[SHA256_HEX + 1];
    struct sha256 root = merkle_root(merkle);
    sha256_write_hex(&root, hex);
    assert_string_equal(hex, expected);
}

TEST(roots_are_those_of_rfc_6962)
{
    static const struct {
        const char *leaf;
        size_t size;
        const char *root; // of the leaves up to this one
    } steps[] = {
        {"", 0, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
        {"\x00", 1, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"},
        {"\x10", 1, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"},
        {"\x20\x21", 2, "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"},
        {"\x30\x31", 2, "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"},
        {"\x40\x41\x42\x43", 4, "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"},
        {"\x50\x51\x52\x53\x54\x55\x56\x57", 8,
         "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"},
        {"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f", 16,
         "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"},
    };
    struct merkle merkle = {0};
    assert_root(&merkle, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct sha256 leaf = merkle_leaf(steps[i].leaf, steps[i].size);
        merkle_add(&merkle, &leaf);
        assert_root(&merkle, steps[i].root);
    }
}

static struct sha256 node_of(const struct sha256 *left, const struct sha256 *right)
{
    unsigned char bytes[1 + 2 * SHA256_BYTES] = {1};
    memcpy(bytes + 1, left, SHA256_BYTES);
    memcpy(bytes + 1 + SHA256_BYTES, right, SHA256_BYTES);
    return sha256_of(bytes, sizeof bytes);
}

// Section 2.1: the left subtree has the largest power of two of leaves that is below n.
static struct sha256 root_of(const struct sha256 *leaves, size_t n)
{
    size_t n_left = 1;
    if (n == 1)
        return leaves[0];
    while (2 * n_left < n)
        n_left *= 2;
    struct sha256 left = root_of(leaves, n_left), right = root_of(leaves + n_left, n - n_left);
    return node_of(&left, &right);
}

TEST(a_tree_that_grows_is_the_recursive_one_at_every_number_of_leaves)
{
    struct sha256 leaves[LEAVES_MAX];
    struct merkle merkle = {0};
    for (size_t i = 0; i < LEAVES_MAX; i++) {
        leaves[i] = merkle_leaf(&i, sizeof i);
        merkle_add(&merkle, &leaves[i]);
        struct sha256 grown = merkle_root(&merkle), whole = root_of(leaves, i + 1);
        assert_true(sha256_equal(&grown, &whole));
    }
}

// Bitcoin's trees double the last leaf of an odd level, so two lists of leaves have one root (CVE-2012-2459).
TEST(a_last_leaf_twice_is_another_tree)
{
    for (size_t n = 1; n < 20; n++) {
        struct merkle once = {0}, twice = {0};
        struct sha256 leaf;
        for (size_t i = 0; i < n; i++) {
            leaf = merkle_leaf(&i, sizeof i);
            merkle_add(&once, &leaf);
            merkle_add(&twice, &leaf);
        }
        merkle_add(&twice, &leaf);
        struct sha256 a = merkle_root(&once), b = merkle_root(&twice);
        assert_false(sha256_equal(&a, &b));
    }
}

TEST(a_leaf_with_the_bytes_of_a_node_is_no_node)
{
    unsigned char bytes[2 * SHA256_BYTES];
    struct merkle two = {0}, one = {0};
    for (size_t i = 0; i < 2; i++) {
        struct sha256 leaf = merkle_leaf(&i, sizeof i);
        memcpy(bytes + i * SHA256_BYTES, &leaf, SHA256_BYTES);
        merkle_add(&two, &leaf);
    }
    struct sha256 forged = merkle_leaf(bytes, sizeof bytes);
    merkle_add(&one, &forged);
    struct sha256 a = merkle_root(&one), b = merkle_root(&two);
    assert_false(sha256_equal(&a, &b));
}
