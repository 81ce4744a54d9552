#include "svg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARGIN = 28,
    HEADER = 104,      /* title, facts, headings of the columns */
    LABELS = 52,       /* column of the experts' numbers, */
    LABEL_GAP = 14,    /*   with this much before the cells */
    COUNTS = 56,       /* column of the counts */
    FOOTER = 52,       /* legend */
    CELLS_WIDTH = 800, /* what the longest row may take */
    MIN_WIDTH = 500,   /* the header's text needs it */
    EMPTY_PITCH = 15,  /* from one expert without pairs to the next */
    MAX_NUMBERED = 64, /* rows in a picture that shows numbers */
    MAX_CELLS = 128,   /* cells of one expert before they become bars */
    MAX_LINES = 96     /* lines before experts are left out */
};

typedef enum detail { DETAIL_NUMBERS, DETAIL_CELLS, DETAIL_BARS } detail;

/* All lengths in user units, at 1 unit = 1 CSS pixel. */
typedef struct drawing {
    FILE *stream;
    const align_call *call;
    const routing *route;
    detail detail;
    double cell;  /* side of a cell */
    double gap;   /* between the cells of a block, and twice that around a block */
    double space; /* between blocks */
    double scale; /* bars: units per row */
    double pitch; /* from one expert with pairs to the next */
    double width;
} drawing;

/* A line of the picture: one segment, or a run of experts without pairs. */
typedef struct line {
    align_segment first;
    int32_t last_expert;
    bool foreign;
} line;

static double block_width(const drawing *d) {
    return d->call->block_size * (d->cell + d->gap) + d->gap;
}

static double cells_width(const drawing *d, int32_t num_rows) {
    const double num_blocks = (double)num_rows / d->call->block_size;
    return d->detail == DETAIL_BARS ? num_rows * d->scale : num_blocks * block_width(d) + (num_blocks > 0 ? num_blocks - 1 : 0) * d->space;
}

static drawing lay_out(FILE *stream, const align_call *call, const routing *route) {
    drawing d = {.stream = stream, .call = call, .route = route, .detail = DETAIL_BARS, .cell = 14, .gap = 3, .space = 6, .pitch = 20};
    int32_t longest = 1;
    for (uint32_t s = 0; s < align_num_segments(route); s++) {
        const align_segment segment = align_segment_at(call, route, s);
        longest = segment.num_rows > longest ? segment.num_rows : longest;
    }
    d.scale = (double)CELLS_WIDTH / longest;
    if (call->arrays[ALIGN_TOTAL][0] <= MAX_NUMBERED && longest <= 16) {
        d.detail = DETAIL_NUMBERS;
        d.cell = 38;
        d.gap = 4;
        d.space = 10;
    } else if (longest <= MAX_CELLS) {
        d.detail = DETAIL_CELLS;
        d.gap = 2;
        while (d.cell > 4 && cells_width(&d, longest) > CELLS_WIDTH) {
            d.cell -= 0.5;
        }
    }
    if (d.detail != DETAIL_BARS) {
        d.pitch = d.cell + 2 * d.gap + (d.detail == DETAIL_NUMBERS ? 10 : 5);
    }
    d.width = 2 * MARGIN + LABELS + cells_width(&d, longest) + COUNTS;
    d.width = d.width < MIN_WIDTH ? MIN_WIDTH : d.width;
    return d;
}

/* ---- Lines ---------------------------------------------------------------------------------------------------------------------- */

/* With KEEP the experts of other ranks have blocks too. */
static bool is_foreign(const routing *route, int32_t expert) {
    if (expert < 0 || !route->expert_map || route->foreign != CLMOE_FOREIGN_KEEP) {
        return expert < 0;
    }
    return route->expert_map[expert] < 0 || (uint32_t)route->expert_map[expert] >= route->num_experts;
}

/* One line per segment; with very many, neighbours without pairs share one. Returns how many there are. */
static size_t list_lines(const drawing *d, line *lines) {
    const uint32_t num_segments = align_num_segments(d->route);
    size_t num_lines = 0;
    for (uint32_t s = 0; s < num_segments; s++) {
        const align_segment segment = align_segment_at(d->call, d->route, s);
        line *before = num_lines > 0 ? &lines[num_lines - 1] : NULL;
        if (segment.expert < 0 && segment.num_pairs == 0) {
            continue;
        }
        if (before && num_segments > MAX_LINES && segment.num_pairs == 0 && before->first.num_pairs == 0) {
            before->last_expert = segment.expert;
            continue;
        }
        const line next = {segment, segment.expert, is_foreign(d->route, segment.expert)};
        lines[num_lines++] = next;
    }
    return num_lines;
}

/* ---- Parts ---------------------------------------------------------------------------------------------------------------------- */

static void draw_style(FILE *stream) {
    /* Plain rules, no custom properties: not every program that draws SVG knows those. */
    fputs("<style>\n"
          "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#1b2430}\n"
          "text{font-variant-numeric:tabular-nums}.name,.count,.none,.end{text-anchor:end}.in,.out{text-anchor:middle}\n"
          ".title{font-size:19px;font-weight:600}.in{font-size:14px;font-weight:600}.fact,.name,.count,.out{font-size:13px}\n"
          ".head{font-size:11px;letter-spacing:.04em}.none{font-size:10px}\n"
          ".hole{fill:none;stroke-width:1.2}.thin{stroke-width:1.2;stroke-dasharray:.1 5;stroke-linecap:round}\n"
          ".fact,.head,.count,.none,.out{fill:#66717f}.in{fill:#fff}.card{fill:#fff;stroke:#e3e7ee}.block{fill:#edf0f7}\n"
          ".pair{fill:#4566d8}.away{fill:#9aa4b2}.hole{stroke:#c5cddb}.thin{stroke:#b9c1cc}\n"
          "@media (prefers-color-scheme:dark){\n"
          "text{fill:#e8ecf2}.fact,.head,.count,.none,.out{fill:#98a3b3}.in{fill:#0f1420}.card{fill:#12171f;stroke:#28303c}\n"
          ".block{fill:#1e2632}.pair{fill:#7d98ff}.away{fill:#6b7687}.hole{stroke:#465265}.thin{stroke:#4a5566}}\n"
          "</style>\n",
          stream);
}

static void draw_header(const drawing *d) {
    const routing *route = d->route;
    const int32_t num_rows = d->call->arrays[ALIGN_TOTAL][0];
    const int32_t num_pairs = d->call->arrays[ALIGN_OFFSETS][route->num_experts];
    const int32_t num_blocks = num_rows / (int32_t)d->call->block_size;
    fprintf(d->stream, "<text class=\"title\" x=\"%d\" y=\"42\">%" PRId32 " pair%s in %" PRId32 " block%s of %" PRIu32 " row%s</text>\n",
            MARGIN, num_pairs, num_pairs == 1 ? "" : "s", num_blocks, num_blocks == 1 ? "" : "s", d->call->block_size,
            d->call->block_size == 1 ? "" : "s");
    fprintf(d->stream,
            "<text class=\"fact\" x=\"%d\" y=\"65\">T = %" PRIu32 " \xc2\xb7 K = %" PRIu32 " \xc2\xb7 E = %" PRIu32
            " \xc2\xb7 B = %" PRIu32,
            MARGIN, route->num_tokens, route->top_k, route->num_experts, d->call->block_size);
    fprintf(d->stream, " \xc2\xb7 %" PRId32 " row%s", num_rows, num_rows == 1 ? "" : "s");
    if (num_pairs > 0) {
        fprintf(d->stream, " \xc2\xb7 padding factor %.2f", align_padding_factor(d->call));
    }
    fprintf(d->stream, "</text>\n<text class=\"head end\" x=\"%d\" y=\"%d\">expert</text>\n", MARGIN + LABELS - LABEL_GAP, HEADER - 12);
    fprintf(d->stream, "<text class=\"head end\" x=\"%.5g\" y=\"%d\">pairs</text>\n", d->width - MARGIN, HEADER - 12);
}

static void draw_cell(const drawing *d, const char *class, double x, double y) {
    /* A stroke is centred on its edge: a hollow cell is drawn smaller by the stroke to look as large as a filled one. */
    const double inset = strcmp(class, "hole") == 0 ? 0.6 : 0;
    fprintf(d->stream, "<rect class=\"%s\" x=\"%.5g\" y=\"%.5g\" width=\"%.4g\" height=\"%.4g\" rx=\"%.3g\"/>\n", class, x + inset,
            y + inset, d->cell - 2 * inset, d->cell - 2 * inset, d->cell > 20 ? 6 : d->cell / 4);
}

static void draw_blocks(const drawing *d, const line *l, double left, double y) {
    const int32_t block_size = (int32_t)d->call->block_size;
    const double top = y - d->cell / 2;
    for (int32_t i = 0; i < l->first.num_rows; i++) {
        const int32_t block = i / block_size;
        const double block_left = left + block * (block_width(d) + d->space);
        const double x = block_left + d->gap + i % block_size * (d->cell + d->gap);
        const bool filled = i < l->first.num_pairs;
        if (i % block_size == 0) {
            fprintf(d->stream, "<rect class=\"block\" x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"%.4g\" rx=\"%.3g\"/>\n", block_left,
                    top - d->gap, block_width(d), d->cell + 2 * d->gap, d->cell > 20 ? 9 : d->cell / 4 + d->gap);
        }
        draw_cell(d, !filled ? "hole" : l->foreign ? "away" : "pair", x, top);
        if (d->detail == DETAIL_NUMBERS) {
            fprintf(d->stream, "<text class=\"%s\" x=\"%.5g\" y=\"%.5g\">%" PRId32 "</text>\n", filled ? "in" : "out", x + d->cell / 2,
                    y + 5, d->call->arrays[ALIGN_SORTED][l->first.first_row + i]);
        }
    }
}

static void draw_bar(const drawing *d, const line *l, double left, double y) {
    fprintf(d->stream, "<rect class=\"hole\" x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"11\" rx=\"3\"/>\n", left + 0.6, y - 5.5,
            cells_width(d, l->first.num_rows));
    fprintf(d->stream, "<rect class=\"%s\" x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"12.2\" rx=\"3\"/>\n", l->foreign ? "away" : "pair",
            left, y - 6.1, cells_width(d, l->first.num_pairs));
}

/* y is the middle of the line. */
static void draw_line(const drawing *d, const line *l, double y) {
    const double left = MARGIN + LABELS, right = d->width - MARGIN;
    const bool empty = l->first.num_pairs == 0;
    char name[32];
    if (l->first.expert < 0) {
        snprintf(name, sizeof name, "none");
    } else if (l->last_expert > l->first.expert) {
        snprintf(name, sizeof name, "%" PRId32 "\xe2\x80\x93%" PRId32, l->first.expert, l->last_expert);
    } else {
        snprintf(name, sizeof name, "%" PRId32, l->first.expert);
    }
    fprintf(d->stream, "<text class=\"%s\" x=\"%.5g\" y=\"%.5g\">%s</text>\n", empty ? "none" : "name", left - LABEL_GAP,
            y + (empty ? 3.5 : 4.5), name);
    fprintf(d->stream, "<text class=\"%s\" x=\"%.5g\" y=\"%.5g\">%" PRId32 "</text>\n", empty ? "none" : "count", right,
            y + (empty ? 3.5 : 4.5), l->first.num_pairs);
    if (empty) {
        fprintf(d->stream, "<line class=\"thin\" x1=\"%.5g\" x2=\"%.5g\" y1=\"%.5g\" y2=\"%.5g\"/>\n", left, right - COUNTS + 12, y, y);
    } else if (d->detail == DETAIL_BARS) {
        draw_bar(d, l, left, y);
    } else {
        draw_blocks(d, l, left, y);
    }
}

static void draw_legend_entry(const drawing *d, const char *class, const char *text, double x, double y) {
    drawing small = *d;
    small.cell = 12;
    draw_cell(&small, class, x, y - 10);
    fprintf(d->stream, "<text class=\"fact\" x=\"%.5g\" y=\"%.5g\">%s</text>\n", x + 19, y, text);
}

static void draw_legend(const drawing *d, const line *lines, size_t num_lines, double y) {
    double x = MARGIN + LABELS;
    bool any_away = false;
    for (size_t i = 0; i < num_lines; i++) {
        any_away = any_away || (lines[i].foreign && lines[i].first.num_pairs > 0);
    }
    draw_legend_entry(d, "pair", d->detail == DETAIL_NUMBERS ? "pair f = t\xc2\xb7K + k" : "pair", x, y);
    x += d->detail == DETAIL_NUMBERS ? 158 : 72;
    draw_legend_entry(d, "hole", "padding row", x, y);
    if (any_away) {
        draw_legend_entry(d, "away", "foreign pair", x + 118, y);
    }
}

/* ---- The picture ---------------------------------------------------------------------------------------------------------------- */

static double pitch_of(const drawing *d, const line *l) {
    return l->first.num_pairs > 0 ? d->pitch : EMPTY_PITCH;
}

bool svg_draw(FILE *stream, const align_call *call, const routing *route) {
    const drawing d = lay_out(stream, call, route);
    line *lines = calloc(align_num_segments(route), sizeof *lines);
    if (!lines) {
        return false;
    }
    const size_t num_lines = list_lines(&d, lines);
    const size_t num_shown = num_lines > MAX_LINES ? MAX_LINES : num_lines;
    double height = HEADER + FOOTER + (num_shown < num_lines ? EMPTY_PITCH + 6 : 0);
    for (size_t i = 0; i < num_shown; i++) {
        height += pitch_of(&d, &lines[i]);
    }
    fprintf(stream, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.5g %.6g\" role=\"img\">\n", d.width, height);
    fprintf(stream, "<title>(token, slot) pairs sorted by expert, in blocks of %" PRIu32 " rows</title>\n", call->block_size);
    draw_style(stream);
    fprintf(stream, "<rect class=\"card\" x=\".5\" y=\".5\" width=\"%.5g\" height=\"%.6g\" rx=\"12\"/>\n", d.width - 1, height - 1);
    draw_header(&d);
    double y = HEADER;
    for (size_t i = 0; i < num_shown; i++) {
        const double pitch = pitch_of(&d, &lines[i]);
        draw_line(&d, &lines[i], y + pitch / 2);
        y += pitch;
    }
    if (num_shown < num_lines) {
        int64_t num_pairs = 0;
        for (size_t i = num_shown; i < num_lines; i++) {
            num_pairs += lines[i].first.num_pairs;
        }
        fprintf(stream,
                "<text class=\"fact\" x=\"%d\" y=\"%.5g\">and experts %" PRId32 "\xe2\x80\x93%" PRId32 " with %" PRId64 " pairs</text>\n",
                MARGIN + LABELS, y + 16, lines[num_shown].first.expert, lines[num_lines - 1].last_expert, num_pairs);
    }
    draw_legend(&d, lines, num_shown, height - 24);
    fputs("</svg>\n", stream);
    free(lines);
    return ferror(stream) == 0;
}
