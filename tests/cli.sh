# What the tests of the program share; sourced by them, with $program set. Each check prints a line; finish tells how many passed.
passed=0
failed=0

# check NAME COMMAND...: passes if the command succeeds.
check() {
    local name=$1
    shift
    if "$@"; then
        echo "ok      $name"
        passed=$((passed + 1))
    else
        echo "FAILED  $name"
        sed 's/^/        out: /' out 2>/dev/null | tail -12
        sed 's/^/        err: /' err 2>/dev/null | head -5
        failed=$((failed + 1))
    fi
}

# run ARGUMENTS...: the program, with its output in out and err and its exit code in code.
run() {
    "$program" "$@" >out 2>err
    code=$?
}

# accepts NAME PATTERN ARGUMENTS...: exit code 0, nothing on stderr, and a line of stdout that matches.
accepts() {
    local name=$1 pattern=$2
    shift 2
    run "$@"
    check "$name" eval '[ $code -eq 0 ] && [ ! -s err ] && grep -Eq -e "$pattern" out'
}

# silent NAME ARGUMENTS...: exit code 0, and nothing on stdout or stderr.
silent() {
    local name=$1
    shift
    run "$@"
    check "$name" eval '[ $code -eq 0 ] && [ ! -s out ] && [ ! -s err ]'
}

# refuses NAME CODE PATTERN ARGUMENTS...: that exit code, nothing on stdout, and exactly one line on stderr, which matches.
refuses() {
    local name=$1 expected=$2 pattern=$3
    shift 3
    run "$@"
    check "$name" eval '[ $code -eq $expected ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -Eq -e "$pattern" err'
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
