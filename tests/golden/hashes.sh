#!/usr/bin/env bash
# The parameter hash of every example on every synchronous strategy, a row each.
#   tests/golden/hashes.sh build/release                     prints the table
#   tests/golden/hashes.sh build/release OTHER [EXAMPLE...]  compares it, row by row, with another build
#                                                            directory or a table (tests/golden/hashes.txt)
# OTHER "-" only prints; "agree" checks instead what holds on every machine: where every replica computes
# the same numbers (not in gan and resnet, which draw some or normalise over a replica), the strategies of
# as many replicas have one hash. A combination that an example refuses has its exit code in place of a hash;
# where it warns that replicas share a generator, so that no two runs are equal, the row says "draws".
# Hashes depend on the kernels that LibTorch and its BLAS choose for the processor, so both are told to
# take what every x86-64 processor has; with TROUPE_NATIVE=1 they choose. Two builds on one machine agree
# either way. Another release of LibTorch may still round otherwise.
set -euo pipefail
if [ "${TROUPE_NATIVE:-0}" = 0 ]; then
  export OPENBLAS_CORETYPE=Nehalem ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41
fi
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Epochs of five steps, the last one short.
common="--eval-steps 2 --max-steps 12 --threads 1 --log-level warning"
few="--batch-size 24 --train-examples 100"
declare -A flags=(
  [linear_regression]="--batch-size 240"
  [mnist]="$few"
  [regression]="$few --train-csv-rows 400"
  [gan]="$few --width 8"
  [embedding]="$few --users 200 --items 50 --ratings 400 --eval-ratings 100"
  [resnet]="$few --width 4 --no-augment")
examples=(linear_regression mnist regression gan embedding resnet)

strategies=(  # name | options of troupe run, empty: started alone | flags of the example
  "one-device||"
  "mirrored-2||--devices cpu:0-1"
  "mirrored-4||--devices cpu:0-3"
  "central-storage-2||--devices cpu:0-1 --strategy central-storage"
  "workers-2|--workers 2|"
  "workers-3|--workers 3|"
  "workers-4|--workers 4|"
  "workers-3-overlap-on|--workers 3|--overlap on --bucket-mb 1"
  "workers-3-overlap-off|--workers 3|--overlap off"
  "workers-2x2|--workers 2|--devices cpu:0-1"
  "servers-2-of-2|--workers 2 --ps 2|--strategy parameter-server --staleness-bound 0")

# row BUILD EXAMPLE STRATEGY: one line of the table.
row() {
  local name options more start=() status=0 found
  IFS='|' read -r name options more <<<"$3"
  [ -z "$options" ] || start=("$1/troupe" run $options --no-prefix --)
  # shellcheck disable=SC2086  # words are meant
  "${start[@]}" "$1/examples/$2" $common ${flags[$2]} $more --json-summary >"$work/out" 2>"$work/err" || status=$?
  found=$(sed -nE 's/.*"parameter_hash":"([0-9a-f]+)".*/\1/p' "$work/out")
  if grep -q "share LibTorch's one generator" "$work/err"; then found=draws; fi
  if [ "$status" != 0 ]; then
    found="exit $status"
    grep -m1 'error\[' "$work/err" >&2 || true
  fi
  echo "$2 $name ${found:-no hash}"
}

table() {
  local example strategy
  for example in "${examples[@]}"; do
    for strategy in "${strategies[@]}"; do row "$1" "$example" "$strategy"; done
  done
}

# agree: the table of stdin, one hash for each example and number of replicas.
agree() {
  awk '{
    replicas = $2 ~ /2x2|-4/ ? 4 : $2 ~ /-3/ ? 3 : $2 ~ /-2/ ? 2 : 1
    group = $1 " " replicas
    if (!(group in hash)) { hash[group] = $3; first[group] = $2 }
    if ($3 !~ /^[0-9a-f]+$/ || length($3) != 64) { print $1 ", " $2 ": " $3 " " $4; wrong = 1 }
    else if (hash[group] != $3) { print $1 ": " first[group] " and " $2 " differ"; wrong = 1 }
  }
  END { if (NR == 0) print "no rows"; exit wrong || NR == 0 }'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=$1 other=${2:--}
[ $# -le 2 ] || examples=("${@:3}")
case $other in
  -) table "$build" ;;
  agree) table "$build" | agree ;;
  *)
    if [ -d "$other" ]; then
      table "$other"
    else
      grep -E "^($(IFS='|'; echo "${examples[*]}")) " "$other"
    fi >"$work/expected"
    table "$build" | diff "$work/expected" -
    ;;
esac
