#include "troupe/core/options/options.h"

namespace troupe {

Options::Options() = default;
Options::Options(const Options&) = default;
Options::Options(Options&&) noexcept = default;
Options& Options::operator=(const Options&) = default;
Options& Options::operator=(Options&&) noexcept = default;
Options::~Options() = default;

}  // namespace troupe
