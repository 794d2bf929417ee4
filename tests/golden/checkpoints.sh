#!/usr/bin/env bash
# A checkpoint of each strategy, as the present format has it: a run that resumes from one ends
# with the weights that were recorded.
#   tests/golden/checkpoints.sh check build/release [NAME...]   resumes copies, compares their ends
#   tests/golden/checkpoints.sh record build/release NAME...    writes `model` and the end anew: for
#                                                               another format
# checkpoints/NAME/golden.txt says what wrote the folder `model` beside it, which save of it is kept (as
# if the run had been killed after that; unset: its last one), how to resume, and the end. Hashes are
# compared under the LibTorch that recorded them, on kernels that every x86-64 processor has; under
# another one the loss on the test split is, to 1e-4 of itself.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/checkpoints
export OPENBLAS_CORETYPE=Nehalem ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

fail() {
  echo "$name: $*" >&2
  cat "$work/err" >&2
  exit 1
}
golden() { sed -n "s/^$1: //p" "$here/$name/golden.txt"; }

# run COMMAND, with $BUILD and $MODEL_DIR in it; sets step, hash and loss.
run() {
  eval "$1" >"$work/out" 2>"$work/err" || fail "exit code $? of: $1"
  step=$(sed -nE 's/.*"global_step":([0-9]+).*/\1/p' "$work/out")
  hash=$(sed -nE 's/.*"parameter_hash":"([0-9a-f]+)".*/\1/p' "$work/out")
  loss=$(sed -nE 's/.*"test":\{[^}]*"loss":([^,}]+).*/\1/p' "$work/out")
}

resume_copy() {
  rm -rf "$MODEL_DIR"
  cp -r "$here/$name/model" "$MODEL_DIR"
  run "$(golden resume)"
}

keep_only() {  # one save of the folder
  find "$1" -mindepth 1 ! -path "$1/$2*" -delete
  printf '{\n "format": "troupe-checkpoint-index",\n "latest": "%s",\n "retained": [\n  "%s"\n ],\n "version": 1\n}' \
    "$2" "$2" >"$1/checkpoint"
}

record() {
  local keep model=$here/$name/model
  rm -rf "$model" "$MODEL_DIR"
  run "$(golden write)"
  cp -r "$MODEL_DIR" "$model"
  rm -f "$model"/events.* "$model"/summaries.jsonl
  keep=$(golden keep)
  [ -z "$keep" ] || keep_only "$model" "$keep"
  resume_copy
  sed -i '/^\(libtorch\|global_step\|parameter_hash\|test_loss\): /d' "$here/$name/golden.txt"
  printf 'libtorch: %s\nglobal_step: %s\nparameter_hash: %s\ntest_loss: %s\n' "$libtorch" "$step" "$hash" \
    "$loss" >>"$here/$name/golden.txt"
}

check() {
  resume_copy
  grep -q "resuming at step $(golden at)" "$work/err" || fail "did not resume at step $(golden at)"
  [ "$step" = "$(golden global_step)" ] || fail "ended at step $step, not $(golden global_step)"
  if [ "$(golden libtorch)" = "$libtorch" ] && [ "$(uname -m)" = x86_64 ]; then
    [ "$hash" = "$(golden parameter_hash)" ] || fail "ended with $hash, not $(golden parameter_hash)"
  else
    awk -v a="$loss" -v b="$(golden test_loss)" 'BEGIN { d = a - b; exit !(d * d <= 1e-8 * b * b) }' ||
      fail "ended with a loss of $loss, not $(golden test_loss)"
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
action=$1 BUILD=$2 MODEL_DIR=$work/model
libtorch=$("$BUILD/examples/linear_regression" --version | sed -n 's/^LibTorch //p')
names=("${@:3}")
[ $# -gt 2 ] || mapfile -t names < <(ls "$here")
for name in "${names[@]}"; do
  "$action"
  echo "$name: $action: step $step, parameter_hash $hash"
done
