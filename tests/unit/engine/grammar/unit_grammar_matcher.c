// Matchers: random grammars against languages found by enumeration, masks against tokens tried one by one,
// JSON spellings.
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_letters.h"
#include "tests/support/matched_grammar.h"
#include "tests/support/matcher_copy.h"
#include "tests/support/random.h"

static uint64_t random_state;

// Languages up to TEXT_MAX letters of {a, b}: one bool a text, in the order of length, then of letters.
enum { TEXT_MAX = 7, N_TEXTS = (1 << (TEXT_MAX + 1)) - 1, N_SYMBOLS = 14, N_NONTERMINALS = 4 };

static size_t spell(int index, char *out)
{
    size_t length = 0;
    for (int rest = index + 1; rest > 1; rest /= 2)
        length++;
    for (size_t i = 0; i < length; i++)
        out[i] = (index + 1) >> (length - 1 - i) & 1 ? 'b' : 'a';
    out[length] = '\0';
    return length;
}

static int text_index(const char *text, size_t length)
{
    int index = 1;
    for (size_t i = 0; i < length; i++)
        index = index * 2 + (text[i] == 'b');
    return index - 1;
}

enum shape { SHAPE_LETTERS, SHAPE_SEQUENCE, SHAPE_CHOICE, SHAPE_REPEAT };

// The definition of a symbol, twice: as rules, and as what enumeration needs.
struct definition {
    enum shape shape;
    const char *letters;
    int children[3];
    unsigned n_children, min, max;
    uint32_t symbol;
    bool language[N_TEXTS];
};

struct grammar_sample {
    struct definition symbols[N_SYMBOLS]; // the first N_NONTERMINALS may be used by all
    struct grammar *grammar;
};

static void concat_languages(const bool *a, const bool *b, bool *out)
{
    static bool result[N_TEXTS];
    memset(result, 0, sizeof result);
    for (int text = 0; text < N_TEXTS; text++) {
        char spelled[TEXT_MAX + 1];
        size_t length = spell(text, spelled);
        for (size_t cut = 0; cut <= length && !result[text]; cut++)
            result[text] = a[text_index(spelled, cut)] && b[text_index(spelled + cut, length - cut)];
    }
    memcpy(out, result, sizeof result);
}

static void add_language(bool *to, const bool *from, bool *changed)
{
    for (int i = 0; i < N_TEXTS; i++) {
        *changed |= from[i] && !to[i];
        to[i] |= from[i];
    }
}

// Adds the texts that the definition derives from those that its children are known to derive.
static void enumerate(struct definition *all, struct definition *definition, bool *changed)
{
    bool language[N_TEXTS] = {false};
    switch (definition->shape) {
    case SHAPE_LETTERS:
        language[text_index(definition->letters, strlen(definition->letters))] = true;
        break;
    case SHAPE_SEQUENCE:
        language[0] = true;
        for (unsigned i = 0; i < definition->n_children; i++)
            concat_languages(language, all[definition->children[i]].language, language);
        break;
    case SHAPE_CHOICE:
        for (unsigned i = 0; i < definition->n_children; i++)
            add_language(language, all[definition->children[i]].language, &(bool){false});
        break;
    case SHAPE_REPEAT: {
        bool power[N_TEXTS] = {true};
        unsigned last =
            definition->max == EXPRESSION_UNBOUNDED ? definition->min + TEXT_MAX : definition->max;
        for (unsigned n = 0; n <= last; n++) {
            if (n >= definition->min)
                add_language(language, power, &(bool){false});
            concat_languages(power, all[definition->children[0]].language, power);
        }
        break;
    }
    }
    add_language(definition->language, language, changed);
}

static void build_symbol(struct rules *rules, struct grammar_sample *sample, struct definition *definition)
{
    uint32_t children[3];
    for (unsigned i = 0; i < definition->n_children; i++)
        children[i] = sample->symbols[definition->children[i]].symbol;
    if (definition->shape == SHAPE_LETTERS)
        definition->symbol = rules_literal(rules, text_from_string(definition->letters));
    else if (definition->shape == SHAPE_SEQUENCE)
        definition->symbol = rules_sequence(rules, children, definition->n_children);
    else if (definition->shape == SHAPE_CHOICE)
        definition->symbol = rules_choice(rules, children, definition->n_children);
    else
        definition->symbol = rules_repeat(rules, children[0], definition->min, definition->max);
}

// Nonterminals choose among later symbols; those are letters, sequences, choices and repetitions of earlier
// ones.
static void make_sample(struct grammar_sample *sample)
{
    static const char *const letters[] = {"a", "b", "", "ab"};
    struct rules *rules = rules_create(NULL);
    *sample = (struct grammar_sample){0};
    for (int i = 0; i < N_NONTERMINALS; i++)
        sample->symbols[i].symbol = rules_nonterminal(rules);
    for (int i = N_NONTERMINALS; i < N_SYMBOLS; i++) {
        struct definition *definition = &sample->symbols[i];
        definition->shape =
            i < N_NONTERMINALS + 2 ? SHAPE_LETTERS : (enum shape)(random_below(&random_state, 4) % 4);
        definition->letters =
            i < N_NONTERMINALS + 2 ? letters[i - N_NONTERMINALS] : letters[random_below(&random_state, 4)];
        definition->n_children = definition->shape == SHAPE_LETTERS  ? 0
                                 : definition->shape == SHAPE_REPEAT ? 1
                                                                     : 1 + random_below(&random_state, 3);
        for (unsigned k = 0; k < definition->n_children; k++)
            definition->children[k] = (int)random_below(&random_state, (unsigned)i);
        definition->min = random_below(&random_state, 3);
        definition->max = random_below(&random_state, 2) ? EXPRESSION_UNBOUNDED
                                                         : definition->min + random_below(&random_state, 3);
        if (definition->max == 0)
            definition->max = 1;
        build_symbol(rules, sample, definition);
    }
    for (int i = 0; i < N_NONTERMINALS; i++) {
        struct definition *definition = &sample->symbols[i];
        definition->shape = SHAPE_CHOICE;
        definition->n_children = 1 + random_below(&random_state, 3);
        uint32_t children[3];
        for (unsigned k = 0; k < definition->n_children; k++) {
            definition->children[k] = (int)(1 + random_below(&random_state, N_SYMBOLS - 1));
            children[k] = sample->symbols[definition->children[k]].symbol;
        }
        rules_define(rules, definition->symbol, rules_choice(rules, children, definition->n_children));
    }
    struct error error;
    assert_int_not_equal(grammar_create(&sample->grammar, rules, sample->symbols[0].symbol, &error),
                         STATUS_RETRY);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < N_SYMBOLS; i++)
            enumerate(sample->symbols, &sample->symbols[i], &changed);
    }
}

static void check_language(unsigned seed, const struct grammar_sample *sample, struct recognizer *recognizer)
{
    const bool *language = sample->symbols[0].language;
    bool has_prefix[N_TEXTS] = {false};
    for (int text = N_TEXTS - 1; text >= 0; text--) {
        has_prefix[text] |= language[text];
        if (text && has_prefix[text])
            has_prefix[(text - 1) / 2] = true;
    }
    for (int text = 0; text < N_TEXTS; text++) {
        char spelled[TEXT_MAX + 1];
        bool is_prefix;
        spell(text, spelled);
        if (accepts_bytes(recognizer, text_from_string(spelled), &is_prefix) != language[text])
            fail_msg("seed %u: '%s' should %sbe accepted", seed, spelled, language[text] ? "" : "not ");
        if (has_prefix[text] && !is_prefix)
            fail_msg("seed %u: '%s' should be a prefix", seed, spelled);
    }
}

TEST(random_grammars_accept_what_enumeration_finds)
{
    static struct grammar_sample sample;
    unsigned n_compiled = 0;
    for (unsigned seed = 0; seed < 400; seed++) {
        random_state = seed;
        make_sample(&sample);
        if (!sample.grammar) {
            for (int i = 0; i < N_TEXTS; i++)
                assert_false(sample.symbols[0].language[i]);
            continue;
        }
        struct recognizer *recognizer;
        struct error error;
        assert_ok(recognizer_create(&recognizer, sample.grammar, NULL, &error), &error);
        check_language(seed, &sample, recognizer);
        recognizer_destroy(recognizer);
        grammar_destroy(sample.grammar);
        n_compiled++;
    }
    assert_true(n_compiled > 200);
}

// Tokens of one to five bytes and some longer ones, among them parts of characters, equal ones and empty
// ones.
enum { N_TOKENS = 150, END_TOKEN = 3, OTHER_END_TOKEN = 149, TOKEN_BYTES = 24 };

static void make_vocabulary(struct grammar_vocabulary **vocabulary, char bytes[N_TOKENS][TOKEN_BYTES],
                            struct text *tokens)
{
    static const char pieces[][5] = {"a",    "b",    "\"",       "\\",       "u",    "0",        "d",
                                     "\xC3", "\xA9", "\xC3\xA9", "\xF0\x9F", "\x98", "ab",       "\n",
                                     "n",    "/",    " ",        "\xC2\x80", "\xC2", "\xE2\x80", "\xA8"};
    for (int i = 0; i < N_TOKENS; i++) {
        static const char *const fixed[] = {"",
                                            "",
                                            "",
                                            "",
                                            "",
                                            "ab\"n",
                                            "a\"b",
                                            "\"\"a",
                                            "abab",
                                            "aba\"n",
                                            "aaaaaaaaaaaaaaaa",
                                            "aaaaaaaaaaaaaaaaa",
                                            "a a a a a a a a aa b\"",
                                            "abababababab\xE2\x80\xA8"};
        size_t size = 0;
        if (i < (int)(sizeof fixed / sizeof *fixed))
            memcpy(bytes[i], fixed[i], size = strlen(fixed[i]));
        for (unsigned n = i < (int)(sizeof fixed / sizeof *fixed) ? 0 : 1 + random_below(&random_state, 3);
             n > 0; n--) {
            const char *piece = pieces[random_below(&random_state, sizeof pieces / sizeof *pieces)];
            if (size + strlen(piece) <= 4) {
                memcpy(bytes[i] + size, piece, strlen(piece));
                size += strlen(piece);
            }
        }
        tokens[i] = (struct text){bytes[i], size};
    }
    struct error error;
    const uint32_t ends[] = {END_TOKEN, N_TOKENS /* none of them */, OTHER_END_TOKEN};
    assert_ok(grammar_vocabulary_create(vocabulary, tokens, N_TOKENS, ends, 3, &error), &error);
}

static void check_mask(struct matcher *matcher, const uint32_t *mask)
{
    struct error error;
    for (uint32_t token = 0; token < N_TOKENS; token++) {
        struct matcher copy;
        bool accepted;
        assert_true(matcher_copy(&copy, matcher));
        assert_ok(matcher_accept_token(&copy, token, &accepted, &error), &error);
        if (accepted != (mask[token / 32] >> token % 32 & 1))
            fail_msg("token %u after '%.*s'", token, (int)matcher->bytes.size, matcher->bytes.data);
        matcher_finish(&copy);
    }
}

// Follows random allowed tokens; every mask is right and none is empty. Takes the grammar over.
static void walk_masks(struct grammar *grammar, const struct grammar_vocabulary *vocabulary)
{
    struct matched_grammar matched;
    struct error error;
    uint32_t mask[(N_TOKENS + 31) / 32];
    matched_open(&matched, grammar, vocabulary);
    for (int step = 0; step < 12; step++) {
        uint32_t allowed[N_TOKENS], n_allowed = 0;
        assert_ok(matcher_mask(&matched.matcher, mask, &error), &error);
        check_mask(&matched.matcher, mask);
        for (uint32_t token = 0; token < N_TOKENS; token++)
            if (mask[token / 32] >> token % 32 & 1)
                allowed[n_allowed++] = token;
        if (n_allowed == 0)
            break; // possible: this vocabulary can't spell every text
        bool accepted;
        uint32_t token = allowed[random_below(&random_state, n_allowed)];
        assert_ok(matcher_accept_token(&matched.matcher, token, &accepted, &error), &error);
        assert_true(accepted);
    }
    matched_close(&matched);
}

static void walk_rules(struct rules *rules, uint32_t start, const struct grammar_vocabulary *vocabulary)
{
    struct grammar *grammar;
    struct error error;
    assert_ok(grammar_create(&grammar, rules, start, &error), &error);
    walk_masks(grammar, vocabulary);
}

// Special tokens are in the vocabulary under their names; neither their spelling nor loose bytes are them.
TEST(a_special_token_is_one_token_and_no_text)
{
    enum { BEGIN, END, BEGINS, SPELLED, LETTER, LOOSE, HALF, STOP, N };
    static const char *const tokens[N] = {"\xFF<t>\xFF", "\xFF</t>\xFF", "\xFF<t>>\xFF", "<t>",
                                          "x",           "\xFF",         "\xFF<t>",      ""};
    struct text texts[N];
    struct grammar_vocabulary *vocabulary;
    struct matched_grammar matched;
    struct error error;
    struct buffer forced = {0};
    uint32_t stop = STOP, mask;
    for (int i = 0; i < N; i++)
        texts[i] = text_from_string(tokens[i]);
    assert_ok(grammar_vocabulary_create(&vocabulary, texts, N, &stop, 1, &error), &error);
    struct rules *rules = rules_create(NULL);
    uint32_t any = rules_terminal(rules, EXPRESSION_ALL, TERMINAL_TEXT);
    uint32_t symbols[] = {rules_special(rules, TEXT("<t>")), any, rules_special(rules, TEXT("</t>"))};
    matched_open_rules(&matched, rules, rules_sequence(rules, symbols, 3), vocabulary);
    static const struct {
        uint32_t mask, token;
    } steps[] = {{1 << BEGIN, BEGIN},
                 {1 << END | 1 << SPELLED | 1 << LETTER, SPELLED},
                 {1 << END | 1 << SPELLED | 1 << LETTER, END},
                 {1 << STOP, STOP}};
    assert_ok(matcher_forced_bytes(&matched.matcher, 99, &forced, &error), &error);
    assert_int_equal(forced.size, 5);
    assert_memory_equal(forced.data, tokens[BEGIN], 5);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        bool accepted;
        assert_ok(matcher_mask(&matched.matcher, &mask, &error), &error);
        assert_int_equal(mask, steps[i].mask);
        assert_ok(matcher_accept_token(&matched.matcher, steps[i].token, &accepted, &error), &error);
        assert_true(accepted);
    }
    buffer_finish(&forced);
    matched_close(&matched);
    grammar_vocabulary_destroy(vocabulary);
}

enum variant { VARIANT_TEXT, VARIANT_BEHIND, VARIANT_BESIDE, VARIANT_OR_NOT, N_VARIANTS };

// A string of any characters and then a text of the expression; two strings one behind the other; one of two
// strings; a string that is or isn't the expression's, with different ends.
static uint32_t variant_symbol(struct rules *rules, uint32_t expression, enum variant variant)
{
    struct expressions *pool = rules_expressions(rules);
    uint32_t any = rules_terminal(rules, EXPRESSION_ALL, TERMINAL_JSON_STRING);
    if (variant == VARIANT_TEXT)
        return rules_sequence(rules, (uint32_t[]){any, rules_terminal(rules, expression, TERMINAL_TEXT)}, 2);
    uint32_t value = rules_terminal(rules, expression, TERMINAL_JSON_STRING);
    if (variant == VARIANT_BEHIND)
        return rules_sequence(rules, (uint32_t[]){any, value}, 2);
    if (variant == VARIANT_BESIDE)
        return rules_choice(rules, (uint32_t[]){value, any}, 2);
    uint32_t other = rules_terminal(rules, expression_complement(pool, expression), TERMINAL_JSON_STRING);
    uint32_t is[] = {value, rules_literal(rules, TEXT("a"))};
    uint32_t is_not[] = {other, rules_literal(rules, TEXT("n"))};
    return rules_choice(rules, (uint32_t[]){rules_sequence(rules, is, 2), rules_sequence(rules, is_not, 2)},
                        2);
}

TEST(masks_are_what_tokens_one_by_one_are)
{
    static const char *const patterns[] = {"(a|\xC3\xA9)*",
                                           "[^a]*b.?",
                                           "\"[^\"]*\"",
                                           "(ab|\xF0\x9F\x98\x80){2,5}",
                                           "[^\\x00]*",
                                           "[\\s\\S]{2,4}",
                                           "[\\s\\S]?",
                                           "[\\s\\S]{3,}",
                                           "[a-z]+[^a-z]*",
                                           "[a-zA-Z]*",
                                           "([a-z]|[0-9])*/",
                                           "[ -~]*x",
                                           "[^ab][\\s\\S]*|a([^b][\\s\\S]*)?|b",
                                           "[^\xC3\xA9][\\s\\S]*|\xC3\xA9[ab]",
                                           "[a-z]{1,18}",
                                           "[a-z]{1,3}",
                                           ".*",
                                           ".{0,17}",
                                           ".{2,18}b",
                                           "[^\\x80-\\x9F]*",
                                           "(\\S+\\s+){0,20}\\S+",
                                           "[\\s\\S]*ab[\\s\\S]*",
                                           "([^n]|n+[^n0])*n*",
                                           "[\\s\\S]*n/[\\s\\S]*",
                                           "([^u]|u+[^ud\u00e9])*u*",
                                           "([^\u2028]|\u2028+[^/\u2028])*\u2028*"};
    char bytes[N_TOKENS][TOKEN_BYTES];
    struct text tokens[N_TOKENS];
    for (unsigned seed = 0; seed < 40; seed++) {
        random_state = seed;
        struct grammar_vocabulary *vocabulary;
        make_vocabulary(&vocabulary, bytes, tokens);
        for (size_t i = 0; i < N_VARIANTS * sizeof patterns / sizeof *patterns; i++) {
            struct rules *rules = rules_create(NULL);
            uint32_t expression = parse_pattern(rules_expressions(rules), patterns[i / N_VARIANTS]);
            walk_rules(rules, variant_symbol(rules, expression, (enum variant)(i % N_VARIANTS)), vocabulary);
        }
        grammar_vocabulary_destroy(vocabulary);
    }
}

// Up to 1,024 strings are taken as one.
TEST(masks_inside_many_strings_are_what_tokens_one_by_one_are)
{
    char bytes[N_TOKENS][TOKEN_BYTES];
    struct text tokens[N_TOKENS];
    struct grammar_vocabulary *vocabulary;
    random_state = 1;
    make_vocabulary(&vocabulary, bytes, tokens);
    for (int n = 1023; n <= 1025; n++) {
        struct rules *rules = rules_create(NULL);
        uint32_t choices[1025];
        for (int i = 0; i < n; i++) {
            char name[TEXT_MAX + 8], end[TEXT_MAX + 8];
            struct text texts[] = {{name, spell(i, name)}, {end, spell(i + 3, end)}};
            uint32_t parts[] = {rules_terminal(rules, expression_literal(rules_expressions(rules), texts[0]),
                                               TERMINAL_JSON_STRING),
                                rules_literal(rules, texts[1])};
            choices[i] = rules_sequence(rules, parts, 2);
        }
        walk_rules(rules, rules_choice(rules, choices, (size_t)n), vocabulary);
    }
    grammar_vocabulary_destroy(vocabulary);
}

// A string of min to max characters of the set, counted by its repetition or by limits of its length; "n" or ""
// behind it.
static void walk_counted(uint32_t min, uint32_t max, bool by_length, const char *set,
                         const struct grammar_vocabulary *vocabulary)
{
    struct rules *rules = rules_create(NULL);
    struct expressions *pool = rules_expressions(rules);
    uint32_t expression = parse_pattern(pool, set);
    if (by_length)
        expression = expression_both(pool, expression_repeat(pool, expression, 1, EXPRESSION_UNBOUNDED),
                                     expression_repeat(pool, EXPRESSION_ANY, min, max));
    else
        expression = expression_repeat(pool, expression, min, max);
    uint32_t parts[] = {rules_terminal(rules, expression, TERMINAL_JSON_STRING),
                        rules_repeat(rules, rules_literal(rules, text_from_string("n")), 0, 1)};
    walk_rules(rules, rules_sequence(rules, parts, 2), vocabulary);
}

TEST(masks_of_counted_classes_are_what_tokens_one_by_one_are)
{
    static const char *const sets[] = {"[ab]", "[^/a]", "[ab0\u00e9\\\\]", "[\\s\\S]"};
    char bytes[N_TOKENS][TOKEN_BYTES];
    struct text tokens[N_TOKENS];
    struct grammar_vocabulary *vocabulary;
    random_state = 1;
    make_vocabulary(&vocabulary, bytes, tokens);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (uint32_t max = 1; max <= 18; max++)
            for (uint32_t min = max > 3 ? max - 3 : 0; min <= max; min++) {
                walk_counted(min, max, false, sets[i], vocabulary);
                walk_counted(min, max, true, sets[i], vocabulary);
            }
    grammar_vocabulary_destroy(vocabulary);
}

// A string that is a text of the pattern with min to max characters; "n" or "" behind it. Where few characters
// end any beginning of a text, the masks are those of the pattern alone, but for tokens near the limits.
static void walk_limited(uint32_t min, uint32_t max, const char *pattern,
                         const struct grammar_vocabulary *vocabulary)
{
    struct rules *rules = rules_create(NULL);
    struct expressions *pool = rules_expressions(rules);
    struct grammar *grammar;
    struct error error;
    uint32_t expression = parse_pattern(pool, pattern);
    expression = expression_both(pool, expression, expression_repeat(pool, EXPRESSION_ANY, min, max));
    uint32_t parts[] = {rules_terminal(rules, expression, TERMINAL_JSON_STRING),
                        rules_repeat(rules, rules_literal(rules, text_from_string("n")), 0, 1)};
    if (grammar_create(&grammar, rules, rules_sequence(rules, parts, 2), &error) != STATUS_OK)
        return; // no text of the pattern is that long
    walk_masks(grammar, vocabulary);
}

TEST(masks_within_limits_of_length_are_what_tokens_one_by_one_are)
{
    static const char *const patterns[] = {"(\\S+\\s+){0,20}\\S+",
                                           "[\\s\\S]*[ab]+[\\s\\S]*",
                                           "[^@]+0[^.]+\\.*b",
                                           "(a|bb)*",
                                           "(aa)*|b*",
                                           "a{0,20}b?|[\\s\\S]*n",
                                           "(a|b|/)*(\u00e9|0|b)[\\s\\S]*",
                                           "[\\s\\S]*ab[\\s\\S]{0,6}",
                                           "(a?b){3,9}[\\s\\S]*",
                                           "[^n]*(n[\\s\\S]{5})?"};
    char bytes[N_TOKENS][TOKEN_BYTES];
    struct text tokens[N_TOKENS];
    struct grammar_vocabulary *vocabulary;
    for (unsigned seed = 1; seed <= 2; seed++) {
        random_state = seed;
        make_vocabulary(&vocabulary, bytes, tokens);
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
            for (uint32_t max = 4; max <= 25; max++) {
                const uint32_t mins[] = {0, 1, 2, max / 2, max};
                for (size_t j = 0; j < sizeof mins / sizeof *mins; j++)
                    walk_limited(mins[j], max == 25 ? EXPRESSION_UNBOUNDED : max, patterns[i], vocabulary);
            }
        grammar_vocabulary_destroy(vocabulary);
    }
}

static bool follow(const char *pattern, uint32_t first, uint32_t last, uint32_t n_letters)
{
    struct expressions *pool = expressions_create(NULL);
    struct letter_steps steps = {0};
    struct letter_summary summary = {.n_letters = n_letters};
    uint32_t expression = parse_pattern(pool, pattern);
    letters_add(&summary.letters, first, last);
    bool all_follow = letters_follow(&steps, pool, expression, &summary);
    assert_int_equal(expressions_status(pool, NULL), STATUS_OK);
    letter_steps_finish(&steps);
    expressions_destroy(pool);
    return all_follow;
}

TEST(letters_follow_but_for_exceptions_and_up_to_their_number)
{
    assert_true(follow("[^/]*", 'a', 'y', 1000));
    assert_false(follow("[^/]*x", 'a', 'y', 1)); // behind 'x' the string may end
    assert_false(follow("[^/]*", '.', '/', 1));
    assert_true(follow("[^/]*", '0', 0x10FFFF, 1));
    assert_true(follow("[^\u2005]*", 0x3000, 0x3FFF, 1));
    assert_false(follow("[^\u2005]*", 0x2000, 0x2FFF, 1)); // of one first byte with the exception
    assert_true(follow("[a-z]{1,3}", 'a', 'z', 3));
    assert_false(follow("[a-z]{1,3}", 'a', 'z', 4));
    assert_true(follow("[a-z]{400}", 'a', 'z', LETTERS_FOLLOWING_MAX));
    assert_false(follow("[a-z]{400}", 'a', 'z', LETTERS_FOLLOWING_MAX + 1));
    assert_false(follow("[a-y]*", 'a', 'y', 1)); // 'z' is asked
    assert_true(follow("[a-y]*", 'a', 'y', 0));
}

static bool json_accepts(const char *pattern, const char *spelled)
{
    struct rules *rules = rules_create(NULL);
    uint32_t expression = parse_pattern(rules_expressions(rules), pattern);
    struct matched_grammar matched;
    matched_open_rules(&matched, rules, rules_terminal(rules, expression, TERMINAL_JSON_STRING), NULL);
    bool accepted = accepts_text(matched.recognizer, spelled);
    matched_close(&matched);
    return accepted;
}

TEST(strings_may_be_spelled_raw_or_escaped)
{
    assert_true(json_accepts("a\"b", "\"a\\\"b\""));
    assert_true(json_accepts("a\"b", "\"\\u0061\\u0022b\""));
    assert_false(json_accepts("a\"b", "\"a\"b\""));
    assert_true(json_accepts("\\n\\t\\/", "\"\\n\\u0009\\/\""));
    assert_true(json_accepts("\\n\\t\\/", "\"\\u000A\\t/\""));
    assert_false(json_accepts("\\n", "\"\n\""));
    assert_true(json_accepts("\\u{1F600}", "\"\xF0\x9F\x98\x80\""));
    assert_true(json_accepts("\\u{1F600}", "\"\\ud83d\\uDE00\""));
    assert_false(json_accepts("\\u{1F600}", "\"\\ud83d\\uDE01\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\\ud83d\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\\ude00\""));
    assert_true(json_accepts("[\\s\\S]*", "\"\\ud83d\\ude00\\ud7ff\\ue000\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\\ud83d\\u0041\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\xED\xA0\x80\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\xC0\x80\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\xF4\x90\x80\x80\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\xE0\x80\x80\""));
    assert_true(json_accepts("[\\s\\S]*", "\"\xE0\xA0\x80\xF4\x8F\xBF\xBF\""));
    assert_false(json_accepts("[\\s\\S]*", "\"\\x\""));
    assert_true(json_accepts("[\\u0800-\\u0fff]", "\"\xE0\xA0\x80\""));
    assert_false(json_accepts("[\\u0801-\\u0fff]", "\"\xE0\xA0\x80\""));
}

static void forced(const char *pattern, enum terminal_encoding encoding, const char *text,
                   const char *expected)
{
    struct rules *rules = rules_create(NULL);
    uint32_t expression = parse_pattern(rules_expressions(rules), pattern);
    struct matched_grammar matched;
    struct error error;
    struct buffer out = {0};
    size_t n_accepted;
    matched_open_rules(&matched, rules, rules_terminal(rules, expression, encoding), NULL);
    assert_ok(matcher_accept_bytes(&matched.matcher, text_from_string(text), &n_accepted, &error), &error);
    assert_ok(matcher_forced_bytes(&matched.matcher, 100, &out, &error), &error);
    assert_int_equal(out.size, strlen(expected));
    if (out.size)
        assert_memory_equal(out.data, expected, out.size);
    buffer_finish(&out);
    matched_close(&matched);
}

TEST(bytes_are_forced_where_one_can_follow)
{
    forced("abc|abd", TERMINAL_TEXT, "", "ab");
    forced("abc|abd", TERMINAL_TEXT, "abc", "");
    forced("ab?", TERMINAL_TEXT, "", "a");
    forced("\xC3\xA9|\xC3\xA8", TERMINAL_TEXT, "", "\xC3");
    forced("(ab){3}", TERMINAL_TEXT, "a", "babab");
    forced("a|\\\\u0061", TERMINAL_TEXT, "", ""); // two texts, not two spellings
}

// Though each character may be escaped too.
TEST(a_character_of_a_json_string_is_forced_as_itself)
{
    forced("abc|abd", TERMINAL_JSON_STRING, "", "\"ab");
    forced("abc", TERMINAL_JSON_STRING, "", "\"abc\"");
    forced("abc", TERMINAL_JSON_STRING, "\"\\u0061b", "c\"");
    forced("abc", TERMINAL_JSON_STRING, "\"\\u00", "61bc\"");
    forced("n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", TERMINAL_JSON_STRING, "",
           "\"n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    forced("\xC3\xA9|\xC3\xA8", TERMINAL_JSON_STRING, "", "\"");
    forced("[a\\n]b", TERMINAL_JSON_STRING, "", "\""); // another character has an escape alone
    forced("a/b", TERMINAL_JSON_STRING, "", "\"a");    // serializers differ
    forced("a\"b", TERMINAL_JSON_STRING, "", "\"a\\");
    forced("[JK]a", TERMINAL_JSON_STRING, "\"J", "a\"");
    forced(".*", TERMINAL_JSON_STRING, "", "\"");
}

static size_t safe_size(const char *pattern, const char *const *tokens, size_t n, size_t from)
{
    struct text texts[8];
    struct grammar_vocabulary *vocabulary;
    struct grammar *grammar;
    struct matched_grammar matched;
    struct error error;
    struct buffer forced = {0};
    size_t size;
    for (size_t i = 0; i < n; i++)
        texts[i] = text_from_string(tokens[i]);
    assert_ok(grammar_vocabulary_create(&vocabulary, texts, n, NULL, 0, &error), &error);
    assert_ok(grammar_compile_regex(&grammar, text_from_string(pattern), NULL, &error), &error);
    matched_open(&matched, grammar, vocabulary);
    assert_ok(matcher_forced_bytes(&matched.matcher, 100, &forced, &error), &error);
    assert_int_equal(matcher_safe_size(&matched.matcher, (struct text){forced.data, forced.size}, from, &size,
                                       &error),
                     STATUS_OK);
    assert_int_equal(matched.matcher.bytes.size, 0);
    buffer_finish(&forced);
    matched_close(&matched);
    grammar_vocabulary_destroy(vocabulary);
    return size;
}

TEST(forced_bytes_are_safe_up_to_a_token_that_goes_on_after_them)
{
    static const char *const tokens[] = {"a", "b", "c", "abc", "bcx", "cyy", "d", ""};
    assert_int_equal(safe_size("abc", tokens, 8, 0), 3); // nothing follows
    assert_int_equal(safe_size("abc[xd]", tokens, 8, 0), 1);
    assert_int_equal(safe_size("abc[xd]", tokens, 8, 2), 3);
    assert_int_equal(safe_size("abc(d|yy)", tokens, 8, 0), 2);
    assert_int_equal(safe_size("abc(d|yx)", tokens, 8, 0), 3); // cyy is not allowed
    assert_int_equal(safe_size("abc(x|yy)?", tokens, 8, 0), 1);
    assert_int_equal(safe_size("[ab]", tokens, 8, 0), 0); // nothing is forced
}

TEST(nothing_is_allowed_that_leads_nowhere)
{
    bool is_prefix;
    struct rules *rules = rules_create(NULL);
    struct expressions *pool = rules_expressions(rules);
    uint32_t odd = parse_pattern(pool, "x?a(aa)*|yb"), even = parse_pattern(pool, "x?(aa)*|yb");
    struct matched_grammar matched;
    matched_open_rules(&matched, rules,
                       rules_terminal(rules, expression_both(pool, odd, even), TERMINAL_TEXT), NULL);
    assert_true(accepts_text(matched.recognizer, "yb"));
    accepts_bytes(matched.recognizer, TEXT("x"), &is_prefix);
    assert_false(is_prefix);
    accepts_bytes(matched.recognizer, TEXT("a"), &is_prefix);
    assert_false(is_prefix);
    matched_close(&matched);

    struct grammar *grammar;
    struct error error;
    rules = rules_create(NULL);
    uint32_t endless = rules_nonterminal(rules);
    uint32_t parts[] = {rules_literal(rules, TEXT("a")), endless};
    rules_define(rules, endless, rules_sequence(rules, parts, 2));
    assert_int_equal(grammar_create(&grammar, rules, endless, &error), STATUS_REJECT);
    assert_string_equal(error.text, "the grammar matches no text");
    assert_null(grammar);
}

enum { N_CHOICES = 10000 };

TEST(ten_thousand_choices_compile)
{
    static char bytes[N_CHOICES][48];
    static struct text choices[N_CHOICES];
    for (size_t i = 0; i < N_CHOICES; i++) {
        int size = snprintf(bytes[i], sizeof bytes[i], "category %zu of a long list: label %zu",
                            i * 7919 % N_CHOICES, i);
        choices[i] = (struct text){bytes[i], (size_t)size};
    }
    struct grammar *grammar;
    struct recognizer *recognizer;
    struct error error = {0};
    bool is_prefix;
    assert_ok(grammar_compile_choice(&grammar, choices, N_CHOICES, NULL, &error), &error);
    assert_ok(recognizer_create(&recognizer, grammar, NULL, &error), &error);
    for (size_t i = 0; i < N_CHOICES; i += 999)
        assert_true(accepts_text(recognizer, bytes[i]));
    assert_false(accepts_bytes(recognizer, TEXT("category 0 of a long list: label"), &is_prefix));
    assert_true(is_prefix);
    recognizer_destroy(recognizer);
    grammar_destroy(grammar);

    struct grammar_limits limits = grammar_limits_default;
    struct text two[] = {TEXT("abc"), TEXT("abd")}; // with an end each
    limits.values[GRAMMAR_LIMIT_SOURCE_BYTES] = 8;
    assert_ok(grammar_compile_choice(&grammar, two, 2, &limits, &error), &error);
    grammar_destroy(grammar);
    limits.values[GRAMMAR_LIMIT_SOURCE_BYTES] = 7;
    assert_int_equal(grammar_compile_choice(&grammar, two, 2, &limits, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_source_bytes: more than 7");
}
