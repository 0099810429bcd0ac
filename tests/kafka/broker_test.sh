#!/usr/bin/env bash
# ops/kafka: install, start, stop and topics with real brokers, kcat being the client. The tests run in the
# order of the list at the end, each on what the one before left. Ends with "N passed, N failed, N skipped";
# exit status 77 where they cannot run.
set -euo pipefail

kafka=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../ops/kafka" && pwd)

# Bash's own ! does not end a test that runs under set -e.
fails() { if "$@"; then return 1; fi; }

address() { cat "$scratch/$1/address"; }
listed() { kcat -b "$(address "$1")" -L; }
records() { kcat -b "$(address a)" -C -t t-jobs -p 1 -o beginning -e -q; }
no_broker_lives_in() { flock --nonblock "$scratch/$1/running" true; }

a_start_with_a_full_cache_needs_no_maven() {
    mkdir "$scratch/bin"
    printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/mvn"
    chmod +x "$scratch/bin/mvn"
    PATH=$scratch/bin:$PATH "$kafka/install" >/dev/null
}

two_brokers_started_at_once_get_their_own_ports() {
    "$kafka/start" --dir "$scratch/a" >"$scratch/a.out" &
    local first=$!
    "$kafka/start" --dir "$scratch/b" >"$scratch/b.out"
    wait "$first"
    cmp "$scratch/a.out" "$scratch/a/address"
    cmp "$scratch/b.out" "$scratch/b/address"
    [[ $(address a) =~ ^127\.0\.0\.1:[0-9]+$ ]]
    [[ $(address a) != "$(address b)" ]]
}

a_start_where_one_runs_prints_its_address() {
    [[ $("$kafka/start" --dir "$scratch/a") == "$(address a)" ]]
}

topics_have_leaders_as_soon_as_they_are_named() {
    "$kafka/topics" --brokers "$(address a)" --prefix t- --partitions 3 >"$scratch/topics.out"
    listed a >"$scratch/listed"
    cmp "$scratch/topics.out" <(printf 't-jobs\nt-results\nt-dead\nt-control\n')
    grep -q 'topic "t-jobs" with 3 partitions' "$scratch/listed"
    grep -q 'topic "t-results" with 3 partitions' "$scratch/listed"
    grep -q 'topic "t-dead" with 1 partitions' "$scratch/listed"
    grep -q 'topic "t-control" with 1 partitions' "$scratch/listed"
    fails grep -q 'leader -1' "$scratch/listed"
}

creating_topics_again_changes_nothing_and_tells_of_other_partition_counts() {
    "$kafka/topics" --brokers "$(address a)" --prefix t- --partitions 5 >/dev/null 2>"$scratch/err"
    grep -q 't-jobs existed already, with 3 partitions rather than 5' "$scratch/err"
    listed a >"$scratch/listed"
    grep -q 'topic "t-jobs" with 3 partitions' "$scratch/listed"
}

a_topic_name_that_kafka_refuses_is_reported() {
    fails "$kafka/topics" --brokers "$(address a)" --prefix 'a b' 2>"$scratch/err"
    grep -q 'topic a bjobs: .*invalid' "$scratch/err"
}

topics_without_a_broker_fail_with_one_line() {
    fails "$kafka/topics" --brokers 127.0.0.1:1 2>"$scratch/err"
    (($(wc -l <"$scratch/err") == 1))
}

records_produced_are_read_back_in_order() {
    seq 1000 | kcat -b "$(address a)" -P -t t-jobs -p 1
    cmp <(seq 1000) <(records)
}

brokers_do_not_share_topics() {
    listed b >"$scratch/listed"
    fails grep -q 't-jobs' "$scratch/listed"
}

an_unknown_topic_is_not_created_by_producing_to_it() {
    fails kcat -b "$(address a)" -P -t misspelt -X message.timeout.ms=1000 <<<record 2>/dev/null
    listed a >"$scratch/listed"
    fails grep -q misspelt "$scratch/listed"
}

a_restarted_broker_has_its_port_and_its_records() {
    "$kafka/stop" --dir "$scratch/a"
    no_broker_lives_in a
    cp "$scratch/a/address" "$scratch/before"
    "$kafka/start" --dir "$scratch/a" | cmp - "$scratch/before"
    cmp <(seq 1000) <(records)
}

a_killed_broker_has_its_port_and_its_records() {
    "$kafka/stop" --kill --dir "$scratch/a"
    no_broker_lives_in a
    "$kafka/start" --dir "$scratch/a" | cmp - "$scratch/before"
    cmp <(seq 1000) <(records)
}

# As while the kernel frees the memory of a killed broker: its lock is held, and nothing answers.
a_start_right_after_a_broker_was_killed_waits_for_its_end() {
    local killed starting holding status=0
    killed=$(cat "$scratch/a/pid")
    kill -KILL "$killed"
    until no_broker_lives_in a; do sleep 0.05; done
    mkfifo "$scratch/held" "$scratch/end"
    flock "$scratch/a/running" bash -c 'echo >"$1"; read -r <"$2"' - "$scratch/held" "$scratch/end" &
    holding=$!
    read -r <"$scratch/held"
    "$kafka/start" --dir "$scratch/a" >"$scratch/a.out" 2>"$scratch/err" &
    starting=$!
    until grep -q 'waiting for the broker' "$scratch/err" || ! kill -0 "$starting" 2>/dev/null; do sleep 0.05; done
    echo >"$scratch/end"
    wait "$holding"
    wait "$starting" || status=$?
    ((status == 0))
    cmp "$scratch/a.out" "$scratch/before"
    [[ $(cat "$scratch/a/pid") != "$killed" ]]
    cmp <(seq 1000) <(records)
}

a_start_on_a_taken_port_says_so() {
    local port
    port=$(sed 's/.*://' "$scratch/a/address")
    fails "$kafka/start" --dir "$scratch/c" --port "$port" 2>"$scratch/err"
    grep -q "port $port is in use" "$scratch/err"
    [[ ! -e $scratch/c/pid ]]
}

a_broker_that_cannot_start_shows_why_and_is_gone() {
    "$kafka/stop" --dir "$scratch/b"
    sed -i 's/^node.id=.*/node.id=99/' "$scratch/b/data/meta.properties"
    fails "$kafka/start" --dir "$scratch/b" 2>"$scratch/err"
    grep -q 'node id' "$scratch/err"
    [[ ! -e $scratch/b/pid ]]
    no_broker_lives_in b
}

a_pid_left_behind_is_not_signalled() {
    tail -f /dev/null &
    local bystander=$!
    printf '%s\n' "$bystander" >"$scratch/b/pid"
    "$kafka/stop" --kill --dir "$scratch/b" 2>/dev/null
    kill "$bystander"
}

wrong_usage_exits_with_2() {
    local arguments status
    for arguments in 'start --dir' 'start --port 0' 'start --port 65536' 'start here' 'stop --dir' \
        'stop --now' 'topics' 'topics --brokers 127.0.0.1:1 --partitions 0' \
        'topics --brokers 127.0.0.1:1 --partitions 1001'; do
        status=0
        # shellcheck disable=SC2086 # split on purpose
        "$kafka"/$arguments 2>/dev/null || status=$?
        ((status == 2))
    done
}

no_process_is_left_after_stop() {
    "$kafka/stop" --dir "$scratch/a"
    "$kafka/stop" --dir "$scratch/a"
    fails grep -qsF "$scratch/" /proc/[0-9]*/cmdline
}

tests=(
    a_start_with_a_full_cache_needs_no_maven
    two_brokers_started_at_once_get_their_own_ports
    a_start_where_one_runs_prints_its_address
    topics_have_leaders_as_soon_as_they_are_named
    creating_topics_again_changes_nothing_and_tells_of_other_partition_counts
    a_topic_name_that_kafka_refuses_is_reported
    topics_without_a_broker_fail_with_one_line
    records_produced_are_read_back_in_order
    brokers_do_not_share_topics
    an_unknown_topic_is_not_created_by_producing_to_it
    a_restarted_broker_has_its_port_and_its_records
    a_killed_broker_has_its_port_and_its_records
    a_start_right_after_a_broker_was_killed_waits_for_its_end
    a_start_on_a_taken_port_says_so
    a_broker_that_cannot_start_shows_why_and_is_gone
    a_pid_left_behind_is_not_signalled
    wrong_usage_exits_with_2
    no_process_is_left_after_stop
)

# Installing packages is for ops/test, not for a test.
present() { command -v "$1" >/dev/null; }
if ! { present java && present mvn && present kcat && "$kafka/install" >/dev/null; }; then
    printf 'needs java, maven and kcat, and a copy of Kafka that ops/kafka/install can make\n'
    printf '0 passed, 0 failed, %d skipped\n' "${#tests[@]}"
    exit 77
fi

scratch=$(mktemp -d)
end() {
    local name
    for name in a b c; do
        "$kafka/stop" --kill --dir "$scratch/$name" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap end EXIT

n_passed=0
n_failed=0
for name in "${tests[@]}"; do
    rm -f "$scratch/err"
    # Not in a condition: bash ignores set -e there.
    set +e
    (
        set -e
        "$name"
    ) >"$scratch/output" 2>&1
    status=$?
    set -e
    if ((status == 0)); then
        n_passed=$((n_passed + 1))
        printf 'passed  %s\n' "${name//_/ }"
    else
        n_failed=$((n_failed + 1))
        printf 'FAILED  %s\n' "${name//_/ }"
        cat "$scratch/output" "$scratch/err" 2>/dev/null || true
    fi
done
printf '%d passed, %d failed, 0 skipped\n' "$n_passed" "$n_failed"
((n_failed == 0))
