/* command.h - one function per word on the command line. Each gets the arguments behind its word and returns the exit code. */
#ifndef CLMOE_CLI_COMMAND_H
#define CLMOE_CLI_COMMAND_H

#include "report.h"

outcome command_devices(int argc, char **argv);
outcome command_histogram(int argc, char **argv);
outcome command_scan(int argc, char **argv);
outcome command_sort(int argc, char **argv);
outcome command_scatter(int argc, char **argv);
outcome command_gather(int argc, char **argv);
outcome command_route(int argc, char **argv);
outcome command_route_align(int argc, char **argv);
outcome command_align(int argc, char **argv);
outcome command_verify(int argc, char **argv);
outcome command_advise(int argc, char **argv);
outcome command_bench(int argc, char **argv);
outcome command_compare(int argc, char **argv);
outcome command_selftest(int argc, char **argv);

#endif
