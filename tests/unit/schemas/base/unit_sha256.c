// SHA-256 against the examples of FIPS 180-4, and its one spelling.
#include "schemas/base/sha256.h"
#include "tests/support/cases.h"

static void assert_hash(const char *text, const char *expected)
{
    char hex[SHA256_HEX + 1];
    struct sha256 hash = sha256_of(text, strlen(text)), read;
    sha256_write_hex(&hash, hex);
    assert_string_equal(hex, expected);
    assert_true(sha256_read_hex(hex, SHA256_HEX, &read));
    assert_true(sha256_equal(&hash, &read));
}

TEST(hashes_are_those_of_the_standard)
{
    assert_hash("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(a_hash_is_read_in_one_spelling)
{
    char hex[SHA256_HEX + 1] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    struct sha256 hash;
    assert_false(sha256_read_hex(hex, SHA256_HEX - 1, &hash));
    assert_false(sha256_read_hex(hex, SHA256_HEX + 1, &hash));
    for (int i = 0; i < SHA256_HEX; i++) {
        char was = hex[i];
        static const char others[] = {'A', 'F', 'g', ' ', '\0', '/', ':', '`'};
        for (size_t j = 0; j < sizeof others; j++) {
            hex[i] = others[j];
            assert_false(sha256_read_hex(hex, SHA256_HEX, &hash));
        }
        hex[i] = was;
    }
    assert_true(sha256_read_hex(hex, SHA256_HEX, &hash));
}
