#!/usr/bin/env bash
# on_bare_debian.sh PACKAGE.deb [KIND...]: on a Debian with nothing installed, as root (a container, a chroot): installs the package,
# lets `troupe new` write each kind of program, or those named, follows the commands that it prints as a user would, and prints the
# seconds of each. Not one of ctest's tests: it installs packages.
set -euo pipefail
deb=$(readlink -f "$1")
((EUID == 0)) || {
  echo "skipped: packages are installed as root only"
  exit 77
}
fail() {
  echo "$1" >&2
  exit 1
}
timed() { # timed NAME COMMAND...
  local name=$1 begin end code=0
  shift
  begin=$(date +%s.%N)
  "$@" || code=$?
  end=$(date +%s.%N)
  LC_ALL=C awk -v name="$name" -v begin="$begin" -v end="$end" 'BEGIN {printf "%-44s %6.1f s\n", name, end - begin}'
  return $code
}
quiet() {
  "$@" >/tmp/quiet.log 2>&1 || {
    local code=$?
    ((code == 2)) || tail -30 /tmp/quiet.log >&2 # 2: the template's TODOs
    return $code
  }
}
export DEBIAN_FRONTEND=noninteractive
timed "apt-get update" quiet apt-get update -q
timed "apt-get install" quiet apt-get install -y "$deb"
id trainer >/dev/null 2>&1 || useradd --create-home trainer
as_user() { runuser -u trainer -- env HOME=/home/trainer sh -c "cd /home/trainer && $1"; }
as_user "rm -rf my_*"
follow() { # follow KIND: what `troupe new` prints, done as it is printed
  local kind=$1 printed build run
  printed=$(as_user "troupe new my_$kind --from $kind")
  build=$(sed -n '/^  cmake /s/^  //p' <<<"$printed")
  run=$(sed -n '/^  build\//s/^  //p' <<<"$printed")
  [[ $build == "cmake -B build && cmake --build build --parallel" ]] ||
    fail "the installed package is to be found without an option: $build"
  timed "$kind: $build" quiet as_user "cd my_$kind && $build"
  run_code=0
  timed "$kind: $run" quiet as_user "cd my_$kind && $run" || run_code=$?
}
(($# > 1)) || set -- "$1" mnist regression gan template
for kind in "${@:2}"; do
  follow "$kind"
  if [[ $kind == template ]]; then
    ((run_code == 2)) || fail "the template ended with $run_code, not with 2"
    grep -q "TODO 7: " /tmp/quiet.log || fail "the template lists no TODOs"
    echo "template: lists its TODOs, exit code 2"
    continue
  fi
  ((run_code == 0)) || fail "$kind ended with $run_code"
  grep -oE "(test|validation): .*" /tmp/quiet.log | tail -1
  quiet as_user "cd my_$kind && ctest --test-dir build --no-tests=error"
  as_user "touch my_$kind/${kind}_hooks.h"
  timed "$kind: program again after a change of its hooks" quiet as_user "cd my_$kind && cmake --build build --target my_$kind"
done
