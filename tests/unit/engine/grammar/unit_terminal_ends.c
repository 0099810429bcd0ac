// The ends of terminals, compared with a search of all bytes: how far they are, in which tokens, and that neither
// depends on what a recognizer was asked before.
#include "engine/grammar/item_sets.h"
#include "engine/grammar/terminal_ends.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static const char *const words[] = {"ab",    "bb", "aa",  "000",      "zz",  "\\u",
                                    "\\u00", "\"", "a\"", "\xC3\xA9", "\xC3"};

enum {
    N_BYTES = 255, // without the quote of special tokens
    N_WORDS = sizeof words / sizeof words[0],
    N_TOKENS = N_BYTES + N_WORDS,
    STATES_MAX = 30000,
    N_WALKS = 16,
    WALK_BYTES = 12,
};

// Patterns, a line each: the texts of all of them.
struct terminal_case {
    const char *patterns;
    enum terminal_encoding encoding;
    bool is_exact;
};

static const struct terminal_case cases[] = {
    {"a{3}(bb|c)|x{9}", TERMINAL_TEXT, true},
    {"(aa|ab)*b", TERMINAL_TEXT, true},
    {"(é|ü{3}|€|😀b)+z{2}", TERMINAL_TEXT, true},
    {"[^a-z]{2}|[à-ÿ]{1,3}x", TERMINAL_TEXT, true},
    {"(.*a.{5}|.*e.{6}|.*i.{7})*zzzz", TERMINAL_TEXT, true},
    {"([0-9]{3}-)*[0-9]{4}", TERMINAL_TEXT, true},
    {"[a-f]{4}|[à-ÿ😀]{2}|\"", TERMINAL_JSON_STRING, true},
    {"[\\x00-\\x1f]{2}", TERMINAL_JSON_STRING, true},
    {"[\\x01-\\x07]{2}|[\\x0e-\\x1f]\\x7f", TERMINAL_JSON_STRING, true},
    {"\\x01?[\"\\\\]x|[\\u2028-\\u2029]", TERMINAL_JSON_STRING, true},
    {"(😀|😁ab|\\uFFFF)", TERMINAL_JSON_CONTENT, true},
    {"[\\u0800-\\u0803\\u0805\\uD7FF\\uE000\\U00010000]a", TERMINAL_JSON_CONTENT, true},
    {"[^a]*", TERMINAL_JSON_STRING, true},
    {"[a-z]*\n.{6,}", TERMINAL_TEXT, false},
    {"(ab|cde)*\n(abc|de|c)*\n.{4,}", TERMINAL_TEXT, false},
    {"(a{5})*\n(a{3})*\n.{1,}", TERMINAL_TEXT, false},
    {".*q.*\n.*\"\n[a-z\"]*\n.{7}", TERMINAL_JSON_STRING, false},
    {"(?!a).*\n.{2,}", TERMINAL_TEXT, false},
};

struct terminal {
    struct grammar_vocabulary *vocabulary;
    struct grammar *grammar;
    struct recognizer *recognizer;
    struct terminal_ends ends;
    uint32_t start;
};

// `is_measured`: so that intersections and complements are not searched.
static void open_terminal(struct terminal *terminal, const struct terminal_case *of, bool is_measured)
{
    static char bytes[N_BYTES];
    struct text tokens[N_TOKENS];
    struct error error;
    uint32_t all = EXPRESSION_ALL, one;
    for (int i = 0; i < N_BYTES; i++) {
        bytes[i] = (char)i;
        tokens[i] = (struct text){&bytes[i], 1};
    }
    for (int i = 0; i < N_WORDS; i++)
        tokens[N_BYTES + i] = text_from_string(words[i]);
    assert_ok(grammar_vocabulary_create(&terminal->vocabulary, tokens, N_TOKENS, NULL, 0, &error), &error);
    struct rules *rules = rules_create(NULL);
    struct expressions *pool = rules_expressions(rules);
    for (const char *at = of->patterns; *at;) {
        size_t size = strcspn(at, "\n");
        if (expression_parse(pool, (struct text){at, size}, PATTERN_WHOLE, &one, &error) != STATUS_OK)
            fail_msg("%s: %s", at, error.text);
        all = expression_both(pool, all, one);
        at += size + (at[size] == '\n');
    }
    assert_ok(grammar_create(&terminal->grammar, rules, rules_terminal(rules, all, of->encoding), &error),
              &error);
    assert_int_equal(
        recognizer_create(&terminal->recognizer, terminal->grammar, terminal->vocabulary, &error), STATUS_OK);
    memset(&terminal->ends, 0, sizeof terminal->ends);
    recognizer_begin_visit(terminal->recognizer, SET_UNKNOWN);
    if (is_measured)
        expression_measure(terminal->recognizer->pool, all, terminal_spelling(of->encoding));
    terminal->start = byte_automaton_start(&terminal->recognizer->bytes, all, of->encoding);
    assert_int_not_equal(terminal->start, BYTE_STATE_DEAD);
}

static void close_terminal(struct terminal *terminal)
{
    terminal_ends_forget(&terminal->ends);
    recognizer_destroy(terminal->recognizer);
    grammar_destroy(terminal->grammar);
    grammar_vocabulary_destroy(terminal->vocabulary);
}

static uint32_t step(struct terminal *terminal, uint32_t state, unsigned byte)
{
    return byte_automaton_step(&terminal->recognizer->bytes, state, (unsigned char)byte);
}

// Breadth first, of all bytes. Returns their number.
static size_t search_all(struct terminal *terminal, uint32_t state, unsigned char *out)
{
    static struct {
        uint32_t state, before, depth;
        unsigned char byte;
    } found[STATES_MAX];
    static bool is_found[10 * STATES_MAX];
    size_t n = 1;
    memset(is_found, 0, sizeof is_found);
    found[0].state = state, found[0].depth = 0;
    is_found[state] = true;
    for (uint32_t at = 0; at < n; at++) {
        if (byte_automaton_accepts(&terminal->recognizer->bytes, found[at].state)) {
            size_t depth = found[at].depth;
            for (size_t place = depth; place > 0; at = found[at].before)
                out[--place] = found[at].byte;
            return depth;
        }
        for (unsigned byte = 0; byte < 256; byte++) {
            uint32_t next = step(terminal, found[at].state, byte);
            assert_true(next < sizeof is_found && n < STATES_MAX);
            if (next == BYTE_STATE_DEAD || is_found[next])
                continue;
            is_found[next] = true;
            found[n].state = next, found[n].before = at, found[n].depth = found[at].depth + 1;
            found[n++].byte = (unsigned char)byte;
        }
    }
    fail_msg("no end");
    return 0;
}

static size_t longest_word(const unsigned char *bytes, size_t n)
{
    size_t longest = *bytes < N_BYTES;
    for (int i = 0; i < N_WORDS; i++) {
        size_t size = strlen(words[i]);
        if (size <= n && size > longest && memcmp(words[i], bytes, size) == 0)
            longest = size;
    }
    return longest;
}

static uint32_t count_tokens(struct terminal *terminal, uint32_t state)
{
    unsigned char bytes[CLOSING_BYTES_MAX];
    uint32_t n_tokens = 0;
    for (;; n_tokens++) {
        size_t n = search_all(terminal, state, bytes);
        if (n == 0)
            return n_tokens;
        size_t size = longest_word(bytes, n);
        for (size_t i = 0; i < size; i++)
            state = step(terminal, state, bytes[i]);
    }
}

// The state behind up to WALK_BYTES bytes that lead on.
static uint32_t walk(struct terminal *terminal, uint64_t *random)
{
    uint32_t state = terminal->start;
    for (uint64_t n = random_below(random, WALK_BYTES + 1); n > 0; n--) {
        uint32_t leads[256], n_leads = 0;
        for (unsigned byte = 0; byte < 256; byte++)
            if (step(terminal, state, byte) != BYTE_STATE_DEAD)
                leads[n_leads++] = step(terminal, state, byte);
        if (n_leads == 0)
            break;
        state = leads[random_below(random, n_leads)];
    }
    return state;
}

TEST(ends_are_as_far_as_a_search_of_all_bytes_finds_them)
{
    uint64_t random = 3;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const struct terminal_case *of = &cases[i / 2];
        struct terminal terminal;
        open_terminal(&terminal, of, i % 2);
        for (int n = 0; n < N_WALKS; n++) {
            unsigned char bytes[CLOSING_BYTES_MAX];
            uint32_t at = walk(&terminal, &random);
            bool is_exact;
            uint32_t least = byte_automaton_least(&terminal.recognizer->bytes, at, &is_exact);
            size_t n_bytes = search_all(&terminal, at, bytes);
            if (is_exact ? least != n_bytes : least > n_bytes)
                fail_msg("%s: %u bytes, not %zu", of->patterns, least, n_bytes);
            assert_true(is_exact || !(of->is_exact || i % 2));
            recognizer_begin_visit(terminal.recognizer, SET_UNKNOWN);
            uint32_t cost = terminal_ends_cost(&terminal.ends, terminal.recognizer, at);
            assert_int_equal(terminal.recognizer->pool->status, STATUS_OK);
            if (cost != count_tokens(&terminal, at))
                fail_msg("%s: %u tokens, not %u", of->patterns, cost, count_tokens(&terminal, at));
        }
        close_terminal(&terminal);
    }
}

// The work of one visit that asks for some states, where others were asked for before and where none was.
TEST(the_work_is_the_same_whatever_was_asked_for_before)
{
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const struct terminal_case *of = &cases[i / 2];
        struct terminal warm, cold;
        open_terminal(&warm, of, i % 2);
        for (uint64_t seed = 1; seed < N_WALKS; seed++) {
            uint64_t random = seed, again = seed;
            uint32_t costs[2][3];
            uint64_t work[2];
            open_terminal(&cold, of, i % 2);
            struct terminal *both[] = {&warm, &cold};
            for (int k = 0; k < 2; k++) {
                uint32_t at[3];
                for (int n = 0; n < 3; n++)
                    at[n] = walk(both[k], k ? &again : &random);
                recognizer_begin_visit(both[k]->recognizer, SET_UNKNOWN);
                for (int n = 0; n < 3; n++)
                    costs[k][n] = terminal_ends_cost(&both[k]->ends, both[k]->recognizer, at[n]);
                work[k] = both[k]->recognizer->pool->visit.work;
                assert_int_equal(both[k]->recognizer->pool->status, STATUS_OK);
            }
            assert_true(work[0] > 0 || costs[0][0] + costs[0][1] + costs[0][2] == 0);
            assert_memory_equal(costs[0], costs[1], sizeof costs[0]);
            if (work[0] != work[1])
                fail_msg("%s: %llu known, %llu new", of->patterns, (unsigned long long)work[0],
                         (unsigned long long)work[1]);
            close_terminal(&cold);
        }
        close_terminal(&warm);
    }
}

// The fewest tokens from the state, over all of them.
static uint32_t fewest_tokens(struct terminal *terminal, uint32_t state)
{
    uint32_t fewest = CLOSING_NEVER;
    if (byte_automaton_accepts(&terminal->recognizer->bytes, state))
        return 0;
    for (int i = 0; i < N_TOKENS; i++) {
        const struct text token = terminal->vocabulary->tokens[i];
        uint32_t next =
            token.size ? byte_automaton_walk(&terminal->recognizer->bytes, state, token) : BYTE_STATE_DEAD;
        uint32_t cost = next == BYTE_STATE_DEAD ? (uint32_t)CLOSING_NEVER : fewest_tokens(terminal, next);
        if (cost + 1 < fewest)
            fewest = cost + 1;
    }
    return fewest;
}

TEST(few_texts_end_in_the_fewest_tokens)
{
    static const struct terminal_case few[] = {
        {"aab|zzzz|é0", TERMINAL_TEXT, true},
        {"000|0|ab?b?a", TERMINAL_TEXT, true},
        {"[ab]{3,5}\n.*bb.*\n[^z]*", TERMINAL_TEXT, true},
        {"ab|é|zz", TERMINAL_JSON_STRING, true},
    };
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        struct terminal terminal;
        uint64_t random = 5;
        open_terminal(&terminal, &few[i], false);
        assert_true(terminal_ends_enumerate(&terminal.ends, terminal.recognizer, terminal.start));
        for (int n = 0; n < N_WALKS; n++) {
            uint32_t at = walk(&terminal, &random);
            recognizer_begin_visit(terminal.recognizer, SET_UNKNOWN);
            uint32_t cost = terminal_ends_cost(&terminal.ends, terminal.recognizer, at);
            if (cost != fewest_tokens(&terminal, at))
                fail_msg("%s: %u tokens, not %u", few[i].patterns, cost, fewest_tokens(&terminal, at));
            assert_int_equal(terminal.recognizer->pool->visit.work, 0);
        }
        close_terminal(&terminal);
    }
}

// Those that are without end, or many, are as before: nothing is kept of them.
TEST(many_texts_are_not_enumerated)
{
    static const struct terminal_case many[] = {
        {"(aa|ab)*b", TERMINAL_TEXT, true},
        {"a|b{5000}", TERMINAL_TEXT, true},
        {".{0,900}", TERMINAL_TEXT, true},
    };
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        struct terminal terminal;
        open_terminal(&terminal, &many[i], false);
        assert_false(terminal_ends_enumerate(&terminal.ends, terminal.recognizer, terminal.start));
        assert_int_equal(terminal.recognizer->pool->status, STATUS_OK);
        for (size_t n = 0; n < terminal.ends.states.n; n++)
            assert_false(BLOCK_ITEM(&terminal.ends.states, n).is_final ||
                         BLOCK_ITEM(&terminal.ends.states, n).is_open);
        close_terminal(&terminal);
    }
}

// 1,024 bytes are the most.
TEST(an_end_that_is_too_far_is_none)
{
    for (int n = 1023; n < 1026; n++) {
        for (int k = 0; k < 3; k++) {
            char patterns[64];
            snprintf(patterns, sizeof patterns, k == 2 ? "a{%d}b" : "a{%d}b\n[ab]*\n.{9,}", n);
            struct terminal_case far = {patterns, TERMINAL_TEXT, k == 2};
            struct terminal terminal;
            open_terminal(&terminal, &far, k == 1);
            terminal.recognizer->pool->limits.values[GRAMMAR_LIMIT_MASK_WORK] = UINT32_MAX;
            uint32_t cost = terminal_ends_cost(&terminal.ends, terminal.recognizer, terminal.start);
            assert_int_equal(cost, n > 1023 ? (uint32_t)CLOSING_NEVER : (uint32_t)(n + 1) / 2);
            assert_int_equal(terminal.recognizer->pool->status, STATUS_OK);
            close_terminal(&terminal);
        }
    }
}
