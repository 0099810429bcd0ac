// The prefix tree and the window alone: sharing of pages and snapshots, order of admission, order of eviction.
#include "batching/snapshots.h"
#include "batching/window.h"
#include "tests/support/cases.h"
#include "schemas/base/hash.h"
#include "tests/support/random.h"

enum { PAGE = 4, PAGES = 16 /* of the stack */, STATES = 6 };

static struct page_stack stack, states;
static struct prefix_tree tree;
static struct window window;
static struct error error;

static int open_tree(void **state)
{
    window = (struct window){.tree = &tree};
    return page_stack_init(&stack, PAGES, &error) == STATUS_OK &&
                   page_stack_init(&states, STATES, &error) == STATUS_OK &&
                   prefix_init(&tree, PAGE, &stack, NULL, &error) == STATUS_OK
               ? 0
               : -1;
}

static int close_tree(void **state)
{
    window_finish(&window);
    prefix_finish(&tree);
    page_stack_finish(&stack);
    page_stack_finish(&states);
    return 0;
}

struct waiting_sequence {
    struct job job;
    struct prompt prompt;
    struct sequence sequence;
    struct prefix_claim claim;
    int32_t pages[PAGES];
};

// A waiting sequence with a prompt of a token for each letter and one more: the path has the letters.
static struct waiting_sequence *wait_with_set(const char *letters, int32_t adapter_set)
{
    struct waiting_sequence *waiting = calloc(1, sizeof *waiting);
    for (const char *at = letters; *at; at++)
        token_array_add(&waiting->prompt.tokens, *at);
    token_array_add(&waiting->prompt.tokens, '.');
    waiting->job.adapter_set = adapter_set;
    waiting->prompt.job = &waiting->job;
    waiting->sequence.prompt = &waiting->prompt;
    assert_true(window_add(&window, &waiting->sequence));
    return waiting;
}

static struct waiting_sequence *wait_for_tokens(const char *letters)
{
    return wait_with_set(letters, 0);
}

// A letter a page: "ab" is aaaa bbbb.
static struct waiting_sequence *wait_for(const char *letters)
{
    char tokens[PAGE * PAGES + 1] = "";
    for (size_t i = 0; i < strlen(letters) * PAGE; i++)
        tokens[i] = letters[i / PAGE];
    return wait_for_tokens(tokens);
}

static void forget_sequence(struct waiting_sequence *waiting)
{
    token_array_finish(&waiting->prompt.tokens);
    free(waiting);
}

static struct prefix_found find(const struct waiting_sequence *waiting)
{
    return prefix_find(&tree, waiting->sequence.node, INT32_MAX);
}

// As the scheduler admits: use the path, take it from the window, claim the pages that are not ready.
static void admit(struct waiting_sequence *waiting)
{
    struct prefix_node *node = waiting->sequence.node;
    struct prefix_found found = find(waiting);
    assert_false(found.blocked);
    prefix_use(&tree, node);
    window_admit(&window, &waiting->sequence, 0);
    waiting->sequence.node = node;
    waiting->claim = prefix_claim(&tree, node, &waiting->sequence, &found, waiting->pages);
    waiting->sequence.cache.n_computed = found.n_computed;
}

static void compute_until(struct waiting_sequence *waiting, int32_t n_tokens, bool settled)
{
    prefix_computed(&tree, waiting->sequence.node, &waiting->sequence, n_tokens, settled);
    waiting->sequence.cache.n_computed = n_tokens;
}

static void compute_sequence(struct waiting_sequence *waiting)
{
    compute_until(waiting, waiting->sequence.node->depth, true);
}

static void leave(struct waiting_sequence *waiting)
{
    for (int32_t i = waiting->claim.n_path; i < waiting->claim.n_pages; i++)
        page_stack_give(&stack, waiting->pages[i]);
    prefix_unuse(&tree, waiting->sequence.node, &waiting->sequence);
    forget_sequence(waiting);
}

TEST(a_prompt_waits_while_another_computes_what_it_shares)
{
    struct waiting_sequence *first = wait_for("ab"), *second = wait_for("ac"), *other = wait_for("xy");
    admit(first);
    assert_int_equal(find(second).n_stored, 0);
    assert_true(find(second).blocked);
    assert_ptr_equal(window_next(&window), &other->sequence);
    admit(other);
    assert_null(window_next(&window)); // only the one that has to wait is left
    compute_sequence(first);
    assert_ptr_equal(window_next(&window), &second->sequence);
    assert_int_equal(find(second).n_stored, PAGE);
    assert_false(find(second).blocked);
    admit(second);
    compute_sequence(second);
    compute_sequence(other);
    assert_int_equal(tree.figures.n_pages_shared, 1);
    leave(first);
    assert_int_equal(tree.figures.n_pages_shared, 0);
    leave(second);
    leave(other);
    assert_int_equal(prefix_available(&tree), PAGES);
    assert_int_equal(tree.figures.n_pages_idle, 5);
}

TEST(prompts_share_pages_within_a_set_of_adapters_and_never_across_sets)
{
    static const uint64_t contents[] = {77, 78};
    struct waiting_sequence *waiting[6];
    uint64_t hashes[6];
    for (int i = 0; i < 2; i++)
        assert_ok(prefix_add_set(&tree, contents[i], &error), &error);
    for (int i = 0; i < 6; i++) {
        waiting[i] = wait_with_set("aaaabbbb", i % 3);
        assert_int_equal(find(waiting[i]).n_stored, i < 3 ? 0 : 2 * PAGE);
        admit(waiting[i]);
        const struct token_array *tokens = &waiting[i]->prompt.tokens;
        hashes[i] =
            prefix_count(&tree, waiting[i]->sequence.node, 2 * PAGE, tokens->ids, (int32_t)tokens->n_ids);
        compute_sequence(waiting[i]);
        for (int j = 0; j < i; j++) {
            assert_int_equal(waiting[i]->pages[0] == waiting[j]->pages[0], j == i - 3);
            assert_int_equal(hashes[i] == hashes[j], j == i - 3);
        }
    }
    assert_int_equal(tree.figures.n_pages_shared, 6);
    for (int i = 0; i < 6; i++)
        leave(waiting[i]);
    assert_int_equal(prefix_available(&tree), PAGES);
}

TEST(the_hash_of_a_prefix_covers_the_adapters_contents)
{
    static const uint64_t contents[] = {77, 77, 78};
    uint64_t hashes[3];
    for (int i = 0; i < 3; i++) {
        struct prefix_tree own;
        const int32_t tokens[] = {1, 2, 3, 4, 5};
        assert_ok(prefix_init(&own, PAGE, &stack, NULL, &error), &error);
        assert_ok(prefix_add_set(&own, contents[i], &error), &error);
        struct prefix_node *node = prefix_wait(&own, tokens, PAGE, prefix_root(1, false));
        assert_non_null(node);
        hashes[i] = prefix_count(&own, node, PAGE, tokens, 5);
        prefix_finish(&own);
    }
    assert_true(hashes[0] == hashes[1] && hashes[0] != hashes[2]);
}

TEST(pages_left_before_they_were_computed_are_free_and_unblock_the_others)
{
    struct waiting_sequence *first = wait_for("ab"), *second = wait_for("ac");
    admit(first);
    assert_null(window_next(&window));
    leave(first);
    assert_int_equal(stack.n_free, PAGES);
    assert_int_equal(find(second).n_stored, 0);
    assert_false(find(second).blocked);
    admit(second);
    compute_sequence(second);
    leave(second);
}

TEST(the_walk_is_elsewhere_once_its_place_goes)
{
    struct waiting_sequence *first = wait_for("ab"), *second = wait_for("xy");
    admit(first);
    admit(second);
    struct prefix_node *place = second->sequence.node;
    assert_ptr_equal(tree.cursor, place);
    leave(first); // without pages: its node goes
    assert_ptr_equal(tree.cursor, place);
    leave(second);
    assert_ptr_equal(tree.cursor, tree.roots[0]);
}

TEST(the_walk_goes_on_with_the_prompts_that_share_most)
{
    struct waiting_sequence *order[] = {wait_for("abc"), wait_for("x"),   wait_for("a"),
                                        wait_for("abd"), wait_for("abc"), wait_for("xyz")};
    const int expected[] = {0, 4, 3, 2, 1, 5};
    for (int i = 0; i < 6; i++) {
        struct sequence *next = window_next(&window);
        assert_ptr_equal(next, &order[expected[i]]->sequence);
        admit(order[expected[i]]);
        compute_sequence(order[expected[i]]);
    }
    for (int i = 0; i < 6; i++)
        leave(order[i]);
}

TEST(deep_pages_go_before_their_parents_and_unwanted_ones_before_wanted_ones)
{
    struct waiting_sequence *wanted = wait_for("abc"), *unwanted = wait_for("xy");
    admit(wanted);
    compute_sequence(wanted);
    admit(unwanted);
    compute_sequence(unwanted);
    leave(wanted);
    leave(unwanted);
    struct waiting_sequence *comes_back = wait_for("ab"); // a and b are wanted again, c is not
    while (stack.n_free)
        prefix_take_page(&tree);
    prefix_take_page(&tree); // c: the oldest that nobody waits for
    prefix_take_page(&tree); // y
    prefix_take_page(&tree); // x
    assert_int_equal(find(comes_back).n_stored, 2 * PAGE);
    prefix_take_page(&tree); // b, then a
    assert_int_equal(find(comes_back).n_stored, 1 * PAGE);
    prefix_take_page(&tree);
    assert_int_equal(find(comes_back).n_stored, 0 * PAGE);
    assert_int_equal(prefix_take_page(&tree), -1);
    assert_int_equal(tree.figures.n_evictions, 5);
    window_remove(&window, &comes_back->sequence);
    forget_sequence(comes_back);
    assert_int_equal(tree.n_nodes, 0);
}

TEST(prompts_with_long_context_share_nothing_with_the_others)
{
    struct waiting_sequence *normal = wait_for("ab");
    admit(normal);
    compute_sequence(normal);
    struct waiting_sequence *lengthened = calloc(1, sizeof *lengthened);
    for (int i = 0; i < 9; i++)
        token_array_add(&lengthened->prompt.tokens, i < 4 ? 'a' : 'b');
    lengthened->prompt.long_context = true;
    lengthened->prompt.job = &lengthened->job;
    lengthened->sequence.prompt = &lengthened->prompt;
    assert_true(window_add(&window, &lengthened->sequence));
    assert_int_equal(find(lengthened).n_stored, 0);
    assert_ptr_equal(window_next(&window), &lengthened->sequence);
    window_remove(&window, &lengthened->sequence);
    forget_sequence(lengthened);
    leave(normal);
}

// ---- within a page ----

TEST(the_first_successor_continues_in_the_page_and_the_next_one_copies_it)
{
    struct waiting_sequence *first = wait_for_tokens("aaaabbcc"), *second = wait_for_tokens("aaaabbdd");
    admit(first);
    assert_false(first->claim.has_copy);
    compute_until(first, 8, false);
    assert_true(find(second).blocked); // the copy would be made before the step that fills the page
    compute_until(first, 8, true);
    assert_int_equal(find(second).n_stored, 6);
    int32_t n_available = prefix_available(&tree);
    admit(second);
    assert_true(second->claim.has_copy);
    assert_int_equal(second->claim.copy.from, first->pages[1]);
    assert_int_equal(second->claim.copy.to, second->pages[1]);
    assert_int_equal(second->pages[0], first->pages[0]);
    assert_int_equal(prefix_available(&tree), n_available - 1);
    compute_sequence(second);
    struct waiting_sequence *same = wait_for_tokens("aaaabbcc");
    admit(same);
    assert_false(same->claim.has_copy); // ends where a page ends
    assert_int_equal(same->pages[1], first->pages[1]);
    leave(first);
    leave(second);
    leave(same);
}

TEST(equal_prompts_that_end_within_a_page_continue_in_pages_of_their_own)
{
    struct waiting_sequence *first = wait_for_tokens("aaaab"), *second = wait_for_tokens("aaaab");
    admit(first);
    assert_int_equal(first->claim.n_path, 2);
    compute_sequence(first);
    admit(second);
    assert_true(second->claim.has_copy);
    assert_int_equal(second->claim.n_path, 1);
    assert_int_equal(second->claim.n_pages, 2);
    assert_int_equal(second->claim.copy.from, first->pages[1]);
    leave(first);
    struct waiting_sequence *third = wait_for_tokens("aaaab");
    admit(third); // the page has no successor now
    assert_false(third->claim.has_copy);
    leave(second);
    leave(third);
    assert_int_equal(prefix_available(&tree), PAGES);
}

TEST(what_continues_in_a_page_is_lost_with_it)
{
    struct waiting_sequence *first = wait_for_tokens("aab"), *second = wait_for_tokens("aabb");
    admit(first);
    compute_sequence(first);
    leave(first);
    admit(second);
    compute_sequence(second);
    leave(second);
    assert_int_equal(tree.figures.n_pages_idle, 1);
    prefix_clear(&tree);
    assert_int_equal(stack.n_free, PAGES);
    assert_int_equal(tree.n_nodes, 0);
}

// ---- snapshots ----

// A slot for a sequence that reads no snapshot; -1: none is left.
static int32_t take_slot(void)
{
    return snapshot_slot_left(&tree) ? snapshot_take_slot_for(&tree, NULL) : -1;
}

// Gives the path a snapshot after n_tokens, as the sequence's chunk that ends there does.
static void keep_snapshot(struct waiting_sequence *waiting, int32_t n_tokens)
{
    struct prefix_node *place =
        snapshot_place(&tree, waiting->sequence.node, waiting->sequence.cache.n_computed, n_tokens);
    assert_non_null(place);
    assert_int_equal(place->depth, n_tokens);
    assert_true(snapshot_make(&tree, place));
    compute_until(waiting, n_tokens, false);
    tree.step++;
    compute_until(waiting, n_tokens, true);
    snapshot_release(&tree, place);
    tree.step++;
}

TEST(snapshots_are_at_the_branches_alone_and_a_sequence_starts_from_the_deepest)
{
    tree.states = &states;
    struct waiting_sequence *first = wait_for_tokens("aaabbbbcc"), *second = wait_for_tokens("aaabbbdd"),
                            *third = wait_for_tokens("aaaee"), *gone = wait_for_tokens("af");
    window_remove(&window, &gone->sequence);
    forget_sequence(gone);
    admit(first);
    struct prefix_node *leaf = first->sequence.node;
    assert_int_equal(leaf->parent->parent->parent->depth, 1);
    assert_null(snapshot_place(&tree, leaf, 0, 2)); // who waits goes on to the next branch
    keep_snapshot(first, 3);
    assert_int_equal(find(third).n_computed, 3);
    assert_true(find(second).blocked); // a deeper one follows
    keep_snapshot(first, 6);
    assert_int_equal(find(second).n_computed, 6);
    assert_null(snapshot_place(&tree, leaf, 6, 9)); // no other sequence ends where the first one does
    compute_sequence(first);
    assert_int_equal(prefix_find(&tree, second->sequence.node, 5).n_computed, 3); // scores from there on
    struct waiting_sequence *again = wait_for_tokens("aaabbbbcc");
    assert_int_equal(find(again).n_stored, 9);
    assert_int_equal(find(again).n_computed, 6);
    struct waiting_sequence *all[] = {second, third, again};
    for (int i = 0; i < 3; i++) {
        admit(all[i]);
        compute_sequence(all[i]);
        leave(all[i]);
    }
    leave(first);
    assert_int_equal(states.n_free, STATES - 2);
    prefix_clear(&tree); // with the pages of their last tokens
    assert_int_equal(states.n_free, STATES);
}

TEST(a_sequence_takes_the_slot_of_the_snapshot_that_saves_least)
{
    tree.states = &states;
    struct waiting_sequence *first = wait_for_tokens("aaaaabc"),
                            *branches[] = {wait_for_tokens("aaaaax"), wait_for_tokens("aaaaaby"),
                                           wait_for_tokens("aaaaabcz")};
    admit(first);
    for (int i = 0; i < STATES - 3; i++)
        (void)take_slot();
    keep_snapshot(first, 5);
    keep_snapshot(first, 6);
    keep_snapshot(first, 7);
    assert_int_equal(states.n_free, 0);
    struct prefix_node *deepest = first->sequence.node, *middle = deepest->parent, *upper = middle->parent;
    assert_int_equal(upper->n_starting, 1);
    window_remove(&window, &branches[0]->sequence);
    assert_int_equal(upper->n_starting, 0); // both who wait below start from deeper ones
    (void)take_slot();
    assert_false(upper->snapshot.held);
    assert_true(middle->snapshot.held && deepest->snapshot.held);
    (void)take_slot(); // one token from the middle, against six
    assert_true(middle->snapshot.held && !deepest->snapshot.held);
    assert_int_equal(middle->n_starting, 2);
    // The only one left becomes the slot of the sequence that starts from it.
    int32_t slot = middle->snapshot.slot;
    assert_int_equal(snapshot_take_slot_for(&tree, middle), slot);
    assert_false(middle->snapshot.held);
    assert_false(snapshot_slot_left(&tree));
    for (int i = 0; i < 3; i++) {
        if (i)
            window_remove(&window, &branches[i]->sequence);
        forget_sequence(branches[i]);
    }
    compute_sequence(first);
    leave(first);
}

TEST(a_snapshot_of_the_step_being_built_keeps_its_slot)
{
    tree.states = &states;
    struct waiting_sequence *first = wait_for_tokens("aaaa"), *second = wait_for_tokens("aab");
    admit(first);
    while (states.n_free > 1)
        (void)take_slot();
    struct prefix_node *place = snapshot_place(&tree, first->sequence.node, 0, 4);
    assert_int_equal(place->depth, 2);
    tree.step++;
    assert_true(snapshot_make(&tree, place));
    assert_int_equal(take_slot(), -1); // it has a reader
    snapshot_release(&tree, place);
    assert_int_equal(take_slot(), -1); // the step writes it
    tree.step++;
    assert_true(take_slot() >= 0);
    window_remove(&window, &second->sequence);
    forget_sequence(second);
    compute_sequence(first);
    leave(first);
}

// ---- any mix ----

enum { ACTORS = 24, LETTERS_MAX = 14, ROUNDS = 40000 };

// A prompt at work.
static struct actor {
    struct waiting_sequence *waiting; // NULL: absent
    char letters[LETTERS_MAX + 1];
    bool is_running;
    int32_t slot;
} actors[ACTORS];
static uint64_t random_state;
// Stands for the contents of pages and slots: the hash of the tokens up to a position.
static uint64_t contents[PAGES][PAGE], slot_contents[STATES];

static uint64_t hash_letters(const char *letters, int32_t n)
{
    return hash_bytes(letters, (size_t)n, 1);
}

static bool is_on_path(const struct actor *actor, const struct prefix_node *node)
{
    const struct prefix_node *at = actor->waiting ? actor->waiting->sequence.node : NULL;
    while (at && at != node)
        at = at->parent;
    return at != NULL;
}

static void check_node(const struct actor *actor, const struct prefix_node *node)
{
    int32_t n_users = 0, n_waiting = 0, n_starting = 0;
    for (int i = 0; i < ACTORS; i++) {
        bool is_on = is_on_path(&actors[i], node), covered = false;
        const struct prefix_node *below = is_on ? actors[i].waiting->sequence.node : node;
        for (; below != node; below = below->parent)
            covered = covered || below->snapshot.held;
        n_users += is_on && actors[i].is_running;
        n_waiting += is_on && !actors[i].is_running;
        n_starting += is_on && !actors[i].is_running && !covered;
    }
    int32_t start = node->depth - node->run.n;
    assert_memory_equal(node->run.tokens, actor->waiting->prompt.tokens.ids + start, (size_t)node->run.n * 4);
    assert_int_equal(node->n_users, n_users);
    assert_int_equal(node->n_waiting, n_waiting);
    assert_int_equal(node->n_starting, n_starting);
    assert_int_equal(node->idle, n_users == 0 && node->run.n_held > 0);
    assert_true(node->run.n_ready <= node->run.n);
    assert_true(n_users > 0 || !node->run.owner);
    if (node->snapshot.held) {
        assert_int_equal(node->run.n_ready, node->run.n);
        assert_true(slot_contents[node->snapshot.slot] == hash_letters(actor->letters, node->depth));
    }
}

// Every page that a running sequence uses has one owner, a node or a sequence, and holds what the sequence reads.
static void check_books(void)
{
    const void *owners[PAGES] = {0};
    int32_t n_used = 0, n_running = 0;
    for (int i = 0; i < ACTORS; i++) {
        const struct waiting_sequence *waiting = actors[i].waiting;
        const struct prefix_node *node = waiting ? waiting->sequence.node : NULL;
        for (; node && node->parent; node = node->parent) {
            check_node(&actors[i], node);
            for (int32_t j = 0; node->n_users > 0 && j < node->run.n_held; j++) {
                n_used += !owners[node->run.pages[j]];
                assert_true(!owners[node->run.pages[j]] || owners[node->run.pages[j]] == node);
                owners[node->run.pages[j]] = node;
            }
        }
        if (!waiting || !actors[i].is_running)
            continue;
        n_running++;
        for (int32_t j = waiting->claim.n_path; j < waiting->claim.n_pages; j++, n_used++) {
            assert_null(owners[waiting->pages[j]]);
            owners[waiting->pages[j]] = waiting;
        }
        int32_t n_tokens = waiting->sequence.cache.n_computed;
        for (int32_t j = 0; j < n_tokens; j++)
            assert_true(contents[waiting->pages[j / PAGE]][j % PAGE] ==
                        hash_letters(actors[i].letters, j + 1));
    }
    assert_int_equal(prefix_available(&tree) + n_used, PAGES);
    int32_t n_snapshots = 0;
    for (int wanted = 0; wanted < 2; wanted++)
        LIST_EACH (struct prefix_node, node, &tree.snapshots[wanted], snapshot.link) {
            assert_int_equal(node->n_starting > 0, wanted);
            n_snapshots++;
        }
    assert_int_equal(n_snapshots + (tree.states ? n_running : 0) + states.n_free, STATES);
}

static void start_actor(struct actor *actor)
{
    uint32_t n = random_below(&random_state, LETTERS_MAX + 1);
    for (uint32_t i = 0; i < n; i++)
        actor->letters[i] = (char)('a' + (random_below(&random_state, 4) == 0));
    actor->letters[n] = '\0';
    actor->waiting = wait_for_tokens(actor->letters);
    actor->is_running = false;
}

static void try_to_admit(struct actor *actor)
{
    struct waiting_sequence *waiting = actor->waiting;
    struct prefix_node *node = waiting->sequence.node;
    struct prefix_found found = find(waiting);
    int32_t n_pages = (node->depth + PAGE) / PAGE; // with the last token's
    if (found.blocked || (tree.states && !snapshot_slot_left(&tree)) ||
        n_pages - prefix_n_held(&tree, node) + prefix_n_idle(node) > prefix_available(&tree))
        return;
    if (tree.states) {
        actor->slot = snapshot_take_slot_for(&tree, found.snapshot);
        assert_true(
            !found.snapshot ||
            slot_contents[found.snapshot->snapshot.held ? found.snapshot->snapshot.slot : actor->slot] ==
                hash_letters(actor->letters, found.n_computed));
    }
    prefix_use(&tree, node);
    window_admit(&window, &waiting->sequence, 0);
    waiting->sequence.node = node;
    waiting->claim = prefix_claim(&tree, node, &waiting->sequence, &found, waiting->pages);
    waiting->sequence.cache.n_computed = found.n_computed;
    if (found.snapshot && found.snapshot->snapshot.held)
        snapshot_release(&tree, found.snapshot);
    if (waiting->claim.has_copy)
        memcpy(contents[waiting->claim.copy.to], contents[waiting->claim.copy.from], sizeof contents[0]);
    while (waiting->claim.n_pages < n_pages)
        waiting->pages[waiting->claim.n_pages++] = prefix_take_page(&tree);
    actor->is_running = true;
}

static void compute_some(struct actor *actor)
{
    struct waiting_sequence *waiting = actor->waiting;
    struct prefix_node *leaf = waiting->sequence.node;
    int32_t n = waiting->sequence.cache.n_computed, end = leaf->depth;
    end = n + (int32_t)random_below(&random_state, (uint32_t)(end - n) + 1);
    struct prefix_node *place = snapshot_place(&tree, leaf, n, end);
    place = place && snapshot_make(&tree, place) ? place : NULL;
    end = place ? place->depth : end;
    int32_t n_stored = prefix_find(&tree, leaf, INT32_MAX).n_stored;
    for (int32_t i = n; i < end + (end == leaf->depth); i++) // the last token's page may continue the path's
        if (i >= n_stored || i == leaf->depth)
            contents[waiting->pages[i / PAGE]][i % PAGE] =
                i < leaf->depth ? hash_letters(actor->letters, i + 1) : 0;
    compute_until(waiting, end, false);
    if (place) {
        slot_contents[place->snapshot.slot] = hash_letters(actor->letters, end);
        snapshot_release(&tree, place);
    }
    if (random_below(&random_state, 2) == 0) {
        tree.step++;
        for (int i = 0; i < ACTORS; i++)
            if (actors[i].waiting && actors[i].is_running)
                compute_until(actors[i].waiting, actors[i].waiting->sequence.cache.n_computed, true);
    }
}

static void end_actor(struct actor *actor)
{
    if (actor->is_running) {
        if (tree.states)
            page_stack_give(&states, actor->slot);
        leave(actor->waiting);
    } else {
        window_remove(&window, &actor->waiting->sequence);
        forget_sequence(actor->waiting);
    }
    actor->waiting = NULL;
}

static void mix_prompts(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct actor *actor = &actors[random_below(&random_state, ACTORS)];
        if (!actor->waiting)
            start_actor(actor);
        else if (!actor->is_running && random_below(&random_state, 4))
            try_to_admit(actor);
        else if (actor->is_running && random_below(&random_state, 3))
            compute_some(actor);
        else
            end_actor(actor);
        check_books();
    }
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].waiting)
            end_actor(&actors[i]);
    assert_true(tree.figures.n_evictions > ROUNDS / 100 && tree.figures.n_lookups == 0);
    for (int i = 0; i < PAGES; i++)
        assert_true(prefix_take_page(&tree) >= 0);
    assert_int_equal(tree.n_nodes, 0);
    assert_int_equal(states.n_free, STATES);
}

TEST(any_mix_of_prompts_shares_what_is_equal_and_keeps_the_books)
{
    random_state = random_seed(20251121);
    mix_prompts();
}

TEST(any_mix_of_prompts_with_recurrent_states_keeps_the_books_of_its_snapshots)
{
    random_state = random_seed(20261129);
    tree.states = &states;
    mix_prompts();
}

TEST(a_long_prompt_is_one_node_and_is_cut_where_another_parts_from_it)
{
    struct waiting_sequence *first = wait_for("abcdef");
    assert_int_equal(tree.n_nodes, 1);
    struct waiting_sequence *second = wait_for("abcxyz");
    assert_int_equal(tree.n_nodes, 3);
    struct waiting_sequence *third = wait_for("abcxyz"), *inner = wait_for("a");
    assert_int_equal(tree.n_nodes, 4);
    assert_ptr_equal(second->sequence.node, third->sequence.node);
    assert_int_equal(inner->sequence.node->depth, PAGE);
    assert_int_equal(first->sequence.node->run.n, 3 * PAGE);
    assert_ptr_equal(first->sequence.node->parent->parent, inner->sequence.node);
    struct waiting_sequence *all[] = {first, second, third, inner};
    for (int i = 0; i < 4; i++) {
        window_remove(&window, &all[i]->sequence);
        forget_sequence(all[i]);
    }
    assert_int_equal(tree.n_nodes, 0);
}

static struct waiting_sequence *wait_for_number(int32_t number)
{
    struct waiting_sequence *waiting = calloc(1, sizeof *waiting);
    for (int i = 0; i <= PAGE; i++)
        token_array_add(&waiting->prompt.tokens, number);
    waiting->prompt.job = &waiting->job;
    waiting->sequence.prompt = &waiting->prompt;
    assert_true(window_add(&window, &waiting->sequence));
    return waiting;
}

TEST(a_table_that_grows_loses_no_prefix)
{
    enum { N = 3000 }; // the table grows twice
    static struct waiting_sequence *first[N], *second[N];
    size_t n_slots = tree.n_slots;
    for (int32_t i = 0; i < N; i++) {
        first[i] = wait_for_number(i);
        assert_int_equal(tree.n_nodes, i + 1);
        assert_true(2 * tree.n_nodes <= tree.n_slots);
    }
    assert_true(tree.n_slots >= 4 * n_slots);
    for (int32_t i = 0; i < N; i++) {
        second[i] = wait_for_number(i);
        assert_ptr_equal(second[i]->sequence.node, first[i]->sequence.node);
    }
    assert_int_equal(tree.n_nodes, N);
    for (int32_t i = 0; i < N; i++) {
        window_remove(&window, &first[i]->sequence);
        window_remove(&window, &second[i]->sequence);
        forget_sequence(first[i]);
        forget_sequence(second[i]);
    }
    assert_int_equal(tree.n_nodes, 0);
}

TEST_FIXTURE(open_tree, close_tree);
