#include "schemas/parquet/parquet_text.h"

#include <endian.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { SECONDS_OF_DAY = 86400, JULIAN_DAY_OF_1970 = 2440588 };

static uint32_t read_32(const char *at)
{
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return le32toh(bits);
}

static uint64_t read_64(const char *at)
{
    uint64_t bits;
    memcpy(&bits, at, sizeof bits);
    return le64toh(bits);
}

static int64_t read_integer(const struct parquet_leaf *leaf, struct text bytes)
{
    return leaf->physical == PHYSICAL_INT32 ? (int32_t)read_32(bytes.data) : (int64_t)read_64(bytes.data);
}

// ---- numbers ----

static struct value digits_of(const char *digits, double number)
{
    return (struct value){.kind = VALUE_FLOAT, .spelled = true, .number = number, .digits = digits};
}

// The fewest digits that read back the same, as d.ddde+xx. All normal numbers need at most 17 (9 if single),
// and the digits of 15 (6) without zeros at the end are the fewest if they suffice; numbers below these have
// fewer.
static void write_shortest(double number, bool is_single, char *out, size_t size)
{
    bool is_normal = fabs(number) >= (is_single ? (double)FLT_MIN : DBL_MIN);
    int precision = !is_normal ? 0 : is_single ? 5 : 14, last = is_single ? 8 : 16;
    for (; precision <= last; precision++) {
        snprintf(out, size, "%.*e", precision, number);
        if (is_single ? strtof(out, NULL) == (float)number : strtod(out, NULL) == number)
            return;
    }
}

// With an exponent below 1e-4 and from 1e16 on, else with a point.
static struct value float_of(double number, bool is_single, char scratch[PARQUET_TEXT_BYTES])
{
    char shortest[40], digits[24];
    if (isnan(number))
        return value_string(signbit(number) ? TEXT("-nan") : TEXT("nan"));
    if (isinf(number))
        return value_string(number < 0 ? TEXT("-inf") : TEXT("inf"));
    write_shortest(number, is_single, shortest, sizeof shortest);
    const char *sign = shortest[0] == '-' ? "-" : "", *at = shortest + strlen(sign);
    int exponent = atoi(strchr(at, 'e') + 1), n = 0;
    for (; *at != 'e'; at++)
        if (*at != '.')
            digits[n++] = *at;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    if (exponent < -4 || exponent >= 16)
        snprintf(scratch, PARQUET_TEXT_BYTES, "%s%c%s%se%+03d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                 exponent);
    else if (exponent < 0)
        snprintf(scratch, PARQUET_TEXT_BYTES, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
    else if (n <= exponent + 1)
        snprintf(scratch, PARQUET_TEXT_BYTES, "%s%s%.*s.0", sign, digits, exponent + 1 - n,
                 "000000000000000");
    else
        snprintf(scratch, PARQUET_TEXT_BYTES, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
    return digits_of(scratch, number);
}

// IEEE 754 binary16.
static double half_of(const char *at)
{
    unsigned bits = (uint8_t)at[0] | (unsigned)(uint8_t)at[1] << 8;
    unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
    double number = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                    : exponent     ? ldexp(1024 + fraction, (int)exponent - 25)
                                   : ldexp(fraction, -24);
    return bits & 0x8000 ? -number : number;
}

static struct value read_float(const struct parquet_leaf *leaf, const char *at,
                               char scratch[PARQUET_TEXT_BYTES])
{
    uint32_t bits_32;
    uint64_t bits_64;
    float single;
    double number;
    if (leaf->physical == PHYSICAL_FIXED)
        return float_of(half_of(at), true, scratch);
    if (leaf->physical == PHYSICAL_FLOAT) {
        bits_32 = read_32(at);
        memcpy(&single, &bits_32, sizeof single);
        return float_of(single, true, scratch);
    }
    bits_64 = read_64(at);
    memcpy(&number, &bits_64, sizeof number);
    return float_of(number, false, scratch);
}

static struct value read_unsigned(const struct parquet_leaf *leaf, const char *at,
                                  char scratch[PARQUET_TEXT_BYTES])
{
    uint64_t number = leaf->physical == PHYSICAL_INT32 ? read_32(at) : read_64(at);
    if (number <= INT64_MAX)
        return value_integer((int64_t)number);
    snprintf(scratch, PARQUET_TEXT_BYTES, "%llu", (unsigned long long)number);
    return digits_of(scratch, (double)number);
}

// ---- decimals ----

// Big-endian two's complement. False: more than 128 bits.
static bool read_wide(struct text bytes, __int128 *wide)
{
    bool is_negative = bytes.size && (bytes.data[0] & 0x80);
    unsigned __int128 sum = is_negative ? ~(unsigned __int128)0 : 0;
    while (bytes.size > sizeof sum) {
        if ((uint8_t)bytes.data[0] != (is_negative ? 0xff : 0) ||
            ((bytes.data[1] & 0x80) != 0) != is_negative)
            return false;
        bytes = (struct text){bytes.data + 1, bytes.size - 1};
    }
    for (size_t i = 0; i < bytes.size; i++)
        sum = sum << 8 | (uint8_t)bytes.data[i];
    *wide = (__int128)sum;
    return true;
}

static bool read_decimal(const struct parquet_leaf *leaf, struct text bytes, char scratch[PARQUET_TEXT_BYTES],
                         struct value *value)
{
    __int128 wide;
    bool is_bytes = leaf->physical == PHYSICAL_BYTE_ARRAY || leaf->physical == PHYSICAL_FIXED;
    if (!is_bytes)
        wide = read_integer(leaf, bytes);
    else if (!read_wide(bytes, &wide))
        return false;
    unsigned __int128 rest = wide < 0 ? -(unsigned __int128)wide : (unsigned __int128)wide;
    char *at = scratch + PARQUET_TEXT_BYTES;
    *--at = '\0';
    for (int32_t i = 0; i < leaf->scale; i++, rest /= 10)
        *--at = (char)('0' + (int)(rest % 10));
    if (leaf->scale)
        *--at = '.';
    do
        *--at = (char)('0' + (int)(rest % 10));
    while (rest /= 10);
    if (wide < 0)
        *--at = '-';
    *value = digits_of(at, strtod(at, NULL));
    return true;
}

// ---- dates and times ----

static int64_t divide_down(int64_t a, int64_t b, int64_t *rest)
{
    *rest = a % b;
    if (*rest >= 0)
        return a / b;
    *rest += b;
    return a / b - 1;
}

// From days since 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant, "chrono-Compatible
// Low-Level Date Algorithms", civil_from_days).
static int write_date(int64_t days, char *out, size_t size)
{
    int64_t day_of_era, era = divide_down(days + 719468, 146097, &day_of_era);
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    int64_t year = year_of_era + era * 400 + (month <= 2);
    if (year > 0)
        return snprintf(out, size, "%04lld-%02lld-%02lld", (long long)year, (long long)month, (long long)day);
    return snprintf(out, size, "%04lld-%02lld-%02lld (BC)", 1 - (long long)year, (long long)month,
                    (long long)day);
}

// Units of 10^-digits seconds since midnight, without zeros at the end.
static int write_time(int64_t units, int32_t digits, bool is_utc, char *out, size_t size)
{
    static const int64_t scales[] = {1, 1000, 1000000, 1000000000};
    int64_t fraction, seconds = divide_down(units, scales[digits / 3], &fraction);
    int n = snprintf(out, size, "%02lld:%02lld:%02lld", (long long)(seconds / 3600),
                     (long long)(seconds / 60 % 60), (long long)(seconds % 60));
    if (fraction) {
        n += snprintf(out + n, size - (size_t)n, ".%0*lld", (int)digits, (long long)fraction);
        while (out[n - 1] == '0')
            n--;
    }
    if (is_utc)
        n += snprintf(out + n, size - (size_t)n, "+00");
    return n;
}

static struct value write_timestamp(int64_t days, int64_t units, int32_t digits, bool is_utc,
                                    char scratch[PARQUET_TEXT_BYTES])
{
    size_t n = (size_t)write_date(days, scratch, PARQUET_TEXT_BYTES);
    scratch[n++] = ' ';
    n += (size_t)write_time(units, digits, is_utc, scratch + n, PARQUET_TEXT_BYTES - n);
    return value_string((struct text){scratch, n});
}

static struct value read_timestamp(const struct parquet_leaf *leaf, const char *at,
                                   char scratch[PARQUET_TEXT_BYTES])
{
    int64_t units, scale = leaf->fraction_digits == 3   ? 1000
                           : leaf->fraction_digits == 6 ? 1000000
                                                        : 1000000000;
    int64_t days = divide_down((int64_t)read_64(at), scale * SECONDS_OF_DAY, &units);
    return write_timestamp(days, units, leaf->fraction_digits, leaf->is_utc, scratch);
}

// Rounded down to microseconds, as DuckDB reads it. The nanoseconds may add up to several days, or be
// negative. Spark writes days so that the sum of microseconds wraps for far years.
static struct value read_timestamp_96(const char *at, char scratch[PARQUET_TEXT_BYTES])
{
    const int64_t day = INT64_C(1000000) * SECONDS_OF_DAY;
    int64_t rest, units, days = (int64_t)(int32_t)read_32(at + 8) - JULIAN_DAY_OF_1970;
    uint64_t sum = (uint64_t)days * (uint64_t)day + (uint64_t)divide_down((int64_t)read_64(at), 1000, &rest);
    days = divide_down((int64_t)sum, day, &units);
    return write_timestamp(days, units, 6, false, scratch);
}

static struct value write_uuid(const char *at, char scratch[PARQUET_TEXT_BYTES])
{
    int n = 0;
    for (int i = 0; i < 16; i++)
        n += snprintf(scratch + n, PARQUET_TEXT_BYTES - (size_t)n,
                      i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", (uint8_t)at[i]);
    return value_string((struct text){scratch, (size_t)n});
}

bool parquet_value_read(const struct parquet_leaf *leaf, struct text bytes, char scratch[PARQUET_TEXT_BYTES],
                        struct value *value)
{
    switch (leaf->meaning) {
    case MEANING_BOOLEAN:
        *value = value_bool(bytes.data[0]);
        break;
    case MEANING_INTEGER:
        *value = value_integer(read_integer(leaf, bytes));
        break;
    case MEANING_UNSIGNED:
        *value = read_unsigned(leaf, bytes.data, scratch);
        break;
    case MEANING_FLOAT:
        *value = read_float(leaf, bytes.data, scratch);
        break;
    case MEANING_DECIMAL:
        return read_decimal(leaf, bytes, scratch, value);
    case MEANING_DATE:
        *value = value_string((struct text){scratch, (size_t)write_date(read_integer(leaf, bytes), scratch,
                                                                        PARQUET_TEXT_BYTES)});
        break;
    case MEANING_TIME:
        *value = value_string(
            (struct text){scratch, (size_t)write_time(read_integer(leaf, bytes), leaf->fraction_digits,
                                                      leaf->is_utc, scratch, PARQUET_TEXT_BYTES)});
        break;
    case MEANING_TIMESTAMP:
        *value = read_timestamp(leaf, bytes.data, scratch);
        break;
    case MEANING_TIMESTAMP_96:
        *value = read_timestamp_96(bytes.data, scratch);
        break;
    case MEANING_UUID:
        *value = write_uuid(bytes.data, scratch);
        break;
    case MEANING_BYTES:
        *value = (struct value){.kind = VALUE_BYTES, .text = bytes};
        break;
    default:
        *value = value_string(bytes);
    }
    return true;
}

// ---- lists ----

// DuckDB quotes an item that its parser of lists would read otherwise.
static bool needs_quotes(struct text item)
{
    static const char special[] = "\"'(),:=[\\]{}";
    bool is_null = item.size == 4 && strncasecmp(item.data, "NULL", 4) == 0;
    if (!item.size || is_null)
        return true;
    char first = item.data[0], last = item.data[item.size - 1];
    bool needs = (first && strchr(" \t\n\v\f\r", first)) || (last && strchr(" \t\n\v\f\r", last));
    for (size_t i = 0; i < item.size && !needs; i++)
        needs = memchr(special, item.data[i], sizeof special - 1) != NULL;
    return needs;
}

static void add_item(struct text item, struct buffer *out)
{
    if (!needs_quotes(item)) {
        buffer_add_text(out, item);
        return;
    }
    buffer_add_byte(out, '\'');
    for (size_t i = 0; i < item.size; i++) {
        if (item.data[i] == '\'' || item.data[i] == '\\')
            buffer_add_byte(out, '\\');
        buffer_add_byte(out, item.data[i]);
    }
    buffer_add_byte(out, '\'');
}

void parquet_list_text(const struct value *list, struct buffer *out)
{
    buffer_add_byte(out, '[');
    for (size_t i = 0; i < list->array.n_items; i++) {
        const struct value *item = &list->array.items[i];
        buffer_add_string(out, i ? ", " : "");
        if (item->kind == VALUE_NULL)
            buffer_add_string(out, "NULL");
        else if (item->kind == VALUE_STRING || item->kind == VALUE_BYTES)
            add_item(item->text, out);
        else
            json_encode(item, out);
    }
    buffer_add_byte(out, ']');
}
