#include "examples/gan/png.h"

#include <zlib.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "core/check.h"
#include "core/error.h"
#include "core/text.h"

namespace pictures {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kLongestSide = 65535;  // ours; the format's is 2^31 - 1

void put_big_endian(Bytes& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

/// Length, type, content, and a CRC over type and content.
void put_chunk(Bytes& out, const std::string& type, const Bytes& content) {
  put_big_endian(out, static_cast<std::uint32_t>(content.size()));
  const std::size_t start = out.size();
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), content.begin(), content.end());
  const uLong crc = crc32(0, out.data() + start, static_cast<uInt>(out.size() - start));
  put_big_endian(out, static_cast<std::uint32_t>(crc));
}

/// Each row preceded by its filter: 0, none.
Bytes filtered_rows(const Grey& picture) {
  Bytes rows;
  rows.reserve(static_cast<std::size_t>(picture.height * (picture.width + 1)));
  for (std::int64_t y = 0; y < picture.height; ++y) {
    rows.push_back(0);
    const auto row = picture.pixels.begin() + y * picture.width;
    rows.insert(rows.end(), row, row + picture.width);
  }
  return rows;
}

Bytes deflated(const Bytes& plain) {
  uLongf size = compressBound(static_cast<uLong>(plain.size()));
  Bytes packed(size);
  const int result = compress2(packed.data(), &size, plain.data(), static_cast<uLong>(plain.size()),
                               Z_DEFAULT_COMPRESSION);
  TROUPE_CHECK_EQ(result, Z_OK);  // the bound is large enough; no memory is std::bad_alloc above
  packed.resize(size);
  return packed;
}

[[noreturn]] void fail_to_write(const fs::path& path, const std::string& reason) {
  throw troupe::EnvironmentError(
      troupe::text("the picture '", path.string(), "' cannot be written: ", reason, "."),
      "name a directory with --samples-dir where this user may write and there is room.");
}

}  // namespace

std::vector<std::uint8_t> encode_png(const Grey& picture) {
  TROUPE_CHECK(picture.width >= 1 && picture.width <= kLongestSide);
  TROUPE_CHECK(picture.height >= 1 && picture.height <= kLongestSide);
  TROUPE_CHECK_EQ(static_cast<std::int64_t>(picture.pixels.size()), picture.width * picture.height);
  Bytes png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Bytes header;
  put_big_endian(header, static_cast<std::uint32_t>(picture.width));
  put_big_endian(header, static_cast<std::uint32_t>(picture.height));
  // 8 bits a pixel, grey, deflate, the usual five filters, not interlaced.
  header.insert(header.end(), {8, 0, 0, 0, 0});
  put_chunk(png, "IHDR", header);
  put_chunk(png, "IDAT", deflated(filtered_rows(picture)));
  put_chunk(png, "IEND", {});
  return png;
}

void write_png(const std::filesystem::path& path, const Grey& picture) {
  const Bytes png = encode_png(picture);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail_to_write(path, error.message());
  const fs::path temporary = path.string() + ".tmp";
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  file.close();
  if (!file) {
    const std::string reason = std::generic_category().message(errno);
    fs::remove(temporary, error);
    fail_to_write(path, reason);
  }
  fs::rename(temporary, path, error);
  if (error) fail_to_write(path, error.message());
}

}  // namespace pictures
