#include "examples/digits/digits.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "examples/digits/digit_drawing.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

// One generator per (seed, split, what, number): each constant is an odd 64-bit number, and the
// generator's first output is drawn from their sum.
enum class Stream : std::uint64_t { writer = 1, image = 2 };

detail::SplitMix make_stream(DigitsSplit split, Stream stream, std::uint64_t number,
                             std::uint64_t seed) {
  std::uint64_t state = detail::SplitMix(seed).next();
  state = detail::SplitMix(state + (split == DigitsSplit::train ? 0 : 1)).next();
  state = detail::SplitMix(state + static_cast<std::uint64_t>(stream)).next();
  return detail::SplitMix(detail::SplitMix(state + number).next());
}

void check_count(std::int64_t count, const char* what) {
  if (count >= 0 && count <= 0xFFFFFFFF) return;
  throw ConfigError(text("The number of ", what, " digits to generate is ", count, "."),
                    "give 0 or more, and no more than an IDX file can count.");
}

/// An IDX file of bytes (docs/data.md has the byte table).
void write_idx(const std::filesystem::path& path, const std::vector<std::int64_t>& dims,
               const std::vector<std::uint8_t>& values) {
  std::string header = {0, 0, 8, static_cast<char>(dims.size())};
  for (const std::int64_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<char>(dim >> shift));
  }
  std::ofstream file(path, std::ios::binary);
  file << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size()));
  file.close();
  if (file.fail()) {
    throw EnvironmentError(text("'", path.string(), "' cannot be written."),
                           "check that the directory is writable and has room.");
  }
}

void write_split(const std::filesystem::path& dir, const std::string& prefix,
                 const Digits& digits) {
  const auto count = static_cast<std::int64_t>(digits.labels.size());
  write_idx(dir / (prefix + "-images-idx3-ubyte"), {count, kDigitSide, kDigitSide}, digits.images);
  write_idx(dir / (prefix + "-labels-idx1-ubyte"), {count}, digits.labels);
}

[[noreturn]] void fail_as_not_empty(const std::filesystem::path& dir) {
  throw ConfigError(text("'", dir.string(), "' exists and is not an empty directory."),
                    "name an empty or new directory for the generated digits.");
}

[[noreturn]] void fail_to_write(const std::filesystem::path& dir, const std::error_code& error) {
  throw EnvironmentError(
      text("'", dir.string(), "' cannot be written: ", error.message(), "."),
      "name a new directory for the generated digits, where this user may write.");
}

// Replaces an empty directory, refuses any other: two writers cannot mix their files.
void rename_directory(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return;
  const int error = errno;
  if (error == ENOTEMPTY || error == EEXIST || error == ENOTDIR) fail_as_not_empty(to);
  fail_to_write(to, {error, std::generic_category()});
}

}  // namespace

Digits generate_digits(DigitsSplit split, std::int64_t count, std::uint64_t seed) {
  check_count(count, split == DigitsSplit::train ? "training" : "test");
  Digits digits;
  digits.images.resize(static_cast<std::size_t>(count * kDigitPixels));
  digits.labels.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    digits.labels[static_cast<std::size_t>(i)] =
        generate_digit(split, i, seed, digits.images.data() + i * kDigitPixels);
  }
  return digits;
}

std::uint8_t generate_digit(DigitsSplit split, std::int64_t number, std::uint64_t seed,
                            std::uint8_t* pixels) {
  const auto writer = static_cast<std::uint64_t>(number / kDigitsPerWriter);
  detail::SplitMix style_random = make_stream(split, Stream::writer, writer, seed);
  const detail::WriterStyle style = detail::draw_style(style_random);
  detail::SplitMix random =
      make_stream(split, Stream::image, static_cast<std::uint64_t>(number), seed);
  const int label = static_cast<int>(random.below(10));
  const auto path = detail::draw_path(label, style, random);
  detail::draw_image(path, style.pen_radius, random, pixels);
  return static_cast<std::uint8_t>(label);
}

void write_digits(const std::filesystem::path& dir, std::int64_t train_count,
                  std::int64_t test_count, std::uint64_t seed) {
  namespace fs = std::filesystem;
  fs::path target = fs::absolute(dir).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "digits/" is "digits"
  std::error_code error;
  const bool usable = !fs::exists(target, error) ||
                      (fs::is_directory(target, error) && fs::is_empty(target, error));
  if (!usable) fail_as_not_empty(target);  // before the work; the renaming decides
  const Digits train = generate_digits(DigitsSplit::train, train_count, seed);
  const Digits test = generate_digits(DigitsSplit::test, test_count, seed);
  fs::create_directories(target.parent_path(), error);
  const fs::path temporary = target.string() + text(".tmp.", ::getpid());
  if (!error) fs::create_directory(temporary, error);
  if (error) fail_to_write(target, error);
  try {
    write_split(temporary, "train", train);
    write_split(temporary, "t10k", test);
    rename_directory(temporary, target);
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
}

}  // namespace troupe
