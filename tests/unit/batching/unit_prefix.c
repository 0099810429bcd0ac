// The prefix tree and the window alone: sharing of pages, order of admission, order of eviction.
#include "batching/window.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

enum { PAGE = 4, PAGES = 8 /* of the stack */ };

static struct page_stack stack;
static struct prefix_tree tree;
static struct window window;
static struct error error;

static int open_tree(void **state)
{
    window = (struct window){.tree = &tree};
    return page_stack_init(&stack, PAGES, &error) == STATUS_OK &&
                   prefix_init(&tree, PAGE, &stack, &error) == STATUS_OK
               ? 0
               : -1;
}

static int close_tree(void **state)
{
    window_finish(&window);
    prefix_finish(&tree);
    page_stack_finish(&stack);
    return 0;
}

// A waiting sequence whose prompt is one letter a page and one token more: "ab" is aaaa bbbb b.
struct waiting_sequence {
    struct job job;
    struct prompt prompt;
    struct sequence sequence;
    int32_t pages[PAGES];
};

static struct waiting_sequence *wait_for(const char *letters)
{
    struct waiting_sequence *waiting = calloc(1, sizeof *waiting);
    size_t n = strlen(letters);
    for (size_t i = 0; i <= n * PAGE; i++)
        token_array_add(&waiting->prompt.tokens, letters[i / PAGE < n ? i / PAGE : n - 1]);
    waiting->prompt.job = &waiting->job;
    waiting->sequence.prompt = &waiting->prompt;
    assert_true(window_add(&window, &waiting->sequence));
    return waiting;
}

static void forget_sequence(struct waiting_sequence *waiting)
{
    token_array_finish(&waiting->prompt.tokens);
    free(waiting);
}

// As the scheduler admits: use the path, take it from the window, claim the pages that are not ready.
static void admit(struct waiting_sequence *waiting)
{
    struct prefix_node *node = waiting->sequence.node;
    bool blocked;
    (void)prefix_ready(node, &blocked);
    assert_false(blocked);
    prefix_use(&tree, node);
    window_remove(&window, &waiting->sequence, true);
    waiting->sequence.node = node;
    prefix_claim(&tree, node, &waiting->sequence, waiting->pages);
}

static void compute_sequence(struct waiting_sequence *waiting)
{
    prefix_computed(waiting->sequence.node, &waiting->sequence, waiting->sequence.node->depth);
}

static void leave(struct waiting_sequence *waiting)
{
    prefix_unuse(&tree, waiting->sequence.node, &waiting->sequence);
    forget_sequence(waiting);
}

TEST(a_prompt_waits_while_another_computes_what_it_shares)
{
    struct waiting_sequence *first = wait_for("ab"), *second = wait_for("ac"), *other = wait_for("xy");
    admit(first);
    bool blocked;
    assert_int_equal(prefix_ready(second->sequence.node, &blocked), 0);
    assert_true(blocked);
    assert_ptr_equal(window_next(&window), &other->sequence);
    admit(other);
    assert_null(window_next(&window)); // only the one that has to wait is left
    compute_sequence(first);
    assert_ptr_equal(window_next(&window), &second->sequence);
    assert_int_equal(prefix_ready(second->sequence.node, &blocked), 1);
    assert_false(blocked);
    admit(second);
    compute_sequence(second);
    compute_sequence(other);
    assert_int_equal(tree.figures.n_pages_shared, 1);
    leave(first);
    assert_int_equal(tree.figures.n_pages_shared, 0);
    leave(second);
    leave(other);
    assert_int_equal(prefix_available(&tree), 8);
    assert_int_equal(tree.figures.n_pages_idle, 5);
}

TEST(pages_left_before_they_were_computed_are_free_and_unblock_the_others)
{
    struct waiting_sequence *first = wait_for("ab"), *second = wait_for("ac");
    admit(first);
    assert_null(window_next(&window));
    leave(first);
    assert_int_equal(stack.n_free, 8);
    bool blocked;
    assert_int_equal(prefix_ready(second->sequence.node, &blocked), 0);
    assert_false(blocked);
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
    const int expected[] = {2, 0, 4, 3, 1, 5};
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
    assert_int_equal(stack.n_free, 3);
    for (int i = 0; i < 3; i++)
        prefix_take_page(&tree);
    bool blocked;
    prefix_take_page(&tree); // c: the oldest that nobody waits for
    prefix_take_page(&tree); // y
    prefix_take_page(&tree); // x
    assert_int_equal(prefix_ready(comes_back->sequence.node, &blocked), 2);
    prefix_take_page(&tree); // b, then a
    assert_int_equal(prefix_ready(comes_back->sequence.node, &blocked), 1);
    prefix_take_page(&tree);
    assert_int_equal(prefix_ready(comes_back->sequence.node, &blocked), 0);
    assert_int_equal(prefix_take_page(&tree), -1);
    assert_int_equal(tree.figures.n_evictions, 5);
    window_remove(&window, &comes_back->sequence, false);
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
    bool blocked;
    assert_int_equal(prefix_ready(lengthened->sequence.node, &blocked), 0);
    assert_ptr_equal(window_next(&window), &lengthened->sequence);
    window_remove(&window, &lengthened->sequence, false);
    forget_sequence(lengthened);
    leave(normal);
}

// ---- any mix ----

enum { ACTORS = 40, LETTERS_MAX = 6, ROUNDS = 20000, CODES = 1 << (2 * LETTERS_MAX + 2) };

// A prompt at work, and what the tree should know of it.
static struct actor {
    struct waiting_sequence *waiting; // NULL: absent
    char letters[LETTERS_MAX + 1];
    bool is_running;
} actors[ACTORS];
static bool is_computed[CODES]; // by the code of a prefix: once computed, and since then not seen to be gone
static uint64_t random_state;

// Two bits a letter, 1 in front.
static int code_of(const char *letters, int32_t n_pages)
{
    int code = 1;
    for (int32_t i = 0; i < n_pages; i++)
        code = code << 2 | (letters[i] & 3);
    return code;
}

// The node that holds page `page` of the actor's path, and its index there.
static const struct prefix_node *node_at(const struct actor *actor, int32_t page, int32_t *index)
{
    const struct prefix_node *node = actor->waiting->sequence.node;
    while (node->depth - node->pages.n > page)
        node = node->parent;
    *index = page - (node->depth - node->pages.n);
    return node;
}

// How many actors have the prefix of that code, waiting or running.
static int count_actors(int code, int32_t n_pages, bool running)
{
    int n = 0;
    for (int i = 0; i < ACTORS; i++)
        n += actors[i].waiting && actors[i].is_running == running &&
             (int32_t)strlen(actors[i].letters) >= n_pages && code_of(actors[i].letters, n_pages) == code;
    return n;
}

// A page of a prefix in use, seen through one of those who use it: counted in *n_used and *n_shared by the
// first.
static void check_page(const struct actor *actor, int32_t page, int *owner_of_page, int *n_used,
                       int *n_shared)
{
    int32_t index;
    const struct prefix_node *node = node_at(actor, page, &index);
    int code = code_of(actor->letters, page + 1);
    int n_users = count_actors(code, page + 1, true);
    assert_int_equal(node->pages.tokens[index * PAGE], actor->letters[page]);
    assert_int_equal(node->n_users, n_users);
    assert_int_equal(node->n_waiting, count_actors(code, page + 1, false));
    assert_true(node->pages.n_ready <= node->pages.n_held && node->pages.n_held <= node->pages.n);
    assert_int_equal(node->pages.owner != NULL, node->pages.n_ready < node->pages.n_held);
    assert_int_equal(node->idle, n_users == 0 && node->pages.n_held > 0);
    if (n_users == 0) {
        assert_true(index >= node->pages.n_ready || is_computed[code]);
        is_computed[code] = index < node->pages.n_ready; // or it was evicted
        return;
    }
    assert_true(index < node->pages.n_held);
    assert_int_equal(index < node->pages.n_ready, is_computed[code]);
    if (actor->is_running)
        assert_int_equal(actor->waiting->pages[page], node->pages.items[index]);
    if (owner_of_page[node->pages.items[index]] == 0) {
        owner_of_page[node->pages.items[index]] = code;
        ++*n_used;
        *n_shared += n_users > 1;
    }
    assert_int_equal(owner_of_page[node->pages.items[index]], code);
}

static void check_books(void)
{
    int owner_of_page[PAGES] = {0}, n_used = 0, n_shared = 0;
    for (int i = 0; i < ACTORS; i++)
        for (int32_t page = 0; actors[i].waiting && page < (int32_t)strlen(actors[i].letters); page++)
            check_page(&actors[i], page, owner_of_page, &n_used, &n_shared);
    assert_int_equal(tree.figures.n_pages_shared, n_shared);
    assert_int_equal(prefix_available(&tree) + n_used, PAGES);
}

static void start_actor(struct actor *actor)
{
    uint32_t n = random_below(&random_state, LETTERS_MAX + 1);
    for (uint32_t i = 0; i < n; i++)
        actor->letters[i] = (char)('a' + random_below(&random_state, i < 2 ? 2 : 3));
    actor->letters[n] = '\0';
    actor->waiting = wait_for(actor->letters);
    actor->is_running = false;
}

static void try_to_admit(struct actor *actor)
{
    bool blocked;
    const struct prefix_node *node = actor->waiting->sequence.node;
    int32_t n_ready = prefix_ready(node, &blocked);
    if (blocked || node->depth - n_ready + prefix_n_idle(node) > prefix_available(&tree))
        return;
    admit(actor->waiting);
    actor->is_running = true;
    // Pages evicted since, or before the lookup.
    for (int32_t page = n_ready; page < node->depth; page++)
        is_computed[code_of(actor->letters, page + 1)] = false;
}

static void compute_some(struct actor *actor)
{
    bool blocked;
    struct prefix_node *node = actor->waiting->sequence.node;
    int32_t n_ready = prefix_ready(node, &blocked);
    int32_t n_pages = n_ready + (int32_t)random_below(&random_state, (uint32_t)(node->depth - n_ready) + 1);
    prefix_computed(node, &actor->waiting->sequence, n_pages);
    for (int32_t page = n_ready; page < n_pages; page++)
        is_computed[code_of(actor->letters, page + 1)] = true;
}

static void end_actor(struct actor *actor)
{
    if (actor->is_running) {
        leave(actor->waiting);
    } else {
        window_remove(&window, &actor->waiting->sequence, false);
        forget_sequence(actor->waiting);
    }
    actor->waiting = NULL;
}

TEST(any_mix_of_prompts_shares_what_is_equal_and_keeps_the_books)
{
    random_state = random_seed(20251121);
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
    for (int i = 0; i < PAGES; i++)
        assert_true(prefix_take_page(&tree) >= 0);
    assert_int_equal(tree.n_nodes, 0);
    assert_true(tree.figures.n_evictions > ROUNDS / 100 && tree.figures.n_lookups == 0);
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
    assert_int_equal(inner->sequence.node->depth, 1);
    assert_int_equal(first->sequence.node->pages.n, 3);
    assert_ptr_equal(first->sequence.node->parent->parent, inner->sequence.node);
    struct waiting_sequence *all[] = {first, second, third, inner};
    for (int i = 0; i < 4; i++) {
        window_remove(&window, &all[i]->sequence, false);
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
        window_remove(&window, &first[i]->sequence, false);
        window_remove(&window, &second[i]->sequence, false);
        forget_sequence(first[i]);
        forget_sequence(second[i]);
    }
    assert_int_equal(tree.n_nodes, 0);
}

TEST_FIXTURE(open_tree, close_tree);
