// The window's order: urgency first, prefixes within it, and no starvation.
#include "batching/window.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

enum { PAGE = 4, PAGES = 64 };

static struct page_stack stack;
static struct prefix_tree tree;
static struct window window;
static struct error error;
static int64_t n_tokens_charged; // to each admission
static int64_t n_tokens_settled; // at its end; -1: n_tokens_charged

struct waiting_job {
    struct job job;
    struct prompt prompt;
    struct sequence sequence;
    char letter;
};

static int open_window(void **state)
{
    window = (struct window){.tree = &tree};
    n_tokens_charged = 0;
    n_tokens_settled = -1;
    return page_stack_init(&stack, PAGES, &error) == STATUS_OK &&
                   prefix_init(&tree, PAGE, &stack, NULL, &error) == STATUS_OK
               ? 0
               : -1;
}

static int close_window(void **state)
{
    assert_int_equal(window.n_waiting, 0);
    assert_null(window.waiting.first);
    assert_null(window.offered);
    window_finish(&window);
    prefix_finish(&tree);
    page_stack_finish(&stack);
    assert_null(stack.free); // zeroed, as before page_stack_init
    assert_int_equal(stack.n_free, 0);
    return 0;
}

// A prompt of one page of the letter and one token more.
static struct waiting_job *add_job_of(struct text dataset, char letter, int32_t priority, int64_t deadline_s)
{
    struct waiting_job *waiting = calloc(1, sizeof *waiting);
    waiting->letter = letter;
    waiting->job.dataset = dataset;
    waiting->job.priority = priority;
    waiting->job.deadline_s = deadline_s;
    for (int i = 0; i <= PAGE; i++)
        token_array_add(&waiting->prompt.tokens, letter);
    waiting->prompt.job = &waiting->job;
    waiting->sequence.prompt = &waiting->prompt;
    assert_true(window_add(&window, &waiting->sequence));
    return waiting;
}

static struct waiting_job *add_job(char letter, int32_t priority, int64_t deadline_s)
{
    return add_job_of((struct text){0}, letter, priority, deadline_s);
}

static void forget_job(struct waiting_job *waiting)
{
    token_array_finish(&waiting->prompt.tokens);
    free(waiting);
}

static struct waiting_job *take_next(void)
{
    struct sequence *sequence = window_next(&window);
    return sequence ? (struct waiting_job *)((char *)sequence - offsetof(struct waiting_job, sequence))
                    : NULL;
}

// Admits the next sequence, which finishes at once. Returns its letter; 0: the window is empty.
static char admit(void)
{
    struct waiting_job *waiting = take_next();
    if (!waiting)
        return 0;
    struct prefix_node *node = waiting->sequence.node;
    prefix_use(&tree, node);
    window_admit(&window, &waiting->sequence, n_tokens_charged);
    int32_t page;
    struct prefix_found found = {0};
    prefix_claim(&tree, node, waiting, &found, &page);
    prefix_computed(&tree, node, waiting, PAGE, true);
    window_settle(&window, &waiting->sequence, n_tokens_settled < 0 ? n_tokens_charged : n_tokens_settled);
    prefix_unuse(&tree, node, waiting);
    char letter = waiting->letter;
    forget_job(waiting);
    return letter;
}

static void assert_order(const char *letters)
{
    for (const char *at = letters; *at; at++)
        assert_int_equal(admit(), *at);
}

TEST(the_higher_priority_comes_first_and_within_it_the_earlier_deadline)
{
    add_job('f', 0, 0), add_job('g', -1, 0), add_job('e', 0, 9000), add_job('a', 2, 0), add_job('b', 1, 600),
        add_job('c', 1, 1200);
    add_job('d', 0, 60);
    assert_order("abcdefg");
}

TEST(a_job_that_was_cancelled_while_more_urgent_ones_ran_is_gone_for_good)
{
    add_job('a', 0, 0);
    struct waiting_job *cancelled = add_job('a', 0, 0);
    add_job('u', 1, 0);
    window_remove(&window, &cancelled->sequence);
    assert_order("ua");
    assert_null(take_next());
    add_job('a', 0, 0);
    assert_order("a");
    assert_null(take_next());
    forget_job(cancelled);
}

TEST(deadlines_of_one_minute_are_of_one_level_and_prefixes_stay_together)
{
    add_job('a', 0, 61), add_job('b', 0, 60), add_job('a', 0, 119), add_job('b', 0, 90), add_job('c', 0, 120);
    assert_order("aabbc");
}

TEST(prefixes_stay_together_in_each_level)
{
    for (int i = 0; i < 3; i++)
        add_job('x', 0, 0), add_job('a', 1, 0), add_job('y', 0, 0), add_job('b', 1, 0);
    assert_order("aaabbbxxxyyy");
}

// The number admitted before it arrived does not count.
TEST(one_that_was_passed_over_too_often_is_next_whatever_its_prefix)
{
    for (int i = 0; i <= WINDOW_PASSED_MAX; i++) {
        add_job('a', 0, 0);
        assert_order("a");
    }
    add_job('x', 0, 0);
    for (int i = 0; i <= WINDOW_PASSED_MAX; i++) {
        add_job('a', 0, 0);
        assert_order("a"); // its page is there
    }
    add_job('a', 0, 0);
    assert_order("xa");
}

TEST(every_eighth_place_goes_to_the_one_that_waits_longest)
{
    add_job('l', 0, 0);
    add_job('m', 0, 0);
    for (int i = 0; i < 40; i++)
        add_job('h', 5, 0);
    assert_order("hhhhhhhlhhhhhhhmhhhhhhhhhhhhhhhhhhhhhhhhhh");
}

// One that gives its pages back and returns takes no place twice.
TEST(a_preempted_one_that_returns_does_not_count_as_an_admission)
{
    add_job('l', 0, 0);
    struct waiting_job *returns = add_job('p', 9, 0);
    for (int i = 0; i < 20; i++)
        add_job('h', 5, 0);
    for (int i = 0; i < 6; i++) {
        assert_ptr_equal(take_next(), returns);
        struct prefix_node *node = returns->sequence.node;
        prefix_use(&tree, node);
        window_admit(&window, &returns->sequence, 0);
        prefix_unuse(&tree, node, returns);
        returns->sequence.node = NULL;
        if (i < 5)
            assert_true(window_add_preempted(&window, &returns->sequence));
    }
    forget_job(returns);
    assert_order("hhhhhhlhhhhhhhhhhhhhh");
}

// They give their pages back in any order.
TEST(preempted_ones_return_in_the_order_of_their_first_admission)
{
    struct waiting_job *jobs[5];
    static const int given_back[] = {2, 0, 4, 1, 3};
    for (int i = 0; i < 5; i++)
        jobs[i] = add_job((char)('a' + i), 0, 0);
    for (int i = 0; i < 5; i++) {
        struct prefix_node *node = jobs[i]->sequence.node;
        prefix_use(&tree, node);
        window_admit(&window, &jobs[i]->sequence, 0);
        prefix_unuse(&tree, node, jobs[i]);
        jobs[i]->sequence.node = NULL;
        jobs[i]->sequence.admission = i;
    }
    for (int i = 0; i < 5; i++)
        assert_true(window_add_preempted(&window, &jobs[given_back[i]]->sequence));
    assert_order("abcde");
}

TEST(the_oldest_keeps_its_turn_when_urgent_ones_keep_coming)
{
    for (int i = 0; i < 10; i++)
        add_job('l', -100, 0);
    int n_low = 0, n_high = 0;
    add_job('h', 100, 60);
    while (n_low < 10) {
        char letter = admit();
        n_low += letter == 'l';
        n_high += letter == 'h';
        if (letter == 'h')
            add_job('h', 100, 60);
    }
    assert_int_equal(n_high, 10 * (WINDOW_OLDEST_EVERY - 1));
    assert_int_equal(admit(), 'h');
}

TEST(a_few_urgent_ones_do_not_take_the_others_out_of_the_tree)
{
    for (int i = 0; i < 100; i++)
        add_job('l', 0, 0);
    struct window_level *low = window.offered;
    for (int i = 0; i < WINDOW_SCAN_MAX; i++)
        add_job('h', 1, 0);
    assert_ptr_equal(window.offered, low);
    add_job('h', 1, 0);
    assert_ptr_not_equal(window.offered, low);
    assert_ptr_equal(window.offered, window.turns.levels[0]);
    int n_high = 0;
    while (window.n_waiting)
        n_high += admit() == 'h';
    assert_int_equal(n_high, WINDOW_SCAN_MAX + 1);
}

TEST(one_that_must_wait_for_a_prefix_leaves_its_place_to_a_less_urgent_one)
{
    struct waiting_job *first = add_job('a', 1, 0), *second = add_job('a', 1, 0), *low = add_job('z', 0, 0);
    assert_ptr_equal(take_next(), first);
    struct prefix_node *node = first->sequence.node;
    prefix_use(&tree, node);
    window_admit(&window, &first->sequence, 0);
    int32_t page;
    struct prefix_found found = {0};
    prefix_claim(&tree, node, first, &found, &page); // computing
    assert_ptr_equal(take_next(), low);
    prefix_computed(&tree, node, first, PAGE, true);
    assert_ptr_equal(take_next(), second);
    prefix_unuse(&tree, node, first);
    forget_job(first);
    assert_order("az");
}

// ---- turns of datasets ----

static void add_jobs_of(const char *dataset, char letter, int n)
{
    for (int i = 0; i < n; i++)
        add_job_of(text_from_string(dataset), letter, 0, 0);
}

TEST(datasets_take_turns_by_tokens_and_a_turn_keeps_to_its_dataset)
{
    n_tokens_charged = TURN_QUANTUM / 4;
    add_jobs_of("big", 'b', 20);
    add_jobs_of("small", 's', 6);
    add_jobs_of("", 'n', 2);
    assert_order("ssssnnbbbbssbbbbbbbbbbbbbbbb");
}

TEST(a_small_dataset_does_not_wait_for_a_large_one_that_came_first)
{
    n_tokens_charged = 100;
    add_jobs_of("big", 'b', 4000);
    for (int i = 0; i < 200; i++)
        assert_int_equal(admit(), 'b');
    add_jobs_of("ten", 't', 10);
    int n_before = 0;
    for (int n_left = 10; n_left; n_before++)
        n_left -= admit() == 't';
    assert_in_range(n_before, 10, 10 + TURN_QUANTUM / 100 + 1);
    while (admit())
        continue;
}

TEST(turns_are_as_long_as_the_weights_say)
{
    static struct dataset_shares shares;
    shares = (struct dataset_shares){0};
    dataset_shares_add(&shares, TEXT("heavy"))->weight = 3;
    dataset_shares_add(&shares, TEXT("light"))->weight = 0.5;
    window.turns.shares = &shares;
    n_tokens_charged = TURN_QUANTUM / 2;
    add_jobs_of("light", 'l', 20);
    add_jobs_of("even", 'e', 20);
    add_jobs_of("heavy", 'h', 20);
    assert_order("eehhhhhhleehhhhhhleehhhhhh");
    while (admit())
        continue;
}

TEST(answers_that_were_longer_than_expected_are_paid_for_by_later_turns)
{
    n_tokens_charged = TURN_QUANTUM / 4;
    n_tokens_settled = TURN_QUANTUM / 2;
    add_jobs_of("a", 'a', 8);
    add_jobs_of("b", 'b', 8);
    assert_order("bbaabbaa");
    n_tokens_settled = 0; // and shorter ones give back, up to a whole turn
    assert_order("bbbbaaaa");
}

TEST(a_sequence_longer_than_a_turn_is_paid_for_with_the_turns_that_it_took)
{
    n_tokens_charged = TURN_QUANTUM * 3;
    add_jobs_of("a", 'a', 8);
    assert_order("a"); // alone, it owes nothing
    add_jobs_of("b", 'b', 4);
    assert_order("b");
    n_tokens_charged = TURN_QUANTUM / 2;
    assert_order("aaaaaabbab");
}

// One job at a time, it is new each time.
TEST(a_dataset_that_comes_back_again_and_again_has_one_turn_like_the_others)
{
    n_tokens_charged = TURN_QUANTUM / 4;
    add_jobs_of("big", 'b', 100);
    char order[17] = "";
    for (int i = 0; i < 16; i++) {
        bool waits = window.turns.n_levels > 1;
        if (!waits)
            add_jobs_of("one", 'o', 1);
        order[i] = admit();
    }
    assert_string_equal(order, "oooobbbboooobbbb");
    while (admit())
        continue;
}

TEST(new_datasets_without_end_leave_places_to_the_others)
{
    n_tokens_charged = 10;
    add_jobs_of("big", 'b', 20);
    int n_big = 0;
    static char names[TURNS_NEW_MAX * 5][16];
    for (int i = 0; i < TURNS_NEW_MAX * 5; i++) {
        snprintf(names[i], sizeof names[i], "new%d", i);
        add_jobs_of(names[i], 'n', 1);
        n_big += admit() == 'b';
    }
    assert_in_range(n_big, 4, 5);
    while (admit())
        continue;
}

TEST(a_more_urgent_dataset_needs_no_turn)
{
    n_tokens_charged = TURN_QUANTUM / 2;
    add_jobs_of("big", 'b', 4);
    for (int i = 0; i < 6; i++)
        add_job_of(TEXT("urgent"), 'u', 1, 0);
    assert_order("uuuuuubbbb");
}

static uint64_t random_state;

static bool is_most_urgent(const struct waiting_job *waiting)
{
    const struct turn_level *top = window.turns.levels[0];
    int64_t minute = waiting->job.deadline_s ? waiting->job.deadline_s / 60 : INT64_MAX;
    return waiting->job.priority == top->priority && minute == top->minute;
}

TEST(any_mix_of_coming_and_going_gives_each_its_place_once)
{
    random_state = random_seed(20240711);
    enum { N = 20000, HELD_MAX = 600 };
    struct waiting_job *held[HELD_MAX];
    int n_held = 0, n_out_of_turn = 0, n_admitted = 0;
    for (int i = 0; i < N; i++) {
        uint32_t what = random_below(&random_state, 10);
        if (what < 6 && n_held < HELD_MAX) {
            int64_t deadline_s =
                random_below(&random_state, 3) ? 0 : 60 + (int64_t)random_below(&random_state, 300);
            n_tokens_charged = (int64_t)random_below(&random_state, TURN_QUANTUM);
            static const char names[] = "abcdef";
            held[n_held++] = add_job_of((struct text){names + random_below(&random_state, 6),
                                                      random_below(&random_state, 2)},
                                        (char)('a' + random_below(&random_state, 20)),
                                        (int32_t)random_below(&random_state, 3), deadline_s);
        } else if (what < 9 && n_held) {
            struct waiting_job *chosen = take_next();
            assert_non_null(chosen); // nobody computes, so nobody is blocked
            n_out_of_turn += !is_most_urgent(chosen);
            n_admitted++;
            for (int h = 0; h < n_held; h++)
                if (held[h] == chosen)
                    held[h] = held[--n_held];
            admit();
        } else if (n_held) {
            int h = (int)random_below(&random_state, (uint32_t)n_held);
            window_remove(&window, &held[h]->sequence);
            forget_job(held[h]);
            held[h] = held[--n_held];
        }
        assert_int_equal(window.n_waiting, n_held);
        if (n_held)
            assert_true(tree.roots[0]->n_offered == window.offered->n_waiting);
    }
    assert_in_range(n_out_of_turn, 1, n_admitted / WINDOW_OLDEST_EVERY);
    while (admit())
        continue;
}

TEST_FIXTURE(open_window, close_window);
