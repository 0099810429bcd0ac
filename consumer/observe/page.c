#include "consumer/observe/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Geometry of a chart, in its own units.
enum {
    CHART_WIDTH = 360,
    CHART_HEIGHT = 150,
    PLOT_TOP = 22,
    PLOT_BOTTOM = 126,
    PLOT_LEFT = 44,
    PLOT_WIDTH = 312,
    TICKS_MAX = 3, // above 0
    AXIS_LABELS = 5
};

#define REPLACEMENT "\xef\xbf\xbd"

static const char style[] =
    ":root{--ink:#1c2430;--soft:#667085;--line:#dde2ea;--paper:#fff;--tile:#f4f6f9;--bar:#3b6fb6;"
    "--bad:#b3412e}@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa4b2;--line:#333b47;"
    "--paper:#14181e;--tile:#1d232b;--bar:#6c9fe6;--bad:#ea7f6c}}"
    "*{box-sizing:border-box}"
    "body{font:16px/1.45 "
    "system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:72rem;"
    "padding:1rem}"
    "h1{font-size:1.5rem;margin:.2rem 0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:1.6rem 0 "
    ".6rem;break-after:avoid}"
    "h3{font-size:.95rem;margin:0 0 .2rem;font-weight:600}p{margin:.3rem "
    "0;overflow-wrap:anywhere}.soft{color:var(--soft)}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.6rem}"
    ".tile{background:var(--tile);border-radius:.4rem;padding:.5rem .7rem}.tile "
    "span{display:block;color:var(--soft);"
    "font-size:.85rem}.tile b{font-size:1.2rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr));gap:1.2rem}"
    "figure{margin:0;break-inside:avoid}svg{width:100%;height:auto;display:block}svg "
    "text{fill:var(--soft);font-size:12px}"
    "svg rect{fill:var(--bar)}svg line{stroke:var(--line)}"
    ".bar{display:grid;grid-template-columns:minmax(0,1fr) auto;font-size:.9rem;margin:.25rem 0}.bar "
    "span{overflow-wrap:anywhere}"
    ".bar i{grid-column:1/3;background:var(--tile);height:.5rem;border-radius:.25rem;overflow:hidden}"
    ".bar i i{display:block;background:var(--bar);height:.5rem}"
    ".wide{overflow-x:auto;margin-top:.6rem}h3:has(+.wide){margin-top:1rem}table{border-collapse:collapse;"
    "font-size:.9rem;font-variant-numeric:tabular-nums}th,td{padding:.25rem .7rem .25rem 0;"
    "text-align:right;border-bottom:1px solid var(--line);vertical-align:top}"
    "th:first-child,td:first-child,.left{text-align:left}th{font-weight:600}td.left{min-width:6.5rem;"
    "overflow-wrap:break-word}.hit{font-weight:700}.bad{color:var(--bad)}progress{width:8rem;"
    "accent-color:var(--bar)}@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--paper:#fff;"
    "--tile:#eee;--bar:#3b6fb6;--bad:#900}body{font-size:11px;"
    "max-width:none;padding:0}.charts{grid-template-columns:repeat(2,1fr)}.wide{overflow:visible}"
    "section{break-inside:auto}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}";

// ---- text ----

// NULL: no escape is needed.
static const char *substitute_for(uint32_t codepoint)
{
    switch (codepoint) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\t':
    case '\n':
        return NULL;
    case 0xFFFE: // not allowed in XML
    case 0xFFFF:
        return REPLACEMENT;
    default:
        return utf8_is_printable(codepoint) ? NULL : REPLACEMENT;
    }
}

void page_add_text(struct buffer *out, struct text text)
{
    for (size_t i = 0; i < text.size;) {
        uint32_t codepoint;
        bool unfinished;
        size_t length = utf8_decode(text.data + i, text.size - i, &codepoint);
        const char *substitute = length ? substitute_for(codepoint) : REPLACEMENT;
        if (!length)
            length = utf8_bad_length(text.data + i, text.size - i, &unfinished);
        if (substitute)
            buffer_add_string(out, substitute);
        else
            buffer_add(out, text.data + i, length);
        i += length;
    }
}

void page_add_beginning(struct buffer *out, struct text text, size_t n_bytes_max)
{
    size_t size = text.size < n_bytes_max ? text.size : n_bytes_max;
    while (size && size < text.size && ((unsigned char)text.data[size] & 0xc0) == 0x80)
        size--;
    page_add_text(out, (struct text){text.data, size});
    if (size < text.size)
        buffer_add_string(out, "\xe2\x80\xa6");
}

const char *page_number(char text[32], int64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, number), at = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0 && digits[i - 1] != '-')
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

// ---- the page ----

void page_begin(struct buffer *out, struct text title, int refresh_s)
{
    buffer_add_string(out, "<!DOCTYPE html>\n<html lang=\"en\" "
                           "xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta charset=\"utf-8\"/>"
                           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
                           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                           "'none'; style-src 'unsafe-inline'\"/>");
    if (refresh_s)
        buffer_add_format(out, "<meta http-equiv=\"refresh\" content=\"%d\"/>", refresh_s);
    buffer_add_string(out, "<title>");
    page_add_text(out, title);
    buffer_add_string(out, "</title><style>");
    buffer_add_string(out, style);
    buffer_add_string(out, "</style></head><body>\n<h1>");
    page_add_text(out, title);
    buffer_add_string(out, "</h1>\n");
}

void page_end(struct buffer *out)
{
    buffer_add_string(out, "</body></html>\n");
}

void page_begin_section(struct buffer *out, const char *heading)
{
    buffer_add_format(out, "<section><h2>%s</h2>\n", heading);
}

void page_end_section(struct buffer *out)
{
    buffer_add_string(out, "</section>\n");
}

void page_begin_tiles(struct buffer *out)
{
    buffer_add_string(out, "<div class=\"tiles\">\n");
}

void page_add_tile(struct buffer *out, const char *label, const char *format, ...)
{
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    buffer_add_format(out, "<div class=\"tile\"><span>%s</span><b>", label);
    page_add_text(out, text_from_string(text));
    buffer_add_string(out, "</b></div>\n");
}

void page_end_tiles(struct buffer *out)
{
    buffer_add_string(out, "</div>\n");
}

// ---- charts ----

void page_begin_charts(struct buffer *out)
{
    buffer_add_string(out, "<div class=\"charts\">\n");
}

void page_end_charts(struct buffer *out)
{
    buffer_add_string(out, "</div>\n");
}

// Every `step`th column has a label: 1, 2 or 5 times a power of 10, so that labels of round widths are round.
static int choose_step(int n)
{
    int step = 1;
    for (int power = 1; step * AXIS_LABELS < n; power *= 10)
        for (int factor = 1; factor <= 5 && step * AXIS_LABELS < n; factor += factor == 1 ? 1 : 3)
            step = factor * power;
    return step;
}

static void add_axis(struct buffer *out, const struct page_column *columns, int n)
{
    int step = choose_step(n);
    for (int i = 0; i < n; i += step) {
        double x = PLOT_LEFT + (i + 0.5) * PLOT_WIDTH / n;
        const char *anchor = "middle";
        if (n > AXIS_LABELS && i == 0) { // a label at an end may be wider than its column
            anchor = "start";
            x = PLOT_LEFT;
        } else if (n > AXIS_LABELS && i > n - n / 10 - 2) {
            anchor = "end";
            x = PLOT_LEFT + PLOT_WIDTH;
        }
        buffer_add_format(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">", x, CHART_HEIGHT - 8, anchor);
        page_add_text(out, text_from_string(columns[i].label));
        buffer_add_string(out, "</text>");
    }
}

// The smallest of 1, 2 and 5 times a power of 10 that reaches `most` in TICKS_MAX steps. At least 1 if all values
// are whole numbers.
static double choose_tick(const struct page_column *columns, int n, double most)
{
    static const double factors[] = {1, 2, 5, 10};
    bool is_whole = true;
    for (int i = 0; i < n; i++)
        is_whole &= columns[i].value == floor(columns[i].value);
    if (most <= 0 || (is_whole && most <= TICKS_MAX))
        return 1;
    double power = pow(10, floor(log10(most / TICKS_MAX)));
    int i = 0;
    while (factors[i] * power * TICKS_MAX < most * (1 - 1e-9))
        i++;
    return factors[i] * power;
}

static void add_tick(struct buffer *out, double value, double y, const char *unit)
{
    const char *scale = value >= 1e9 ? "G" : value >= 1e6 ? "M" : value >= 1e4 ? "k" : "";
    double shown = value >= 1e9   ? value / 1e9
                   : value >= 1e6 ? value / 1e6
                   : value >= 1e4 ? value / 1e3
                                  : value;
    char number[32];
    if (shown >= 1000)
        page_number(number, (int64_t)shown);
    else
        snprintf(number, sizeof number, "%.6g", shown);
    buffer_add_format(out,
                      "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s%s</text>",
                      PLOT_LEFT, PLOT_LEFT + PLOT_WIDTH, y, y, PLOT_LEFT - 6, y + 4, number, scale);
    if (unit)
        buffer_add_format(out, "<text x=\"%d\" y=\"%d\">%s</text>", PLOT_LEFT, PLOT_TOP - 8, unit);
    buffer_add_string(out, "\n");
}

void page_add_columns(struct buffer *out, const char *title, const char *unit,
                      const struct page_column *columns, int n)
{
    double most = 0, width = (double)PLOT_WIDTH / (n > 0 ? n : 1);
    for (int i = 0; i < n; i++)
        most = columns[i].value > most ? columns[i].value : most;
    buffer_add_format(out, "<figure><h3>%s</h3><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
                      title, CHART_WIDTH, CHART_HEIGHT, title);
    const double tick = choose_tick(columns, n, most);
    const int n_ticks = most > 0 ? (int)ceil(most / tick * (1 - 1e-9)) : 1;
    const double unit_height = (PLOT_BOTTOM - PLOT_TOP) / (n_ticks * tick);
    for (int i = 0; i <= n_ticks; i++)
        add_tick(out, i * tick, PLOT_BOTTOM - i * tick * unit_height, i == n_ticks ? unit : NULL);
    for (int i = 0; i < n; i++) {
        double height = columns[i].value * unit_height;
        buffer_add_format(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>",
                          PLOT_LEFT + i * width, PLOT_BOTTOM - height, width * 0.85, height);
        page_add_text(out, text_from_string(columns[i].label));
        buffer_add_format(out, ": %.4g</title></rect>\n", columns[i].value);
    }
    add_axis(out, columns, n);
    buffer_add_string(out, "</svg></figure>\n");
}

void page_begin_bars(struct buffer *out, struct text title)
{
    buffer_add_string(out, "<figure><h3>");
    page_add_text(out, title);
    buffer_add_string(out, "</h3>\n");
}

void page_add_bar(struct buffer *out, struct text name, int64_t value, int64_t total)
{
    char number[32];
    double percent = total > 0 ? 100.0 * (double)value / (double)total : 0;
    buffer_add_string(out, "<div class=\"bar\"><span>");
    page_add_beginning(out, name, 80);
    buffer_add_format(out, "</span><b>%s (%.1f %%)</b><i><i style=\"width:%.2f%%\"></i></i></div>\n",
                      page_number(number, value), percent, percent);
}

void page_end_bars(struct buffer *out)
{
    buffer_add_string(out, "</figure>\n");
}

// ---- tables ----

void page_begin_table(struct buffer *out, const char *columns)
{
    buffer_add_string(out, "<div class=\"wide\"><table><tr>");
    while (*columns) {
        size_t length = strcspn(columns, "|");
        bool is_left = *columns == '<';
        buffer_add_string(out, is_left ? "<th class=\"left\">" : "<th>");
        page_add_text(out, (struct text){columns + is_left, length - is_left});
        buffer_add_string(out, "</th>");
        columns += length + (columns[length] == '|');
    }
    buffer_add_string(out, "</tr>\n");
}

void page_end_table(struct buffer *out)
{
    buffer_add_string(out, "</table></div>\n");
}
