// The Kafka side of the command line (consumer/options/kafka_settings.c).
#include "consumer/options/kafka_settings.h"
#include "tests/support/cases.h"

static struct kafka_settings kafka;
static struct error error;

TEST(what_is_not_given_has_a_default)
{
    const struct settings settings = {.kafka.brokers = "h:1"};
    assert_ok(kafka_settings_init(&kafka, &settings.kafka, NULL, &error), &error);
    assert_string_equal(kafka.config.brokers, "h:1");
    assert_string_equal(kafka.config.topics.jobs, "sheaf-jobs");
    assert_string_equal(kafka.config.topics.results, "sheaf-results");
    assert_string_equal(kafka.config.topics.dead, "sheaf-dead");
    assert_string_equal(kafka.config.topics.control, "sheaf-control");
    assert_string_equal(kafka.config.group.name, "sheaf");
    assert_null(kafka.config.group.member_name);
    assert_int_equal(kafka.config.group.protocol, GROUP_PROTOCOL_EAGER);
    assert_int_equal(kafka.config.group.membership_timeout_ms, 0);
    assert_string_equal(kafka.config.directory, ".");
    assert_int_equal(kafka.config.n_properties, 0);
    kafka_settings_finish(&kafka);
}

TEST(what_is_given_is_taken)
{
    struct settings settings = {.kafka.brokers = "h:1",
                                .kafka.properties = {"a.b=c=d", "e="},
                                .kafka.n_properties = 2,
                                .kafka.topics = {.jobs = "j",
                                                 .results = "r",
                                                 .dead = "d",
                                                 .control = "c",
                                                 .create = true,
                                                 .n_partitions = 6},
                                .kafka.group = {.name = "g",
                                                .member_name = "m",
                                                .protocol = "cooperative",
                                                .is_dynamic = true,
                                                .membership_timeout_s = 90},
                                .kafka.refuse_deleted = true,
                                .kafka.ignore_offset_map = true};
    assert_ok(kafka_settings_init(&kafka, &settings.kafka, "/x/y/sheaf.db", &error), &error);
    const struct kafka_config *config = &kafka.config;
    assert_string_equal(config->topics.jobs, "j");
    assert_string_equal(config->topics.results, "r");
    assert_string_equal(config->topics.dead, "d");
    assert_string_equal(config->topics.control, "c");
    assert_true(config->topics.create);
    assert_int_equal(config->topics.n_partitions, 6);
    assert_string_equal(config->group.name, "g");
    assert_string_equal(config->group.member_name, "m");
    assert_int_equal(config->group.protocol, GROUP_PROTOCOL_COOPERATIVE);
    assert_true(config->group.is_dynamic);
    assert_int_equal(config->group.membership_timeout_ms, 90000);
    assert_true(config->refuse_deleted && config->accept_unknown_map);
    assert_string_equal(config->directory, "/x/y");
    assert_int_equal(config->n_properties, 2);
    assert_string_equal(config->properties[0].name, "a.b");
    assert_string_equal(config->properties[0].value, "c=d");
    assert_string_equal(config->properties[1].name, "e");
    assert_string_equal(config->properties[1].value, "");
    kafka_settings_finish(&kafka);
}

TEST(two_topics_of_one_name_are_refused_by_their_options)
{
    static const char *const options[] = {"--jobs", "--results", "--dead", "--control"};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            char *names[] = {"t0", "t1", "t2", "t3"}, expected[128];
            names[i] = names[j];
            const struct settings settings = {.kafka.brokers = "h:1",
                                              .kafka.topics = {.jobs = names[0],
                                                               .results = names[1],
                                                               .dead = names[2],
                                                               .control = names[3]}};
            snprintf(expected, sizeof expected,
                     "%s and %s both name topic t%d: each needs a topic of its own", options[j], options[i],
                     j);
            assert_int_equal(kafka_settings_init(&kafka, &settings.kafka, NULL, &error), STATUS_REFUSE);
            assert_int_equal(error.code, ERROR_USAGE);
            assert_string_equal(error.text, expected);
        }
}

TEST(an_unknown_protocol_is_refused)
{
    const struct settings settings = {.kafka.brokers = "h:1", .kafka.group.protocol = "raft"};
    assert_int_equal(kafka_settings_init(&kafka, &settings.kafka, NULL, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    assert_non_null(strstr(error.text, "got \"raft\""));
}
