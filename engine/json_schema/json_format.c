#include "engine/json_schema/json_format.h"

// RFC 3339, 5.6 and 5.7. A leap second is the last second of a day in UTC; this can be checked only for Z and
// +00:00.
#define YEAR_LEAP "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DAYS_28   "(?:0[1-9]|1[0-9]|2[0-8])"
#define DATE                                                                                                 \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:" DAYS_28 "|29|30|31)|(?:0[469]|11)-(?:" DAYS_28                   \
    "|29|30)|02-" DAYS_28 ")|" YEAR_LEAP "-02-29)"
#define HOUR_MINUTE "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define FRACTION    "(?:\\.[0-9]+)?"
#define TIME                                                                                                 \
    "(?:" HOUR_MINUTE ":[0-5][0-9]" FRACTION "(?:[Zz]|[+-]" HOUR_MINUTE ")|23:59:60" FRACTION                \
    "(?:[Zz]|[+-]00:00))"
// RFC 3339, appendix A.
#define DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION_DATE "(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"
#define DURATION      "P(?:" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME "|[0-9]+W)"
// RFC 1123, 2.1. The limit of the total length is a separate expression.
#define LABEL    "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOSTNAME LABEL "(?:\\." LABEL ")*"
// RFC 3986, 3.2.2.
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4  OCTET "(?:\\." OCTET "){3}"
#define H16   "[0-9A-Fa-f]{1,4}"
#define LS32  "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                 \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16  \
    ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32          \
    "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16    \
    ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
// RFC 5321, 4.1.2.
#define ATEXT     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define QUOTED    "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define MAILBOX   "(?:" ATEXT "(?:\\." ATEXT ")*|" QUOTED ")"
#define EMAIL     MAILBOX "@(?:" HOSTNAME "|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])"
#define ATEXT_ALL "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u0080-\\u{10FFFF}-]+"
#define HOST_ALL  "[A-Za-z0-9\\u0080-\\u{10FFFF}.-]+"
#define EMAIL_ALL ATEXT_ALL "(?:\\." ATEXT_ALL ")*@" HOST_ALL
// RFC 3986, appendix A; with MORE (characters above ASCII) RFC 3987.
#define MORE            "\\u00A0-\\u{EFFFD}"
#define PERCENT         "%[0-9A-Fa-f]{2}"
#define PCHAR(more)     "(?:[A-Za-z0-9._~!$&'()*+,;=:@" more "-]|" PERCENT ")"
#define NOCOLON(more)   "(?:[A-Za-z0-9._~!$&'()*+,;=@" more "-]|" PERCENT ")"
#define REGNAME(more)   "(?:[A-Za-z0-9._~!$&'()*+,;=" more "-]|" PERCENT ")*"
#define USERINFO(more)  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" more "-]|" PERCENT ")*@)?"
#define IP_LITERAL      "\\[(?:" IPV6 "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]"
#define AUTHORITY(more) USERINFO(more) "(?:" IP_LITERAL "|" REGNAME(more) ")(?::[0-9]*)?"
#define ABEMPTY(more)   "(?:/" PCHAR(more) "*)*"
#define ABSOLUTE(more)  "/(?:" PCHAR(more) "+" ABEMPTY(more) ")?"
#define QUERY(more)     "(?:\\?(?:" PCHAR(more) "|[/?])*)?(?:#(?:" PCHAR(more) "|[/?])*)?"
#define SCHEME          "[A-Za-z][A-Za-z0-9+.-]*:"
#define HIERARCHY(more)                                                                                      \
    "(?://" AUTHORITY(more) ABEMPTY(more) "|" ABSOLUTE(more) "|" PCHAR(more) "+" ABEMPTY(more) "|)"
#define RELATIVE(more)                                                                                       \
    "(?://" AUTHORITY(more) ABEMPTY(more) "|" ABSOLUTE(more) "|" NOCOLON(more) "+" ABEMPTY(more) "|)"
#define ABSOLUTE_URI(more) SCHEME HIERARCHY(more) QUERY(more)
#define REFERENCE(more)    "(?:" SCHEME HIERARCHY(more) "|" RELATIVE(more) ")" QUERY(more)
// RFC 6901, and the Internet-Draft on relative JSON pointers.
#define POINTER "(?:/(?:[^~/]|~[01])*)*"
// RFC 6570, 2.
#define VARNAME "(?:[A-Za-z0-9_]|" PERCENT ")(?:\\.?(?:[A-Za-z0-9_]|" PERCENT "))*"
#define VARSPEC VARNAME "(?::[1-9][0-9]{0,3}|\\*)?"
#define URI_TEMPLATE                                                                                         \
    "(?:[!#$&(-;=?-\\[\\]_a-z~" MORE "]|" PERCENT "|\\{[+#./;?&=,!@|]?" VARSPEC "(?:," VARSPEC ")*\\})*"
#define UUID "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"

// pattern NULL: known, but not enforced. size_max 0: no limit.
static const struct {
    const char *name, *pattern;
    uint32_t size_max;
} formats[] = {
    {"date", DATE, 0},
    {"time", TIME, 0},
    {"date-time", DATE "[Tt]" TIME, 0},
    {"duration", DURATION, 0},
    {"email", EMAIL, 0},
    {"idn-email", EMAIL_ALL, 0},
    {"hostname", HOSTNAME, 253},
    {"idn-hostname", NULL, 0},
    {"ipv4", IPV4, 0},
    {"ipv6", IPV6, 0},
    {"uri", ABSOLUTE_URI(""), 0},
    {"uri-reference", REFERENCE(""), 0},
    {"iri", ABSOLUTE_URI(MORE), 0},
    {"iri-reference", REFERENCE(MORE), 0},
    {"uri-template", URI_TEMPLATE, 0},
    {"uuid", UUID, 0},
    {"json-pointer", POINTER, 0},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" POINTER ")", 0},
    {"regex", NULL, 0},
};

enum format_support format_expression(struct expressions *pool, struct text name, uint32_t *expression,
                                      struct error *error)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (!text_equals_string(name, formats[i].name))
            continue;
        struct text pattern = text_from_string(formats[i].pattern);
        if (!formats[i].pattern ||
            expression_parse(pool, pattern, PATTERN_WHOLE, expression, error) != STATUS_OK)
            return FORMAT_UNENFORCED;
        uint32_t short_enough = expression_repeat(pool, EXPRESSION_ANY, 0, formats[i].size_max);
        if (formats[i].size_max)
            *expression = expression_both(pool, *expression, short_enough);
        return FORMAT_ENFORCED;
    }
    return FORMAT_UNKNOWN;
}
