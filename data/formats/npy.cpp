#include "troupe/data/formats/npy.h"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"
#include "troupe/data/formats/zip_file.h"

namespace troupe {
namespace {

constexpr const char* kFixArray =
    "save it again with numpy.save or numpy.savez, as numbers: array.astype(numpy.float32).";
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
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> dims;
};

/// Reads what numpy writes of Python's syntax: a dictionary of texts, truth values and tuples.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view content) : rest_(content) {}

  /// Unset: it is none.
  [[nodiscard]] std::optional<NpyHeader> parse() {
    NpyHeader header;
    if (!take("{")) return std::nullopt;
    while (!take("}")) {
      const auto key = text_value();
      if (!key || !take(":") || !take_value(*key, header)) return std::nullopt;
      if (!take(",") && next() != '}') return std::nullopt;
    }
    const bool complete =
        next() == '\0' && !header.type.empty() && header.fortran_order && header.dims;
    return complete ? std::optional(header) : std::nullopt;
  }

 private:
  [[nodiscard]] char next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  [[nodiscard]] bool take(std::string_view word) {
    (void)next();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  [[nodiscard]] std::optional<std::string> text_value() {
    const char quote = next();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }
  [[nodiscard]] bool take_value(const std::string& key, NpyHeader& header) {
    if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = take("True");
      return *header.fortran_order || take("False");
    }
    if (key == "shape" && !header.dims) return take_dims(header.dims.emplace());
    if (key != "descr" || !header.type.empty()) return false;
    if (next() == '[') {  // a list of records
      header.type = "records";
      rest_.remove_prefix(std::min(rest_.rfind(']'), rest_.size() - 1) + 1);
      return true;
    }
    const auto type = text_value();
    if (type) header.type = *type;
    return type.has_value();
  }
  [[nodiscard]] bool take_dims(std::vector<std::int64_t>& dims) {
    if (!take("(")) return false;
    while (!take(")")) {
      (void)next();
      std::int64_t dim = -1;
      const char* const end = rest_.data() + rest_.size();
      const auto [after, error] = std::from_chars(rest_.data(), end, dim);
      if (error != std::errc() || dim < 0) return false;
      rest_.remove_prefix(static_cast<std::size_t>(after - rest_.data()));
      dims.push_back(dim);
      if (!take(",") && next() != ')') return false;
    }
    return true;
  }

  std::string_view rest_;
};

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

/// The array without its values; `swapped`: they are in the other byte order.
NpyArray array_of(detail::DataContent& source, const std::string& content, bool& swapped) {
  const auto header = HeaderParser(content).parse();
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
                     "\", expected truth values, uint8, int8 to int64 or float16 to float64"));
  }
  swapped = type[0] == (boost::endian::order::native == boost::endian::order::little ? '>' : '<');
  NpyArray array{known->type, *header->dims, {}};
  if (array.dims.size() > kMostDims) {
    source.fail(text("has ", array.dims.size(), " dimensions, at most ", kMostDims, " are read"));
  }
  if (*header->fortran_order && array.dims.size() > 1) {
    source.fail("is in Fortran's order: save numpy.ascontiguousarray(array)");
  }
  return array;
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
  bool swapped = false;
  NpyArray array = array_of(source, content, swapped);
  const std::uint64_t value_bytes = bytes_of(source, array);
  if (header_bytes + value_bytes > limit) {
    source.fail(text("announces ", value_bytes, " bytes of values behind a header of ",
                     header_bytes, ", more than the ", limit, " that are credible"));
  }
  array.bytes = source.read_values(header_bytes, value_bytes);
  if (swapped) detail::swap_bytes(array.bytes, npy_value_bytes(array.type));
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
