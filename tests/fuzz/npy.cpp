// Data sets: NumPy's arrays, alone and in zip archives.
#include "troupe/data/formats/npy.h"

#include <optional>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/npy_files.h"
#include "troupe/core/error.h"

namespace troupe::fuzz::npy_target {
namespace {

using testing::npy_of;
using testing::zip;

void check(const NpyArray& array) {
  std::uint64_t bytes = npy_value_bytes(array.type);
  FUZZ_REQUIRE(array.dims.size() <= 8);
  for (const std::int64_t dim : array.dims) {
    FUZZ_REQUIRE(dim >= 0);
    bytes *= static_cast<std::uint64_t>(dim);
  }
  FUZZ_REQUIRE(array.bytes.size() == bytes);
}

std::optional<NpyArray> read(std::string_view file) {
  const MemoryFile there(file);
  NpyArray array;
  if (!accepts<DataError>([&] { array = read_npy(there.path()); })) return std::nullopt;
  check(array);
  return array;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string wide = npy_of(">f8", "(3,)", std::string(24, '\1'));
  return {wide, npy_of("|b1", "()", "\1"), npy_of("<i2", "(2, 3)", std::string(12, '\2')),
          zip({{"a.npy", wide, true}, {"b.npy", npy_of("|u1", "(0, 7)", "")}}), zip({})};
}

bool run(std::string_view input) {
  const auto array = read(input);
  // In an archive, it is the same array.
  if (input.size() < 4096) {
    for (const bool deflated : {false, true}) {
      const MemoryFile there(zip({{"a.npy", std::string(input), deflated}}));
      std::map<std::string, NpyArray> arrays;
      const bool accepted = accepts<DataError>([&] { arrays = read_npz(there.path()); });
      const bool is_plain = input.substr(0, 1) == "\x93";
      FUZZ_REQUIRE(!is_plain || accepted == array.has_value());
      if (accepted) FUZZ_REQUIRE(array && arrays.at("a").bytes == array->bytes);
    }
  }
  const MemoryFile there(input);
  std::map<std::string, NpyArray> arrays;
  const bool accepted = accepts<DataError>([&] { arrays = read_npz(there.path()); });
  for (const auto& [name, member] : arrays) check(member);
  return array.has_value() || accepted;
}

const Registration registered({"npy", seeds, run});

}  // namespace troupe::fuzz::npy_target
