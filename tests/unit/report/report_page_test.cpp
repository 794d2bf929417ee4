#include "troupe/report/page/report_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/test_prelude.h"

namespace report_page_test {

using troupe::ReportedRun;
using troupe::RunLine;

namespace {

const std::string kDataStart = "<script type=\"application/json\" id=\"data\">";

/// What the page's script reads: up to the first end of a script element, as a browser takes it.
std::string data_of(const std::string& page) {
  const auto begin = page.find(kDataStart);
  REQUIRE(begin != std::string::npos);
  const auto content = begin + kDataStart.size();
  return page.substr(content, page.find("</script", content) - content);
}

/// The page without its data.
std::string frame_of(const std::string& page) {
  const std::string data = data_of(page);
  std::string frame = page;
  return frame.erase(frame.find(kDataStart) + kDataStart.size(), data.size());
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string nonce_of(const std::string& page) {
  const std::string before = "script-src 'nonce-";
  const auto at = page.find(before);
  REQUIRE(at != std::string::npos);
  return page.substr(at + before.size(), 64);
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("report_page: nothing in a run's data ends the script element that holds it") {
    const std::string hostile =
        "</script><script>alert(1)</script><!--<script> ]]> &lt; ' \" @SCRIPT@ @NONCE@ \u2028";
    const ReportedRun run{hostile,
                          {{hostile, {{hostile, hostile}}},
                           {"run", {{"event", "start"}, {"settings", {{{"value", hostile}}}}}}}};
    const std::string page = troupe::report_page({run});
    const std::string data = data_of(page);
    CHECK(data.find('<') == std::string::npos);
    const auto read = nlohmann::json::parse(data);
    CHECK(read["runs"][0]["name"] == hostile);
    CHECK(read["runs"][0]["lines"][0]["line"][hostile] == hostile);
    CHECK(read["runs"][0]["lines"][1]["line"]["settings"][0]["value"] == hostile);
    CHECK(read["live"] == false);
    // Besides the data and the nonce that belongs to it the page is the same for everybody.
    const std::string plain = troupe::report_page({{"run", {}}});
    std::string expected = frame_of(plain);
    const std::string theirs = nonce_of(plain);
    for (auto at = expected.find(theirs); at != std::string::npos; at = expected.find(theirs))
      expected.replace(at, theirs.size(), nonce_of(page));
    CHECK(frame_of(page) == expected);
  }

  TEST_CASE("report_page: bytes that are not UTF-8 are shown as such") {
    const std::string page = troupe::report_page({{"a\xff", {{"train", {{"x", "\xfe"}}}}}});
    CHECK(nlohmann::json::parse(data_of(page))["runs"][0]["name"] == "a\uFFFD");
  }

  TEST_CASE("report_page: its policy allows its own script and style alone") {
    const std::string page = troupe::report_page({{"run", {}}});
    CHECK(count(page, "<script nonce=\"" + nonce_of(page) + "\">") == 1);
    CHECK(count(page, "<style nonce=\"" + nonce_of(page) + "\">") == 1);
    CHECK(count(page, "default-src 'none'") == 1);
    CHECK(count(page, "unsafe") == 0);
    CHECK(nonce_of(page) != nonce_of(troupe::report_page({{"other", {}}})));
  }

  TEST_CASE("report_page: it names no other place, and takes no markup from data") {
    const std::string page = troupe::report_page({{"run", {}}});
    CHECK(count(page, "://") == count(page, "\"http://www.w3.org/2000/svg\""));
    for (const char* word :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
          " style=", "@import", "url(", "@SCRIPT@", "@STYLE@", "@DATA@", "@NONCE@"}) {
      INFO(word);
      CHECK(count(page, word) == 0);
    }
  }

  TEST_CASE("report_page: the live page has no data, and asks for it") {
    const auto read = nlohmann::json::parse(data_of(troupe::live_page()));
    CHECK(read["live"] == true);
    CHECK(read["runs"].empty());
    CHECK(troupe::to_json({"eval", {{"step", 1}, {"loss", 0.5}}}) ==
          "{\"source\":\"eval\",\"line\":{\"step\":1,\"loss\":0.5}}");
  }
}

}  // namespace report_page_test
