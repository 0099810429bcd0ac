// The cache of words: what was put is found exactly, by any number of threads.
#include "engine/tokenizer/word_cache.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <pthread.h>

enum { N_THREADS = 4, ROUNDS = 100000, N_WORDS = 40000 };

static struct word_cache *create_cache(void)
{
    struct word_cache *cache = word_cache_create();
    assert_non_null(cache);
    return cache;
}

// Of one word. -1: it is not known.
static int find_word(const struct word_cache *cache, struct text word, const char *end, struct word_key *key,
                     int32_t *ids)
{
    size_t n_ids;
    return word_cache_find(cache, word.data, &word.size, 1, end, ids, &n_ids, key) ? (int)n_ids : -1;
}

// A look that is expected to find n_ids, -1: nothing, and the key it makes. Nothing after the word is read.
static struct word_key look(const struct word_cache *cache, struct text word, int32_t *ids, int n_ids)
{
    struct word_key key;
    assert_int_equal(find_word(cache, word, word.data + word.size, &key, ids), n_ids);
    return key;
}

TEST(a_word_is_found_with_the_ids_it_was_put_with)
{
    struct word_cache *cache = create_cache();
    int32_t out[WORD_CACHE_IDS_MAX], ids[WORD_CACHE_IDS_MAX] = {7, -1, INT32_MAX, 0, 5, 6, 8, 9};
    struct word_key key = look(cache, TEXT(" word"), out, -1);
    for (size_t n = 0; n <= WORD_CACHE_IDS_MAX; n++) {
        word_cache_put(cache, &key, ids, n);
        look(cache, TEXT(" word"), out, (int)n);
        assert_memory_equal(out, ids, n * sizeof *ids);
    }
    word_cache_destroy(cache);
    word_cache_destroy(NULL);
}

static void check_key(const struct word_key *key, const char *word, size_t size)
{
    static const char zeros[WORD_CACHE_BYTES_MAX];
    assert_int_equal(key->size, size);
    assert_memory_equal(key->bytes, word, size);
    assert_memory_equal((const char *)key->bytes + size, zeros, WORD_CACHE_BYTES_MAX - size);
}

// In memory of exactly its size, so that the address sanitizer sees a read past either end; and with more
// after it.
TEST(words_of_all_lengths_have_keys_of_their_own_whatever_follows_them)
{
    struct word_cache *cache = create_cache();
    int32_t out[WORD_CACHE_IDS_MAX];
    for (size_t size = 1; size <= WORD_CACHE_BYTES_MAX; size++)
        for (size_t after = 0; after <= WORD_CACHE_BYTES_MAX; after++) {
            char *word = malloc(size + after);
            assert_non_null(word);
            for (size_t i = 0; i < size + after; i++)
                word[i] = (char)(0xC0 + i);
            struct word_key key;
            assert_int_equal(find_word(cache, (struct text){word, size}, word + size + after, &key, out), -1);
            check_key(&key, word, size);
            free(word);
        }
    struct word_key short_key = look(cache, (struct text){"a", 1}, out, -1);
    word_cache_put(cache, &short_key, (int32_t[]){1}, 1);
    look(cache, (struct text){"a\0", 2}, out, -1);
    look(cache, (struct text){"a", 1}, out, 1);
    word_cache_destroy(cache);
}

TEST(words_in_a_row_are_looked_up_to_the_first_that_is_unknown_or_not_kept)
{
    static const char text[] = "one two  three a-word-of-more-than-24-bytes four";
    static const size_t sizes[] = {3, 4, 1, 6, 28, 5};
    enum { N = sizeof sizes / sizeof *sizes, LONG = 4 };
    struct word_cache *cache = create_cache();
    int32_t ids[N * WORD_CACHE_IDS_MAX];
    const char *end = text + sizeof text - 1, *at = text;
    // as many are known as were put, one token the first, two the second
    for (size_t i = 0; i < N; at += sizes[i++]) {
        struct word_key key;
        size_t n_ids, n_known = word_cache_find(cache, text, sizes, N, end, ids, &n_ids, &key);
        assert_int_equal(n_known, i < LONG ? i : LONG);
        assert_int_equal(n_ids, n_known * (n_known + 1) / 2);
        for (size_t j = 0, n = 0; j < n_known; n += ++j)
            assert_int_equal(ids[n + j], 10 * (j + 1));
        if (i < LONG) {
            check_key(&key, at, sizes[i]);
            int32_t all[] = {(int32_t)(10 * (i + 1)), (int32_t)(10 * (i + 1)), (int32_t)(10 * (i + 1)),
                             (int32_t)(10 * (i + 1))};
            word_cache_put(cache, &key, all, i + 1);
        }
    }
    word_cache_destroy(cache);
}

static int find_numbered(const struct word_cache *cache, int number, struct word_key *key, int32_t *ids)
{
    char text[WORD_CACHE_BYTES_MAX + 1];
    int size = snprintf(text, sizeof text, "%d-%.*s", number, number % 16, "abcdefghijklmnop");
    return find_word(cache, (struct text){text, (size_t)size}, text + sizeof text, key, ids);
}

static size_t numbered_ids(int number, int32_t ids[WORD_CACHE_IDS_MAX])
{
    size_t n = (size_t)number % (WORD_CACHE_IDS_MAX + 1);
    for (size_t i = 0; i < n; i++)
        ids[i] = number + (int32_t)i;
    return n;
}

static bool is_right(int number, const int32_t *ids, int n_ids)
{
    int32_t expected[WORD_CACHE_IDS_MAX];
    size_t n = numbered_ids(number, expected);
    return n_ids == (int)n && memcmp(ids, expected, n * sizeof *expected) == 0;
}

TEST(more_words_than_it_holds_push_old_ones_out_and_are_never_mixed_up)
{
    struct word_cache *cache = create_cache();
    int32_t ids[WORD_CACHE_IDS_MAX];
    int n_found = 0;
    for (int number = 0; number < N_WORDS; number++) {
        struct word_key key;
        (void)find_numbered(cache, number, &key, ids);
        word_cache_put(cache, &key, ids, numbered_ids(number, ids));
        int n = find_numbered(cache, number, &key, ids);
        assert_true(is_right(number, ids, n));
    }
    for (int number = 0; number < N_WORDS; number++) {
        struct word_key key;
        int n = find_numbered(cache, number, &key, ids);
        n_found += n >= 0;
        assert_true(n < 0 || is_right(number, ids, n));
    }
    assert_in_range(n_found, N_WORDS / 8, N_WORDS - 1);
    word_cache_destroy(cache);
}

static void *hammer(void *cache)
{
    uint64_t state = (uintptr_t)&state;
    int32_t ids[WORD_CACHE_IDS_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        int number = (int)random_below(&state, N_WORDS);
        struct word_key key;
        int n = find_numbered(cache, number, &key, ids);
        if (n >= 0 && !is_right(number, ids, n))
            return cache;
        if (n < 0)
            word_cache_put(cache, &key, ids, numbered_ids(number, ids));
    }
    return NULL;
}

TEST(threads_that_put_and_find_at_once_get_what_was_put)
{
    struct word_cache *cache = create_cache();
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, cache), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    word_cache_destroy(cache);
}
