#include "engine/template/layout.h"
#include "engine/template/codepoints.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool add_fill(struct rendering *rendering, const struct layout *layout, int64_t count)
{
    if (count > TEMPLATE_OUTPUT_BYTES_MAX)
        return rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
    for (int64_t i = 0; i < count; i++)
        codepoints_add(&rendering->text, layout->fill);
    return rendering_check_text(rendering) &&
           rendering_spend_bytes(rendering, count > 0 ? (size_t)count * 4 : 0);
}

// `prefix` (sign, 0x) stays in front of '=' padding.
static bool add_padded(struct rendering *rendering, struct text prefix, struct text body,
                       const struct layout *layout)
{
    int64_t length = (int64_t)(codepoints_count(prefix) + codepoints_count(body));
    int64_t padding = layout->width > length ? layout->width - length : 0;
    int64_t before = layout->align == '>' ? padding : layout->align == '^' ? padding / 2 : 0;
    int64_t inside = layout->align == '=' ? padding : 0;
    if (!add_fill(rendering, layout, before))
        return false;
    buffer_add_text(&rendering->text, prefix);
    if (!add_fill(rendering, layout, inside))
        return false;
    rendering_add_text(rendering, body);
    return add_fill(rendering, layout, padding - before - inside);
}

bool layout_add_text(struct rendering *rendering, struct text text, const struct layout *layout)
{
    if (layout->precision >= 0)
        text.size = codepoints_offset(text, (size_t)layout->precision);
    return add_padded(rendering, TEXT(""), text, layout);
}

static size_t sign_text(bool negative, const struct layout *layout, char *out)
{
    if (!negative && layout->sign != '+' && layout->sign != ' ')
        return 0;
    out[0] = negative ? '-' : layout->sign;
    return 1;
}

// Separators between groups of the whole part of `digits`, into out.
static size_t group(const char *digits, const struct layout *layout, char *out)
{
    size_t whole = strspn(digits, "0123456789abcdefABCDEF"), size = 0;
    size_t per_group = layout->type == 'b' || layout->type == 'o' || (layout->type | 32) == 'x' ? 4 : 3;
    if (layout->type == 'e' || layout->type == 'E')
        whole = strspn(digits, "0123456789");
    for (size_t i = 0; digits[i]; i++) {
        if (layout->grouping && i > 0 && i < whole && (whole - i) % per_group == 0)
            out[size++] = layout->grouping;
        out[size++] = digits[i];
    }
    return size;
}

static size_t integer_digits(uint64_t magnitude, char type, char *out)
{
    char reversed[64];
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : (type | 32) == 'x' ? 16 : 10;
    const char *digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    size_t n = 0;
    do {
        reversed[n++] = digits[magnitude % base];
        magnitude /= base;
    } while (magnitude);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    out[n] = '\0';
    return n;
}

bool layout_add_integer(struct rendering *rendering, int64_t integer, const struct layout *layout)
{
    char prefix[4], digits[65], body[LAYOUT_NUMBER_BYTES_MAX];
    uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    size_t n_prefix = sign_text(integer < 0, layout, prefix), zeros = 0;
    size_t n_digits = integer_digits(magnitude, layout->type, digits);
    if (layout->alternate && layout->type != 'd') {
        prefix[n_prefix++] = '0';
        prefix[n_prefix++] = layout->type;
    }
    if (layout->precision > (int)n_digits) // of % formatting: at least so many digits
        zeros = (size_t)layout->precision - n_digits;
    memset(body, '0', zeros);
    size_t n_body = zeros + group(digits, layout, body + zeros);
    return add_padded(rendering, (struct text){prefix, n_prefix}, (struct text){body, n_body}, layout);
}

// The shortest form is repr's; with a precision it is %g, but never without a point.
static void shortest(double number, int precision, char *out, size_t size)
{
    if (precision < 0) {
        struct buffer buffer = {0};
        represent_add_float(&buffer, number);
        snprintf(out, size, "%s", buffer.data ? buffer.data : "");
        buffer_finish(&buffer);
        return;
    }
    int length = snprintf(out, size, "%.*g", precision, number);
    if (isfinite(number) && !strpbrk(out, ".e") && (size_t)length + 3 < size)
        strcat(out, ".0");
}

static void float_digits(double magnitude, const struct layout *layout, char *out, size_t size)
{
    char type = layout->type == '%' ? 'f' : layout->type;
    int precision = layout->precision < 0 ? 6 : layout->precision;
    if (!type) {
        shortest(magnitude, layout->precision, out, size);
        return;
    }
    char format[] = {'%', layout->alternate ? '#' : '-', '.', '*', type, '\0'};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(out, size, format, precision, magnitude); // '-' without a width changes nothing
#pragma GCC diagnostic pop
}

bool layout_add_float(struct rendering *rendering, double number, const struct layout *layout)
{
    char prefix[2], digits[LAYOUT_NUMBER_BYTES_MAX], body[2 * LAYOUT_NUMBER_BYTES_MAX];
    if (layout->precision > LAYOUT_PRECISION_MAX)
        return rendering_fail_limit(rendering, "a precision beyond %d", LAYOUT_PRECISION_MAX);
    if (layout->type == '%')
        number *= 100;
    size_t n_prefix = sign_text(signbit(number) && !isnan(number), layout, prefix);
    float_digits(fabs(number), layout, digits, sizeof digits);
    size_t n_body = isfinite(number) ? group(digits, layout, body) : strlen(strcpy(body, digits));
    if (layout->type == '%')
        body[n_body++] = '%';
    return add_padded(rendering, (struct text){prefix, n_prefix}, (struct text){body, n_body}, layout);
}
