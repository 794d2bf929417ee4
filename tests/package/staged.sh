#!/usr/bin/env bash
# staged.sh BUILD WORK: installs BUILD into WORK as the .deb would into /usr, and looks at what is there: files,
# pkg-config. What is missing on this machine (pkg-config) is skipped, and said.
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
for file in bin/troupe include/troupe.h share/doc/troupe/copyright share/doc/troupe/changelog.gz share/doc/troupe/docs/existing_program.md; do
  [[ -s $usr/$file ]] || fail "$file is not installed"
done
for file in pkgconfig/troupe.pc cmake/troupe/troupeConfig.cmake libtroupe_export.a; do
  [[ -s $lib/$file ]] || fail "$file is not installed"
done
pages=$usr/share/doc/troupe/docs
while IFS=: read -r page link; do
  [[ -e $(dirname "$page")/$link ]] || fail "$page refers to $link, which is not installed"
done < <(grep -roE '\]\([A-Za-z0-9_./-]+[)#]' "$pages" --include='*.md' | sed 's/](//; s/[)#]$//')
stray=$(find "$usr" -path "$usr/include/*" ! -path "$usr/include/troupe*")
[[ -z $stray ]] || fail "headers outside include/troupe: $stray"
! grep -rlF "$build" "$lib/cmake" "$lib/pkgconfig" "$usr/share" || fail "the files above name the build folder"

# A program that needs no LibTorch header, by pkg-config alone.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$lib/pkgconfig
  pkg-config --validate troupe
  cat >"$work/parses.cpp" <<'CPP'
#include <troupe/cli/options.h>
#include <cstdio>
int main() {
  const char* const words[] = {"parses", "--batch-size", "7"};
  const auto options = troupe::parse_options(3, words);
  std::printf("%d\n", static_cast<int>(options.train.batch_size));
}
CPP
  # shellcheck disable=SC2046  # pkg-config prints words
  "${CXX:-c++}" -std=c++17 "$work/parses.cpp" -o "$work/parses" $(pkg-config --cflags --libs troupe)
  [[ $("$work/parses") == 7 ]] || fail "the program made by pkg-config does not work"
else
  skip "pkg-config is not installed"
fi
echo "installed: $(find "$usr" -type f | wc -l) files"
