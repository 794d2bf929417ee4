// The one place that states Troupe's version; CMakeLists.txt reads it from here.
#pragma once

namespace troupe {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace troupe
