#include "troupe/data/formats/idx.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMaxDims = 4;
constexpr std::uint64_t kUnpackStep = std::uint64_t{4} << 20;  // bytes

constexpr const char* kFixFetchAgain =
    "fetch or unpack the file again; it should be an IDX file, plain or .gz.";

struct Header {
  IdxArray array;  // without its values
  std::uint64_t header_bytes = 0;
  std::uint64_t value_bytes = 0;
};

std::uint32_t big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

std::string hex_bytes(const unsigned char* bytes, int count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  for (int i = 0; i < count; ++i) {
    if (i > 0) result += ' ';
    result += kDigits[bytes[i] >> 4];
    result += kDigits[bytes[i] & 15];
  }
  return result;
}

std::optional<IdxType> known_type(unsigned char number) {
  switch (number) {
    case 0x08:
    case 0x09:
    case 0x0B:
    case 0x0C:
    case 0x0D:
    case 0x0E:
      return static_cast<IdxType>(number);
    default:
      return std::nullopt;
  }
}

Header read_header(detail::DataFile& reader) {
  if (reader.file_bytes() == 0) reader.fail("is empty, expected an IDX file");
  unsigned char magic[4] = {};
  reader.read(magic, sizeof magic, sizeof magic, "the magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    reader.fail(text("starts with the bytes ", hex_bytes(magic, 4),
                     ", expected 00 00, a type and a number of dimensions"));
  }
  const auto type = known_type(magic[2]);
  if (!type) {
    reader.fail(text("has values of type 0x", hex_bytes(magic + 2, 1),
                     ", expected 0x08, 0x09, 0x0b, 0x0c, 0x0d or 0x0e"));
  }
  if (magic[3] < 1 || magic[3] > kMaxDims) {
    reader.fail(text("has ", int{magic[3]}, " dimensions, expected 1 to ", kMaxDims));
  }

  Header header;
  header.array.type = *type;
  header.header_bytes = sizeof magic + 4u * magic[3];
  header.value_bytes = idx_value_bytes(*type);
  unsigned char dims[4 * kMaxDims] = {};
  reader.read(dims, 4u * magic[3], header.header_bytes, "the header");
  bool overflow = false;
  bool no_values = false;
  for (int i = 0; i < magic[3]; ++i) {
    const std::uint32_t dim = big_endian(dims + 4 * i);
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
    if (header.value_bytes <= reader.credible_bytes()) return;
    reader.fail(text("announces ", announced, ", too much for a file of ", size, " bytes"),
                "check where the file comes from; if it is right, unpack it with gunzip.");
  }
  const std::uint64_t there = size - header.header_bytes;
  if (header.value_bytes == there) return;
  reader.fail(text(header.value_bytes > there ? "is truncated" : "is too long", ": it has ", size,
                   " bytes, expected ", announced));
}

// Each value's bytes the other way round, where the machine is little-endian; its own inverse.
void swap_to_or_from_big_endian(std::vector<std::byte>& bytes, std::size_t value_bytes) {
  const std::uint16_t one = 1;
  unsigned char first = 0;
  std::memcpy(&first, &one, 1);
  if (first == 0 || value_bytes == 1) return;
  for (std::size_t i = 0; i + value_bytes <= bytes.size(); i += value_bytes) {
    std::reverse(bytes.data() + i, bytes.data() + i + value_bytes);
  }
}

}  // namespace

std::size_t idx_value_bytes(IdxType type) {
  switch (type) {
    case IdxType::uint8:
    case IdxType::int8:
      return 1;
    case IdxType::int16:
      return 2;
    case IdxType::int32:
    case IdxType::float32:
      return 4;
    case IdxType::float64:
      return 8;
  }
  TROUPE_CHECK(!"a value outside IdxType");
  return 0;
}

IdxArray read_idx(const std::filesystem::path& path, const IdxCheck& check) {
  detail::DataFile reader(path, kFixFetchAgain);
  Header header = read_header(reader);
  check_size(reader, header);
  if (check) check(header.array);

  IdxArray array = std::move(header.array);
  const std::uint64_t content_bytes = header.header_bytes + header.value_bytes;
  // Reserved at once, so that nothing is copied. A compressed file may yet turn out to be short:
  // its memory is touched as it is unpacked.
  array.bytes.reserve(static_cast<std::size_t>(header.value_bytes));
  while (array.bytes.size() < header.value_bytes) {
    const std::uint64_t have = array.bytes.size();
    const std::uint64_t left = header.value_bytes - have;
    const std::uint64_t piece = reader.compressed() ? std::min(left, kUnpackStep) : left;
    array.bytes.resize(static_cast<std::size_t>(have + piece));
    reader.read(array.bytes.data() + have, piece, content_bytes, "header and values");
  }
  reader.expect_end(content_bytes);
  swap_to_or_from_big_endian(array.bytes, idx_value_bytes(array.type));
  return array;
}

void write_idx(const std::filesystem::path& path, const IdxArray& array) {
  const std::size_t width = idx_value_bytes(array.type);
  std::uint64_t expected = width;
  std::string header = {0, 0, static_cast<char>(array.type), static_cast<char>(array.dims.size())};
  TROUPE_CHECK(!array.dims.empty() && array.dims.size() <= kMaxDims);
  for (const std::int64_t dim : array.dims) {
    TROUPE_CHECK(dim >= 0 && dim <= 0xFFFFFFFF);
    TROUPE_CHECK(!__builtin_mul_overflow(expected, static_cast<std::uint64_t>(dim), &expected));
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<char>(dim >> shift));
  }
  TROUPE_CHECK_EQ(array.bytes.size(), expected);
  std::vector<std::byte> bytes = array.bytes;
  swap_to_or_from_big_endian(bytes, width);
  std::ofstream file(path, std::ios::binary);
  file << header;
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
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
  std::string looked_for;
  for (const char* const ending : {"", ".gz"}) {
    for (const std::string& spelling : spellings) {
      std::filesystem::path path = dir / (spelling + ending);
      std::error_code ignored;  // what cannot be looked at is not there
      if (std::filesystem::exists(path, ignored)) return path;
      looked_for += (looked_for.empty() ? "" : ", ") + spelling + ending;
    }
  }
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(dir, error);
  throw DataError(
      is_directory
          ? text("'", dir.string(), "' has no ", name, "; looked for ", looked_for, ".")
          : text("'", dir.string(), "' is not a directory that can be read; looked in it for ",
                 looked_for, "."),
      "name the directory of the four MNIST files with --data-dir, or leave --data-dir out to use "
      "generated digits.");
}

}  // namespace troupe
