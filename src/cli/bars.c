#include "bars.h"

#include <string.h>

/* In user units, at 1 unit = 1 CSS pixel. */
enum { MARGIN = 28, HEADER = 56, LEGEND_PITCH = 20, NAME_PITCH = 26, BAR_PITCH = 17, BAR_HEIGHT = 12, WIDTH = 860, VALUES = 110, GAP = 8 };

static const char *const light[BARS_MAX_SERIES] = {"#4566d8", "#d1711f", "#2f8f6b", "#a04fb5", "#8a6d1f", "#c2405f", "#2b8aa3", "#6b7687"};
static const char *const dark[BARS_MAX_SERIES] = {"#7d98ff", "#f0a25c", "#62c79f", "#cf8ae0", "#d6b759", "#f07f99", "#6cc5dc", "#98a3b3"};

static void write_text(FILE *stream, const char *text) {
    for (; *text; text++) {
        const char *escaped = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (escaped) {
            fputs(escaped, stream);
        } else if ((unsigned char)*text >= ' ') {
            fputc(*text, stream);
        }
    }
}

static void draw_text(FILE *stream, const char *class, double x, double y, const char *text) {
    fprintf(stream, "<text class=\"%s\" x=\"%.5g\" y=\"%.6g\">", class, x, y);
    write_text(stream, text);
    fputs("</text>\n", stream);
}

static void draw_style(FILE *stream) {
    fputs("<style>\n"
          "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#1b2430;font-size:12px;"
          "font-variant-numeric:tabular-nums}\n"
          ".title{font-size:19px;font-weight:600}.name{font-size:13px;font-weight:600}.fact,.value{fill:#66717f}\n"
          ".card{fill:#fff;stroke:#e3e7ee}.range{stroke:#1b2430;stroke-width:1.2;fill:none}\n",
          stream);
    for (int i = 0; i < BARS_MAX_SERIES; i++) {
        fprintf(stream, ".s%d{fill:%s}", i, light[i]);
    }
    fputs("\n@media (prefers-color-scheme:dark){\ntext{fill:#e8ecf2}.fact,.value{fill:#98a3b3}.card{fill:#12171f;stroke:#28303c}"
          ".range{stroke:#e8ecf2}\n",
          stream);
    for (int i = 0; i < BARS_MAX_SERIES; i++) {
        fprintf(stream, ".s%d{fill:%s}", i, dark[i]);
    }
    fputs("}\n</style>\n", stream);
}

static void draw_group(FILE *stream, const bar *bars, size_t num_bars, double y) {
    const double room = WIDTH - 2 * MARGIN - VALUES;
    double longest = 0;
    for (size_t i = 0; i < num_bars; i++) {
        longest = bars[i].value > longest ? bars[i].value : longest;
    }
    longest *= 1.1; /* one wild sample must not shrink all bars: a whisker ends here */
    for (size_t i = 0; i < num_bars; i++, y += BAR_PITCH) {
        const double scale = longest > 0 ? room / longest : 0, middle = y + BAR_HEIGHT / 2.0;
        const double high = bars[i].high < longest ? bars[i].high : longest;
        char value[32];
        snprintf(value, sizeof value, bars[i].value < 1000 ? "%.4g \xc2\xb5s" : "%.0f \xc2\xb5s", bars[i].value);
        fprintf(stream, "<rect class=\"s%zu\" x=\"%d\" y=\"%.6g\" width=\"%.5g\" height=\"%d\" rx=\"2\"/>\n", bars[i].series, MARGIN, y,
                bars[i].value * scale, BAR_HEIGHT);
        fprintf(stream, "<path class=\"range\" d=\"M%.5g %.6gH%.5g\"/>\n", MARGIN + bars[i].low * scale, middle, MARGIN + high * scale);
        draw_text(stream, "value", MARGIN + (high > bars[i].value ? high : bars[i].value) * scale + GAP, middle + 4, value);
    }
}

bool bars_draw(FILE *stream, const bars_chart *chart) {
    const size_t num_groups = chart->num_groups < BARS_MAX_GROUPS ? chart->num_groups : BARS_MAX_GROUPS;
    size_t num_bars = 0;
    while (num_bars < chart->num_bars && chart->bars[num_bars].group < num_groups) {
        num_bars++;
    }
    const double top = HEADER + LEGEND_PITCH * (double)(chart->num_series + 1) + GAP;
    const double height =
        top + NAME_PITCH * (double)num_groups + BAR_PITCH * (double)num_bars + MARGIN + (num_groups < chart->num_groups ? LEGEND_PITCH : 0);
    double y = HEADER;
    char text[128];
    fprintf(stream, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.6g\" role=\"img\">\n<title>", WIDTH, height);
    write_text(stream, chart->title);
    fputs("</title>\n", stream);
    draw_style(stream);
    fprintf(stream, "<rect class=\"card\" x=\".5\" y=\".5\" width=\"%d\" height=\"%.6g\" rx=\"12\"/>\n", WIDTH - 1, height - 1);
    draw_text(stream, "title", MARGIN, 40, chart->title);
    for (size_t s = 0; s < chart->num_series; s++, y += LEGEND_PITCH) {
        fprintf(stream, "<rect class=\"s%zu\" x=\"%d\" y=\"%.6g\" width=\"12\" height=\"12\" rx=\"2\"/>\n", s, MARGIN, y);
        draw_text(stream, "fact", MARGIN + 20, y + 10, chart->series[s]);
    }
    draw_text(stream, "fact", MARGIN, y + 10, "Median wall time; the line spans 10 to 90 % of the samples. Each group has its own scale.");
    y = top;
    for (size_t g = 0, first = 0; g < num_groups; g++) {
        size_t end = first;
        while (end < num_bars && chart->bars[end].group == g) {
            end++;
        }
        draw_text(stream, "name", MARGIN, y + NAME_PITCH - 9, chart->groups[g]);
        y += NAME_PITCH;
        draw_group(stream, chart->bars + first, end - first, y);
        y += BAR_PITCH * (double)(end - first);
        first = end;
    }
    if (num_groups < chart->num_groups) {
        snprintf(text, sizeof text, "and %zu more workloads, left out here", chart->num_groups - num_groups);
        draw_text(stream, "fact", MARGIN, y + LEGEND_PITCH, text);
    }
    fputs("</svg>\n", stream);
    return ferror(stream) == 0;
}
