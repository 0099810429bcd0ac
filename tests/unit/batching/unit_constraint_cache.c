// The cache of compiled constraints: which requests share an entry, when one is compiled, and when it goes
// (batching/constraint.h). What compiles is this program's.
#include "batching/constraint.h"
#include "batching/constraint_threads.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/vocabulary_file.h"

#include <pthread.h>
#include <semaphore.h>

static struct {
    struct tokenizer *tokenizer;
    struct constraint_cache cache;
    sem_t allowed; // one compile each
    sem_t vocabulary_allowed;
    int vocabulary_failures; // left: its next tries lack memory
    pthread_mutex_t mutex;
    char compiled[4096]; // sources in their order
} world;

static struct error error;

// A source that begins with '!' lacks memory, one that begins with '-' is refused.
static void compile_when_allowed(struct compiled_constraint *entry, struct constraint_cache *cache)
{
    if (entry == &cache->making) {
        while (sem_wait(&world.vocabulary_allowed) != 0)
            continue;
        if (world.vocabulary_failures && world.vocabulary_failures--)
            error_set(&entry->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "the vocabulary: out of memory");
        else
            constraint_vocabulary_make(cache);
        sem_post(&world.vocabulary_allowed);
        return;
    }
    while (sem_wait(&world.allowed) != 0)
        continue;
    struct text source = entry->source.constraint.source;
    char first = source.size ? source.data[0] : ' ';
    entry->error.status = first == '!' ? STATUS_RETRY : first == '-' ? STATUS_REJECT : STATUS_OK;
    pthread_mutex_lock(&world.mutex);
    size_t size = strlen(world.compiled);
    snprintf(world.compiled + size, sizeof world.compiled - size, "%.*s ", (int)source.size, source.data);
    pthread_mutex_unlock(&world.mutex);
}

static int open_world(void **state)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    add_key_u32(&file, "tokenizer.ggml.eos_token_id",
                (uint32_t)add_token(&file, "<|im_end|>", 0, TYPE_CONTROL));
    world.tokenizer = vocabulary_file_open(&file, "llama", NULL, &error);
    world.cache = (struct constraint_cache){.tokenizer = world.tokenizer,
                                            .n_vocab = tokenizer_n_tokens(world.tokenizer),
                                            .compile = compile_when_allowed};
    world.compiled[0] = '\0';
    pthread_mutex_init(&world.mutex, NULL);
    sem_init(&world.vocabulary_allowed, 0, 1);
    world.vocabulary_failures = 0;
    return sem_init(&world.allowed, 0, 0);
}

static int close_world(void **state)
{
    for (int i = 0; i < CONSTRAINT_THREADS; i++)
        sem_post(&world.allowed); // of entries that nobody waits for
    constraint_cache_finish(&world.cache);
    assert_int_equal(world.cache.n_waiting + world.cache.n_compiling, 0);
    tokenizer_close(world.tokenizer);
    sem_destroy(&world.allowed);
    sem_destroy(&world.vocabulary_allowed);
    pthread_mutex_destroy(&world.mutex);
    return 0;
}

static struct compiled_constraint *find(const struct answer_rules *rules)
{
    struct compiled_constraint *entry = NULL;
    assert_ok(constraint_cache_find(&world.cache, rules, &entry, &error), &error);
    return entry;
}

static struct compiled_constraint *find_regex(const char *source)
{
    return find(
        &(struct answer_rules){.constraint = {.kind = CONSTRAINT_REGEX, .source = text_from_string(source)}});
}

static int32_t n_entries(void)
{
    int32_t n = 0;
    LIST_EACH (struct compiled_constraint, entry, &world.cache.entries, link)
        n++;
    return n;
}

static void collect(void)
{
    int32_t n;
    assert_ok(constraint_cache_collect(&world.cache, 10000, &n, &error), &error);
}

static void await_vocabulary(void)
{
    while (world.cache.making.state != CONSTRAINT_COMPILED)
        collect();
}

static void compile_all(void)
{
    await_vocabulary();
    while (world.cache.n_waiting + world.cache.n_compiling) {
        sem_post(&world.allowed);
        collect();
    }
    while (sem_trywait(&world.allowed) == 0)
        continue;
}

// ---- equal rules ----

// An entry is compiled of its own copy: choices a and b, the function f.
static void assert_source_is_kept(const struct answer_rules *copy)
{
    assert_true(text_equal(copy->constraint.choices[0], TEXT("a")) &&
                text_equal(copy->constraint.choices[1], TEXT("b")));
    assert_int_equal(copy->constraint.n_choices, 2);
    assert_true(text_equal(copy->tools.functions[0].name, TEXT("f")) &&
                text_equal(copy->tools.named, TEXT("f")));
    assert_int_equal(copy->tools.functions[0].parameters.kind, VALUE_NULL);
    assert_int_equal(copy->tools.n_functions, 1);
}

TEST(equal_rules_have_one_entry_and_others_their_own)
{
    static const char one[] = "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
                      other[] = "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}";
    struct arena arena = {0};
    struct value tools[2];
    struct text texts[] = {TEXT("[0]"), TEXT("[0]")};
    struct text choices[][3] = {{TEXT("a"), TEXT("b")},
                                {TEXT("a"), TEXT("c")},
                                {TEXT("b"), TEXT("a")},
                                {TEXT("a"), TEXT("b"), TEXT("c")}};
    char list[2][128];
    for (int i = 0; i < 2; i++) {
        snprintf(list[i], sizeof list[i], "[%s]", i ? other : one);
        texts[i] = text_from_string(list[i]);
        assert_ok(json_decode(texts[i], &arena, &tools[i], &error), &error);
    }
    struct tool_function functions[] = {{.name = TEXT("f")}, {.name = TEXT("g")}};
    struct answer_rules base = {
        .constraint = {.kind = CONSTRAINT_CHOICE,
                       .source = TEXT("source"),
                       .choices = choices[0],
                       .n_choices = 2,
                       .whitespace_pattern = TEXT("w")},
        .tools_value = tools[0],
        .tools = {.choice = TOOLS_AUTO, .functions = functions, .n_functions = 1, .named = TEXT("f")}};
    struct answer_rules rows[18];
    enum { N_ROWS = sizeof rows / sizeof *rows };
    for (int i = 0; i < N_ROWS; i++)
        rows[i] = base;
    rows[1].constraint.kind = CONSTRAINT_GRAMMAR;
    rows[2].constraint.source = TEXT("sourcf");
    rows[3].constraint.choices = choices[1];
    rows[4].constraint.choices = choices[2];
    rows[5].constraint.choices = choices[3], rows[5].constraint.n_choices = 3;
    rows[6].constraint.n_choices = 1;
    rows[7].constraint.indent = 1;
    rows[8].constraint.any_order = true;
    rows[9].constraint.whitespace_pattern = TEXT("v");
    rows[10].format.tools = tool_format_find("hermes");
    rows[11].format.thinking = (const struct thinking_format *)&base; // not looked into
    rows[12].thinking = THINKING_CLOSED;
    rows[13].closes = true;
    rows[14].tools.choice = TOOLS_REQUIRED;
    rows[15].tools.is_single = true;
    rows[16].tools.named = TEXT("g");
    rows[17].tools_value = tools[1], rows[17].tools.functions = functions + 1;
    assert_non_null(rows[10].format.tools);
    struct compiled_constraint *entries[N_ROWS];
    for (int i = 0; i < N_ROWS; i++) {
        entries[i] = find(&rows[i]);
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(entries[i], entries[j]);
    }
    assert_int_equal(n_entries(), N_ROWS);
    for (int i = 0; i < N_ROWS; i++) {
        struct answer_rules again = rows[i];
        again.constraint.field = "another name of the field";
        assert_ptr_equal(find(&again), entries[i]);
        assert_int_equal(entries[i]->n_users, 2);
    }
    memset(list, 'x', sizeof list);
    choices[0][1] = TEXT("z");
    arena_finish(&arena);
    assert_source_is_kept(&entries[0]->source);
    compile_all();
    for (int i = 0; i < N_ROWS; i++)
        for (int user = 0; user < 2; user++)
            constraint_cache_release(&world.cache, entries[i]);
}

// ---- the order of compiling ----

TEST(the_oldest_are_compiled_first_once_there_is_a_vocabulary)
{
    struct compiled_constraint *entries[3];
    static const char *const sources[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        entries[i] = find_regex(sources[i]);
    assert_int_equal(world.cache.n_waiting, 3);
    assert_int_equal(world.cache.making.state, CONSTRAINT_COMPILING);
    await_vocabulary();
    assert_int_equal(world.cache.n_waiting, 0);
    assert_int_equal(world.cache.n_compiling, 3);
    for (int i = 0; i < 3; i++) {
        int32_t n = 0;
        sem_post(&world.allowed);
        while (n == 0)
            assert_ok(constraint_cache_collect(&world.cache, 10000, &n, &error), &error);
        assert_int_equal(n, 1);
        assert_int_equal(world.cache.n_compiling, 2 - i);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(entries[i]->state, CONSTRAINT_COMPILED);
        assert_non_null(strstr(world.compiled, sources[i]));
        constraint_cache_release(&world.cache, entries[i]);
    }
    assert_true(world.compiled[0] != 'c'); // of two at a time
    int32_t n = 7;
    assert_ok(constraint_cache_collect(&world.cache, 10000, &n, &error), &error); // without a wait
    assert_int_equal(n, 0);
}

TEST(no_more_are_compiled_at_once_than_the_queues_hold)
{
    struct compiled_constraint *entries[CONSTRAINTS_COMPILING_MAX + 3];
    enum { N = sizeof entries / sizeof *entries };
    for (int i = 0; i < N; i++) {
        char source[16];
        snprintf(source, sizeof source, "%d", i);
        entries[i] = find_regex(source);
    }
    await_vocabulary();
    assert_int_equal(world.cache.n_compiling, CONSTRAINTS_COMPILING_MAX);
    assert_int_equal(world.cache.n_waiting, 3);
    for (int i = 0; i < N; i++)
        assert_int_equal(entries[i]->state,
                         i < CONSTRAINTS_COMPILING_MAX ? CONSTRAINT_COMPILING : CONSTRAINT_WAITING);
    compile_all();
    for (int i = 0; i < N; i++)
        constraint_cache_release(&world.cache, entries[i]);
    assert_int_equal(n_entries(), CONSTRAINTS_MAX);
}

// ---- entries without users ----

TEST(a_waiting_entry_goes_with_its_last_user)
{
    struct compiled_constraint *first = find_regex("first"), *second = find_regex("second");
    assert_ptr_equal(find_regex("first"), first);
    constraint_cache_release(&world.cache, first);
    assert_int_equal(n_entries(), 2);
    assert_int_equal(world.cache.n_waiting, 2);
    constraint_cache_release(&world.cache, second);
    assert_int_equal(n_entries(), 1);
    assert_int_equal(world.cache.n_waiting, 1);
    compile_all();
    assert_string_equal(world.compiled, "first ");
    constraint_cache_release(&world.cache, first);
    constraint_cache_release(&world.cache, NULL);
    assert_int_equal(n_entries(), 1); // kept
}

TEST(an_entry_that_is_compiled_without_users_is_kept)
{
    struct compiled_constraint *entry = find_regex("a");
    await_vocabulary();
    constraint_cache_release(&world.cache, entry);
    assert_int_equal(n_entries(), 1);
    compile_all();
    assert_ptr_equal(find_regex("a"), entry);
    assert_string_equal(world.compiled, "a ");
    constraint_cache_release(&world.cache, entry);
}

TEST(one_that_lacked_memory_is_tried_again_by_its_next_user)
{
    struct compiled_constraint *lacking = find_regex("!a"), *refused = find_regex("-b");
    assert_ptr_equal(find_regex("!a"), lacking);
    compile_all();
    constraint_cache_release(&world.cache, refused);
    constraint_cache_release(&world.cache, lacking);
    assert_int_equal(n_entries(), 2);
    constraint_cache_release(&world.cache, lacking);
    assert_int_equal(n_entries(), 1); // a refusal is kept
    constraint_cache_release(&world.cache, find_regex("-b"));
    lacking = find_regex("!a");
    compile_all();
    constraint_cache_release(&world.cache, lacking);
    const char *first = strstr(world.compiled, "!a");
    assert_true(first && strstr(first + 1, "!a") && strstr(world.compiled, "-b"));
}

static bool is_kept(int number)
{
    LIST_EACH (struct compiled_constraint, entry, &world.cache.entries, link)
        if (atoi(entry->source.constraint.source.data) == number)
            return true;
    return false;
}

TEST(the_entry_unused_for_longest_goes_first)
{
    struct compiled_constraint *entries[CONSTRAINTS_MAX + 2];
    char sources[CONSTRAINTS_MAX + 2][16];
    for (int i = 0; i < CONSTRAINTS_MAX + 2; i++) {
        snprintf(sources[i], sizeof sources[i], "%d", i + 100);
        entries[i] = find_regex(sources[i]);
    }
    compile_all();
    assert_int_equal(n_entries(), CONSTRAINTS_MAX + 2); // with users: as many as there are
    for (int i = CONSTRAINTS_MAX - 1; i >= 0; i--)
        constraint_cache_release(&world.cache, entries[i]);
    assert_int_equal(n_entries(), CONSTRAINTS_MAX + 2);
    find_regex(sources[0]); // used last
    constraint_cache_release(&world.cache, entries[0]);
    constraint_cache_release(&world.cache, entries[CONSTRAINTS_MAX]);
    assert_int_equal(n_entries(), CONSTRAINTS_MAX + 1);
    assert_true(is_kept(100) && !is_kept(101) && is_kept(102));
    find_regex(sources[2]);
    constraint_cache_release(&world.cache, entries[CONSTRAINTS_MAX + 1]);
    assert_int_equal(n_entries(), CONSTRAINTS_MAX + 1); // one of them has a user
    constraint_cache_release(&world.cache, entries[2]);
    assert_int_equal(n_entries(), CONSTRAINTS_MAX);
    assert_true(is_kept(102) && !is_kept(103));
}

// ---- without memory ----

TEST(without_memory_nothing_is_left_and_a_later_try_succeeds)
{
    enum status status = STATUS_RETRY;
    for (long n_good = 0; status != STATUS_OK; n_good++) {
        struct compiled_constraint *entry = NULL;
        assert_true(n_good < 200);
        int32_t before = n_entries();
        sem_wait(&world.vocabulary_allowed); // its thread would take a failure of this one's
        failing_memory.fails_alone = true;
        failing_memory_after(n_good);
        status = constraint_cache_find(&world.cache,
                                       &(struct answer_rules){
                                           .constraint = {.kind = CONSTRAINT_REGEX, .source = TEXT("a")}},
                                       &entry, &error);
        failing_memory_after(-1);
        sem_post(&world.vocabulary_allowed);
        if (status != STATUS_OK) {
            assert_int_equal(status, STATUS_RETRY);
            assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
            if (n_entries() > before) // its user gives it back
                constraint_cache_release(&world.cache, entry);
        } else {
            compile_all();
            constraint_cache_release(&world.cache, entry);
        }
    }
    assert_int_equal(n_entries(), 1);
}

TEST(a_vocabulary_that_lacked_memory_is_made_again)
{
    world.vocabulary_failures = 2;
    struct compiled_constraint *entry = find_regex("a");
    for (int n_failed = 0; n_failed < 2;) {
        int32_t n;
        if (constraint_cache_collect(&world.cache, 10000, &n, &error) == STATUS_OK)
            continue;
        assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
        assert_null(world.cache.vocabulary);
        n_failed++;
    }
    compile_all();
    assert_non_null(world.cache.vocabulary);
    assert_int_equal(entry->state, CONSTRAINT_COMPILED);
    constraint_cache_release(&world.cache, entry);
}

TEST_FIXTURE(open_world, close_world);
