#!/bin/bash
# deploy/retry.sh: what it starts again, with which generation, and that a signal ends it.
#   retry_test.sh <root of the repository>
set -u
retry=$1/deploy/retry.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

expect() { # expect WHAT EXPECTED FOUND
  [ "$2" = "$3" ] && return
  echo "$1: expected \"$2\", found \"$3\""
  failures=$((failures + 1))
}

# A program that ends with the codes of its first argument, one after the other.
cat >"$folder/program" <<'PROGRAM'
#!/bin/bash
codes=($1)
echo "$TROUPE_GENERATION" >>"$2"
exit "${codes[$TROUPE_GENERATION]}"
PROGRAM
chmod +x "$folder/program"

run() { # run CODES: sets code and generations
  rm -f "$folder/seen"
  "$retry" "$folder/program" "$1" "$folder/seen" 2>/dev/null
  code=$?
  generations=$(tr '\n' ' ' <"$folder/seen")
}
run "0"
expect "success" "0: 0 " "$code: $generations"
run "138 143 137 0"
expect "retried" "0: 0 1 2 3 " "$code: $generations"
run "138 2 0"
expect "permanent" "2: 0 1 " "$code: $generations"
MAX_RESTARTS=1 run "138 138 0"
expect "limit" "138: 0 1 " "$code: $generations"

# SIGTERM reaches the program, which ends in its own time; it is not started again.
cat >"$folder/saving" <<'PROGRAM'
#!/bin/bash
trap 'echo saved >>"$1"; exit 143' TERM
mkfifo "$1.wait"
echo started >>"$1"
echo >"$1.ready"
read -r _ <>"$1.wait" # until the signal comes
PROGRAM
chmod +x "$folder/saving"
mkfifo "$folder/log.ready"
"$retry" "$folder/saving" "$folder/log" 2>/dev/null &
pid=$!
read -r _ <"$folder/log.ready" # it has started
kill -TERM $pid
wait $pid
expect "signal" "143: started saved " "$?: $(tr '\n' ' ' <"$folder/log")"
exit $((failures > 0))
