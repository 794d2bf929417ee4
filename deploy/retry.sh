#!/bin/bash
# Reruns a command while it exits with a retryable code (128 to 255), so that a training run
# resumes from its newest checkpoint:
#   MAX_RESTARTS=5 deploy/retry.sh deploy/mpirun.sh ./mnist --model-dir run1
# Exits with the command's last code. SIGTERM, and SIGINT as SIGTERM, go to the command, which is then
# not restarted.
set -u

child=0
stopped=0
stop() { # stop SIGNAL
  stopped=1
  ((child == 0)) || kill -s "$1" "$child" 2>/dev/null
}
trap 'stop TERM' TERM
trap 'stop TERM' INT # a command in the background ignores SIGINT

for ((start = 0;; start++)); do
  export TROUPE_GENERATION=$start
  # Not in the foreground: bash would run no trap before the command ends.
  "$@" &
  child=$!
  while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break # a signal ends wait, not the command
  done
  child=0
  if ((code < 128 || stopped || start >= ${MAX_RESTARTS:-10})); then
    exit "$code"
  fi
  echo "retry.sh: ended with $code; restart $((start + 1)) of ${MAX_RESTARTS:-10}" >&2
done
