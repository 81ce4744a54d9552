#!/bin/bash
# A peer of `clmoe bench` with a fault. It has one operator, scan, and its sums are all 0.   faulty_peer.sh FAULT
fault=$1
exec 2>/dev/null # the bench may end first

# fails AT INSTEAD...: at the fault of that name, does something else. False elsewhere.
fails() {
    [ "$1" = "$fault" ] || return 1
    shift
    "$@"
}

fails silent exit
fails other_version echo "clmoe-peer 2" || echo "clmoe-peer 1"
fails long_line printf 'x%.0s' {1..2000}
printf 'name Faulty\nversion 1\ndevice host\noperators scan\n'
while read -r question rest; do
    case $question in
    pose)
        [[ $rest =~ num_items=([0-9]+).*directory=(.+) ]]
        bytes=$((4 * BASH_REMATCH[1]))
        directory=${BASH_REMATCH[2]}
        fails refuses echo "no room for it" || fails nonsense echo "what?" || echo ready
        ;;
    time) fails dies exit || fails negative echo "us -1" || fails no_number echo "us soon" || echo "us 100" ;;
    solve)
        fails short truncate -s $((bytes - 4)) "$directory/output.0.0" ||
            fails long truncate -s $((bytes + 4)) "$directory/output.0.0" ||
            fails missing true || truncate -s $bytes "$directory/output.0.0"
        echo done
        ;;
    esac
done
