#!/usr/bin/env bash
# Runs the benchmarks of a build, prints their tables, and then what is promised beside what was measured:
# bench/run.sh [BUILD_DIR] [--smoke] [PART...]; PARTs: all_reduce training data start_up; without any, all of
# them. BUILD_DIR defaults to build/release. Every number is kept in BUILD_DIR/bench/*.json; parts that are not run again
# keep the numbers of their last run.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
export PYTHONDONTWRITEBYTECODE=1

parts=(all_reduce training data)
[[ ! -x bench/start_up.py ]] || parts+=(start_up)
build=build/release
chosen=()
smoke=()
json_of() { echo "$build/bench/$1.json"; }
for argument in "$@"; do
  if [[ $argument == --smoke ]]; then
    smoke=(--smoke)
    json_of() { echo "$build/bench/$1_smoke.json"; } # a verdict on numbers that mean nothing is none
  elif [[ " ${parts[*]} " == *" $argument "* ]]; then
    chosen+=("$argument")
  elif [[ -d $argument ]]; then
    build=$argument
  else
    echo "bench: error: '$argument' is neither a build folder nor a part. Fix: give ${parts[*]}, or --smoke." >&2
    exit 2
  fi
done
((${#chosen[@]} > 0)) || chosen=("${parts[@]}")

for part in "${chosen[@]}"; do
  json=$(json_of "$part")
  if [[ -x bench/$part.py ]]; then
    "bench/$part.py" --build "$build" --json "$json" "${smoke[@]}"
  elif [[ -x $build/bench/bench_$part ]]; then
    "$build/bench/bench_$part" --json "$json" "${smoke[@]}"
  else
    echo "bench: error: $build/bench/bench_$part is missing. Fix: start ./dev bench, which builds it." >&2
    exit 3
  fi
  echo
done
((${#smoke[@]} > 0)) || bench/verdict.py --build "$build" --json "$build/bench/verdict.json"
echo "Every number: $build/bench/*.json. How to read them: docs/performance.md."
