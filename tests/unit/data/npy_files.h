// Bytes of NumPy's files and of zip archives, well-formed and not, for tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::testing {

/// The lowest `count` bytes, little-endian.
inline std::string little(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i, value >>= 8) bytes += static_cast<char>(value);
  return bytes;
}

/// A .npy file of format 1, as numpy.save pads it.
inline std::string npy(std::string header, const std::string& values) {
  header += std::string((64 - (header.size() + 11) % 64) % 64, ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + little(header.size(), 2) + header + values;
}
/// The same by type, "<f4", and shape, "(2, 3)".
inline std::string npy_of(const std::string& type, const std::string& shape,
                          const std::string& values) {
  return npy("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }", values);
}

struct ZipEntry {
  std::string name;
  std::string content;
  bool deflated = false;
};

inline std::string raw_deflate(const std::string& content) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string packed(deflateBound(&stream, content.size()), '\0');
  std::string input = content;  // zlib's interface wants it writable
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate");
  return packed;
}

/// A zip archive. As numpy's, members' own headers have an extra field that the directory lacks.
inline std::string zip(const std::vector<ZipEntry>& entries) {
  std::string file;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    const std::string packed = entry.deflated ? raw_deflate(entry.content) : entry.content;
    const auto crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(entry.content.data()), entry.content.size());
    const std::string common = little(0, 2) + little(entry.deflated ? 8 : 0, 2) + little(0, 4) +
                               little(crc, 4) + little(packed.size(), 4) +
                               little(entry.content.size(), 4) + little(entry.name.size(), 2);
    directory += "PK\x01\x02" + little(20, 2) + little(20, 2) + common + little(0, 12) +
                 little(file.size(), 4) + entry.name;
    file +=
        "PK\x03\x04" + little(20, 2) + common + little(4, 2) + entry.name + little(7, 4) + packed;
  }
  return file + directory + "PK\x05\x06" + little(0, 4) + little(entries.size(), 2) +
         little(entries.size(), 2) + little(directory.size(), 4) + little(file.size(), 4) +
         little(0, 2);
}

}  // namespace troupe::testing
