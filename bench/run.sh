#!/usr/bin/env bash
# Runs the benchmarks of a build and prints their tables: bench/run.sh [BUILD_DIR] [ARGS...]
# BUILD_DIR defaults to build/release; ARGS go to both, for example --smoke. Every number is kept
# in BUILD_DIR/bench/*.json.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

build=build/release
if [[ ${1:-} != "" && $1 != -* ]]; then
  build=$1
  shift
fi
for name in all_reduce training; do
  program=$build/bench/bench_$name
  if [[ ! -x $program ]]; then
    echo "bench: error: $program is missing. Fix: build it (./dev build), with TROUPE_BUILD_BENCH on." >&2
    exit 3
  fi
  "$program" --json "$build/bench/$name.json" "$@"
  echo
done
echo "Every number: $build/bench/*.json. How to read them: docs/performance.md."
