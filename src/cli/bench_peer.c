/* Peers: other implementations, as programs that speak lines of text on stdin and stdout and share arrays through files. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_MS = 300000 }; /* one that is silent for longer is given up */
enum { PATH_BYTES = BENCH_PEER_LINE + 64 };

/* ---- Lines ---------------------------------------------------------------------------------------------------------------------- */

/* False with the peer's reason; then it is not spoken to again. */
static bool lose(bench_peer *peer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(peer->reason, sizeof peer->reason, format, arguments);
    va_end(arguments);
    return false;
}

static bool send_line(bench_peer *peer, const char *format, ...) {
    char line[2 * BENCH_PEER_LINE];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (peer->reason[0]) {
        return false;
    }
    for (ssize_t sent = 0, more; sent < length; sent += more) {
        more = send(peer->socket, line + sent, (size_t)(length - sent), MSG_NOSIGNAL);
        if (more < 0) {
            return lose(peer, "the peer has ended");
        }
    }
    return true;
}

/* Without the line break. */
static bool receive_line(bench_peer *peer, char *line, size_t line_bytes) {
    for (size_t length = 0; length < line_bytes; length++) {
        struct pollfd waiting = {.fd = peer->socket, .events = POLLIN};
        int num_ready;
        do {
            num_ready = poll(&waiting, 1, ANSWER_MS);
        } while (num_ready < 0 && errno == EINTR);
        if (num_ready == 0) {
            return lose(peer, "the peer gave no answer in %d s", ANSWER_MS / 1000);
        }
        if (num_ready < 0 || recv(peer->socket, line + length, 1, 0) != 1) {
            return lose(peer, "the peer has ended");
        }
        if (line[length] == '\n') {
            line[length] = 0;
            return true;
        }
    }
    return lose(peer, "the peer's answer is no line of text");
}

/* The answer is "WORD" or "WORD REST"; any other is the peer's reason. */
static bool receive_answer(bench_peer *peer, const char *word, char *rest, size_t rest_bytes) {
    char line[BENCH_PEER_LINE];
    const size_t length = strlen(word);
    if (peer->reason[0] || !receive_line(peer, line, sizeof line)) {
        return false;
    }
    if (strncmp(line, word, length) != 0 || (line[length] != 0 && line[length] != ' ')) {
        return lose(peer, "the peer says: %s", line);
    }
    snprintf(rest, rest_bytes, "%s", line + length + (line[length] == ' '));
    return true;
}

/* ---- Opening -------------------------------------------------------------------------------------------------------------------- */

static bool start(bench_peer *peer, const char *command) {
    extern char **environ;
    int ends[2];
    char shell[] = "sh", flag[] = "-c", *text = strdup(command);
    char *const arguments[] = {shell, flag, text, NULL};
    posix_spawn_file_actions_t actions;
    if (!text || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        free(text);
        return lose(peer, "%s", strerror(errno));
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int error = posix_spawn(&peer->process, "/bin/sh", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    free(text);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return lose(peer, "%s", strerror(error));
    }
    peer->socket = ends[0];
    peer->is_open = true;
    return true;
}

static void operator_word(bench_operator op, char word[16]) {
    snprintf(word, 16, "%s", bench_operator_name(op));
    for (char *at = word; *at; at++) {
        *at = *at == ' ' ? '_' : *at;
    }
}

static uint32_t operators_in(char *words) {
    uint32_t operators = 0;
    char *rest = NULL;
    for (const char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        for (bench_operator op = BENCH_ALIGN; op <= BENCH_ROUTE_ALIGN; op++) {
            char known[16];
            operator_word(op, known);
            operators |= strcmp(word, known) == 0 ? 1u << op : 0;
        }
    }
    return operators;
}

bool bench_peer_open(bench_peer *peer, const char *command) {
    char operators[256], end[8];
    memset(peer, 0, sizeof *peer);
    if (!start(peer, command) || !receive_answer(peer, "clmoe-peer 1", end, sizeof end) ||
        !receive_answer(peer, "name", peer->name, sizeof peer->name) ||
        !receive_answer(peer, "version", peer->version, sizeof peer->version) ||
        !receive_answer(peer, "device", peer->device, sizeof peer->device) ||
        !receive_answer(peer, "operators", operators, sizeof operators)) {
        return false;
    }
    peer->operators = operators_in(operators);
    return true;
}

void bench_peer_close(bench_peer *peer) {
    if (peer->is_open) {
        close(peer->socket);
        while (waitpid(peer->process, NULL, 0) < 0 && errno == EINTR) {
        }
        peer->is_open = false;
    }
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------------- */

static void file_path(const bench_problem *problem, char path[PATH_BYTES], const char *what, uint32_t set, uint32_t i) {
    snprintf(path, PATH_BYTES, "%s/%s.%" PRIu32 ".%" PRIu32, problem->directory, what, set, i);
}

static bool write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    const bool is_written = file && fwrite(data, 1, bytes, file) == bytes;
    return file && fclose(file) == 0 && is_written;
}

/* All sets of the inputs, once for all peers. */
static bool share_inputs(bench_problem *problem) {
    const char *parent = getenv("TMPDIR");
    char path[PATH_BYTES];
    bool is_whole = true;
    if (problem->directory[0]) {
        return true;
    }
    const int length =
        snprintf(problem->directory, sizeof problem->directory, "%s/clmoe-bench-XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (length >= (int)sizeof problem->directory) {
        errno = ENAMETOOLONG;
    }
    if (length >= (int)sizeof problem->directory || !mkdtemp(problem->directory)) {
        problem->directory[0] = 0;
        return false;
    }
    for (uint32_t set = 0; set < problem->num_sets; set++) {
        for (uint32_t i = 0; i < problem->num_inputs && is_whole; i++) {
            file_path(problem, path, "input", set, i);
            is_whole = write_file(path, problem->inputs[set][i], problem->input_bytes[i]);
        }
    }
    if (!is_whole) { /* else the next peer would take a part for all */
        const int error = errno;
        bench_peers_unshare(problem);
        errno = error;
    }
    return is_whole;
}

void bench_peers_unshare(bench_problem *problem) {
    char path[PATH_BYTES];
    if (!problem->directory[0]) {
        return;
    }
    for (uint32_t i = 0; i < BENCH_MAX_OUTPUTS; i++) {
        for (uint32_t set = 0; set < problem->num_sets && i < BENCH_MAX_INPUTS; set++) {
            file_path(problem, path, "input", set, i);
            unlink(path);
        }
        file_path(problem, path, "output", 0, i);
        unlink(path);
    }
    rmdir(problem->directory);
    problem->directory[0] = 0;
}

static bool read_output(bench_peer *peer, const char *path, void *data, size_t bytes) {
    FILE *file = fopen(path, "rb");
    const bool is_whole = file && fread(data, 1, bytes, file) == bytes && fgetc(file) == EOF;
    if (file) {
        fclose(file);
    }
    return is_whole || lose(peer, "%s: not a file of %zu bytes", path, bytes);
}

/* ---- A problem ------------------------------------------------------------------------------------------------------------------ */

/* Routers that have more to them than a softmax are for the library that has them all. */
static bool is_softmax(const clmoe_router *router) {
    return router->score == CLMOE_SCORE_SOFTMAX && router->softcap <= 0 && !router->has_bias && !router->has_expert_scale &&
           router->group_filter == CLMOE_GROUPS_NONE && router->weight_source == CLMOE_WEIGHTS_SCORE &&
           (router->renormalize == CLMOE_RENORMALIZE_NONE || router->renormalize == CLMOE_RENORMALIZE_SUM) &&
           (router->scale <= 0 || (router->scale >= 1 && router->scale <= 1));
}

bool bench_peer_takes(const bench_peer *peer, const bench_workload *work) {
    const bool has_router = work->op == BENCH_ROUTE || work->op == BENCH_ROUTE_ALIGN;
    return (peer->operators >> work->op & 1) && work->num_ranks <= 1 && (!has_router || is_softmax(&work->router));
}

bench_status bench_peer_pose(bench_peer *peer, bench_problem *problem, char *reason, size_t reason_bytes) {
    const bench_workload *work = problem->work;
    char word[16], line[BENCH_PEER_LINE];
    operator_word(work->op, word);
    if (!share_inputs(problem)) {
        snprintf(reason, reason_bytes, "the inputs can't be written to files: %s", strerror(errno));
        return BENCH_SKIPPED;
    }
    const bool is_told =
        send_line(peer,
                  "pose %s num_sets=%" PRIu32 " num_tokens=%" PRIu32 " top_k=%" PRIu32 " num_experts=%" PRIu32 " block_size=%" PRIu32
                  " capacity=%" PRIu32 " num_items=%" PRIu32 " num_bins=%" PRIu32 " row_bytes=%" PRIu32 " renormalize=%d directory=%s\n",
                  word, problem->num_sets, work->num_tokens, work->top_k, work->num_experts, work->block_size, problem->capacity,
                  work->num_items, work->num_bins, work->row_bytes, work->router.renormalize == CLMOE_RENORMALIZE_SUM,
                  problem->directory) &&
        receive_line(peer, line, sizeof line);
    if (is_told && strcmp(line, "ready") == 0) {
        return BENCH_OK;
    }
    if (is_told && strncmp(line, "no ", 3) == 0) {
        snprintf(reason, reason_bytes, "%s", line + 3);
        return BENCH_SKIPPED;
    }
    if (is_told) {
        lose(peer, "the peer says: %s", line);
    }
    snprintf(reason, reason_bytes, "%s", peer->reason);
    return BENCH_FAILED;
}

double bench_peer_time(bench_peer *peer, uint32_t set, uint32_t num_calls) {
    char text[64], *end = text;
    double us = -1;
    if (send_line(peer, "time %" PRIu32 " %" PRIu32 "\n", set, num_calls) && receive_answer(peer, "us", text, sizeof text)) {
        us = strtod(text, &end);
        if (end == text || *end != 0 || !(us >= 0 && us < 1e12)) {
            lose(peer, "the peer tells a time of %s us", text);
            us = -1;
        }
    }
    return us;
}

bool bench_peer_solve(bench_peer *peer, const bench_problem *problem, uint32_t set, void *const *outputs) {
    char path[PATH_BYTES], end[8];
    for (uint32_t i = 0; i < problem->num_outputs; i++) {
        file_path(problem, path, "output", 0, i);
        unlink(path);
    }
    bool is_done = send_line(peer, "solve %" PRIu32 "\n", set) && receive_answer(peer, "done", end, sizeof end);
    for (uint32_t i = 0; i < problem->num_outputs && is_done; i++) {
        file_path(problem, path, "output", 0, i);
        is_done = read_output(peer, path, outputs[i], problem->output_bytes[i]);
    }
    return is_done;
}
