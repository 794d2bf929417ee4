#!/bin/bash
# examples/deploy/train.sbatch with a Slurm of two scripts: who is started, what is started again, and what goes back
# into the queue.
#   sbatch_test.sh <root of the repository> <troupe>
set -u
script=$1/examples/deploy/train.sbatch
export TROUPE=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

expect() { # expect WHAT EXPECTED FOUND
  [ "$2" = "$3" ] && return
  echo "$1: expected \"$2\", found \"$3\""
  cat "$folder/log"
  failures=$((failures + 1))
}

mkdir "$folder/bin"
cat >"$folder/bin/scontrol" <<'SCONTROL'
#!/bin/bash
[ "$1" = show ] && exec printf '127.0.0.1\n127.0.0.2\n'
echo "$*" >>"$FOLDER/queue"
SCONTROL
# The machines are this one. FOLDER/term, once there, is Slurm's signal before the time limit.
cat >"$folder/bin/srun" <<'SRUN'
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
nodes=()
worst=0
for ((node = 0; node < SLURM_NNODES; node++)); do
  SLURM_NODEID=$node "$@" &
  nodes+=($!)
done
if [ -n "${STOPS:-}" ]; then
  exec 3<>"$FOLDER/started"
  for node in "${nodes[@]}"; do read -r -u 3 _; done # every worker
  kill -TERM "${nodes[@]}"
fi
for node in "${nodes[@]}"; do
  wait "$node"
  code=$?
  ((code <= worst)) || worst=$code
done
exit "$worst"
SRUN
# What a worker does is its first argument.
cat >"$folder/program" <<'PROGRAM'
#!/bin/bash
echo "$TROUPE_RANK/$TROUPE_WORLD_SIZE" >>"$FOLDER/ran"
case $1 in
  dies) [ "$TROUPE_RANK" = 0 ] || [ -e "$FOLDER/died" ] || { : >"$FOLDER/died" && kill -9 $$; } ;;
  fails) exit 3 ;;
  saves)
    trap 'exit 143' TERM
    echo >"$FOLDER/started"
    sleep 100 &
    wait
    ;;
esac
PROGRAM
chmod +x "$folder/bin/scontrol" "$folder/bin/srun" "$folder/program"
"$TROUPE" secret "$folder/key"
mkfifo "$folder/started"

run() { # run NODES WHAT: sets code, ran and queue
  rm -f "$folder/ran" "$folder/queue"
  code=0
  FOLDER=$folder PATH=$folder/bin:$PATH TROUPE_SECRET_FILE=$folder/key SLURM_NNODES=$1 SLURM_JOB_ID=$((30 + $$)) \
    SLURM_JOB_NODELIST=a[1-2] bash "$script" "$folder/program" "$2" --model-dir "$folder/m" >"$folder/log" 2>&1 || code=$?
  ran=$(sort -u "$folder/ran" | tr '\n' ' ')
  queue=$(cat "$folder/queue" 2>/dev/null)
}
run 2 works
expect "two machines" "0: 0/2 1/2 , " "$code: $ran, $queue"
WORKERS=2 run 1 works
expect "one machine" "0: 0/2 1/2 , " "$code: $ran, $queue"
run 2 dies
expect "a killed worker" "0: 0/2 1/2 , " "$code: $ran, $queue"
expect "a killed worker's restart" 1 "$(grep -c '; restart 1 of 20 in ' "$folder/log")"
run 2 fails
expect "a permanent failure" "3: " "$code: $queue"
STOPS=1 run 2 saves
expect "the time limit" "143: 0/2 1/2 , requeue $((30 + $$))" "$code: $ran, $queue"
export SLURM_RESTART_COUNT=20
STOPS=1 run 2 saves
expect "too often" "143: 0/2 1/2 , " "$code: $ran, $queue"
exit $((failures > 0))
