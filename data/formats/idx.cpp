#include "troupe/data/formats/idx.h"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <system_error>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/span.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMaxDims = 4;

struct TypeOfIdx {
  IdxType type;
  std::size_t bytes;
};
constexpr TypeOfIdx kIdxTypes[] = {{IdxType::uint8, 1},   {IdxType::int8, 1},
                                   {IdxType::int16, 2},   {IdxType::int32, 4},
                                   {IdxType::float32, 4}, {IdxType::float64, 8}};

constexpr const char* kFixFetchAgain =
    "fetch or unpack the file again; it should be an IDX file, plain or .gz.";

struct Header {
  IdxArray array;  // without its values
  std::uint64_t header_bytes = 0;
  std::uint64_t value_bytes = 0;
};

std::string hex_bytes(const unsigned char* bytes, std::size_t count) {
  return join(Span<const unsigned char>(bytes, count), " ", [](unsigned char byte) {
    return text(std::hex, std::setw(2), std::setfill('0'), int{byte});
  });
}

/// The type of that number in a file; the end: there is none.
const TypeOfIdx* find_type(unsigned char number) {
  return std::find_if(std::begin(kIdxTypes), std::end(kIdxTypes),
                      [&](const TypeOfIdx& known) { return known.type == IdxType{number}; });
}

Header read_header(detail::DataFile& reader) {
  if (reader.file_bytes() == 0) reader.fail("is empty, expected an IDX file");
  unsigned char magic[4] = {};
  reader.read(magic, sizeof magic, sizeof magic, "the magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    reader.fail(text("starts with the bytes ", hex_bytes(magic, 4),
                     ", expected 00 00, a type and a number of dimensions"));
  }
  const TypeOfIdx* const known = find_type(magic[2]);
  if (known == std::end(kIdxTypes)) {
    reader.fail(text("has values of type 0x", hex_bytes(magic + 2, 1),
                     ", expected 0x08, 0x09, 0x0b, 0x0c, 0x0d or 0x0e"));
  }
  if (magic[3] < 1 || magic[3] > kMaxDims) {
    reader.fail(text("has ", int{magic[3]}, " dimensions, expected 1 to ", kMaxDims));
  }

  Header header;
  header.array.type = known->type;
  header.header_bytes = sizeof magic + 4u * magic[3];
  header.value_bytes = known->bytes;
  unsigned char dims[4 * kMaxDims] = {};
  reader.read(dims, 4u * magic[3], header.header_bytes, "the header");
  bool overflow = false;
  bool no_values = false;
  for (int i = 0; i < magic[3]; ++i) {
    const std::uint32_t dim = boost::endian::load_big_u32(dims + 4 * i);
    header.array.dims.push_back(dim);
    no_values = no_values || dim == 0;
    if (dim != 0) {
      overflow |= __builtin_mul_overflow(header.value_bytes, dim, &header.value_bytes);
    }
  }
  if (overflow) {
    reader.fail("announces more values than 64 bits can count; its dimensions are not credible");
  }
  if (no_values) header.value_bytes = 0;
  return header;
}

// Holds the header against the size of the file, before memory is taken.
void check_size(const detail::DataFile& reader, const Header& header) {
  const std::uint64_t size = reader.file_bytes();
  const std::string announced =
      text(header.value_bytes, " bytes of values behind a header of ", header.header_bytes);
  if (reader.compressed()) {
    if (header.header_bytes + header.value_bytes <= reader.credible_bytes()) return;
    reader.fail(text("announces ", announced, ", too much for a file of ", size, " bytes"),
                "check where the file comes from; if it is right, unpack it with gunzip.");
  }
  const std::uint64_t there = size - header.header_bytes;
  if (header.value_bytes == there) return;
  reader.fail(text(header.value_bytes > there ? "is truncated" : "is too long", ": it has ", size,
                   " bytes, expected ", announced));
}

/// Its own inverse.
void swap_to_or_from_big_endian(IdxArray& array) {
  if (boost::endian::order::native != boost::endian::order::little) return;
  detail::swap_bytes(array.bytes, idx_value_bytes(array.type));
}

}  // namespace

std::size_t idx_value_bytes(IdxType type) {
  return find_type(static_cast<unsigned char>(type))->bytes;
}

IdxArray read_idx(const std::filesystem::path& path,
                  const std::function<void(const IdxArray&)>& check) {
  detail::DataFile reader(path, kFixFetchAgain);
  Header header = read_header(reader);
  check_size(reader, header);
  if (check) check(header.array);
  header.array.bytes = reader.read_values(header.header_bytes, header.value_bytes);
  swap_to_or_from_big_endian(header.array);
  return std::move(header.array);
}

void write_idx(const std::filesystem::path& path, const IdxArray& array) {
  std::uint64_t expected = idx_value_bytes(array.type);
  std::string header = {0, 0, static_cast<char>(array.type), static_cast<char>(array.dims.size())};
  TROUPE_CHECK(!array.dims.empty() && array.dims.size() <= kMaxDims);
  for (const std::int64_t dim : array.dims) {
    TROUPE_CHECK(dim >= 0 && dim <= 0xFFFFFFFF);
    TROUPE_CHECK(!__builtin_mul_overflow(expected, static_cast<std::uint64_t>(dim), &expected));
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<char>(dim >> shift));
  }
  TROUPE_CHECK_EQ(array.bytes.size(), expected);
  IdxArray swapped = array;
  swap_to_or_from_big_endian(swapped);
  std::ofstream file(path, std::ios::binary);
  file << header;
  file.write(reinterpret_cast<const char*>(swapped.bytes.data()),
             static_cast<std::streamsize>(swapped.bytes.size()));
  file.close();
  if (file.fail()) {
    throw EnvironmentError(text("'", path.string(), "' cannot be written."),
                           "check that the directory exists, is writable and has room.");
  }
}

std::filesystem::path find_idx(const std::filesystem::path& dir, const std::string& name) {
  std::vector<std::string> spellings = {name};
  if (const auto dash = name.rfind("-idx"); dash != std::string::npos) {
    spellings.push_back(name);
    spellings.back()[dash] = '.';
  }
  std::vector<std::string> looked_for;
  for (const char* const ending : {"", ".gz"}) {
    for (const std::string& spelling : spellings) {
      looked_for.push_back(spelling + ending);
      std::filesystem::path path = dir / looked_for.back();
      std::error_code ignored;  // what cannot be looked at is not there
      if (std::filesystem::exists(path, ignored)) return path;
    }
  }
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(dir, error);
  throw DataError(
      is_directory
          ? text("'", dir.string(), "' has no ", name, "; looked for ", join(looked_for), ".")
          : text("'", dir.string(), "' is not a directory that can be read; looked in it for ",
                 join(looked_for), "."),
      "name the directory of the four MNIST files with --data-dir, or leave --data-dir out to use "
      "generated digits.");
}

}  // namespace troupe
