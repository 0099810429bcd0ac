// Tokens by OIDC: settings that are refused, and answers of a token endpoint.
#include "consumer/queue/kafka/client/kafka_token.h"
#include "schemas/base/arena.h"
#include "tests/support/cases.h"

static struct error error;
static struct arena arena;

static int clear(void **state)
{
    (void)state;
    arena_finish(&arena);
    return 0;
}

TEST_FIXTURE(NULL, clear);

#define P "sasl.oauthbearer."

static void assert_refused(const struct kafka_property *properties, size_t n, const char *part)
{
    struct kafka_config config = {.properties = properties, .n_properties = n};
    if (!kafka_token_is_ours(&config))
        skip(); // this librdkafka has OIDC
    assert_int_equal(kafka_token_check(&config, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    assert_non_null(strstr(error.text, part));
}

TEST(settings_that_are_missing_or_malformed_are_refused_by_name)
{
    struct kafka_property all[] = {{P "method", "oidc"},
                                   {P "client.id", "me"},
                                   {P "client.secret", "s"},
                                   {P "token.endpoint.url", "https://x/token"},
                                   {P "extensions", "a=1,b="}};
    struct kafka_config config = {.properties = all, .n_properties = 5};
    assert_ok(kafka_token_check(&config, &error), &error);
    assert_refused(all, 1, "needs -X sasl.oauthbearer.client.id=...");
    assert_refused(all, 3, "token.endpoint.url=...");
    all[3].value = "ftp://x";
    assert_refused(all, 5, "expected https:// or http://, got \"ftp://x\"");
    all[3].value = "http://x";
    all[4].value = "a=1,b";
    assert_refused(all, 5, "extensions: expected at most 16 of NAME=VALUE");
    assert_true(kafka_token_takes(&config, P "scope"));
    assert_false(kafka_token_takes(&config, P "config"));
    assert_false(kafka_token_takes(&config, "sasl.mechanisms"));
    all[0].value = "default";
    assert_false(kafka_token_takes(&config, P "scope"));
    assert_ok(kafka_token_check(&config, &error), &error);
}

static struct kafka_token read_answer(const char *body)
{
    struct kafka_token token;
    assert_ok(kafka_token_read(text_from_string(body), 5000, &arena, &token, &error), &error);
    return token;
}

static void assert_rejected(const char *body, const char *part)
{
    struct kafka_token token;
    assert_int_equal(kafka_token_read(text_from_string(body), 5000, &arena, &token, &error), STATUS_REJECT);
    assert_non_null(strstr(error.text, part));
}

TEST(a_token_has_its_claims_and_one_that_is_no_jwt_the_answer_s_lifetime)
{
    // {"alg":"none"}.{"sub":"me?>~","exp":1700000000}, in base64url with - and _
    struct kafka_token token =
        read_answer("{\"access_token\":\"eyJhbGciOiJub25lIn0."
                    "eyJzdWIiOiJtZT8-fiIsImV4cCI6MTcwMDAwMDAwMH0.\",\"expires_in\":60}");
    assert_true(text_equals_string(token.principal, "me?>~"));
    assert_int_equal(token.expires_ms, 1700000000000);
    token = read_answer("{\"access_token\":\"opaque\",\"expires_in\":60}");
    assert_true(text_equals_string(token.token, "opaque") && token.principal.size == 0);
    assert_int_equal(token.expires_ms, 65000);
    token = read_answer("{\"access_token\":\"a.b.c\",\"expires_in\":60.5}"); // parts that are no base64
    assert_int_equal(token.expires_ms, 65000);
}

TEST(an_answer_without_a_token_or_a_lifetime_is_rejected)
{
    assert_rejected("{}", "no access_token");
    assert_rejected("[]", "no access_token");
    assert_rejected("{\"access_token\":\"\"}", "no access_token");
    assert_rejected("{\"access_token\":7}", "no access_token");
    assert_rejected("{\"access_token\":\"opaque\"}", "until when it is valid");
    assert_rejected("{\"access_token\":\"opaque\",\"expires_in\":-1}", "until when it is valid");
    assert_rejected("{\"access_token\":\"opaque\",\"expires_in\":9223372036854775807}", "until when");
    assert_rejected("not json", "");
}
