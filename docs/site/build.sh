#!/usr/bin/env bash
# build.sh OUT: the site: the Markdown pages by MkDocs in OUT/site, the headers' contracts by Doxygen in OUT/site/api.
# A link that leads nowhere, and anything that either of the two warns about, is an error.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
out=$(realpath --canonicalize-missing "${1:-build/docs}")
rm -rf "$out"
mkdir -p "$out/pages"

# The pages at their places in the tree, so that their links are right.
git ls-files --cached --others --exclude-standard -- '*.md' 'docs/images/*' LICENSE | grep -v '^tests/\|^docs/site/' |
  while read -r file; do [[ -f $file ]] && cp --parents "$file" "$out/pages"; done
cp docs/site/style.css "$out/pages"
printf '# Classes and functions\n\n<a href="api/index.html">All classes and functions</a>, from the headers.\n' >"$out/pages/reference.md"

# The order of docs/README.md: its headings, and the first link of each row.
{
  cat docs/site/mkdocs.yml
  printf 'docs_dir: %s\nsite_dir: %s\n' "$out/pages" "$out/site"
  echo 'nav:
  - Overview: README.md
  - Tutorial: docs/tutorial.md
  - All pages: docs/README.md'
  awk '
    /^## / { printf "  - \"%s\":\n", substr($0, 4); next }
    match($0, /^\| \[[^]]*\]\([^)#]*\)/) {
      path = substr($0, RSTART, RLENGTH); sub(/.*\(/, "", path); sub(/\)$/, "", path)
      if (!sub(/^\.\.\//, "", path)) path = "docs/" path
      print "      - " path
    }
    /^\| the headers/ { print "      - reference.md" }' docs/README.md
  echo '  - Changes: CHANGELOG.md'
} >"$out/mkdocs.yml"
mkdocs build --quiet --strict --config-file "$out/mkdocs.yml"

rm -f "$out/site/404.html" # for web servers; its links begin at the server's root

# What a program can use: troupe.h, and what it includes.
headers=(troupe.h)
for ((i = 0; i < ${#headers[@]}; i++)); do
  while read -r header; do
    [[ " ${headers[*]} " == *" $header "* ]] || headers+=("$header")
  done < <(sed -n 's/^#include "troupe\/\(.*\)"$/\1/p' "${headers[i]}")
done
{
  cat docs/site/Doxyfile
  echo "OUTPUT_DIRECTORY = $out/site"
  echo "INPUT = docs/site/reference.md ${headers[*]}"
} | doxygen - 2>"$out/doxygen.log" || {
  cat "$out/doxygen.log" >&2
  exit 1
}
if [[ -s $out/doxygen.log ]]; then
  sort -u "$out/doxygen.log" >&2
  echo "docs/site/build.sh: doxygen warns of the above. Fix: mend these comments." >&2
  exit 1
fi
python3 docs/site/check_links.py "$out/site"
