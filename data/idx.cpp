#include "data/idx.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>

#include "core/check.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMaxDims = 4;
// Deflate packs at most 258 bytes into 2 bits, so a file cannot unpack to more than this.
// Source: zlib.net/zlib_tech.html, "Maximum Compression Factor": 1032 to 1.
constexpr std::uint64_t kMaxDeflateRatio = 1032;
constexpr std::uint64_t kUnpackStep = std::uint64_t{4} << 20;  // bytes

constexpr const char* kFixFetchAgain =
    "fetch or unpack the file again; it should be an IDX file, plain or .gz.";

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};

std::string reason(int error) { return std::generic_category().message(error); }

// The file that is being read: gzip or plain, as zlib finds out.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path);

  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] bool compressed() const { return compressed_; }

  // Exactly `count` bytes of content, or DataError that says how many `what` were expected.
  void read(void* to, std::uint64_t count, std::uint64_t expected, const char* what);
  // Content ends here; for a compressed file that checks its CRC.
  void expect_end(std::uint64_t expected);
  [[noreturn]] void fail(const std::string& what_is_wrong,
                         const std::string& fix = kFixFetchAgain) const;

 private:
  void check_stream() const;

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, CloseGz> file_;
  std::uint64_t file_bytes_ = 0;
  bool compressed_ = false;
  std::uint64_t content_read_ = 0;
};

Reader::Reader(const std::filesystem::path& path) : path_(path) {
  // Non-blocking: opening a pipe would otherwise wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    fail(text("cannot be opened: ", reason(error)),
         error == EACCES ? "make the file and the directories above it readable for this user."
                         : "check the path, or the directory given with --data-dir.");
  }
  struct stat status = {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  file_.reset(regular ? gzdopen(fd, "rb") : nullptr);
  if (!file_) ::close(fd);
  if (!regular) {
    fail(S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file",
         "give the path of an IDX file.");
  }
  if (!file_) fail("cannot be read: zlib has no memory left");
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  compressed_ = gzdirect(file_.get()) == 0;
}

void Reader::fail(const std::string& what_is_wrong, const std::string& fix) const {
  throw DataError(text("'", path_.string(), "' ", what_is_wrong, "."), fix);
}

void Reader::check_stream() const {
  int error = Z_OK;
  std::string message = gzerror(file_.get(), &error);
  if (error == Z_OK || error == Z_STREAM_END) return;
  if (error == Z_ERRNO) fail(text("cannot be read: ", reason(errno)));
  if (error == Z_BUF_ERROR) fail("is truncated: its compressed data ends early");
  message.erase(0, message.find(": ") + 2);  // zlib's name for the file, "<fd:3>"
  fail(text("is corrupt: zlib says \"", message, "\""));
}

void Reader::read(void* to, std::uint64_t count, std::uint64_t expected, const char* what) {
  auto* out = static_cast<char*>(to);
  while (count > 0) {
    const auto piece = static_cast<unsigned>(std::min<std::uint64_t>(count, 1u << 30));
    const int got = gzread(file_.get(), out, piece);
    if (got > 0) {
      content_read_ += static_cast<std::uint64_t>(got);
      out += got;
      count -= static_cast<std::uint64_t>(got);
      continue;
    }
    check_stream();
    fail(text("is truncated: it holds ", content_read_, " bytes", compressed_ ? " unpacked" : "",
              ", expected ", expected, " (", what, ")"));
  }
}

void Reader::expect_end(std::uint64_t expected) {
  char extra = 0;
  const int got = gzread(file_.get(), &extra, 1);
  if (got > 0) {
    fail(text("goes on after the ", expected, " bytes that its header announces"));
  }
  check_stream();
}

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

Header read_header(Reader& reader) {
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
void check_size(const Reader& reader, const Header& header) {
  const std::uint64_t size = reader.file_bytes();
  const bool plain = !reader.compressed();
  // A compressed file has a header of at least 18 bytes itself, so size times ratio is generous.
  const std::uint64_t most = plain ? size - header.header_bytes : size * kMaxDeflateRatio;
  const std::string announced =
      text(header.value_bytes, " bytes of values behind a header of ", header.header_bytes);
  if (header.value_bytes > most) {
    reader.fail(plain ? text("is truncated: it has ", size, " bytes, expected ", announced)
                      : text("announces ", announced, ", more than a file of ", size,
                             " bytes can unpack to"));
  }
  if (plain && header.value_bytes < most) {
    reader.fail(text("is too long: it has ", size, " bytes, expected ", announced));
  }
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

IdxArray read_idx(const std::filesystem::path& path) {
  Reader reader(path);
  Header header = read_header(reader);
  check_size(reader, header);

  IdxArray array = std::move(header.array);
  const std::uint64_t content_bytes = header.header_bytes + header.value_bytes;
  // A plain file has its bytes, take the memory at once. A compressed one may yet turn out to be
  // short: memory follows what really comes.
  while (array.bytes.size() < header.value_bytes) {
    const std::uint64_t have = array.bytes.size();
    const std::uint64_t left = header.value_bytes - have;
    const std::uint64_t piece =
        reader.compressed() ? std::min(left, std::max(have, kUnpackStep)) : left;
    array.bytes.resize(static_cast<std::size_t>(have + piece));
    reader.read(array.bytes.data() + have, piece, content_bytes, "header and values");
  }
  reader.expect_end(content_bytes);
  swap_to_or_from_big_endian(array.bytes, idx_value_bytes(array.type));
  return array;
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
