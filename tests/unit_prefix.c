// The prefix tree and the window by themselves: who may share what, who comes next, which page goes first.
#include "batching/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4 };

static struct page_stack stack;
static struct prefix_tree tree;
static struct window window;
static struct error error;

static int open_tree(void **state)
{
    (void)state;
    window = (struct window){.tree = &tree};
    return page_stack_init(&stack, 8, &error) == STATUS_OK && prefix_init(&tree, PAGE, &stack, &error) == STATUS_OK ? 0 : -1;
}

static int close_tree(void **state)
{
    (void)state;
    window_finish(&window);
    prefix_finish(&tree);
    page_stack_finish(&stack);
    return 0;
}

// A waiting sequence whose prompt is one letter a page and one token more: "ab" is aaaa bbbb b.
struct waiting {
    struct job job;
    struct prompt prompt;
    struct sequence sequence;
};

static struct waiting *wait_for(const char *letters)
{
    struct waiting *waiting = calloc(1, sizeof *waiting);
    size_t n = strlen(letters);
    for (size_t i = 0; i <= n * PAGE; i++)
        token_array_add(&waiting->prompt.tokens, letters[i / PAGE < n ? i / PAGE : n - 1]);
    waiting->prompt.job = &waiting->job;
    waiting->sequence.prompt = &waiting->prompt;
    assert_true(window_add(&window, &waiting->sequence));
    return waiting;
}

static void forget(struct waiting *waiting)
{
    token_array_finish(&waiting->prompt.tokens);
    free(waiting);
}

// As the planner admits: use the path, take it from the window, claim a page for each node that is not ready.
static void admit(struct waiting *waiting)
{
    struct prefix_node *node = waiting->sequence.node;
    bool blocked;
    int32_t n_ready = prefix_ready(node, &blocked);
    assert_false(blocked);
    prefix_use(&tree, node);
    window_remove(&window, &waiting->sequence, true);
    for (waiting->sequence.node = node; node->depth > n_ready; node = node->parent) {
        node->page = prefix_take_page(&tree);
        assert_true(node->page >= 0);
        node->owner = &waiting->sequence;
    }
}

static void compute(struct waiting *waiting)
{
    for (struct prefix_node *node = waiting->sequence.node; node->parent; node = node->parent)
        if (node->owner == &waiting->sequence) {
            node->ready = true;
            node->owner = NULL;
        }
}

static void leave(struct waiting *waiting)
{
    prefix_unuse(&tree, waiting->sequence.node, &waiting->sequence);
    forget(waiting);
}

static void a_prompt_waits_while_another_computes_what_it_shares(void **state)
{
    (void)state;
    struct waiting *first = wait_for("ab"), *second = wait_for("ac"), *other = wait_for("xy");
    admit(first);
    bool blocked;
    assert_int_equal(prefix_ready(second->sequence.node, &blocked), 0);
    assert_true(blocked);
    assert_ptr_equal(window_next(&window), &other->sequence);
    admit(other);
    assert_null(window_next(&window)); // only the one that has to wait is left
    compute(first);
    assert_ptr_equal(window_next(&window), &second->sequence);
    assert_int_equal(prefix_ready(second->sequence.node, &blocked), 1);
    assert_false(blocked);
    admit(second);
    compute(second);
    compute(other);
    assert_int_equal(tree.figures.n_pages_shared, 1);
    leave(first);
    assert_int_equal(tree.figures.n_pages_shared, 0);
    leave(second);
    leave(other);
    assert_int_equal(prefix_available(&tree), 8);
    assert_int_equal(tree.figures.n_pages_idle, 5);
}

static void pages_left_before_they_were_computed_are_free_and_unblock_the_others(void **state)
{
    (void)state;
    struct waiting *first = wait_for("ab"), *second = wait_for("ac");
    admit(first);
    assert_null(window_next(&window));
    leave(first);
    assert_int_equal(stack.n_free, 8);
    bool blocked;
    assert_int_equal(prefix_ready(second->sequence.node, &blocked), 0);
    assert_false(blocked);
    admit(second);
    compute(second);
    leave(second);
}

static void the_walk_goes_on_with_the_prompts_that_share_most(void **state)
{
    (void)state;
    struct waiting *order[] = {wait_for("abc"), wait_for("x"), wait_for("a"), wait_for("abd"), wait_for("abc"), wait_for("xyz")};
    const int expected[] = {2, 0, 4, 3, 1, 5};
    for (int i = 0; i < 6; i++) {
        struct sequence *next = window_next(&window);
        assert_ptr_equal(next, &order[expected[i]]->sequence);
        admit(order[expected[i]]);
        compute(order[expected[i]]);
    }
    for (int i = 0; i < 6; i++)
        leave(order[i]);
}

static void deep_pages_go_before_their_parents_and_unwanted_ones_before_wanted_ones(void **state)
{
    (void)state;
    struct waiting *wanted = wait_for("abc"), *unwanted = wait_for("xy");
    admit(wanted);
    compute(wanted);
    admit(unwanted);
    compute(unwanted);
    leave(wanted);
    leave(unwanted);
    struct waiting *comes_back = wait_for("ab"); // a and b are wanted again, c is not
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
    forget(comes_back);
    assert_int_equal(tree.n_nodes, 0);
}

static void prompts_with_long_context_share_nothing_with_the_others(void **state)
{
    (void)state;
    struct waiting *normal = wait_for("ab");
    admit(normal);
    compute(normal);
    struct waiting *lengthened = calloc(1, sizeof *lengthened);
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
    forget(lengthened);
    leave(normal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_prompt_waits_while_another_computes_what_it_shares, open_tree, close_tree),
        cmocka_unit_test_setup_teardown(pages_left_before_they_were_computed_are_free_and_unblock_the_others, open_tree,
                                        close_tree),
        cmocka_unit_test_setup_teardown(the_walk_goes_on_with_the_prompts_that_share_most, open_tree, close_tree),
        cmocka_unit_test_setup_teardown(deep_pages_go_before_their_parents_and_unwanted_ones_before_wanted_ones, open_tree,
                                        close_tree),
        cmocka_unit_test_setup_teardown(prompts_with_long_context_share_nothing_with_the_others, open_tree, close_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
