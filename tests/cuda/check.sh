#!/usr/bin/env bash
# check.sh SOURCE HEADERS [--fetch]: compiles what has to do with GPUs against the headers of a LibTorch built for
# CUDA and of NCCL, without a GPU and without CUDA's own headers (stand_ins/). They are the system's (Debian 13: libtorch-cuda-dev,
# libnccl-dev), or lie below HEADERS, where --fetch unpacks those of Debian 13. Exit code 77: there are none.
set -euo pipefail
source=$1 headers=$2 fetch=${3:-}
here=$source/tests/cuda

has_headers() { [[ -f $1/usr/include/nccl.h && -f $1/usr/include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp ]]; }

# From the mirror that this machine uses, with lists of its own: nothing is installed.
fetch_headers() {
  local mirror folder=$headers/apt
  mirror=$(apt-get indextargets --format '$(SITE)' 'Component: main' | head -n 1)
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main contrib" >"$folder/trixie.list"
  local apt=(apt-get -qq -o "Dir::Etc::sourcelist=$folder/trixie.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/lists"
    -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$folder" && "${apt[@]}" download libtorch-cuda-dev libnccl-dev)
  local package
  for package in "$folder"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$headers" --wildcards './usr/include/*'
    rm "$package"
  done
}

root=
if ! has_headers "$root"; then
  root=$headers
  if ! has_headers "$root" && [[ $fetch == --fetch ]]; then fetch_headers; fi
fi
if ! has_headers "$root"; then
  echo "SKIPPED: there are no headers of a LibTorch with CUDA. Fix: start ./dev cuda-check, which fetches them."
  exit 77
fi

# Every source that names a GPU, belongs to the NCCL engine or is an allocator, whose interface differs between LibTorchs; definitions as strategies/CMakeLists.txt has them.
mapfile -t files < <(cd "$source" && grep -rlE --include='*.cpp' 'cuda|CUDA|NCCL|engines/group_store.h|c10::Allocator' strategies hooks data train servers estimator)
[[ " ${files[*]} " == *" strategies/engines/nccl.cpp "* ]] || { echo "strategies/engines/nccl.cpp is not among what names a GPU"; exit 1; }
definitions=(-DUSE_C10D_NCCL -DTROUPE_NCCL_MAKER=make_nccl_engine '-DTROUPE_NCCL_LACKS=""')
for engine in GLOO MPI; do definitions+=("-DTROUPE_${engine}_MAKER=nullptr" "-DTROUPE_${engine}_LACKS=\"-\""); done
for file in "${files[@]}"; do
  echo "$file"
  "${CXX:-g++}" -std=c++17 -fsyntax-only -Wall -Wextra -Werror "${definitions[@]}" -I"$source" -isystem "$here/stand_ins" \
    -isystem "$root/usr/include" -isystem "$root/usr/include/torch/csrc/api/include" "$source/$file"
done
version=$(sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$root/usr/include/torch/csrc/api/include/torch/version.h" | paste -sd.)
echo "${#files[@]} files compile against LibTorch $version with CUDA"
