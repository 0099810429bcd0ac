#include "engine/grammar/token_classes.h"

#include <string.h>

// Classes: ASCII that a JSON string has unescaped; letters and digits; letters; lower case letters.
static bool in_class(int class, unsigned char byte)
{
    bool is_lower = byte >= 'a' && byte <= 'z', is_letter = is_lower || (byte >= 'A' && byte <= 'Z');
    switch (class) {
    case 0:
        return byte >= ' ' && byte <= '~' && byte != '"' && byte != '\\';
    case 1:
        return is_letter || (byte >= '0' && byte <= '9');
    case 2:
        return is_letter;
    default:
        return is_lower;
    }
}

static bool all_in_class(int class, struct text token)
{
    for (size_t i = 0; i < token.size; i++)
        if (!in_class(class, (unsigned char)token.data[i]))
            return false;
    return token.size <= TOKEN_CLASS_BYTES_MAX;
}

static bool create_class(struct token_class *class, int which, struct grammar_vocabulary *vocabulary,
                         const uint32_t *ids, size_t n)
{
    size_t n_others = 0;
    uint32_t *others = malloc((n + 1) * sizeof *others);
    class->mask = calloc(grammar_mask_words(vocabulary->n_tokens) + 1, sizeof *class->mask);
    for (unsigned byte = 0; byte < 256; byte++)
        if (in_class(which, (unsigned char)byte))
            class->bytes[class->n_bytes++] = (unsigned char)byte;
    for (size_t i = 0; i < n && others && class->mask; i++) {
        if (all_in_class(which, vocabulary->tokens[ids[i]]))
            class->mask[ids[i] / 32] |= 1u << ids[i] % 32;
        else
            others[n_others++] = ids[i];
    }
    bool whole = others && class->mask && trie_build(vocabulary, others, n_others, &class->others);
    free(others);
    return whole;
}

bool token_classes_create(struct token_class **out, struct grammar_vocabulary *vocabulary,
                          const uint32_t *ids, size_t n)
{
    struct token_class *classes = *out = calloc(TOKEN_CLASSES, sizeof *classes);
    bool whole = classes;
    for (int i = 0; i < TOKEN_CLASSES && whole; i++)
        whole = create_class(&classes[i], i, vocabulary, ids, n);
    return whole;
}

void token_classes_destroy(struct token_class *classes)
{
    for (int i = 0; i < TOKEN_CLASSES && classes; i++) {
        free(classes[i].mask);
        free(classes[i].others.nodes);
    }
    free(classes);
}
