#!/usr/bin/env bash
# empty_libraries.sh LIBTORCH_CPU FOLDER: Debian's LibTorch names OpenCV's and FFmpeg's libraries, which bring 200 others, and
# takes no symbol from them. Makes empty libraries of those names in FOLDER, for LD_LIBRARY_PATH: a program then starts in two
# thirds of the time. Where LibTorch does take something from them, FOLDER is left empty.
set -euo pipefail
rm -rf "$2"
mkdir -p "$2"
for name in $(readelf -d "$1" | sed -nE 's/.*NEEDED.*\[(lib(opencv_|av|sw)[^]]*)\]$/\1/p'); do
  "${CXX:-c++}" -shared -nostdlib -Wl,-soname,"$name" -x c /dev/null -o "$2/$name"
done
missing=$(LD_LIBRARY_PATH=$2 ldd -r "$1" 2>&1 | grep -E "undefined symbol|not found" || true)
if [[ -n $missing ]]; then
  echo "tests start with all of LibTorch's libraries: $missing" | head -1
  rm -f "$2"/*
fi
