// The command line: precedence of values, refused ones.
#include "consumer/options/option_help.h"
#include "consumer/options/share_settings.h"
#include "tests/support/cases.h"

#include <unistd.h>

static struct settings settings;
static struct error error;

// Parses a line of words separated by blanks.
static enum status parse(const char *line)
{
    static char words[512];
    char *argv[32];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    error = (struct error){0};
    return options_parse(&settings, argc, argv, &error);
}

static void expect_usage_error(const char *line, const char *part)
{
    assert_int_equal(parse(line), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    if (!strstr(error.text, part))
        fail_msg("%s: \"%s\" does not say \"%s\"", line, error.text, part);
    settings_finish(&settings);
}

TEST(values_follow_names_letters_and_equals_signs)
{
    assert_int_equal(parse("run in.jsonl -o out.jsonl --model=m.gguf -t 2 --kv-memory 1.5G --max-batch=7"),
                     STATUS_OK);
    assert_string_equal(settings.line.positionals[0], "in.jsonl");
    assert_string_equal(settings.output.file, "out.jsonl");
    assert_string_equal(settings.model.path, "m.gguf");
    assert_int_equal(settings.engine.threads, 2);
    assert_int_equal(settings.engine.kv_memory_bytes, 1610612736);
    assert_int_equal(settings.engine.n_sequences_max, 7);
    settings_finish(&settings);
    assert_int_equal(parse("collect -dname -o- --force"), STATUS_OK);
    assert_string_equal(settings.dataset, "name");
    assert_string_equal(settings.output.file, "-");
    assert_true(settings.output.force);
    settings_finish(&settings);
}

TEST(wrong_usage_is_reported_with_what_was_expected)
{
    expect_usage_error("", "which command");
    expect_usage_error("wrok", "no command \"wrok\"");
    expect_usage_error("run", "usage: sheaf run");
    expect_usage_error("run a b c", "unexpected \"c\"");
    expect_usage_error("run a --nosuch", "no option --nosuch");
    expect_usage_error("status --model x", "no option --model"); // of another command
    expect_usage_error("work --model", "expected MODEL");
    expect_usage_error("work --threads 0", "from 1 to 256, got \"0\"");
    expect_usage_error("work --threads 257", "from 1 to 256, got \"257\"");
    expect_usage_error("work --threads 2x", "got \"2x\"");
    expect_usage_error("work --kv-memory lots", "expected a size");
    expect_usage_error("work -X noequals", "KEY=VALUE");
    assert_int_equal(parse("work --threads 256"), STATUS_OK);
    settings_finish(&settings);
}

static void expect_model(const char *line, const char *model, const char *first, int n_positionals)
{
    assert_int_equal(parse(line), STATUS_OK);
    assert_string_equal(settings.model.path, model);
    assert_string_equal(settings.line.positionals[0], first);
    assert_int_equal(settings.line.n_positionals, n_positionals);
    settings_finish(&settings);
}

TEST(the_model_is_a_positional_or_an_option)
{
    expect_model("work m.gguf", "m.gguf", "m.gguf", 1);
    expect_model("run in m.gguf", "m.gguf", "in", 2);
    expect_model("run in -m m.gguf", "m.gguf", "in", 2);
    expect_model("inspect m.gguf", "m.gguf", "m.gguf", 1);
    expect_model("inspect --model m.gguf", "m.gguf", "m.gguf", 1);
    expect_model("grammar --model m.gguf lines", "m.gguf", "m.gguf", 2);
    expect_model("quantize -m in.gguf out.gguf", "in.gguf", "in.gguf", 2);
    expect_usage_error("inspect m.gguf --model m.gguf", "one argument too many");
    expect_usage_error("run in m.gguf --model m.gguf", "\"m.gguf\" is one argument too many");
    expect_usage_error("run --model m.gguf", "usage: sheaf run");
    expect_usage_error("quantize --model in.gguf", "usage: sheaf quantize");
    setenv("SHEAF_MODEL", "env.gguf", 1);
    expect_model("inspect", "env.gguf", "env.gguf", 1);
    expect_model("inspect m.gguf", "m.gguf", "m.gguf", 1);
    expect_model("grammar m.gguf", "m.gguf", "m.gguf", 1);
    expect_model("run in", "env.gguf", "in", 1);
    expect_model("run in m.gguf", "m.gguf", "in", 2);
    unsetenv("SHEAF_MODEL");
}

TEST(each_option_is_in_a_group)
{
    int n;
    const struct option *options = option_table_options(&n);
    for (int i = 0; i < n; i++) {
        enum option_group group;
        bool rare;
        if (!option_group_of(options[i].name, &group, &rare))
            fail_msg("--%s is in no group of consumer/options/option_help.c", options[i].name);
    }
}

// A limit in a row that the parser ignored would not hold.
TEST(limits_are_given_where_they_are_kept)
{
    int n;
    const struct option *options = option_table_options(&n);
    for (int i = 0; i < n; i++) {
        const struct option *option = &options[i];
        bool good = option->kind == INTEGER      ? option->min < option->max
                    : option->kind == TEXT_VALUE ? option->min <= 1 && option->max <= 1 // 1: given once
                                                 : option->min == 0 && option->max == 0;
        if (!good || option->min < 0)
            fail_msg("--%s: limits %lld and %lld", option->name, (long long)option->min,
                     (long long)option->max);
        if (option->letter && !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", option->letter))
            fail_msg("--%s: letter %d", option->name, option->letter);
        assert_int_equal(option->kind == FLAG, option->value == NULL);
    }
}

static void expect_accepted(const char *line)
{
    if (parse(line) != STATUS_OK)
        fail_msg("%s: %s", line, error.text);
    settings_finish(&settings);
}

TEST(an_option_without_effect_beside_the_others_is_refused)
{
    static const struct {
        const char *line, *expected,
            *effective; // the line; what is expected; what makes the option effective
    } cases[] = {
        {"work m --reply-topics a", "--reply-topics: expected --brokers HOSTS", "--brokers b"},
        {"work m --group g", "--group: expected --brokers", "--brokers b"},
        {"submit f --dataset d -X a=b", "--property: expected --brokers", "--brokers b"},
        {"submit f --dataset d --create-topics", "--create-topics: expected --brokers", "--brokers b"},
        {"work m --brokers b --partitions 3", "--partitions: expected --create-topics", "--create-topics"},
        {"work m --dead-share 7", "--dead-share: expected --brokers", "--brokers b"},
        {"work m --unique-jobs", "--unique-jobs: expected --brokers", "--brokers b"},
        {"status --brokers b", "--brokers: expected --rebuild", "--rebuild"},
        {"verify t --certificate c --sample 3", "--sample: expected --model MODEL", "--model m"},
        {"verify t --certificate c --threads 3", "--threads: expected --model MODEL", "--model m"},
        {"serve --no-work --max-tokens 3", "--max-tokens: expected --model", "m"},
        {"serve --no-work --brokers b --reply-topics 3", "--reply-topics: expected --model", "m"},
        {"annotate t -o o --brokers b --threads 3", "--threads: expected --model MODEL or --cascade",
         "--model m"},
        {"work m --metrics-token t", "--metrics-token: expected --metrics HOST:PORT", "--metrics 0"},
        {"annotate t m --seed 1", "expected --sample N or --cascade", "--sample 3"},
        {"annotate t m --truncate left", "expected --truncate-prompt N", "--truncate-prompt 3"},
        {"annotate t m --confidence 0.9", "expected --cascade", "--cascade a,b"},
        {"grammar m --regex r --spaces", "expected --json-schema FILE or --cases", "--cases c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s %s", cases[i].line, cases[i].effective);
        expect_usage_error(cases[i].line, cases[i].expected);
        expect_accepted(line);
    }
    expect_accepted("work m --create-topics=false --unique-jobs=0");
}

TEST(options_that_contradict_each_other_are_refused)
{
    expect_usage_error("work m --brokers b --retry-failed",
                       "--retry-failed with --brokers: it is for the embedded");
    expect_usage_error("annotate t --brokers b --force-new", "--force-new with --brokers");
    expect_usage_error("collect --dataset d -o o --brokers b --partial", "--partial with --brokers");
    expect_usage_error("collect --dataset d -o o --brokers b --store s", "--store with --brokers");
    expect_usage_error("work m --brokers b --dataset d", "--dataset with --brokers");
    expect_usage_error("embed t --column c --brokers b --threads 2", "--threads with --brokers: the workers");
    expect_usage_error("embed t --prompt p --brokers b --threads 2", "--threads with --brokers: the workers");
    expect_usage_error("embed t --column c --brokers b --pooling mean",
                       "--pooling with --brokers: over Kafka the workers");
    expect_usage_error("bench --products --prompt 3", "--prompt with --products");
    expect_usage_error("bench m --products --embed", "--embed with --products");
}

TEST(an_option_of_a_gpu_is_refused_on_a_cpu)
{
    static const char *const options[] = {"--gpu 0",         "--gpu-memory 1G", "--no-graphs",
                                          "--no-overlap",    "--no-carveout",   "--no-wgmma",
                                          "--tiles by-rows", "--gpu-sync",      "--no-ahead"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char line[256];
        snprintf(line, sizeof line, "work m --backend cpu:plain %s", options[i]);
        expect_usage_error(line, "expected a GPU, not --backend cpu:plain");
        snprintf(line, sizeof line, "work m %s", options[i]);
        assert_int_equal(parse(line), STATUS_OK);
        assert_non_null(settings.engine.gpu.option); // refused where no GPU is found
        settings_finish(&settings);
    }
    assert_int_equal(parse("work m --no-ahead=false"), STATUS_OK);
    assert_null(settings.engine.gpu.option);
    settings_finish(&settings);
}

TEST(an_option_of_a_cpu_is_noted_where_it_is_on_the_command_line)
{
    assert_int_equal(parse("work m --speculate 4"), STATUS_OK);
    assert_string_equal(settings.engine.cpu_option, "speculate"); // refused where a GPU computes
    settings_finish(&settings);
    setenv("SHEAF_SPECULATE", "4", 1);
    assert_int_equal(parse("work m"), STATUS_OK);
    unsetenv("SHEAF_SPECULATE");
    assert_string_equal(settings.engine.speculate, "4");
    assert_null(settings.engine.cpu_option);
    settings_finish(&settings);
}

// The reason is one of commands that can do without a broker.
TEST(commands_that_need_a_broker_say_so_themselves)
{
    expect_accepted("lag --jobs j --group g -X a=b");
    expect_accepted("redrive --dead d --control c");
    expect_accepted("mirror --results r");
}

// Environment and file hold defaults for several commands: an unused default is no error, and the command line overrides
// a conflicting one.
TEST(a_default_is_never_refused_for_what_is_on_the_command_line)
{
    static const struct {
        const char *defaults, *line;
        size_t dropped; // offset of a text or list
    } cases[] = {
#define AT(member) offsetof(struct settings, member)
        {"retry-failed = true\nbrokers = b", "work m", AT(store)},
        {"brokers = b", "collect --dataset d -o o --store s", AT(kafka.brokers)},
        {"brokers = b", "cancel --dataset d --store s", AT(kafka.brokers)},
        {"brokers = b", "submit f --dataset d --store s", AT(kafka.brokers)},
        {"store = s", "collect --dataset d -o o --brokers b", AT(store)},
        {"brokers = b", "work m --dataset d --store s", AT(kafka.brokers)},
        {"dataset = d", "work m --brokers b", AT(dataset)},
        {"dataset = d", "dataset list", AT(dataset)},
        {"brokers = b", "collect --dataset d -o o --partial --store s", AT(kafka.brokers)},
        {"metrics = h:1", "lag --brokers b --json", AT(worker.metrics)},
        {"certificate = c", "annotate t m -o o --prompt p --sample 1", AT(annotate.output.certificate)},
        {"cascade = a,b", "annotate t --model m --prompt p -o o", AT(annotate.cascade.models)},
        {"brokers = b", "embed m t --column c --threads 2", AT(kafka.brokers)},
        {"brokers = b", "embed m t --column c", AT(kafka.brokers)},
        {"pooling = mean", "embed t --column c --brokers b", AT(embed.pooling)},
        {"brokers = b", "serve m", AT(kafka.brokers)},
        {"model = m", "serve --no-work", AT(model.path)},
        {"backend = cpu", "work m --gpu 1", AT(engine.backend)},
        {"prompt = p", "annotate t m -o o --messages f", AT(annotate.prompt.file)},
        {"messages = f", "annotate t m -o o --prompt p", AT(annotate.prompt.messages)},
        {"choice = A,B", "annotate t m -o o --schema s", AT(grammar.choices)},
        {"schema = s", "annotate t m -o o --questions q", AT(annotate.schema)},
        {"schema = s", "annotate t m -o o --rerank q,d", AT(annotate.schema)},
        {"rerank = q,d", "annotate t m -o o --schema s", AT(annotate.scores.rerank)},
        {"model = m", "annotate t --cascade a,b", AT(model.path)},
        {"reply-topics = a", "work m", AT(kafka.reply_topics)},
        {"statistics = s.csv", "annotate t m -o o --prompt p", AT(annotate.evaluation.statistics)},
        {"system = s", "annotate t m -o o --messages f", AT(annotate.prompt.system)},
        {"column = c", "annotate t m -o o --prompt p", AT(embed.column)},
        {"sql = q", "annotate t m -o o --table n", AT(annotate.input.sql)},
        {"regex = x", "grammar m --choice a", AT(grammar.regex)},
#undef AT
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/sheaf-config-XXXXXX", line[256];
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        dprintf(fd, "%s\n", cases[i].defaults);
        close(fd);
        snprintf(line, sizeof line, "%s --config %s", cases[i].line, path);
        if (parse(line) != STATUS_OK)
            fail_msg("%s, %s: %s", cases[i].defaults, cases[i].line, error.text);
        if (*(char **)((char *)&settings + cases[i].dropped))
            fail_msg("%s, %s: the default stays", cases[i].defaults, cases[i].line);
        settings_finish(&settings);
        unlink(path);
    }
    setenv("SHEAF_BROKERS", "b", 1);
    expect_accepted("collect --dataset d -o o --store s");
    // another queue than the host's is not used unnoticed
    expect_usage_error("work m --dataset d",
                       "--dataset with --brokers (of the environment or --config): a worker");
    expect_usage_error("work m --retry-failed", "--retry-failed with --brokers (of");
    expect_usage_error("collect --dataset d -o o --partial", "--partial with --brokers (of");
    expect_usage_error("embed t --column c --sample 3", "--sample with --brokers (of");
    assert_int_equal(parse("embed t --column c"), STATUS_OK); // the one positional is the table
    assert_string_equal(settings.kafka.brokers, "b");
    settings_finish(&settings);
    unsetenv("SHEAF_BROKERS");
}

static enum status read_shares(const char *line)
{
    struct dataset_shares shares;
    assert_int_equal(parse(line), STATUS_OK);
    enum status status = share_settings_read(&shares, &settings.worker, &error);
    settings_finish(&settings);
    return status;
}

TEST(weights_and_limits_of_datasets_are_numbers_in_range_one_a_dataset)
{
    static const char *const accepted[] = {
        "work m --dataset-weight a=0.01 --dataset-weight b=100 --dataset-weight a=b=2",
        "work m --dataset-limit 1 --dataset-limit a=16384 --dataset-limit =1", "work m --dataset-limit a=0",
        "work m --dataset-limit 0"};
    static const struct {
        const char *line, *expected;
    } refused[] = {{"work m --dataset-limit a=-1", "from 0 (no limit) to 16384"},
                   {"work m --dataset-limit 16385", "from 0 (no limit) to 16384"},
                   {"work m --dataset-limit a=", "from 0 (no limit) to 16384"},
                   {"work m --dataset-limit a=1 --dataset-limit a=2", "one value for each dataset"},
                   {"work m --dataset-limit 1 --dataset-limit 1", "one value for each dataset"},
                   {"work m --dataset-weight a=0", "from 0.01 to 100"},
                   {"work m --dataset-weight a=0.009", "from 0.01 to 100"},
                   {"work m --dataset-weight a=100.1", "from 0.01 to 100"},
                   {"work m --dataset-weight a=-1", "from 0.01 to 100"},
                   {"work m --dataset-weight a=nan", "from 0.01 to 100"},
                   {"work m --dataset-weight 2", "NAME=WEIGHT"},
                   {"work m --dataset-weight a=1 --dataset-weight b=1 --dataset-weight a=1",
                    "one value for each dataset"}};
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        if (read_shares(accepted[i]) != STATUS_OK)
            fail_msg("%s: %s", accepted[i], error.text);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (read_shares(refused[i].line) != STATUS_REFUSE || !strstr(error.text, refused[i].expected))
            fail_msg("%s: \"%s\" does not say \"%s\"", refused[i].line, error.text, refused[i].expected);
}

TEST(properties_are_kept_in_order_and_bounded)
{
    assert_int_equal(parse("work --brokers b -X a=1 -Xb=2=3 --property c="), STATUS_OK);
    assert_int_equal(settings.kafka.n_properties, 3);
    assert_string_equal(settings.kafka.properties[1], "b=2=3");
    settings_finish(&settings);
    char *argv[2 * OPTIONS_PROPERTIES_MAX + 3] = {"work"};
    setenv("SHEAF_BROKERS", "b", 1);
    for (int i = 0; i <= OPTIONS_PROPERTIES_MAX; i++) {
        argv[2 * i + 1] = "-X";
        argv[2 * i + 2] = "k=v";
    }
    assert_ok(options_parse(&settings, 2 * OPTIONS_PROPERTIES_MAX + 1, argv, &error), &error);
    settings_finish(&settings);
    assert_int_equal(options_parse(&settings, 2 * OPTIONS_PROPERTIES_MAX + 3, argv, &error), STATUS_REFUSE);
    settings_finish(&settings);
    unsetenv("SHEAF_BROKERS");
}

static void expect_choices(const char *line, const char *first, const char *second)
{
    if (parse(line) != STATUS_OK)
        fail_msg("%s: %s", line, error.text);
    assert_string_equal(settings.grammar.choices[0], first);
    if (second)
        assert_string_equal(settings.grammar.choices[1], second);
    assert_null(settings.grammar.choices[second ? 2 : 1]);
    settings_finish(&settings);
}

TEST(choices_of_one_source_add_up)
{
    char path[] = "/tmp/sheaf-config-XXXXXX", line[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "choice = f\nchoice = g,h\n");
    close(fd);
    expect_choices("grammar m --choice a,b --choice=c", "a,b", "c");
    expect_choices("annotate t m --choice a", "a", NULL);
    assert_int_equal(parse("grammar m"), STATUS_OK);
    assert_null(settings.grammar.choices);
    settings_finish(&settings);
    snprintf(line, sizeof line, "grammar m --config %s", path);
    expect_choices(line, "f", "g,h");
    setenv("SHEAF_CHOICE", "e", 1); // over the file's
    expect_choices(line, "e", NULL);
    snprintf(line, sizeof line, "grammar m --config %s --choice a --choice b", path);
    expect_choices(line, "a", "b");
    unsetenv("SHEAF_CHOICE");
    unlink(path);
}

TEST(a_second_value_of_an_input_is_refused)
{
    expect_usage_error("annotate t m --schema a --schema b", "--schema was given twice");
    expect_usage_error("annotate t m --schema=a --schema=a", "--schema was given twice");
    expect_usage_error("annotate t -p a --prompt b", "--prompt was given twice");
    expect_usage_error("annotate t --sql a --sql b", "--sql was given twice");
    expect_usage_error("grammar m --regex a --regex b", "--regex was given twice");
    expect_usage_error("run in -m a --model b", "--model was given twice");
    expect_usage_error("collect -qda -o x -d b", "--dataset was given twice");
    expect_usage_error("logits m --tokens 1 --tokens 2", "--tokens was given twice");
    // The last value counts for numbers and output files.
    assert_int_equal(parse("run in --max-tokens 3 -t 1 --max-tokens 4 -t2 -o a -o b -q -q"), STATUS_OK);
    assert_int_equal(settings.sampling.max_tokens_default, 4);
    assert_int_equal(settings.engine.threads, 2);
    assert_string_equal(settings.output.file, "b");
    settings_finish(&settings);
    setenv("SHEAF_SCHEMA", "e", 1); // another source is no second value
    assert_int_equal(parse("annotate t m --schema a"), STATUS_OK);
    assert_string_equal(settings.annotate.schema, "a");
    settings_finish(&settings);
    unsetenv("SHEAF_SCHEMA");
}

TEST(secrets_come_from_file_or_environment_and_not_from_the_line)
{
    expect_usage_error("work -X sasl.password=hunter2", "-X sasl.password: a secret");
    expect_usage_error("work -Xssl.key.pem=hunter2", "-X ssl.key.pem: a secret");
    expect_usage_error("collect --property=ssl.keystore.password=hunter2",
                       "-X ssl.keystore.password: a secret");
    expect_usage_error("submit f -X sasl.oauthbearer.client.secret=hunter2", "SHEAF_PROPERTY");
    assert_null(strstr(error.text, "hunter2"));
    char path[] = "/tmp/sheaf-config-XXXXXX", line[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "property = sasl.password=of=file\nproperty = client.rack=file\n");
    close(fd);
    setenv("SHEAF_PROPERTY", "ssl.key.password=of environment\n\nclient.rack=environment\n", 1);
    snprintf(line, sizeof line, "work --brokers b --config %s -X client.rack=line", path);
    assert_int_equal(parse(line), STATUS_OK);
    static const char *const expected[] = {"sasl.password=of=file", "client.rack=file",
                                           "ssl.key.password=of environment",
                                           // the last one counts
                                           "client.rack=environment", "client.rack=line"};
    assert_int_equal(settings.kafka.n_properties, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(settings.kafka.properties[i], expected[i]);
    settings_finish(&settings);
    setenv("SHEAF_PROPERTY", "nonsense", 1);
    expect_usage_error("work", "SHEAF_PROPERTY: -X: expected KEY=VALUE");
    unsetenv("SHEAF_PROPERTY");
    unlink(path);
}

TEST(the_line_stands_over_the_environment_and_that_over_the_file)
{
    char path[] = "/tmp/sheaf-config-XXXXXX", line[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(
        fd,
        "\xEF\xBB\xBFmodel = of an editor that marks its files\n# a comment\nmodel = file.gguf\nthreads=3\n  window =  9  \ndataset = "
        "other commands read this\nforce = true\n");
    close(fd);
    setenv("SHEAF_THREADS", "5", 1);
    setenv("SHEAF_MAX_BATCH", "6", 1);
    snprintf(line, sizeof line, "work --config %s --max-batch 7", path);
    assert_int_equal(parse(line), STATUS_OK);
    assert_string_equal(settings.model.path, "file.gguf");
    assert_int_equal(settings.engine.threads, 5);
    assert_int_equal(settings.engine.n_sequences_max, 7);
    assert_int_equal(settings.engine.window, 9);
    assert_false(settings.output.force);
    settings_finish(&settings);
    setenv("SHEAF_THREADS", "many", 1);
    expect_usage_error(line, "SHEAF_THREADS: --threads: expected a number");
    unsetenv("SHEAF_THREADS");
    unsetenv("SHEAF_MAX_BATCH");
    FILE *file = fopen(path, "w");
    fputs("model = x\nnosuch = 1\n", file);
    fclose(file);
    expect_usage_error(line, "line 2: no option is named \"nosuch\"");
    unlink(path);
    expect_usage_error(line, "No such file");
}

TEST(a_file_of_options_is_text_of_bounded_size)
{
    char path[] = "/tmp/sheaf-options-XXXXXX", line[128];
    close(mkstemp(path));
    for (int n = OPTIONS_CONFIG_BYTES_MAX; n <= OPTIONS_CONFIG_BYTES_MAX + 1; n++) {
        FILE *file = fopen(path, "w");
        fprintf(file, "window = 9\n%*s", n - 11, "");
        fclose(file);
        snprintf(line, sizeof line, "work --config %s", path);
        if (n == OPTIONS_CONFIG_BYTES_MAX) {
            assert_int_equal(parse(line), STATUS_OK);
            assert_int_equal(settings.engine.window, 9);
            settings_finish(&settings);
        } else {
            expect_usage_error(line, "larger than 1048576 bytes");
        }
    }
    FILE *file = fopen(path, "w");
    fwrite("window = 9\n\0", 1, 12, file);
    fclose(file);
    expect_usage_error(line, "got a NUL byte");
    unlink(path);
    expect_usage_error("work --config /tmp", "Is a directory");
    expect_usage_error("work --config /dev/zero", "larger than");
}

static char unknown[512];

static void note_option(const char *name, const char *nearest)
{
    size_t length = strlen(unknown);
    snprintf(unknown + length, sizeof unknown - length, "%s %s;", name, nearest ? nearest : "-");
}

TEST(variables_that_no_option_has_are_named_with_the_nearest)
{
    char *environment[] = {"PATH=/bin",        "SHEAF_BROKER=x", "SHEAF_BROKERS=x",  "SHEAF_MODLE=m",
                           "SHEAF_KVMEMORY=1", "SHEAF_",         "SHEAF_XYZZY=1",    "SHEAF_TEST_SEED=1",
                           "SHEAF_SHARED=/x",  "SHEAFX=1",       "SHEAF_LOG_JSON=1", NULL};
    options_find_unknown_variables(environment, note_option);
    assert_string_equal(
        unknown, "SHEAF_BROKER SHEAF_BROKERS;SHEAF_MODLE SHEAF_MODEL;SHEAF_KVMEMORY SHEAF_KV_MEMORY;SHEAF_ -;"
                 "SHEAF_XYZZY -;");
}

TEST(sizes_are_powers_of_1024)
{
    uint64_t bytes;
    assert_true(options_parse_size("512", &bytes) && bytes == 512);
    assert_true(options_parse_size("2k", &bytes) && bytes == 2048);
    assert_true(options_parse_size("1.5MiB", &bytes) && bytes == 1572864);
    assert_true(options_parse_size("1T", &bytes) && bytes == UINT64_C(1) << 40);
    assert_false(options_parse_size("", &bytes));
    assert_false(options_parse_size("-1", &bytes));
    assert_false(options_parse_size("1X", &bytes));
    assert_false(options_parse_size("nan", &bytes));
    assert_false(options_parse_size("inf", &bytes));
    assert_false(options_parse_size("9000000T", &bytes));
}

TEST(times_have_a_unit_and_an_end)
{
    int64_t seconds;
    assert_true(options_parse_duration("45", &seconds) && seconds == 45);
    assert_true(options_parse_duration("45s", &seconds) && seconds == 45);
    assert_true(options_parse_duration("90m", &seconds) && seconds == 5400);
    assert_true(options_parse_duration("12h", &seconds) && seconds == 43200);
    assert_true(options_parse_duration("36525d", &seconds) && seconds == 36525 * INT64_C(86400));
    assert_false(options_parse_duration("36526d", &seconds));
    assert_false(options_parse_duration("9223372036854775807", &seconds));
    assert_false(options_parse_duration("", &seconds));
    assert_false(options_parse_duration("-1d", &seconds));
    assert_false(options_parse_duration("1w", &seconds));
    assert_false(options_parse_duration("1dd", &seconds));
    assert_int_equal(parse("work"), STATUS_OK);
    assert_int_equal(settings_retain_s(&settings), 30 * 86400); // what help says
    assert_int_equal(settings.worker.retain_s, -1);             // answers stay
    assert_int_equal(settings.worker.progress_s, 60);           // what help says
    settings_finish(&settings);
    expect_usage_error("work --retain month", "expected a time as 45s");
}
