// JPEGs by one loader thread and by several, in alternating passes over the same folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::bench {

/// Makes `pictures` JPEGs of 320 x 240 in a directory that is gone afterwards, and reads them in
/// batches of 64, shuffled, as 224 x 224, by 1 and by 4 loader threads, `rounds` times each. Both
/// must read the same bits. Result: {"threads_1": {"samples_per_second": [...]}, "threads_4": ...}.
[[nodiscard]] nlohmann::ordered_json measure_pictures(int rounds, int pictures);

/// The rows of both, as Markdown.
[[nodiscard]] std::string picture_table(const nlohmann::ordered_json& results);

}  // namespace troupe::bench
