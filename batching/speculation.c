#include "batching/speculation.h"

#include "batching/constrained.h"
#include "schemas/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    OWN_TOKENS_MAX = 1 << 16,      // last tokens of prompt and answer that are indexed
    ANSWERS_TOKENS = 1 << 17,      // tokens of finished answers in the index, 3 MB
    FINISHED_TOKENS_MAX = 1 << 12, // first tokens of a finished answer that are indexed
    TAIL_MAX = SUFFIX_LENGTH_MAX + DRAFT_TOKENS_MAX + 1,
    RESUMED_FROM = 3, // tokens: a match at least this long continues after a rejected draft token
    MATCH_LONG = 8,   // a match that is at least this long is kept without searching for others
};

enum source { SOURCE_OWN, SOURCE_ANSWERS };

// Four constants: the decay of the counts per token; the weight of a first guess, in tokens; the decay of a
// sequence's misses; the misses with which a sequence's factor begins.
static const double COUNTS_KEEP = 0.98, GUESS_WEIGHT = 3.0, SEQUENCE_KEEP = 0.97, MISSES_FIRST = 1.0;
static const double CHANCE_LEAST = 0.01, CHANCE_MOST = 0.99;

void speculation_finish(struct speculation *speculation)
{
    suffix_index_finish(&speculation->answers);
}

uint64_t speculation_bytes(int32_t n_sequences, int64_t n_positions)
{
    uint64_t n = n_sequences < SPECULATION_SEQUENCES_MAX ? (uint64_t)n_sequences : SPECULATION_SEQUENCES_MAX;
    uint32_t own = n_positions < OWN_TOKENS_MAX ? (uint32_t)n_positions : OWN_TOKENS_MAX;
    return suffix_index_bytes(ANSWERS_TOKENS) + n * (suffix_index_bytes(own) + sizeof(struct sequence_draft));
}

// ---- texts ----

static uint64_t dataset_key(const struct sequence *sequence)
{
    struct text dataset = sequence->prompt->job->dataset;
    return hash_bytes(dataset.data, dataset.size, 1);
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static struct sequence_draft *create_draft(struct speculation *speculation, const struct sequence *sequence)
{
    if (speculation->n_drafts == SPECULATION_SEQUENCES_MAX)
        return NULL;
    int64_t n_most = (int64_t)sequence->prompt->tokens.n_ids + sequence->prompt->max_tokens;
    struct sequence_draft *draft = calloc(1, sizeof *draft);
    if (draft &&
        !suffix_index_init(&draft->own, n_most < OWN_TOKENS_MAX ? (uint32_t)n_most : OWN_TOKENS_MAX)) {
        free(draft);
        return NULL;
    }
    speculation->n_drafts += draft != NULL;
    return draft;
}

void speculation_release(struct speculation *speculation, struct sequence *sequence)
{
    speculation->n_drafts -= sequence->draft != NULL;
    sequence_draft_destroy(sequence->draft);
    sequence->draft = NULL;
}

// Number of tokens of prompt and answer, without the token that the step draws.
static int32_t n_known(const struct sequence *sequence)
{
    return (int32_t)sequence->prompt->tokens.n_ids + sequence->answer.n_generated;
}

// Indexes the tokens added since the last call.
static void index_own(struct sequence_draft *draft, const struct sequence *sequence)
{
    int32_t n = n_known(sequence);
    if (n - draft->n_indexed > OWN_TOKENS_MAX)
        draft->n_indexed = n - OWN_TOKENS_MAX;
    for (; draft->n_indexed < n; draft->n_indexed++)
        suffix_index_append(&draft->own, 0, sequence_token(sequence, draft->n_indexed));
}

void speculation_add_answer(struct speculation *speculation, const struct sequence *sequence)
{
    struct suffix_index *answers = &speculation->answers;
    uint64_t key = dataset_key(sequence);
    int32_t n = smaller(sequence->answer.n_generated, FINISHED_TOKENS_MAX);
    if (!answers->tokens && !speculation->has_failed)
        speculation->has_failed = !suffix_index_init(answers, ANSWERS_TOKENS);
    suffix_index_append(answers, key, SUFFIX_BREAK);
    for (int32_t i = 0; i < n; i++)
        suffix_index_append(answers, key, sequence->answer.generated[i]);
}

// ---- proposals ----

// The last tokens of a text, followed by the draft.
struct tail {
    int32_t tokens[TAIL_MAX + 1];
    int32_t n;
};

// A draft under construction. `match` is a place in a text; the draft copies the tokens after it. When the
// match ends, another one is searched.
struct proposing {
    const struct speculation *speculation;
    struct sequence_draft *draft;
    uint64_t key;
    struct tail tails[SPECULATION_SOURCES];
    enum source source;
    struct suffix_match match; // length 0: none
    double factor;             // observed misses of the sequence / expected misses
    double chance;             // that all tokens so far are accepted
};

static const struct suffix_index *index_of(const struct proposing *proposing, enum source source)
{
    return source == SOURCE_OWN ? &proposing->draft->own : &proposing->speculation->answers;
}

static void fill_tails(struct proposing *proposing, const struct sequence *sequence)
{
    struct tail *own = &proposing->tails[SOURCE_OWN], *answer = &proposing->tails[SOURCE_ANSWERS];
    int32_t n = n_known(sequence), n_generated = sequence->answer.n_generated;
    for (int32_t i = n - smaller(n, SUFFIX_LENGTH_MAX); i < n; i++)
        own->tokens[own->n++] = sequence_token(sequence, i);
    if (n_generated < SUFFIX_LENGTH_MAX)
        answer->tokens[answer->n++] = SUFFIX_BREAK;
    for (int32_t i = n_generated - smaller(n_generated, SUFFIX_LENGTH_MAX); i < n_generated; i++)
        answer->tokens[answer->n++] = sequence->answer.generated[i];
}

// Returns the token at the place. The sequence's own text includes the draft, so a repetition can continue
// past the end of the text.
static int32_t token_at(const struct proposing *proposing, enum source source, uint32_t place)
{
    const struct suffix_index *index = index_of(proposing, source);
    uint32_t distance = place - index->n;
    if (source == SOURCE_OWN && distance < (uint32_t)proposing->draft->n_proposed)
        return proposing->draft->tokens[distance].token;
    return suffix_index_token(index, place);
}

static void find_match(struct proposing *proposing)
{
    for (enum source source = SOURCE_OWN; source <= SOURCE_ANSWERS; source++) {
        const struct tail *tail = &proposing->tails[source];
        struct suffix_match match =
            suffix_index_find(index_of(proposing, source), source == SOURCE_OWN ? 0 : proposing->key,
                              tail->tokens, tail->n);
        if (match.length > proposing->match.length) {
            proposing->match = match;
            proposing->source = source;
        }
    }
}

// A match of length 0 with votes continues after a token that differed.
static bool is_resumed(const struct suffix_match *match)
{
    return match->length == 0 && match->votes > 0;
}

static void resume_match(struct proposing *proposing)
{
    struct sequence_draft *draft = proposing->draft;
    if (draft->may_resume) {
        proposing->source = (enum source)draft->resume_source;
        proposing->match = (struct suffix_match){draft->resume_place, 0, 1};
    }
    draft->may_resume = false;
}

static int32_t cell_of(const struct proposing *proposing)
{
    int32_t length = proposing->match.length, votes = proposing->match.votes;
    int32_t by_length = length < 4 ? length : length < 8 ? 4 : length < SUFFIX_LENGTH_MAX ? 5 : 6;
    int32_t by_votes = votes < 2 ? 0 : votes < 6 ? 1 : 2;
    return ((int32_t)proposing->source * SPECULATION_LENGTHS + by_length) * SPECULATION_VOTES + by_votes;
}

static int32_t length_class(int32_t cell)
{
    return cell == SPECULATION_CELL_FORCED ? 0 : cell / SPECULATION_VOTES % SPECULATION_LENGTHS;
}

static double chance_of(const struct speculation *speculation, int32_t cell)
{
    static const double guesses[SPECULATION_LENGTHS] = {0.6, 0.25, 0.45, 0.55, 0.7, 0.8, 0.9},
                        guess_forced = 0.8;
    const struct draft_counts *counts = &speculation->counts[cell];
    double guess = cell == SPECULATION_CELL_FORCED ? guess_forced : guesses[length_class(cell)];
    return (counts->n_hits + GUESS_WEIGHT * guess) / (counts->n + GUESS_WEIGHT);
}

static double bounded_chance(double chance)
{
    return chance < CHANCE_LEAST ? CHANCE_LEAST : chance > CHANCE_MOST ? CHANCE_MOST : chance;
}

// Returns the next token of the match or, at its end, of another match. SUFFIX_BREAK: none.
static int32_t propose_token(struct proposing *proposing)
{
    int32_t token = SUFFIX_BREAK;
    if (proposing->match.length < MATCH_LONG)
        find_match(proposing);
    if (proposing->match.length > 0 || is_resumed(&proposing->match))
        token = token_at(proposing, proposing->source, proposing->match.place);
    if (token != SUFFIX_BREAK)
        return token;
    proposing->match = (struct suffix_match){0};
    find_match(proposing);
    return proposing->match.length ? token_at(proposing, proposing->source, proposing->match.place)
                                   : SUFFIX_BREAK;
}

// Appends the token to the draft. The match grows if it predicted the token.
static void add_token(struct proposing *proposing, int32_t token, int32_t cell)
{
    bool follows = proposing->match.length > 0 &&
                   token_at(proposing, proposing->source, proposing->match.place) == token;
    uint32_t place = proposing->match.place++;
    proposing->match.length = follows ? proposing->match.length + 1 : 0;
    for (int i = 0; i < SPECULATION_SOURCES; i++)
        proposing->tails[i].tokens[proposing->tails[i].n++] = token;
    proposing->draft->tokens[proposing->draft->n_proposed++] =
        (struct draft_token){token, cell, proposing->chance, (int)proposing->source, place};
}

// Adds the tokens that a constraint forces after the last one. False: they end the draft or the answer, and
// the last token needs no row.
static bool add_forced(struct proposing *proposing, struct sequence *sequence, int32_t n_max,
                       const struct tokenizer *tokenizer, struct token_array *forced)
{
    if (!sequence->prompt->rules.constraint)
        return true;
    if (!constrained_draft_forced(sequence, tokenizer, forced) ||
        forced->n_ids > (size_t)(n_max - proposing->draft->n_proposed))
        return false;
    for (size_t i = 0; i < forced->n_ids; i++)
        add_token(proposing, forced->ids[i], -1);
    return true;
}

// Chooses between the match's token and the first token of forced bytes, by chance of acceptance. With a
// constraint, advances its matcher by the token. SUFFIX_BREAK: none is allowed.
static int32_t choose_token(struct proposing *proposing, struct sequence *sequence,
                            const struct tokenizer *tokenizer, int32_t *cell)
{
    const struct speculation *speculation = proposing->speculation;
    int32_t tokens[2] = {propose_token(proposing), SUFFIX_BREAK};
    int32_t cells[2] = {tokens[0] == SUFFIX_BREAK ? -1 : cell_of(proposing), SPECULATION_CELL_FORCED};
    *cell = cells[0];
    if (!sequence->prompt->rules.constraint)
        return tokens[0];
    tokens[1] = constrained_draft_likely(sequence, tokenizer);
    bool forced_first = tokens[1] >= 0 && (tokens[0] == SUFFIX_BREAK || chance_of(speculation, cells[1]) >
                                                                            chance_of(speculation, cells[0]));
    for (int i = 0; i < 2; i++) {
        int which = forced_first ? 1 - i : i;
        *cell = cells[which];
        if (tokens[which] >= 0 && constrained_draft_token(sequence, tokens[which]))
            return tokens[which];
    }
    return SUFFIX_BREAK;
}

static void propose_tokens(struct proposing *proposing, struct sequence *sequence, int32_t n_max,
                           double least, const struct tokenizer *tokenizer)
{
    struct sequence_draft *draft = proposing->draft;
    struct token_array forced = {0};
    while (draft->n_proposed <= n_max) {
        int32_t cell, token = choose_token(proposing, sequence, tokenizer, &cell);
        if (token == SUFFIX_BREAK || sequence_stops_before(sequence, token, tokenizer))
            break;
        double miss = (1.0 - chance_of(proposing->speculation, cell)) * proposing->factor;
        proposing->chance *= bounded_chance(1.0 - miss);
        add_token(proposing, token, cell);
        if (proposing->chance <= least || draft->n_proposed > n_max ||
            !add_forced(proposing, sequence, n_max, tokenizer, &forced))
            break;
        draft->n_rows = draft->n_proposed;
    }
    token_array_finish(&forced);
}

bool speculation_propose(struct speculation *speculation, struct sequence *sequence, int32_t n_max,
                         double least, const struct tokenizer *tokenizer)
{
    struct sequence_draft *draft = sequence->draft;
    struct matcher_mark mark;
    if (!draft)
        draft = sequence->draft = create_draft(speculation, sequence);
    if (!draft)
        return false;
    draft->n_rows = draft->n_proposed = 0;
    draft->n_before = sequence->answer.n_generated;
    if (sequence->prompt->rules.constraint && !constrained_begin_draft(sequence, &mark))
        return false;
    index_own(draft, sequence);
    struct proposing proposing = {.speculation = speculation,
                                  .draft = draft,
                                  .key = dataset_key(sequence),
                                  .factor =
                                      (draft->n_misses + MISSES_FIRST) / (draft->n_expected + MISSES_FIRST),
                                  .chance = 1.0};
    fill_tails(&proposing, sequence);
    resume_match(&proposing);
    propose_tokens(&proposing, sequence, smaller(n_max, DRAFT_TOKENS_MAX), least, tokenizer);
    if (sequence->prompt->rules.constraint)
        constrained_end_draft(sequence, &mark);
    return draft->n_rows > 0;
}

void speculation_trim(struct sequence_draft *draft, double least, int32_t n_max)
{
    int32_t n_rows = 0;
    for (int32_t i = 0; i < draft->n_rows && i < n_max && draft->tokens[i].chance >= least; i++)
        if (i + 1 == draft->n_rows || draft->tokens[i + 1].cell >= 0) // a token is drawn after it
            n_rows = i + 1;
    draft->n_rows = n_rows;
}

// ---- after the step ----

static void count_token(struct speculation *speculation, struct sequence_draft *draft, int32_t cell,
                        bool is_hit)
{
    double chance = chance_of(speculation, cell);
    draft->n_misses = draft->n_misses * SEQUENCE_KEEP + !is_hit;
    draft->n_expected = draft->n_expected * SEQUENCE_KEEP + 1.0 - chance;
    struct draft_counts *counts = &speculation->counts[cell];
    counts->n = counts->n * COUNTS_KEEP + 1.0;
    counts->n_hits = counts->n_hits * COUNTS_KEEP + is_hit;
}

int32_t speculation_settle(struct speculation *speculation, struct sequence *sequence)
{
    struct sequence_draft *draft = sequence->draft;
    const struct sequence_answer *answer = &sequence->answer;
    int32_t n_accepted = 0;
    for (int32_t i = 0; i < draft->n_proposed; i++) {
        const struct draft_token *proposed = &draft->tokens[i];
        bool is_known = draft->n_before + i < answer->n_generated;
        bool is_hit = is_known && answer->generated[draft->n_before + i] == proposed->token;
        if (!is_known && answer->finish_reason != FINISH_STOP) // with FINISH_STOP the end was drawn instead
            break;
        if (proposed->cell >= 0)
            count_token(speculation, draft, proposed->cell, is_hit);
        if (!is_hit) {
            draft->may_resume = draft->n_before + i + 1 == answer->n_generated &&
                                length_class(proposed->cell) >= RESUMED_FROM;
            draft->resume_source = proposed->source;
            draft->resume_place = proposed->place + 1;
            break;
        }
        n_accepted += i < draft->n_rows;
    }
    draft->n_proposed = draft->n_rows = 0;
    return n_accepted;
}
