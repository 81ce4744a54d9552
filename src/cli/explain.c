/* Every number here is read from the operator's outputs; nothing is worked out a second time. */
#include "explain.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINE_COLUMNS = 100, LABEL_COLUMNS = 12, MAX_SHOWN = 40, MAX_ROWS = 4, MAX_BLOCKS = 8, BLOCK_COLUMNS = 26 };

/* Rows of numbers under each other, all of the same length. */
typedef struct number_table {
    const char *labels[MAX_ROWS];
    int64_t values[MAX_ROWS][MAX_SHOWN]; /* the first MAX_SHOWN of num_all */
    size_t num_rows;
    size_t num_all;
} number_table;

static int columns_of(int64_t value) {
    return snprintf(NULL, 0, "%" PRId64, value);
}

static size_t first_shown(size_t num_all) {
    return num_all < MAX_SHOWN ? num_all : MAX_SHOWN;
}

static void print_table(const number_table *table) {
    int width = 1;
    for (size_t row = 0; row < table->num_rows; row++) {
        for (size_t i = 0; i < first_shown(table->num_all); i++) {
            const int columns = columns_of(table->values[row][i]);
            width = columns > width ? columns : width;
        }
    }
    const size_t fitting = (size_t)((LINE_COLUMNS - LABEL_COLUMNS - 16) / (width + 1));
    const size_t shown = table->num_all <= fitting ? first_shown(table->num_all) : fitting < MAX_SHOWN ? fitting : MAX_SHOWN;
    for (size_t row = 0; row < table->num_rows; row++) {
        printf("   %-*s", LABEL_COLUMNS - 3, table->labels[row]);
        for (size_t i = 0; i < shown; i++) {
            printf(" %*" PRId64, width, table->values[row][i]);
        }
        printf(shown < table->num_all ? " ... (%zu)\n" : "\n", table->num_all);
    }
}

static int64_t id_of_pair(const routing *route, size_t pair) {
    return npy_integer(&route->ids, pair);
}

static bool is_global_expert(const routing *route, int64_t id) {
    return id >= 0 && id < (int64_t)route->num_experts;
}

static void explain_pairs(const routing *route) {
    number_table table = {{"f", "expert", "local"}, {{0}}, route->expert_map ? 3 : 2, route->ids.num_items};
    for (size_t f = 0; f < first_shown(table.num_all); f++) {
        const int64_t id = id_of_pair(route, f);
        table.values[0][f] = (int64_t)f;
        table.values[1][f] = id;
        table.values[2][f] = route->expert_map && is_global_expert(route, id) ? route->expert_map[id] : -1;
    }
    printf("\n1  each (token, slot) pair gets a number, f = t*K + k, and goes to an expert\n");
    print_table(&table);
}

static void explain_segments(const align_call *call, const routing *route) {
    number_table table = {{"expert", "counts", "padded", "starts"}, {{0}}, 4, align_num_segments(route)};
    for (size_t i = 0; i < first_shown(table.num_all); i++) {
        const align_segment segment = align_segment_at(call, route, (uint32_t)i);
        table.values[0][i] = segment.expert;
        table.values[1][i] = segment.num_pairs;
        table.values[2][i] = segment.num_rows;
        table.values[3][i] = segment.first_row;
    }
    printf("\n2  how many pairs each expert has, that padded to whole blocks, and the row where it starts\n");
    print_table(&table);
    printf("   total P = %" PRId32 "\n", call->arrays[ALIGN_TOTAL][0]);
    if (route->foreign == CLMOE_FOREIGN_BUCKET) {
        printf("   (-1: the pairs that belong to no local expert, in front)\n");
    }
}

static void explain_order(const align_call *call, const routing *route) {
    const int32_t *sorted = call->arrays[ALIGN_SORTED], *inverse = call->arrays[ALIGN_INVERSE];
    number_table table = {{"order", "expert", "rank", "dest"}, {{0}}, 4, 0};
    for (uint32_t s = 0; s < align_num_segments(route); s++) {
        const align_segment segment = align_segment_at(call, route, s);
        for (int32_t row = segment.first_row; row < segment.first_row + segment.num_pairs; row++, table.num_all++) {
            if (table.num_all < MAX_SHOWN) {
                const int32_t pair = sorted[row];
                table.values[0][table.num_all] = pair;
                table.values[1][table.num_all] = segment.expert;
                table.values[2][table.num_all] = inverse[pair] - segment.first_row;
                table.values[3][table.num_all] = inverse[pair];
            }
        }
    }
    printf("\n3  a stable sort by expert gives the order; rank counts inside an expert; dest = start + rank\n");
    print_table(&table);
}

/* Everything in one line, blocks apart, each block's expert under its first row. */
static void print_blocks_in_line(const align_call *call, int32_t num_rows, int width) {
    const int32_t block_size = (int32_t)call->block_size;
    printf("   %-*s", LABEL_COLUMNS - 3, "sorted");
    for (int32_t row = 0; row < num_rows; row++) {
        printf("%s %*" PRId32, row > 0 && row % block_size == 0 ? " |" : "", width, call->arrays[ALIGN_SORTED][row]);
    }
    printf("\n   %-*s", LABEL_COLUMNS - 3, "experts");
    for (int32_t block = 0; block < num_rows / block_size; block++) {
        const int rest = (int)(block_size - 1) * (width + 1);
        printf("%s %*" PRId32, block > 0 ? "  " : "", width, call->arrays[ALIGN_EXPERTS][block]);
        printf("%*s", (block + 1) * block_size < num_rows ? rest : 0, "");
    }
    printf("\n");
}

static void print_blocks_in_lines(const align_call *call, int32_t num_rows, int width) {
    const int32_t block_size = (int32_t)call->block_size, num_blocks = num_rows / block_size;
    const int32_t in_full = (LINE_COLUMNS - BLOCK_COLUMNS) / (width + 1), cut = (LINE_COLUMNS - BLOCK_COLUMNS - 16) / (width + 1);
    const int32_t shown = block_size <= in_full ? block_size : cut;
    printf("   %5s  %7s  %5s  %s\n", "block", "experts", "pairs", "sorted");
    for (int32_t block = 0; block < num_blocks && block < MAX_BLOCKS; block++) {
        printf("   %5" PRId32 "  %7" PRId32 "  %5" PRId32 " ", block, call->arrays[ALIGN_EXPERTS][block],
               call->arrays[ALIGN_ROWS_VALID][block]);
        for (int32_t row = block * block_size; row < block * block_size + shown; row++) {
            printf(" %*" PRId32, width, call->arrays[ALIGN_SORTED][row]);
        }
        printf(shown < block_size ? " ... (%" PRId32 ")\n" : "\n", block_size);
    }
    if (num_blocks > MAX_BLOCKS) {
        printf("   %5s  (%" PRId32 " blocks)\n", "...", num_blocks);
    }
}

static void explain_result(const align_call *call) {
    const int32_t num_rows = call->arrays[ALIGN_TOTAL][0];
    int width = 1;
    int32_t num_pairs = 0;
    for (int32_t row = 0; row < num_rows; row++) {
        const int columns = columns_of(call->arrays[ALIGN_SORTED][row]);
        width = columns > width ? columns : width;
    }
    for (int32_t block = 0; block < num_rows / (int32_t)call->block_size; block++) {
        const int columns = columns_of(call->arrays[ALIGN_EXPERTS][block]);
        width = columns > width ? columns : width;
        num_pairs += call->arrays[ALIGN_ROWS_VALID][block];
    }
    const int64_t line_columns = LABEL_COLUMNS + (int64_t)num_rows * (width + 1) + (int64_t)num_rows / call->block_size * 2;
    printf("\n4  every pair is written to its row, every other row holds the padding value\n");
    if (line_columns <= LINE_COLUMNS) {
        print_blocks_in_line(call, num_rows, width);
    } else {
        print_blocks_in_lines(call, num_rows, width);
    }
    printf("\n5  the cost: %" PRId32 " rows for %" PRId32 " pairs", num_rows, num_pairs);
    if (num_pairs > 0) {
        printf(", padding factor %.2f", align_padding_factor(call));
    }
    printf("\n\n");
}

void explain_align(const align_call *call, const routing *route) {
    const report_style style = report_style_of(stdout);
    printf("%sT=%" PRIu32 " tokens, K=%" PRIu32 " slots, E=%" PRIu32 " experts, B=%" PRIu32 " rows in a block%s\n", style.bold,
           route->num_tokens, route->top_k, route->num_experts, call->block_size, style.plain);
    explain_pairs(route);
    explain_segments(call, route);
    explain_order(call, route);
    explain_result(call);
}
