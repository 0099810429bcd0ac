#include "engine/template/format_number.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void format_integer(int64_t integer, const struct format_style *style, struct format_digits *digits)
{
    static const char letters[] = "0123456789abcdef";
    char type = style->type ? style->type : 'd', reversed[72];
    uint64_t rest = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : tolower((unsigned char)type) == 'x' ? 16 : 10;
    size_t n = 0, size = 0;
    do {
        reversed[n++] = letters[rest % base];
        rest /= base;
    } while (rest);
    while (n)
        digits->text[size++] = type == 'X' ? (char)toupper((unsigned char)reversed[--n]) : reversed[--n];
    digits->text[size] = '\0';
    digits->sign = integer < 0 ? '-' : style->sign;
    digits->prefix[0] = '\0';
    if (style->is_alternate && base != 10)
        snprintf(digits->prefix, sizeof digits->prefix, "0%c", type);
}

bool format_long(const char *spelling, const struct format_style *style, struct format_digits *digits)
{
    bool is_negative = *spelling == '-';
    digits->sign = is_negative ? '-' : style->sign;
    digits->prefix[0] = '\0';
    size_t size = strlen(spelling + is_negative);
    if (size >= sizeof digits->text)
        return false;
    memcpy(digits->text, spelling + is_negative, size + 1);
    return true;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void print_float(double number, char type, int precision, bool is_alternate,
                        struct format_digits *digits)
{
    char format[] = "%#.*e", plain[] = "%.*e";
    format[sizeof format - 2] = plain[sizeof plain - 2] = type;
    snprintf(digits->text, sizeof digits->text, is_alternate ? format : plain, precision, number);
}
#pragma GCC diagnostic pop

// Formats like g, but a whole number keeps ".0" and scientific notation starts at an exponent one lower. This
// is float.__format__ without a type.
static void print_general(double number, int precision, struct format_digits *digits)
{
    char exact[FORMAT_PRECISION_MAX + 32];
    precision = precision ? precision : 1;
    snprintf(exact, sizeof exact, "%.*e", precision - 1, number);
    int point = atoi(strchr(exact, 'e') + 1) + 1;
    if (point <= -4 || point > precision - 1) {
        print_float(number, 'g', precision, false, digits);
        if (!strchr(digits->text, 'e')) // g would still print it in fixed notation
            print_float(number, 'e', precision - 1, false, digits);
        return;
    }
    print_float(number, 'f', precision - point, false, digits);
    size_t size = strlen(digits->text);
    while (size > 1 && digits->text[size - 1] == '0' && digits->text[size - 2] != '.')
        digits->text[--size] = '\0';
}

// Strips trailing zeros of the mantissa: 1.50e+03 becomes 1.5e+03.
static void strip_mantissa(char *text)
{
    char *exponent = strchr(text, 'e'), *end = exponent;
    if (!exponent || !memchr(text, '.', (size_t)(exponent - text)))
        return;
    while (end[-1] == '0')
        end--;
    end -= end[-1] == '.';
    memmove(end, exponent, strlen(exponent) + 1);
}

void format_float(double number, const struct format_style *style, struct format_digits *digits)
{
    char type = style->type;
    int precision = style->precision < 0 ? 6 : (int)style->precision;
    digits->prefix[0] = '\0';
    digits->sign = signbit(number) && !isnan(number) ? '-' : style->sign;
    number = fabs(number);
    if (!isfinite(number)) {
        bool is_upper = type && isupper((unsigned char)type);
        snprintf(digits->text, sizeof digits->text, "%s",
                 isnan(number) ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf"));
    } else if (type == '%') {
        print_float(number * 100, 'f', precision, style->is_alternate, digits);
    } else if (type) {
        print_float(number, type, precision, style->is_alternate, digits);
    } else if (style->precision < 0) {
        struct buffer buffer = {0};
        represent_add_float(&buffer, number);
        snprintf(digits->text, sizeof digits->text, "%s", buffer.data ? buffer.data : "");
        buffer_finish(&buffer);
    } else {
        print_general(number, precision, digits);
        strip_mantissa(digits->text);
    }
    if (type == '%')
        strncat(digits->text, "%", 2);
}

static void add_fill(struct rendering *rendering, const struct format_style *style, int64_t n)
{
    rendering_spend(rendering, n > 0 ? (size_t)n / 8 : 0);
    for (int64_t i = 0; i < n; i++)
        codepoints_add(&rendering->text, style->fill ? style->fill : ' ');
}

static size_t whole_digits(const char *text)
{
    size_t n = 0;
    while (isxdigit((unsigned char)text[n]) && !(tolower((unsigned char)text[n]) == 'e' && n))
        n++;
    return n;
}

// Appends the digits before the point, with `zeros` in front, and a separator between groups.
static void add_grouped(struct rendering *rendering, const struct format_digits *digits,
                        const struct format_style *style, size_t n_whole, size_t zeros)
{
    size_t n = n_whole + zeros, group = style->type && strchr("boxX", style->type) ? 4 : 3;
    for (size_t i = 0; i < n; i++) {
        if (style->grouping && i && (n - i) % group == 0)
            buffer_add_byte(&rendering->text, style->grouping);
        buffer_add_byte(&rendering->text, i < zeros ? '0' : digits->text[i - zeros]);
    }
    buffer_add_string(&rendering->text, digits->text + n_whole);
}

void format_add_digits(struct rendering *rendering, const struct format_digits *digits,
                       const struct format_style *style)
{
    bool is_based = style->type && strchr("boxX", style->type);
    size_t n_whole = is_based ? strlen(digits->text) : whole_digits(digits->text), zeros = 0;
    size_t group = is_based ? 4 : 3, n_rest = strlen(digits->text) - n_whole;
    int64_t around = (digits->sign ? 1 : 0) + (int64_t)strlen(digits->prefix), size;
    bool is_zeroed = style->fill == '0' && style->align == '=' && style->grouping && n_whole;
    for (;; zeros++) {
        size_t n = n_whole + zeros, marks = style->grouping && n ? (n - 1) / group : 0;
        size = around + (int64_t)(n + marks + n_rest);
        if (!is_zeroed || size >= style->width)
            break;
    }
    int64_t missing = style->width > size ? style->width - size : 0;
    int64_t left = style->align == '<' ? 0 : style->align == '^' ? missing / 2 : missing;
    if (style->align != '=')
        add_fill(rendering, style, left);
    if (digits->sign)
        buffer_add_byte(&rendering->text, digits->sign);
    buffer_add_string(&rendering->text, digits->prefix);
    if (style->align == '=')
        add_fill(rendering, style, left);
    add_grouped(rendering, digits, style, n_whole, zeros);
    add_fill(rendering, style, missing - left);
}

void format_add_text(struct rendering *rendering, struct text text, const struct format_style *style)
{
    if (style->precision >= 0)
        text = codepoints_slice(text, 0, (size_t)style->precision);
    int64_t size = (int64_t)codepoints_count(text);
    int64_t missing = style->width > size ? style->width - size : 0;
    int64_t left = style->align == '>' ? missing : style->align == '^' ? missing / 2 : 0;
    rendering_spend_bytes(rendering, text.size);
    add_fill(rendering, style, left);
    rendering_add_text(rendering, text);
    add_fill(rendering, style, missing - left);
}
