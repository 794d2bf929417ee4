#!/usr/bin/env bash
# staged.sh BUILD WORK: installs BUILD into WORK as the .deb would into /usr, and looks at what is there: files, manual
# pages, completions, pkg-config. What is missing on this machine (man, zsh, pkg-config) is skipped, and said.
set -euo pipefail
build=$1 work=$2
usr=$work/usr
fail() {
  echo "$1" >&2
  exit 1
}
skip() { echo "skipped: $1"; }

rm -rf "$work"
DESTDIR=$work cmake --install "$build" --prefix /usr >"$work.log"
lib=$(dirname "$(find "$usr/lib" -name libtroupe_core.a)")
for file in bin/troupe include/troupe/troupe.h share/doc/troupe/copyright share/doc/troupe/changelog.gz \
  share/man/man1/troupe.1.gz share/man/man7/troupe-flags.7.gz share/bash-completion/completions/troupe \
  share/zsh/vendor-completions/_troupe; do
  [[ -s $usr/$file ]] || fail "$file is not installed"
done
for file in pkgconfig/troupe.pc cmake/troupe/troupeConfig.cmake libtroupe_estimator.a; do
  [[ -s $lib/$file ]] || fail "$file is not installed"
done
stray=$(find "$usr" -path "$usr/include/*" ! -path "$usr/include/troupe*")
[[ -z $stray ]] || fail "headers outside include/troupe: $stray"
! grep -rlF "$build" "$lib/cmake" "$lib/pkgconfig" "$usr/share" || fail "the files above name the build folder"

# Every verb, and every option that help shows, is completed and in the manual.
tool=$usr/bin/troupe
manual=$(zcat "$usr/share/man/man1/troupe.1.gz" | sed 's/\\-/-/g')
flags=$(zcat "$usr/share/man/man7/troupe-flags.7.gz" | sed 's/\\-/-/g')
completed() { # completed WORD...: what bash offers for the last of them
  # shellcheck disable=SC2016  # the inner shell's words
  bash -euc 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _troupe
    ((${#COMPREPLY[@]} == 0)) || printf "%s\n" "${COMPREPLY[@]}"' _ "$usr/share/bash-completion/completions/troupe" "$@"
}
expect() { # expect OFFERED WORD WHERE
  grep -qxF -e "$2" <<<"$1" || fail "$2 is not completed $3"
}
verbs=$("$tool" help | sed -nE 's/^  ([a-z]+) {2,}.*/\1/p')
(($(wc -w <<<"$verbs") >= 5)) || fail "the verbs could not be read from help: $verbs"
offered=$(completed troupe "")
count=0
for verb in $verbs; do
  expect "$offered" "$verb" "behind troupe"
  [[ $verb == help || $verb == version ]] || grep -qF ".SS troupe $verb" <<<"$manual" || fail "troupe.1 lacks $verb"
  for option in $("$tool" help "$verb" | sed -nE 's/^  (--.*)/\1/p' | grep -oE -- '--[a-z][a-z-]*' | sort -u); do
    expect "$(completed troupe "$verb" --)" "$option" "behind troupe $verb"
    grep -qF -e "$option" <<<"$manual" || fail "troupe.1 lacks $option"
    count=$((count + 1))
  done
done
((count >= 20)) || fail "only $count options were found in the verbs' help"
expect "$(completed troupe run "")" --workers "behind troupe run"
expect "$(completed troupe ne)" new "behind troupe ne"
expect "$(completed troupe new x --from "")" regression "behind --from"
[[ -z $(completed troupe run --workers "") ]] || fail "an option is completed where --workers takes a value"
expect "$(completed troupe run --workers 2 -- ./program --b)" --batch-size "behind a program"
[[ -z $(completed troupe run --workers 2 -- ./program "") ]] || fail "a program's file argument is completed as a flag"
grep -qF -e "--batch-size" <<<"$flags" || fail "troupe-flags.7 lacks --batch-size"

if command -v zsh >/dev/null; then
  zsh -n "$usr/share/zsh/vendor-completions/_troupe" || fail "_troupe is no zsh"
else
  skip "zsh is not installed"
fi
if command -v man >/dev/null; then
  for page in man1/troupe.1.gz man7/troupe-flags.7.gz; do
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$usr/share/man/$page" 2>&1 >/dev/null)
    [[ -z $warnings ]] || fail "$page: $warnings"
  done
else
  skip "man is not installed"
fi

# A program that needs no LibTorch header, by pkg-config alone.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$lib/pkgconfig
  pkg-config --validate troupe
  cat >"$work/parses.cpp" <<'CPP'
#include <cli/options.h>
#include <cstdio>
int main() {
  const auto outcome = troupe::parse_command_line({"--batch-size", "7"}, {});
  std::printf("%d\n", static_cast<int>(outcome.options->train.batch_size));
}
CPP
  # shellcheck disable=SC2046  # pkg-config prints words
  "${CXX:-c++}" -std=c++17 "$work/parses.cpp" -o "$work/parses" $(pkg-config --cflags --libs troupe)
  [[ $("$work/parses") == 7 ]] || fail "the program made by pkg-config does not work"
else
  skip "pkg-config is not installed"
fi
echo "installed: $(find "$usr" -type f | wc -l) files, $count options of verbs"
