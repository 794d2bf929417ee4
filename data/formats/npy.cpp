#include "troupe/data/formats/npy.h"

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <boost/endian/conversion.hpp>
#include <cstring>
#include <optional>
#include <string_view>

#include "troupe/core/error.h"
#include "troupe/core/span.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"
#include "troupe/data/formats/zip_file.h"

namespace troupe {
namespace {

constexpr const char* kFixArray = "copy it again, or save it again with numpy.save or numpy.savez.";
constexpr std::size_t kMostDims = 8;
constexpr std::uint64_t kLongestHeader = 64 << 10;  // numpy's own limit is 10,000

struct TypeOfNpy {
  const char* name;  // behind the byte order
  NpyType type;
  std::size_t bytes;
};
constexpr TypeOfNpy kTypes[] = {
    {"b1", NpyType::boolean, 1}, {"u1", NpyType::uint8, 1},   {"i1", NpyType::int8, 1},
    {"i2", NpyType::int16, 2},   {"i4", NpyType::int32, 4},   {"i8", NpyType::int64, 8},
    {"f2", NpyType::float16, 2}, {"f4", NpyType::float32, 4}, {"f8", NpyType::float64, 8}};

/// The dictionary in a file's header.
struct NpyHeader {
  std::string type;  // "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> dims;
};

/// What numpy writes of Python's syntax, a dictionary of texts, truth values and tuples, as JSON.
std::string to_json(std::string header) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"'", "\""}, {"(", "["}, {")", "]"}, {"True", "true"}, {"False", "false"}};
  for (const auto& [python, json] : kWords) {
    boost::algorithm::replace_all(header, python, json);
  }
  for (std::size_t at = header.find(','); at != std::string::npos; at = header.find(',', at + 1)) {
    const std::size_t next = header.find_first_not_of(" \n", at + 1);
    const bool is_last = next != std::string::npos && (header[next] == ']' || header[next] == '}');
    if (is_last) header[at] = ' ';
  }
  return header;
}

/// Unset: it is none.
std::optional<NpyHeader> parse_header(const std::string& content) {
  constexpr std::size_t kMostDepth = 16;
  try {
    const std::string json = to_json(content);
    const auto parsed =
        parse_bounded_json(as_bytes(Span<const char>(json.data(), json.size())), kMostDepth);
    const auto& type = parsed.at("descr");
    NpyHeader header{type.is_array() ? "records" : type.get<std::string>(),
                     parsed.at("fortran_order").get<bool>(),
                     {}};
    for (const auto& dim : parsed.at("shape")) {
      if (!dim.is_number_unsigned()) return std::nullopt;
      header.dims.push_back(dim.get<std::int64_t>());
      if (header.dims.back() < 0) return std::nullopt;  // 2^63 or more
    }
    const bool complete = parsed.size() == 3 && parsed.at("shape").is_array();
    return complete ? std::optional(header) : std::nullopt;
  } catch (const JsonFault&) {
  } catch (const nlohmann::json::exception&) {
  }
  return std::nullopt;
}

/// The text of the header, and how many bytes lie before the values.
std::pair<std::string, std::uint64_t> read_npy_header(detail::DataContent& source) {
  unsigned char head[12] = {};
  source.read(head, 8, 8, "the magic bytes");
  if (std::memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3) {
    source.fail("does not begin as a .npy file of format 1, 2 or 3");
  }
  const unsigned length_bytes = head[6] == 1 ? 2 : 4;
  source.read(head + 8, length_bytes, 8 + length_bytes, "the length of the header");
  std::uint64_t length = 0;
  for (unsigned i = length_bytes; i-- > 0;) length = length << 8 | head[8 + i];
  if (length > kLongestHeader) {
    source.fail(text("announces a header of ", length, " bytes, more than ", kLongestHeader));
  }
  std::string header(static_cast<std::size_t>(length), '\0');
  source.read(header.data(), length, 8 + length_bytes + length, "the header");
  return {header, 8 + length_bytes + length};
}

/// An array without its values, and how they lie in the file.
struct Announced {
  NpyArray array;
  bool swapped = false;  // in the other byte order
  bool fortran_order = false;
};

Announced announced_in(detail::DataContent& source, const std::string& content) {
  const auto header = parse_header(content);
  if (!header)
    source.fail(
        text("has the header \"", detail::shown(content), "\", which numpy does not write"));
  const std::string& type = header->type;
  const auto* const known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeOfNpy& t) {
        return type.size() == 3 && type.compare(1, 2, t.name) == 0 &&
               std::string_view("<>|=").find(type[0]) != std::string_view::npos;
      });
  if (known == std::end(kTypes)) {
    source.fail(text("has values of type \"", detail::shown(type),
                     "\", expected truth values, uint8, int8 to int64 or float16 to float64: save "
                     "array.astype(numpy.float32)"));
  }
  constexpr bool kLittle = boost::endian::order::native == boost::endian::order::little;
  if (header->dims.size() > kMostDims) {
    source.fail(text("has ", header->dims.size(), " dimensions, at most ", kMostDims, " are read"));
  }
  return {{known->type, header->dims, {}}, type[0] == (kLittle ? '>' : '<'), header->fortran_order};
}

/// Values whose first index runs fastest, with the last running fastest.
std::vector<std::byte> row_major(const std::vector<std::byte>& values,
                                 const std::vector<std::int64_t>& dims, std::size_t value_bytes) {
  std::vector<std::byte> result;
  result.reserve(values.size());
  std::vector<std::int64_t> index(dims.size(), 0);
  while (result.size() < values.size()) {
    std::size_t from = 0;
    for (std::size_t dim = dims.size(); dim-- > 0;) {
      from = from * static_cast<std::size_t>(dims[dim]) + static_cast<std::size_t>(index[dim]);
    }
    const auto value = values.begin() + static_cast<std::ptrdiff_t>(from * value_bytes);
    result.insert(result.end(), value, value + static_cast<std::ptrdiff_t>(value_bytes));
    for (std::size_t dim = dims.size(); dim-- > 0 && ++index[dim] == dims[dim];) index[dim] = 0;
  }
  return result;
}

std::uint64_t bytes_of(detail::DataContent& source, const NpyArray& array) {
  std::uint64_t bytes = npy_value_bytes(array.type);
  bool overflow = false;
  for (const std::int64_t dim : array.dims) {
    if (dim == 0) return 0;
    overflow |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes);
  }
  if (overflow || bytes > UINT64_MAX / 2) source.fail("announces more values than there can be");
  return bytes;
}

/// `limit`: bytes that the whole content may have.
NpyArray read_from(detail::DataContent& source, std::uint64_t limit) {
  const auto [content, header_bytes] = read_npy_header(source);
  auto [array, swapped, fortran_order] = announced_in(source, content);
  const std::uint64_t value_bytes = bytes_of(source, array);
  if (header_bytes + value_bytes > limit) {
    if (!source.compressed()) {
      source.fail(text("is truncated: it holds ", limit, " bytes, expected ",
                       header_bytes + value_bytes, " (header and values)"));
    }
    source.fail(text("announces ", value_bytes, " bytes of values behind a header of ",
                     header_bytes, ", more than the ", limit, " that are credible"));
  }
  array.bytes = source.read_values(header_bytes, value_bytes);
  if (swapped) detail::swap_bytes(array.bytes, npy_value_bytes(array.type));
  if (fortran_order) array.bytes = row_major(array.bytes, array.dims, npy_value_bytes(array.type));
  const auto no_truth = [](std::byte value) { return std::to_integer<int>(value) > 1; };
  if (array.type == NpyType::boolean &&
      std::any_of(array.bytes.begin(), array.bytes.end(), no_truth)) {
    source.fail("has a truth value above 1");
  }
  return array;
}

}  // namespace

std::size_t npy_value_bytes(NpyType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

NpyArray read_npy(const std::filesystem::path& path) {
  detail::DataFile file(path, kFixArray);
  return read_from(file, file.compressed() ? file.credible_bytes() : file.file_bytes());
}

std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path) {
  detail::ZipFile file(path, kFixArray);
  std::uint64_t bytes = 0;  // below 2^48: 2^16 members of 2^32
  for (const detail::ZipFile::Member& member : file.members()) bytes += member.bytes;
  if (bytes > detail::credible_bytes(file.file_bytes())) {
    file.fail(text("announces ", bytes, " bytes, too much for a file of ", file.file_bytes()));
  }
  std::map<std::string, NpyArray> arrays;
  for (const detail::ZipFile::Member& member : file.members()) {
    constexpr std::string_view kEnding = ".npy";
    const std::size_t length = member.name.size() - std::min(member.name.size(), kEnding.size());
    const std::string name = member.name.substr(0, length);
    if (member.name.substr(length) != kEnding || name.empty() || arrays.count(name) > 0) {
      file.fail(text("has a member \"", detail::shown(member.name),
                     "\", expected names of their own with .npy"));
    }
    detail::ZipMember content(file, member);
    arrays.emplace(name, read_from(content, member.bytes));
  }
  return arrays;
}

}  // namespace troupe
