#define _POSIX_C_SOURCE 200809L
#include "bars.h"
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static const char *const statuses[] = {"ok", "skipped", "failed"};
static const char *const verdicts[] = {"unchecked", "exact", "unordered", "close", "wrong"};

/* ---- The table ------------------------------------------------------------------------------------------------------------------ */

static void write_us(double us, char text[16]) {
    snprintf(text, 16, us <= 0 ? "-" : us < 100 ? "%.2f" : us < 10000 ? "%.1f" : "%.0f", us);
}

void bench_print_header(void) {
    const report_style style = report_style_of(stdout);
    printf("Times in us. EVENT: by the driver's clock. COLD: plan and first call, in ms; b built, c from the cache, s shared. EMPTY: "
           "multiple of\n"
           "an empty launch. COPY: bytes that must move, as a fraction of the rate of a large copy. Both measured in this run.\n\n");
    printf("%s%-20s %-24s %9s %9s %9s %9s %9s %9s %2s %7s %6s  %-9s %s%s\n", style.bold, "CONTENDER", "DEVICE", "MEDIAN", "P10", "P90",
           "MIN", "EVENT", "COLD", "L", "EMPTY", "COPY", "CORRECT", "HASH", style.plain);
}

static void print_row(const bench_row *row, const report_style *style) {
    char times[5][16], cold[24], hash[20] = "", empty[16] = "-", copy[16] = "-";
    printf("  %-18.18s %-24.24s ", row->contender, row->device);
    if (row->status != BENCH_OK) {
        printf("%s%s: %s%s\n", style->bad, statuses[row->status], row->reason, style->plain);
        return;
    }
    const bench_summary wall = bench_summarise(row->wall.us, row->wall.num);
    write_us(wall.median, times[0]);
    write_us(wall.p10, times[1]);
    write_us(wall.p90, times[2]);
    write_us(wall.min, times[3]);
    const bool by_event = strcmp(bench_clock(row), "event") == 0;
    write_us(by_event ? bench_device_us(row) : 0, times[4]);
    snprintf(cold, sizeof cold, "%.2f%.1s", row->plan_ms + row->first_ms, strcmp(row->program, "native") == 0 ? "" : row->program);
    if (row->times_empty > 0) {
        snprintf(empty, sizeof empty, row->times_empty < 100 ? "%.1f" : "%.0f", row->times_empty);
    }
    if (row->fraction_of_copy > 0) {
        snprintf(copy, sizeof copy, "%.2f", row->fraction_of_copy);
    }
    if (row->hash) {
        snprintf(hash, sizeof hash, "%016" PRIx64, row->hash);
    }
    printf("%9s %9s %9s %9s %9s %9s %2" PRIu32 " %7s %6s  %s%-9s%s %s\n", times[0], times[1], times[2], times[3],
           by_event || row->bad_events == 0 ? times[4] : "bad", cold, row->num_launches, empty, copy,
           row->correct == BENCH_EXACT || row->correct == BENCH_CLOSE ? style->good : "",
           row->correct == BENCH_UNCHECKED ? "-" : verdicts[row->correct], style->plain, hash);
}

void bench_print_rows(const bench_run *run, size_t first_row) {
    const report_style style = report_style_of(stdout);
    const bench_row *first = &run->rows->rows[first_row];
    char bytes[32];
    report_bytes(first->bytes, bytes, sizeof bytes);
    printf("%s%s%s   %s must move, %" PRIu32 " set%s", style.bold, first->workload, style.plain, bytes, first->num_sets,
           first->num_sets == 1 ? "" : "s");
    if (first->padding_factor > 0) {
        printf(", padding factor %.2f", first->padding_factor);
    }
    printf("\n");
    for (size_t i = first_row; i < run->rows->num_rows; i++) {
        print_row(&run->rows->rows[i], &style);
    }
    fflush(stdout);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------------------- */

static void write_hash(report_json *json, const char *key, uint64_t hash) {
    char text[20] = "";
    if (hash) {
        snprintf(text, sizeof text, "%016" PRIx64, hash);
    }
    json_text(json, key, text);
}

/* As Linux calls it. */
static void write_cpu(report_json *json) {
    char line[256] = "", *name = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !name && fgets(line, sizeof line, file)) {
        name = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    }
    if (file) {
        fclose(file);
    }
    line[strcspn(line, "\n")] = 0;
    json_text(json, "cpu", name && name[1] ? name + 2 : "");
}

static void write_environment(report_json *json, const bench_run *run) {
    struct utsname system;
    char text[256] = "", when[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (gmtime_r(&now, &utc)) {
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    if (uname(&system) == 0) {
        snprintf(text, sizeof text, "%s %s %s", system.sysname, system.release, system.machine);
    }
    json_open(json, "environment", '{');
    json_text(json, "time", when);
    json_text(json, "clmoe", clmoe_version());
    json_text(json, "kernels", clmoe_kernels_hash());
    json_text(json, "compiler", __VERSION__);
    json_text(json, "system", text);
    write_cpu(json);
    json_integer(json, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    json_integer(json, "memory_bytes", pages > 0 && page_bytes > 0 ? (int64_t)pages * page_bytes : 0);
    json_text(json, "filter", run->filter);
    json_bool(json, "quick", run->is_quick);
    json_open(json, "peers", '[');
    for (size_t i = 0; i < run->field->num_peers; i++) {
        json_open(json, NULL, '{');
        json_text(json, "name", run->field->peers[i].name);
        json_text(json, "version", run->field->peers[i].version);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void write_opencl(report_json *json, const bench_opencl *opencl) {
    char text[8192];
    bench_opencl_text(opencl, CL_DEVICE_OPENCL_C_VERSION, text, sizeof text);
    json_text(json, "opencl_c_version", text);
    bench_opencl_text(opencl, CL_DEVICE_EXTENSIONS, text, sizeof text);
    json_text(json, "extensions", text);
    json_integer(json, "clock_mhz", bench_opencl_clock_mhz(opencl));
}

static void write_device(report_json *json, const bench_device *device) {
    json_open(json, NULL, '{');
    json_text(json, "label", device->label);
    json_text(json, "reason", device->reason);
    json_text(json, "name", device->info.name);
    json_text(json, "platform", device->info.platform_name);
    json_text(json, "platform_version", device->info.platform_version);
    json_text(json, "device_version", device->info.device_version);
    json_text(json, "driver_version", device->info.driver_version);
    json_text(json, "class", device->info.kernel_class == CLMOE_CLASS_PARALLEL ? "parallel" : "serial");
    json_integer(json, "vendor_id", device->info.vendor_id);
    json_integer(json, "compute_units", device->info.compute_units);
    if (device->opencl) {
        write_opencl(json, device->opencl);
    }
    json_integer(json, "max_group_size", device->info.max_group_size);
    json_integer(json, "local_bytes", (int64_t)device->info.local_bytes);
    json_integer(json, "global_bytes", (int64_t)device->info.global_bytes);
    json_integer(json, "cache_bytes", (int64_t)device->cache_bytes);
    json_number(json, "empty_launch_us", device->empty_us);
    json_number(json, "copy_bytes_per_us", device->copy_bytes_per_us[0]);
    json_close(json, '}');
}

static void write_row(report_json *json, const bench_row *row) {
    const bench_summary wall = bench_summarise(row->wall.us, row->wall.num), event = bench_summarise(row->event.us, row->event.num);
    json_open(json, NULL, '{');
    json_text(json, "workload", row->workload);
    json_text(json, "group", row->group);
    json_text(json, "operator", row->op);
    json_text(json, "contender", row->contender);
    json_text(json, "device", row->device);
    json_text(json, "status", statuses[row->status]);
    json_text(json, "reason", row->reason);
    json_number(json, "median_us", wall.median);
    json_number(json, "p10_us", wall.p10);
    json_number(json, "p90_us", wall.p90);
    json_number(json, "min_us", wall.min);
    json_number(json, "event_median_us", event.median);
    json_text(json, "clock", bench_clock(row));
    json_integer(json, "bad_events", row->bad_events);
    json_integer(json, "calls_per_sample", row->calls_per_sample);
    json_integer(json, "input_sets", row->num_sets);
    json_number(json, "plan_ms", row->plan_ms);
    json_number(json, "first_call_ms", row->first_ms);
    json_text(json, "program", row->program);
    json_text(json, "variant", row->variant);
    json_text(json, "class", row->kernel_class);
    json_integer(json, "launches", row->num_launches);
    json_integer(json, "group_size", row->group_size);
    json_integer(json, "groups", row->num_groups);
    json_integer(json, "bytes", (int64_t)row->bytes);
    json_integer(json, "path_bytes", (int64_t)row->plan_bytes);
    json_number(json, "fraction_of_copy", row->fraction_of_copy);
    json_number(json, "times_empty_launch", row->times_empty);
    json_number(json, "padding_factor", row->padding_factor);
    json_text(json, "correct", verdicts[row->correct]);
    write_hash(json, "hash", row->hash);
    write_hash(json, "input_hash", row->input_hash);
    json_numbers(json, "wall_us", row->wall.us, row->wall.num);
    json_numbers(json, "event_us", row->event.us, row->event.num);
    json_close(json, '}');
}

void bench_write_json(FILE *stream, const bench_run *run) {
    report_json json = {stream, 0, false};
    json_open(&json, NULL, '{');
    json_text(&json, "schema", BENCH_SCHEMA);
    json_integer(&json, "version", BENCH_SCHEMA_VERSION);
    write_environment(&json, run);
    json_open(&json, "devices", '[');
    for (size_t i = 0; i < run->field->num_devices; i++) {
        write_device(&json, &run->field->devices[i]);
    }
    json_close(&json, ']');
    json_open(&json, "rows", '[');
    for (size_t i = 0; i < run->rows->num_rows; i++) {
        write_row(&json, &run->rows->rows[i]);
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

/* ---- CSV ------------------------------------------------------------------------------------------------------------------------ */

/* RFC 4180: quoted, quotes doubled; a line break becomes a space. */
static void write_field(FILE *stream, const char *text) {
    fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"') {
            fputc('"', stream);
        }
        fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
    }
    fputs("\",", stream);
}

void bench_write_csv(FILE *stream, const bench_run *run) {
    fputs("workload,group,operator,contender,device,status,reason,clock,correct,hash,input_hash,median_us,p10_us,p90_us,min_us,"
          "event_median_us,plan_ms,first_call_ms,program,class,launches,samples,calls_per_sample,bad_events,bytes,fraction_of_copy,"
          "times_empty_launch,padding_factor\n",
          stream);
    for (size_t i = 0; i < run->rows->num_rows; i++) {
        const bench_row *row = &run->rows->rows[i];
        const bench_summary wall = bench_summarise(row->wall.us, row->wall.num), event = bench_summarise(row->event.us, row->event.num);
        const char *const texts[] = {row->workload,         row->group,  row->op,          row->contender,        row->device,
                                     statuses[row->status], row->reason, bench_clock(row), verdicts[row->correct]};
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            write_field(stream, texts[t]);
        }
        fprintf(stream, row->hash ? "%016" PRIx64 "," : ",", row->hash);
        fprintf(stream, "%016" PRIx64 ",%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,", row->input_hash, wall.median, wall.p10, wall.p90, wall.min,
                event.median, row->plan_ms, row->first_ms);
        fprintf(stream, "%s,%s,%" PRIu32 ",%zu,%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%.6g,%.6g,%.6g\n", row->program, row->kernel_class,
                row->num_launches, row->wall.num, row->calls_per_sample, row->bad_events, row->bytes, row->fraction_of_copy,
                row->times_empty, row->padding_factor);
    }
}

/* ---- SVG ------------------------------------------------------------------------------------------------------------------------ */

/* Position of a name in a list that it is added to; `most` if the list is full. */
static size_t place_of(const char **names, size_t *num_names, size_t most, const char *name) {
    size_t i = 0;
    while (i < *num_names && strcmp(names[i], name) != 0) {
        i++;
    }
    if (i == *num_names && i < most) {
        names[(*num_names)++] = name;
    }
    return i;
}

bool bench_write_svg(FILE *stream, const bench_run *run) {
    const size_t num_rows = run->rows->num_rows;
    char(*labels)[200] = calloc(num_rows + 1, sizeof *labels);
    const char **groups = calloc(num_rows + 1, sizeof *groups), *series[BARS_MAX_SERIES];
    bar *bars = calloc(num_rows + 1, sizeof *bars);
    size_t num_groups = 0, num_series = 0, num_bars = 0;
    bool is_whole = labels && groups && bars;
    for (size_t i = 0; i < num_rows && is_whole; i++) {
        const bench_row *row = &run->rows->rows[i];
        if (row->status != BENCH_OK || strcmp(row->group, "baseline") == 0) {
            continue;
        }
        snprintf(labels[i], sizeof labels[i], "%s, %s", row->contender, row->device);
        const size_t s = place_of(series, &num_series, BARS_MAX_SERIES, labels[i]);
        if (s < BARS_MAX_SERIES) { /* beyond, there are no colours left */
            const bench_summary wall = bench_summarise(row->wall.us, row->wall.num);
            const size_t g = place_of(groups, &num_groups, num_rows, row->workload);
            bars[num_bars++] = (bar){g, s, wall.median, wall.p10, wall.p90};
        }
    }
    if (is_whole) {
        const bars_chart chart = {"clmoe bench", groups, num_groups, series, num_series, bars, num_bars};
        is_whole = bars_draw(stream, &chart);
    }
    free(labels);
    free(groups);
    free(bars);
    return is_whole;
}
