#include "engine/grammar/string_letters.h"

static void add_letter(struct letter_set *set, unsigned byte)
{
    unsigned bit = letter_of((unsigned char)byte);
    set->words[bit / 64] |= UINT64_C(1) << bit % 64;
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
        uint32_t stop = trie->nodes[at].stop;
        for (uint32_t child = at + 1; child < stop; child = trie->nodes[child].stop)
            add_child(&all[at], trie->nodes[child].byte, &all[child]);
        if (stop - at <= LETTERS_NODES_MIN)
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

// Adds bytes first..last, whose bits are adjacent.
static void add_letters(struct letter_set *set, unsigned first, unsigned last)
{
    unsigned from = letter_of((unsigned char)first), to = letter_of((unsigned char)last);
    for (unsigned word = from / 64; first <= last && word <= to / 64; word++) {
        uint64_t bits = UINT64_MAX;
        if (word == from / 64)
            bits &= UINT64_MAX << from % 64;
        if (word == to / 64)
            bits &= UINT64_MAX >> (63 - to % 64);
        set->words[word] |= bits;
    }
}

// Adds the lead bytes from `first` to `last` of which all code points are in *within. Each lead byte has
// 2^bits consecutive code points; `zero` is the lead byte of code point 0.
static void add_leads(struct letter_set *set, unsigned zero, unsigned first, unsigned last, unsigned bits,
                      const struct code_range *within)
{
    uint32_t from = zero + (uint32_t)(((uint64_t)within->first + (1u << bits) - 1) >> bits);
    uint32_t stop = zero + (uint32_t)(((uint64_t)within->last + 1) >> bits);
    from = from > first ? from : first;
    stop = stop < last + 1 ? stop : last + 1;
    if (from < stop)
        add_letters(set, from, stop - 1);
}

void letters_add(struct letter_set *set, uint32_t first, uint32_t last)
{
    const struct code_range within = {first, last};
    if (first < 0x80) {
        struct letter_set ascii = {0};
        add_letters(&ascii, first < ' ' ? ' ' : first, last < 0x7F ? last : 0x7F);
        ascii.words['"' / 64] &= ~(UINT64_C(1) << '"' % 64);
        ascii.words['\\' / 64] &= ~(UINT64_C(1) << '\\' % 64);
        for (int i = 0; i < 3; i++)
            set->words[i] |= ascii.words[i];
    }
    if (last < 0x80)
        return;
    add_leads(set, 0xC0, 0xC2, 0xDF, 6, &within);
    add_leads(set, 0xE0, 0xE1, 0xEF, 12, &within);
    add_leads(set, 0xF0, 0xF1, 0xF3, 18, &within);
    if (first <= 0x800 && last >= 0xFFF)
        add_letter(set, 0xE0);
    if (first <= 0x10000 && last >= 0x3FFFF)
        add_letter(set, 0xF0);
    if (first <= 0x100000 && last >= CODE_POINT_MAX)
        add_letter(set, 0xF4);
}

// Computes the step of the letter 'z', and all letters that have the same target.
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

const struct letter_step *letters_step(struct letter_steps *steps, struct expressions *pool,
                                       uint32_t expression)
{
    if (!steps->kept && !(steps->kept = calloc(LETTER_STEPS, sizeof *steps->kept)))
        return NULL;
    struct letter_step *step = &steps->kept[expression % LETTER_STEPS];
    if (!expression_count(pool, expression))
        return NULL;
    if (step->expression != expression)
        *step = make_step(pool, expression);
    if (pool->status == STATUS_REJECT && pool->limit != GRAMMAR_LIMIT_NODES &&
        pool->limit != pool->visit.limit)
        pool->status = STATUS_OK;
    if (pool->status != STATUS_OK)
        step->expression = EXPRESSION_NOTHING;
    return step;
}

bool letters_follow(struct letter_steps *steps, struct expressions *pool, uint32_t expression,
                    const struct letter_summary *summary)
{
    for (uint32_t n = 0; n < summary->n_letters; n++) {
        if (n == LETTERS_FOLLOWING_MAX || pool->status != STATUS_OK)
            return false;
        const struct letter_step *step = letters_step(steps, pool, expression);
        if (!step || !letters_within(&summary->letters, &step->letters))
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
