#include "troupe/data/formats/image_file.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"

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

/// What libjpeg's functions jump back with: they may not be left by an exception.
struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg's pointer to it is one to this
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave_jpeg(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

/// A progressive file may ask for any number of passes over the whole picture.
void limit_scans(j_common_ptr info) {
  constexpr int kMostScans = 200;  // encoders make about ten
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kMostScans);
  std::longjmp(errors->back, 1);
}

/// Decodes in steps, each of which may fail by a jump: nothing in a step has a destructor.
class JpegReader {
 public:
  JpegReader(const ImageSource& source, int channels) : source_(source), channels_(channels) {
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

  [[nodiscard]] Image read() {
    Image image;
    if (!begin()) source_.fail_to_decode("JPEG", errors_.message);
    if (info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK) {
      source_.fail("is a JPEG file in the four colours of print (CMYK)");
    }
    source_.make_room(image, info_.image_height, info_.image_width, channels_);
    if (!decode(image.pixels.data(), image.pixels.size())) {
      source_.fail_to_decode("JPEG", errors_.message);
    }
    return image;
  }

 private:
  [[nodiscard]] bool begin() {
    if (setjmp(errors_.back) != 0) return false;  // NOLINT: libjpeg's way
    jpeg_create_decompress(&info_);
    made_ = true;
    info_.mem->max_memory_to_use = 1L << 30;  // a progressive file's coefficients
    progress_.progress_monitor = limit_scans;
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(source_.bytes.data()),
                 source_.bytes.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  [[nodiscard]] bool decode(std::uint8_t* pixels, std::size_t bytes) {
    if (setjmp(errors_.back) != 0) return false;  // NOLINT: libjpeg's way
    info_.out_color_space = channels_ == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info_);
    const std::size_t row_bytes =
        std::size_t{info_.output_width} * static_cast<std::size_t>(channels_);
    if (row_bytes * info_.output_height != bytes) return false;
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  const ImageSource& source_;
  const int channels_;
  JpegErrors errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct info_ = {};
  bool made_ = false;
};

Image read_png(const ImageSource& source, int channels) {
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  const bool begun =
      png_image_begin_read_from_memory(&header, source.bytes.data(), source.bytes.size()) != 0;
  Image image;
  try {
    if (!begun) source.fail_to_decode("PNG", header.message);
    source.make_room(image, header.height, header.width, channels);
  } catch (...) {
    png_image_free(&header);
    throw;
  }
  header.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const png_color black = {0, 0, 0};
  const bool read = png_image_finish_read(&header, &black, image.pixels.data(), 0, nullptr) != 0;
  // It is freed now. A warning is of a damaged part that does not matter to the pixels, or does.
  if (!read) source.fail_to_decode("PNG", header.message);
  return image;
}

}  // namespace

Image read_image(const std::filesystem::path& path, int channels) {
  if (channels != 1 && channels != 3) {
    throw ConfigError(text("read_image() is to make ", channels, " channels."),
                      "ask for 3, red, green and blue, or 1, grey.");
  }
  const ImageSource source(path);
  if (source.begins_with("\xff\xd8\xff")) return JpegReader(source, channels).read();
  if (source.begins_with("\x89PNG\r\n\x1a\n")) return read_png(source, channels);
  source.fail("is neither a JPEG nor a PNG file");
}

}  // namespace troupe
