// The lines of a model directory, as a report and its live page read them, and the page that holds
// them.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "troupe/report/page/report_page.h"
#include "troupe/report/page/run_directory.h"

namespace troupe::fuzz::report_target {
namespace {

std::vector<std::string> texts_of(const std::vector<RunLine>& lines) {
  std::vector<std::string> texts;
  for (const RunLine& line : lines) texts.push_back(to_json(line));
  return texts;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "\x10{\"event\":\"start\",\"time\":1.5,\"tasks\":[\"worker/"
      "0\"],\"settings\":[{\"name\":\"a\"}]}\n"
      "{\"event\":\"end\",\"time\":2e9,\"step\":7,\"reason\":\"</script>\"}\n",
      "\x05{\"step\":1,\"time\":1700000000.5,\"loss\":null}\nno JSON\n"
      "{\"step\":1,\"session_start\":true,\"time\":1}\n"};
}

/// The first byte says how much of the file is there when it is read for the first time.
bool run(std::string_view input) {
  static const testing::TempDir folder;
  static const std::string path = folder / "run.jsonl";
  if (input.empty()) return false;
  const auto cut = std::min<std::size_t>(static_cast<unsigned char>(input[0]), input.size() - 1);
  input.remove_prefix(1);
  std::ofstream file(path, std::ios::binary);
  file << input.substr(0, cut) << std::flush;
  RunDirectory growing(folder.path().string());
  auto parts = growing.read_on();
  file << input.substr(cut) << std::flush;
  for (RunLine& line : growing.read_on()) parts.push_back(std::move(line));
  const auto whole = RunDirectory(folder.path().string()).read_on();
  FUZZ_REQUIRE(texts_of(parts) == texts_of(whole));
  FUZZ_REQUIRE(growing.read_on().empty());

  const std::string page = report_page({{std::string(input), whole}});
  const std::string start = "id=\"data\">";
  const auto begin = page.find(start) + start.size();
  const std::string data = page.substr(begin, page.find('<', begin) - begin);
  FUZZ_REQUIRE(page.compare(begin + data.size(), 9, "</script>") == 0);
  const auto read = nlohmann::ordered_json::parse(data);
  FUZZ_REQUIRE(read["runs"][0]["lines"].size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    FUZZ_REQUIRE(read["runs"][0]["lines"][i]["line"] == whole[i].line);
  return !whole.empty();
}

const Registration registered({"report", seeds, run});

}  // namespace troupe::fuzz::report_target
