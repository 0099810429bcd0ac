// Grammars against a slow matcher that enumerates: the input is read as a few rules over the letters a and b,
// which are written in GBNF, in Lark's notation and, without references, as a regex. The texts that each
// compiled grammar accepts, and the letters that may follow, are compared with the set of all words of up to
// WORD_MAX letters, computed from the rules as sets of words (the least solution of the rules as equations).
#include "engine/grammar/grammar.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/matcher_copy.h"

#include <stdlib.h>

enum {
    WORD_MAX = 6,
    N_WORDS = (2 << WORD_MAX) - 1,
    SET_ITEMS = (N_WORDS + 63) / 64,
    NODES_MAX = 24,
    DEPTH_MAX = 5,
    RULES_MAX = 4
};

// A word of n letters is 2^n - 1 + the number that its letters spell, a being 0 and b 1.
struct word_set {
    uint64_t bits[SET_ITEMS];
};

// Of the words that a node derives: those of up to WORD_MAX letters, the beginnings of all, and whether there
// are any.
struct language {
    struct word_set words, beginnings;
    bool derives;
};

enum node_kind { NODE_LETTERS, NODE_EMPTY, NODE_SEQUENCE, NODE_CHOICE, NODE_REPEAT, NODE_RULE, NODE_KINDS };

struct node {
    enum node_kind kind;
    int left, right;   // nodes; the left one of NODE_RULE is a rule
    unsigned min, max; // of NODE_REPEAT; max 0: unbounded
    bool a, b;         // NODE_LETTERS: which
};

struct rule_set {
    struct node
        nodes[NODES_MAX + DEPTH_MAX + RULES_MAX]; // beyond NODES_MAX only leaves: right sides, later rules
    int n_nodes, roots[RULES_MAX], n_rules;
    bool has_references;
    struct language languages[RULES_MAX];
};

// ---- the rules ----

struct reference_input {
    const uint8_t *data;
    size_t size;
};

static unsigned read_below(struct reference_input *reading, unsigned n)
{
    if (reading->size == 0)
        return 0;
    reading->size--;
    return *reading->data++ % n;
}

static int read_node(struct reference_input *reading, struct rule_set *rules, int depth)
{
    int at = rules->n_nodes++;
    bool is_leaf = depth == 0 || reading->size == 0 || rules->n_nodes + 2 >= NODES_MAX;
    struct node node = {.kind = (enum node_kind)read_below(reading, NODE_KINDS)};
    if (is_leaf && (node.kind == NODE_SEQUENCE || node.kind == NODE_CHOICE || node.kind == NODE_REPEAT))
        node.kind = NODE_LETTERS;
    if (node.kind == NODE_LETTERS) {
        unsigned letters = read_below(reading, 3) + 1;
        node.a = letters & 1;
        node.b = letters & 2;
    } else if (node.kind == NODE_RULE) {
        node.left = (int)read_below(reading, (unsigned)rules->n_rules);
        rules->has_references = true;
    } else if (node.kind == NODE_REPEAT) {
        node.min = read_below(reading, 4);
        node.max = read_below(reading, 2) ? node.min + read_below(reading, 3) : 0;
        if (node.max == 0 && node.min > 1) // {0} is a repetition too
            node.min = 1;
    }
    if (node.kind == NODE_SEQUENCE || node.kind == NODE_CHOICE || node.kind == NODE_REPEAT)
        node.left = read_node(reading, rules, depth - 1);
    if (node.kind == NODE_SEQUENCE || node.kind == NODE_CHOICE)
        node.right = read_node(reading, rules, depth - 1);
    rules->nodes[at] = node;
    return at;
}

// ---- the languages ----

static bool contains(const struct word_set *set, int word)
{
    return set->bits[word / 64] >> (word % 64) & 1;
}

static void insert(struct word_set *set, int word)
{
    set->bits[word / 64] |= UINT64_C(1) << (word % 64);
}

static bool unite(struct word_set *set, const struct word_set *other)
{
    uint64_t more = 0;
    for (int i = 0; i < SET_ITEMS; i++) {
        more |= other->bits[i] & ~set->bits[i];
        set->bits[i] |= other->bits[i];
    }
    return more != 0;
}

static bool unite_languages(struct language *language, const struct language *other)
{
    bool more_words = unite(&language->words, &other->words);
    bool more_beginnings = unite(&language->beginnings, &other->beginnings);
    bool more = more_words || more_beginnings || (other->derives && !language->derives);
    language->derives |= other->derives;
    return more;
}

static int n_letters(int word)
{
    int n = 0;
    while ((2 << n) - 1 <= word)
        n++;
    return n;
}

static void insert_joined(struct word_set *out, const struct word_set *left, const struct word_set *right)
{
    for (int x = 0; x < N_WORDS; x++) {
        int end = contains(left, x) ? (2 << (WORD_MAX - n_letters(x))) - 1 : 0; // behind the words that fit
        for (int y = 0; y < end; y++) {
            int n = n_letters(y);
            if (contains(right, y))
                insert(out, ((x + 1) << n) + (y + 1 - (1 << n)) - 1);
        }
    }
}

static struct language join(const struct language *left, const struct language *right)
{
    struct language joined = {.derives = left->derives && right->derives};
    insert_joined(&joined.words, &left->words, &right->words);
    insert_joined(&joined.beginnings, &left->words, &right->beginnings);
    if (right->derives)
        unite(&joined.beginnings, &left->beginnings);
    return joined;
}

static struct language the_empty_word(void)
{
    struct language language = {.derives = true};
    insert(&language.words, 0);
    insert(&language.beginnings, 0);
    return language;
}

static struct language repeat(const struct language *one, unsigned min, unsigned max)
{
    struct language times = the_empty_word(), all = {0};
    // Behind WORD_MAX more than the least, there are no new words
    unsigned end = max ? max : min + WORD_MAX;
    for (unsigned n = 0; n <= end; n++) {
        if (n >= min)
            unite_languages(&all, &times);
        times = join(&times, one);
    }
    return all;
}

static struct language language_of(const struct rule_set *rules, int at)
{
    const struct node *node = &rules->nodes[at];
    struct language left, right, empty = the_empty_word();
    if (node->kind == NODE_EMPTY)
        return empty;
    if (node->kind == NODE_RULE)
        return rules->languages[node->left];
    if (node->kind == NODE_LETTERS) {
        if (node->a)
            insert(&empty.beginnings, 1);
        if (node->b)
            insert(&empty.beginnings, 2);
        empty.words = empty.beginnings;
        empty.words.bits[0] &= ~UINT64_C(1);
        return empty;
    }
    left = language_of(rules, node->left);
    if (node->kind == NODE_REPEAT)
        return repeat(&left, node->min, node->max);
    right = language_of(rules, node->right);
    if (node->kind == NODE_SEQUENCE)
        return join(&left, &right);
    unite_languages(&left, &right);
    return left;
}

static void solve(struct rule_set *rules)
{
    bool more = true;
    while (more) {
        more = false;
        for (int i = 0; i < rules->n_rules; i++) {
            struct language language = language_of(rules, rules->roots[i]);
            more |= unite_languages(&rules->languages[i], &language);
        }
    }
}

// ---- the notations ----

enum notation { GBNF, LARK, REGEX };

static void write_letters(const struct node *node, enum notation notation, struct buffer *out)
{
    const char *letters = node->a && node->b ? "[ab]" : node->a ? "a" : "[^a]";
    if (notation == REGEX || (notation == GBNF && letters[0] == '['))
        buffer_add_string(out, letters);
    else if (letters[0] == '[')
        buffer_add_format(out, "/%s/", letters);
    else
        buffer_add_format(out, "\"%s\"", letters);
}

static void write_node(const struct rule_set *rules, int at, enum notation notation, struct buffer *out)
{
    const struct node *node = &rules->nodes[at];
    if (node->kind == NODE_LETTERS) {
        write_letters(node, notation, out);
        return;
    }
    if (node->kind == NODE_RULE) {
        buffer_add_format(out, node->left ? "r%d" : notation == LARK ? "start" : "root", node->left);
        return;
    }
    buffer_add_string(out, notation == REGEX ? "(?:" : "(");
    if (node->kind != NODE_EMPTY)
        write_node(rules, node->left, notation, out);
    if (node->kind == NODE_SEQUENCE || node->kind == NODE_CHOICE) {
        buffer_add_string(out, node->kind == NODE_CHOICE ? "|" : notation == REGEX ? "" : " ");
        write_node(rules, node->right, notation, out);
    }
    buffer_add_byte(out, ')');
    if (node->kind == NODE_REPEAT && node->max)
        buffer_add_format(out, notation == LARK ? "~%u..%u" : "{%u,%u}", node->min, node->max);
    else if (node->kind == NODE_REPEAT)
        buffer_add_byte(out, node->min ? '+' : '*');
}

static void write_rules(const struct rule_set *rules, enum notation notation, struct buffer *out)
{
    for (int i = 0; i < rules->n_rules && (notation != REGEX || i == 0); i++) {
        if (notation != REGEX) {
            buffer_add_format(out, i ? "r%d" : notation == LARK ? "start" : "root", i);
            buffer_add_string(out, notation == LARK ? ": " : " ::= ");
        }
        write_node(rules, rules->roots[i], notation, out);
        if (notation != REGEX)
            buffer_add_byte(out, '\n');
    }
}

// ---- the comparison ----

static void compare_matcher(struct matcher *matcher, const struct language *language, int word)
{
    struct error error = {0};
    bool may_end;
    if (matcher_may_end(matcher, &may_end, &error) != STATUS_OK) {
        fuzz_check(error.code == ERROR_LIMIT_EXCEEDED);
        return;
    }
    fuzz_check(may_end == contains(&language->words, word));
    for (int letter = 0; letter < 2 && n_letters(word) < WORD_MAX; letter++) {
        struct matcher copy;
        size_t n_accepted;
        int longer = 2 * (word + 1) + letter - 1;
        fuzz_check(matcher_copy(&copy, matcher));
        if (matcher_accept_bytes(&copy, (struct text){letter ? "b" : "a", 1}, &n_accepted, &error) !=
            STATUS_OK) {
            fuzz_check(error.code == ERROR_LIMIT_EXCEEDED);
        } else {
            fuzz_check(n_accepted == contains(&language->beginnings, longer));
            if (n_accepted)
                compare_matcher(&copy, language, longer);
        }
        matcher_finish(&copy);
    }
}

static void compare_grammar(const struct grammar *grammar, const struct language *language)
{
    struct recognizer *recognizer;
    struct matcher matcher;
    struct error error = {0};
    if (recognizer_create(&recognizer, grammar, NULL, &error) != STATUS_OK) {
        fuzz_check(error.code == ERROR_LIMIT_EXCEEDED);
        return;
    }
    if (matcher_init(&matcher, recognizer, &error) == STATUS_OK)
        compare_matcher(&matcher, language, 0);
    else
        fuzz_check(error.code == ERROR_LIMIT_EXCEEDED);
    matcher_finish(&matcher);
    recognizer_destroy(recognizer);
}

static void compare_notation(const struct rule_set *rules, enum notation notation)
{
    struct buffer source = {0};
    struct grammar *grammar;
    struct error error = {0};
    write_rules(rules, notation, &source);
    fuzz_check(!source.failed);
    struct text text = {source.data, source.size};
    enum status status = notation == GBNF   ? grammar_compile_gbnf(&grammar, text, NULL, &error)
                         : notation == LARK ? grammar_compile_lark(&grammar, text, NULL, &error)
                                            : grammar_compile_regex(&grammar, text, NULL, &error);
    if (status == STATUS_OK) {
        fuzz_check(rules->languages[0].derives);
        compare_grammar(grammar, &rules->languages[0]);
    } else {
        fuzz_check(!rules->languages[0].derives || error.code == ERROR_LIMIT_EXCEEDED);
    }
    grammar_destroy(grammar);
    buffer_finish(&source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reference_input reading = {data, size};
    struct rule_set rules = {0};
    rules.n_rules = 1 + (int)read_below(&reading, RULES_MAX);
    for (int i = 0; i < rules.n_rules; i++)
        rules.roots[i] = read_node(&reading, &rules, DEPTH_MAX);
    solve(&rules);
    compare_notation(&rules, GBNF);
    compare_notation(&rules, LARK);
    if (!rules.has_references)
        compare_notation(&rules, REGEX);
    return 0;
}
