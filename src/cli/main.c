#include "command.h"
#include "options.h"

#include <signal.h>
#include <string.h>

static const struct {
    const char *word;
    outcome (*run)(int argc, char **argv);
    const char *purpose;
} commands[] = {
    {"devices", command_devices, "lists every platform and device, and which kernels each gets"},
    {"histogram", command_histogram, "counts how often each of the integers 0 ... B-1 is there"},
    {"scan", command_scan, "sums all items before, or up to, each item"},
    {"sort", command_sort, "sorts keys, with values that go along, or tells their places (argsort)"},
    {"scatter", command_scatter, "puts rows or items to the places that an index tells"},
    {"gather", command_gather, "takes rows or items from the places that an index tells"},
    {"route", command_route, "chooses experts for each token from the router's logits, as published models do"},
    {"route-align", command_route_align, "route, then align: from logits to the layout for a GEMM, in one call"},
    {"align", command_align, "sorts (token, slot) pairs by expert, padded to blocks; explains and draws it"},
    {"verify", command_verify, "checks what another engine's align produced"},
    {"advise", command_advise, "which block size to take for these ids"},
    {"selftest", command_selftest, "proves that a device computes what it should; run it first on a new one"},
    {"bench", command_bench, "times every operator beside plain C, naive kernels and the memory's own speed"},
    {"compare", command_compare, "puts results of bench side by side"},
};

enum { NUM_COMMANDS = sizeof commands / sizeof commands[0] };

static outcome print_help(void) {
    printf("clmoe %s - routing kernels for Mixture-of-Experts layers, on OpenCL devices and on the processor\n\nusage: clmoe COMMAND "
           "[options]\n\n",
           clmoe_version());
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        printf("  %-11s %s\n", commands[i].word, commands[i].purpose);
    }
    printf("\n'clmoe COMMAND --help' tells the options of a command, 'clmoe --version' the version.\n"
           "Arrays are NumPy .npy files. Results go to stdout, everything else to stderr.\n");
    return report_finish(NULL);
}

static outcome print_version(void) {
    printf("clmoe %s\n", clmoe_version());
    return report_finish(NULL);
}

static outcome unknown_command(const char *typed) {
    const char *words[NUM_COMMANDS];
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        words[i] = commands[i].word;
    }
    const char *nearest = options_nearest(typed, words, NUM_COMMANDS);
    return nearest ? report_error(NULL, OUTCOME_BAD_INPUT, "unknown command '%s'; did you mean %s?", typed, nearest)
                   : report_error(NULL, OUTCOME_BAD_INPUT, "unknown command '%s'; 'clmoe' alone lists them", typed);
}

static outcome run(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        return print_help();
    }
    if (strcmp(argv[1], "--version") == 0) {
        return print_version();
    }
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].word) == 0) {
            return commands[i].run(argc - 2, argv + 2);
        }
    }
    return unknown_command(argv[1]);
}

int main(int argc, char **argv) {
    /* A reader that leaves early must not end the program between two files. */
    signal(SIGPIPE, SIG_IGN);
    return (int)run(argc, argv);
}
