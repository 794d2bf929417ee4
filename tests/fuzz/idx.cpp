// Data sets: IDX files, plain and compressed.
#include "troupe/data/formats/idx.h"

#include <zlib.h>

#include <optional>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "troupe/core/error.h"

namespace troupe::fuzz::idx_target {
namespace {

std::string compressed(std::string_view content) {
  z_stream stream = {};
  FUZZ_REQUIRE(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY) ==
               Z_OK);
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  FUZZ_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

bool is_compressed(std::string_view file) { return file.substr(0, 2) == "\x1f\x8b"; }

std::optional<IdxArray> read(std::string_view file) {
  const MemoryFile there(file);
  IdxArray array;
  if (!accepts<DataError>([&] { array = read_idx(there.path()); })) return std::nullopt;
  std::uint64_t bytes = idx_value_bytes(array.type);
  for (const std::int64_t dim : array.dims) bytes *= static_cast<std::uint64_t>(dim);
  FUZZ_REQUIRE(!array.dims.empty() && array.dims.size() <= 4 && array.bytes.size() == bytes);
  return array;
}

std::string written(const IdxArray& array) {
  const MemoryFile file("");
  write_idx(file.path(), array);
  return file.content();
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string three = written({IdxType::uint8, {2, 2, 3}, std::vector<std::byte>(12)});
  const std::string wide =
      written({IdxType::float64, {3}, std::vector<std::byte>(24, std::byte{1})});
  const std::string none = written({IdxType::int16, {0, 28, 28, 1}, {}});
  return {three,
          wide,
          none,
          compressed(three),
          compressed(wide),
          compressed(three).append(compressed(""))};
}

bool run(std::string_view input) {
  const auto array = read(input);
  if (is_compressed(input)) {
    if (array) FUZZ_REQUIRE(written(*array).size() >= 8);
    return array.has_value();
  }
  if (array) FUZZ_REQUIRE(written(*array) == input);
  // Compressed, it is the same file.
  const auto unpacked = read(compressed(input));
  FUZZ_REQUIRE(array.has_value() == unpacked.has_value());
  if (array) FUZZ_REQUIRE(unpacked->dims == array->dims && unpacked->bytes == array->bytes);
  return array.has_value();
}

const Registration registered({"idx", seeds, run});

}  // namespace troupe::fuzz::idx_target
