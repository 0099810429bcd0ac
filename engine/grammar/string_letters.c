#include "engine/grammar/string_letters.h"

static void add_letter(struct letter_set *set, unsigned byte)
{
    unsigned bit = byte < 0x80 ? byte : byte - 0x40;
    set->words[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool begins_letter(unsigned char byte)
{
    return byte < 0x80 || byte >= 0xC0;
}

static void add_child(struct letter_summary *summary, unsigned char byte, const struct letter_summary *child)
{
    uint32_t n_letters = child->n_letters + begins_letter(byte);
    for (int i = 0; i < 3; i++)
        summary->letters.words[i] |= child->letters.words[i];
    if (begins_letter(byte))
        add_letter(&summary->letters, byte);
    if (n_letters > summary->n_letters)
        summary->n_letters = n_letters;
}

bool string_letters_create(struct string_letters *letters, const struct trie *trie)
{
    struct letter_summary *all = calloc(trie->n_nodes + 1, sizeof *all);
    letters->index = calloc(trie->n_nodes + 1, sizeof *letters->index);
    bool whole = all && letters->index && VECTOR_ADD(&letters->summaries, (struct letter_summary){0});
    for (uint32_t at = (uint32_t)trie->n_nodes; whole && at-- > 0;) {
        uint32_t behind = trie->nodes[at].behind;
        for (uint32_t child = at + 1; child < behind; child = trie->nodes[child].behind)
            add_child(&all[at], trie->nodes[child].byte, &all[child]);
        if (behind - at <= LETTERS_NODES_MIN)
            continue;
        letters->index[at] = (uint32_t)letters->summaries.n;
        whole = VECTOR_ADD(&letters->summaries, all[at]);
    }
    free(all);
    return whole;
}

void string_letters_finish(struct string_letters *letters)
{
    free(letters->index);
    VECTOR_FINISH(&letters->summaries);
}

// The code points that the first byte begins; false: it begins none.
static bool code_points_of(unsigned byte, struct code_range *range)
{
    if (byte >= 0xC2 && byte <= 0xDF)
        *range = (struct code_range){(byte & 0x1F) << 6, (byte & 0x1F) << 6 | 0x3F};
    else if (byte >= 0xE0 && byte <= 0xEF)
        *range = (struct code_range){byte == 0xE0 ? 0x800 : (byte & 0xF) << 12, (byte & 0xF) << 12 | 0xFFF};
    else if (byte >= 0xF0 && byte <= 0xF4)
        *range = (struct code_range){byte == 0xF0 ? 0x10000 : (byte & 7) << 18,
                                     byte == 0xF4 ? CODE_POINT_MAX : (byte & 7) << 18 | 0x3FFFF};
    else
        return false;
    return true;
}

void letters_add(struct letter_set *set, uint32_t first, uint32_t last)
{
    for (unsigned byte = first < ' ' ? ' ' : first; byte < 0x80 && byte <= last; byte++)
        if (byte != '"' && byte != '\\')
            add_letter(set, byte);
    struct code_range range;
    for (unsigned byte = 0xC2; last >= 0x80 && byte <= 0xF4; byte++)
        if (code_points_of(byte, &range) && range.first >= first && range.last <= last)
            add_letter(set, byte);
}

// The step that 'z' makes, for all that make the same.
static struct letter_step make_step(struct expressions *pool, uint32_t expression)
{
    struct letter_step step = {.expression = expression, .next = expression_step(pool, expression, 'z')};
    if (step.next == EXPRESSION_NOTHING || expression_is_empty_language(pool, step.next) ||
        pool->status != STATUS_OK)
        return (struct letter_step){.expression = expression};
    const struct expression_node *node = expression_node(pool, expression);
    const struct expression_piece *pieces = pool->pieces.items + node->derivative;
    for (uint32_t i = 0; i < node->n_derivative; i++)
        if (pieces[i].target == step.next)
            letters_add(&step.letters, pieces[i].first,
                        i + 1 < node->n_derivative ? pieces[i + 1].first - 1 : CODE_POINT_MAX);
    return step;
}

bool letters_within(const struct letter_set *set, const struct letter_set *of)
{
    return !(set->words[0] & ~of->words[0]) && !(set->words[1] & ~of->words[1]) &&
           !(set->words[2] & ~of->words[2]);
}

bool letters_follow(struct letter_steps *steps, struct expressions *pool, uint32_t expression,
                    const struct letter_summary *summary)
{
    if (!steps->kept && !(steps->kept = calloc(LETTER_STEPS, sizeof *steps->kept)))
        return false;
    for (uint32_t n = 0; n < summary->n_letters; n++) {
        struct letter_step *step = &steps->kept[expression % LETTER_STEPS];
        if (n == LETTERS_FOLLOWING_MAX || pool->status != STATUS_OK)
            return false;
        if (step->expression != expression)
            *step = make_step(pool, expression);
        if (pool->status == STATUS_REJECT && pool->limit != GRAMMAR_LIMIT_NODES)
            pool->status = STATUS_OK;
        if (!letters_within(&summary->letters, &step->letters))
            return false;
        if (step->next == expression)
            return true;
        expression = step->next;
    }
    return true;
}

void letter_steps_finish(struct letter_steps *steps)
{
    free(steps->kept);
    steps->kept = NULL;
}
