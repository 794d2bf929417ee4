#!/usr/bin/env bash
# site.sh SOURCE OUT: makes the documentation's site, where the machine has what that needs.
set -euo pipefail
for tool in mkdocs doxygen git python3; do
  if ! command -v "$tool" >/dev/null; then
    echo "SKIPPED: the site was not made, there is no $tool: apt-get install $tool"
    exit 77
  fi
done
if ! git -C "$1" rev-parse --git-dir >/dev/null 2>&1; then
  echo "SKIPPED: the site was not made, $1 is no git repository"
  exit 77
fi
exec "$1/docs/site/build.sh" "$2"
