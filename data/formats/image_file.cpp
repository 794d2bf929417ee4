#include "troupe/data/formats/image_file.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"
#include "troupe/data/formats/exif.h"

namespace troupe {
namespace {

/// A file's bytes, and messages about it.
class ImageSource {
 public:
  explicit ImageSource(const std::filesystem::path& path)
      : file_(path, "replace the file by a JPEG or PNG picture, or take it out of the folder.") {
    if (file_.file_bytes() > kLargestImageFile) {
      fail(text("has ", file_.file_bytes(), " bytes, more than ", kLargestImageFile));
    }
    if (file_.compressed()) fail("is gzip-compressed");
    bytes.resize(static_cast<std::size_t>(file_.file_bytes()));
    file_.read(bytes.data(), bytes.size(), bytes.size(), "the file");
  }

  [[noreturn]] void fail(const std::string& what_is_wrong) const { file_.fail(what_is_wrong); }
  [[noreturn]] void fail_to_decode(const char* format, const std::string& what) const {
    fail(text("is a damaged ", format, " file: ", detail::shown(what)));
  }
  /// Makes room, once the pixels have been counted.
  void make_room(Image& image, std::uint64_t height, std::uint64_t width, int channels) const {
    const auto most = static_cast<std::uint64_t>(kMostPixels);
    if (height == 0 || width == 0 || height > most || width > most / height) {
      fail(text("has ", width, " x ", height, " pixels, expected 1 to ", kMostPixels));
    }
    const auto credible = static_cast<std::uint64_t>(kMostRatio) * bytes.size();
    if (height * width > std::max<std::uint64_t>(credible, kAlwaysPixels)) {
      fail(text("announces ", width, " x ", height, " pixels, too many for ", bytes.size(),
                " bytes"));
    }
    image.height = static_cast<std::int64_t>(height);
    image.width = static_cast<std::int64_t>(width);
    image.channels = channels;
    image.pixels.assign(
        static_cast<std::size_t>(height * width) * static_cast<std::size_t>(channels), 0);
  }
  [[nodiscard]] bool begins_with(const char* magic) const {
    return bytes.compare(0, std::strlen(magic), magic) == 0;
  }

  std::string bytes;

 private:
  detail::DataFile file_;
};

/// What libjpeg and libpng jump back to where they fail: they may not be left by an exception.
struct DecoderExit {
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

/// libjpeg's errors: `exit` is found by the address of `manager`, which comes first.
struct JpegErrors {
  jpeg_error_mgr manager;
  DecoderExit exit;
};

[[noreturn]] void leave_jpeg(j_common_ptr info) {
  DecoderExit& exit = reinterpret_cast<JpegErrors*>(info->err)->exit;
  info->err->format_message(info, exit.message);
  std::longjmp(exit.back, 1);
}

/// A progressive file may ask for any number of passes over the whole picture.
void limit_scans(j_common_ptr info) {
  constexpr int kMostScans = 200;  // encoders make about ten
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  DecoderExit& exit = reinterpret_cast<JpegErrors*>(info->err)->exit;
  std::snprintf(exit.message, sizeof exit.message, "more than %d scans", kMostScans);
  std::longjmp(exit.back, 1);
}

/// Decodes in steps, each of which may fail by a jump: nothing in a step has a destructor.
class JpegReader {
 public:
  explicit JpegReader(const ImageSource& source) : source_(source) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = leave_jpeg;
    // libjpeg warns of damaged data, and goes on with grey: here the file is refused.
    errors_.manager.emit_message = [](j_common_ptr info, int level) {
      if (level < 0) leave_jpeg(info);
    };
  }
  ~JpegReader() {
    if (made_) jpeg_destroy_decompress(&info_);
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Grey where the file is, else in three colours.
  [[nodiscard]] Image read() {
    Image image;
    if (!begin()) source_.fail_to_decode("JPEG", errors_.exit.message);
    if (info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK) {
      source_.fail("is a JPEG file in the four colours of print (CMYK)");
    }
    const int channels = info_.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
    const int orientation = noted_orientation();
    source_.make_room(image, info_.image_height, info_.image_width, channels);
    if (!decode(image.pixels.data(), image.pixels.size())) {
      source_.fail_to_decode("JPEG", errors_.exit.message);
    }
    return detail::upright(std::move(image), orientation);
  }

 private:
  [[nodiscard]] bool begin() {
    if (setjmp(errors_.exit.back) != 0) return false;  // NOLINT: libjpeg's way
    jpeg_create_decompress(&info_);
    made_ = true;
    info_.mem->max_memory_to_use = 1L << 30;  // a progressive file's coefficients
    progress_.progress_monitor = limit_scans;
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(source_.bytes.data()),
                 source_.bytes.size());
    jpeg_save_markers(&info_, kExifMarker, 0xffff);  // the longest that there can be
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  [[nodiscard]] int noted_orientation() const {
    constexpr char kBegin[] = "Exif\0";  // and one 0 more
    for (jpeg_saved_marker_ptr mark = info_.marker_list; mark != nullptr; mark = mark->next) {
      if (mark->data_length < sizeof kBegin ||
          std::memcmp(mark->data, kBegin, sizeof kBegin) != 0) {
        continue;
      }
      return detail::exif_orientation(
          {mark->data + sizeof kBegin, mark->data_length - sizeof kBegin});
    }
    return 1;
  }
  [[nodiscard]] bool decode(std::uint8_t* pixels, std::size_t bytes) {
    if (setjmp(errors_.exit.back) != 0) return false;  // NOLINT: libjpeg's way
    info_.out_color_space = info_.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info_);
    const std::size_t row_bytes =
        std::size_t{info_.output_width} * static_cast<std::size_t>(info_.output_components);
    if (row_bytes * info_.output_height != bytes) return false;
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  static constexpr int kExifMarker = JPEG_APP0 + 1;

  const ImageSource& source_;
  JpegErrors errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct info_ = {};
  bool made_ = false;
};

/// As JpegReader. The pixels' own bytes: a file's gamma and profiles are not applied, of 16 bits
/// the upper 8 are taken, and what is transparent keeps its colour.
class PngReader {
 public:
  explicit PngReader(const ImageSource& source) : source_(source) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &exit_, leave, [](auto, auto) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) throw std::bad_alloc();
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  [[nodiscard]] Image read() {
    Image image;
    if (!begin()) source_.fail_to_decode("PNG", exit_.message);
    const bool coloured = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    source_.make_room(image, png_get_image_height(png_, info_), png_get_image_width(png_, info_),
                      coloured ? 3 : 1);
    std::vector<png_bytep> rows;
    const std::size_t row_bytes = image.pixels.size() / static_cast<std::size_t>(image.height);
    for (std::size_t at = 0; at < image.pixels.size(); at += row_bytes) {
      rows.push_back(image.pixels.data() + at);
    }
    if (!decode(rows.data(), row_bytes)) source_.fail_to_decode("PNG", exit_.message);
    return detail::upright(std::move(image), noted_orientation());
  }

 private:
  [[noreturn]] static void leave(png_structp png, const char* message) {
    auto* const exit = static_cast<DecoderExit*>(png_get_error_ptr(png));
    std::snprintf(exit->message, sizeof exit->message, "%s", message);
    std::longjmp(exit->back, 1);
  }
  static void next_bytes(png_structp png, png_bytep out, std::size_t bytes) {
    auto* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
    const std::string& all = reader->source_.bytes;
    if (bytes > all.size() - reader->at_) png_error(png, "truncated");
    std::memcpy(out, all.data() + reader->at_, bytes);
    reader->at_ += bytes;
  }
  [[nodiscard]] bool begin() {
    if (setjmp(exit_.back) != 0) return false;  // NOLINT: libpng's way
    png_set_read_fn(png_, this, next_bytes);
    png_read_info(png_, info_);
    png_set_expand(png_);  // palettes, and grey of less than 8 bits
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  [[nodiscard]] bool decode(png_bytepp rows, std::size_t row_bytes) {
    if (setjmp(exit_.back) != 0) return false;  // NOLINT: libpng's way
    if (png_get_rowbytes(png_, info_) != row_bytes) png_error(png_, "rows of an odd length");
    png_read_image(png_, rows);
    png_read_end(png_, info_);
    return true;
  }
  [[nodiscard]] int noted_orientation() const {
    png_uint_32 bytes = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &bytes, &exif) == 0) return 1;
    return detail::exif_orientation({exif, bytes});
  }

  const ImageSource& source_;
  DecoderExit exit_ = {};
  std::size_t at_ = 0;  // of the source's bytes: the next
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

/// Grey of colours by ITU-R BT.601, rounded; of grey three equal colours.
Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  const std::size_t pixels = image.pixels.size() / static_cast<std::size_t>(image.channels);
  std::vector<std::uint8_t> made(pixels * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::uint8_t* const from = &image.pixels[i * static_cast<std::size_t>(image.channels)];
    if (channels == 3) {
      std::fill_n(&made[i * 3], 3, *from);
    } else {  // 0.299, 0.587 and 0.114 of 65536
      made[i] = static_cast<std::uint8_t>(
          (from[0] * 19595 + from[1] * 38470 + from[2] * 7471 + 0x8000) >> 16);
    }
  }
  image.channels = channels;
  image.pixels = std::move(made);
  return image;
}

}  // namespace

Image read_image(const std::filesystem::path& path, int channels) {
  if (channels != 1 && channels != 3) {
    throw ConfigError(text("read_image() is to make ", channels, " channels."),
                      "ask for 3, red, green and blue, or 1, grey.");
  }
  const ImageSource source(path);
  if (source.begins_with("\xff\xd8\xff")) {
    return with_channels(JpegReader(source).read(), channels);
  }
  if (source.begins_with("\x89PNG\r\n\x1a\n")) {
    return with_channels(PngReader(source).read(), channels);
  }
  source.fail("is neither a JPEG nor a PNG file");
}

std::string to_png(const Image& image) {
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) ==
      0) {
    throw ConfigError(text("a picture of ", image.width, " x ", image.height,
                           " pixels cannot be written: ", header.message, "."),
                      "make it smaller.");
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace troupe
