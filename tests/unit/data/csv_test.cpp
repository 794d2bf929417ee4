#include "troupe/data/formats/csv.h"

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "troupe/core/error.h"

namespace csv_test {

namespace {

using troupe::csv_category;
using troupe::csv_integer;
using troupe::csv_real;
using troupe::CsvColumn;
using troupe::CsvTable;
using troupe::testing::gzip;
using troupe::testing::TempDir;
using troupe::testing::write_file;

using Reals = std::vector<float>;
using Numbers = std::vector<std::int64_t>;

const std::vector<std::vector<CsvColumn>> kFruit = {{csv_real("height"), csv_real("width")},
                                                    {csv_category("kind", {"apple", "pear"})},
                                                    {csv_integer("id")}};

CsvTable read(const std::string& content,
              const std::vector<std::vector<CsvColumn>>& fields = kFruit, char separator = ',') {
  const TempDir dir;
  write_file(dir.path() / "t.csv", content);
  return troupe::read_csv(dir.path() / "t.csv", fields, separator);
}

std::string with_line_ends(std::string content, const std::string& end) {
  return boost::algorithm::replace_all_copy(std::move(content), "\n", end);
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("csv: columns are found by name, whatever their order, and typed") {
    const CsvTable table = read(
        "id,note,width,kind,height\n"
        "7,,1.5,pear,-2e1\n"
        "-9223372036854775808,x,0.25,apple,3\n");
    CHECK(table.rows == 2);
    CHECK(std::get<Reals>(table.fields[0]) == Reals{-20, 1.5, 3, 0.25});
    CHECK(std::get<Numbers>(table.fields[1]) == Numbers{1, 0});
    CHECK(std::get<Numbers>(table.fields[2]) == Numbers{7, INT64_MIN});
  }

  TEST_CASE("csv: quotation marks, line ends, blanks, a byte order mark, other separators, gzip") {
    const std::string content =
        "\xEF\xBB\xBFid;\"height\";width;kind\r\n"
        "\r\n"
        " 1 ;\"2\";\t3;\"a;\"\"b\"\"\r\n\n;c\"\r\n"
        "\n"
        "4;5;6;plain";
    const std::vector<std::vector<CsvColumn>> fields = {
        {csv_integer("id")},
        {csv_real("height"), csv_real("width")},
        {csv_category("kind", {"plain", "a;\"b\"\r\n\n;c"})}};
    for (const std::string& file : {content, gzip(content), content + "\n\n", content + "\r"}) {
      const CsvTable table = read(file, fields, ';');
      CHECK(table.rows == 2);
      CHECK(std::get<Numbers>(table.fields[0]) == Numbers{1, 4});
      CHECK(std::get<Reals>(table.fields[1]) == Reals{2, 3, 5, 6});
      CHECK(std::get<Numbers>(table.fields[2]) == Numbers{1, 0});
    }
  }

  TEST_CASE("csv: numbers as pandas reads them: with a plus, and too small for a float") {
    const CsvTable table = read(
        "height,width,kind,id\n+1.5,1e-46,apple,+7\n-1e-40,-1e-4000,pear,1\n1e-4900,+.5,pear,1\n");
    CHECK(std::get<Reals>(table.fields[0]) == Reals{1.5, 0, -1e-40F, 0, 0, 0.5});
    CHECK(std::get<Numbers>(table.fields[2]) == Numbers{7, 1, 1});
  }

  TEST_CASE("csv: a first line that names the separator, and lines that end with LF, CR LF or CR") {
    for (const char* end : {"\n", "\r\n", "\r", "\n\n", "\r\r"}) {
      const CsvTable table = read(with_line_ends("sep=;\nheight;width;kind;id\n1;2;pear;3\n", end));
      CHECK(std::get<Reals>(table.fields[0]) == Reals{1, 2});
    }
    CHECK_THROWS_WITH_AS((void)read("sep=;x\n"), doctest::Contains("there is: \"sep=;x\""),
                         troupe::DataError);
  }

  TEST_CASE("csv: lines longer than a piece of the file are read") {
    // Every value of the last column, and with it the line ends, fall on other places of a piece.
    std::string content = "id,kind,height,width,note\n";
    for (int i = 0; i < 200; ++i) {
      content += std::to_string(i) + ",pear,1,2," + std::string(1000 + i % 7, 'n') + "\r\n";
    }
    const CsvTable table = read(content);
    REQUIRE(table.rows == 200);
    for (std::int64_t i = 0; i < 200; ++i) {
      CHECK(std::get<Numbers>(table.fields[2])[static_cast<std::size_t>(i)] == i);
    }
  }

  TEST_CASE("csv: lines of every kind, by turns, wherever a piece of the file ends") {
    const std::vector<std::string> kinds = {"7,,2,apple,1\n",
                                            "7,,2,apple,1\r\n",
                                            "\n 7 ,\t, 2,apple ,1\n",
                                            "7,\"a, b\n\",2,\"apple\",1\n",
                                            "7,\"\"\"\",2,apple,1\r\n\r\n",
                                            "7," + std::string(100, ' ') + ",2,apple,1\n"};
    for (std::size_t shift = 0; shift < 8; ++shift) {
      std::string content = "id,note,width,kind,height\n";
      std::int64_t rows = 0;
      for (; content.size() < 200'000; ++rows)
        content += kinds[(static_cast<std::size_t>(rows) * 7 + shift) % kinds.size()];
      content += "7,x,2,apple,1";  // the last has no end
      const CsvTable table = read(content);
      CHECK(table.rows == rows + 1);
      Reals expected;
      for (std::int64_t row = 0; row <= rows; ++row) expected.insert(expected.end(), {1, 2});
      CHECK(std::get<Reals>(table.fields[0]) == expected);
      try {
        (void)read(content + "\n7,x,two,apple,1\n");
        CHECK(false);
      } catch (const troupe::DataError& error) {  // lines were counted, those in values too
        const auto lines = std::count(content.begin(), content.end(), '\n') + 2;
        CHECK(std::string(error.what()).find("line " + std::to_string(lines) + " has width") !=
              std::string::npos);
      }
    }
  }

  TEST_CASE("csv: what is wrong is named with its line") {
    const std::string head = "height,width,kind,id\n1,2,apple,3\n";
    struct Wrong {
      std::string content;
      const char* complaint;
    };
    const std::vector<Wrong> all = {
        {"", "line 1 is the end: the file is empty"},
        {"\n\n", "the file is empty"},
        {"height,width,kind,id\n", "line 2 is the end: there are names and no rows"},
        {"height,width,kind\n1,2,apple\n",
         "line 1 names no column \"id\"; there is: \"height\", \"width\", \"kind\""},
        {"height,width,kind,id,width\n", "line 1 names two columns \"width\""},
        {head + "1,2,apple\n", "line 3 has 3 values, but the first line names 4 columns"},
        {head + "1,2,apple,3,\n", "line 3 has 5 values"},
        {head + "7\n", "line 3 has 1 value, but"},
        {head + "1,,apple,3\n", "line 3 has width \"\", expected a finite number"},
        {head + "1,nan,apple,3\n", "width \"nan\""},
        {head + "1,1e39,apple,3\n", "width \"1e39\""},
        {head + "1,0x1p3,apple,3\n", "width \"0x1p3\""},
        {head + "1,2 3,apple,3\n", "width \"2 3\""},
        {head + "1,2,apple,3.0\n", "id \"3.0\", expected a whole number"},
        {head + "1,2,apple,9223372036854775808\n", "expected a whole number of 64 bits"},
        {head + "1,2,\"a\n\n,b\",3\n1,2,plum,3\n", "line 3 has kind \"a??,b\""},
        {head + "\n1,2,Apple,3\n",
         "line 4 has kind \"Apple\", expected one of \"apple\", \"pear\""},
        {head + "1,2,app\"le,3\n", "line 3 has a quotation mark within \"app\""},
        {head + "1,2,\"apple\" ,3\n", "line 3 has more after the quotation marks"},
        {head + "1,2,\"apple,3\n\n\n", "line 3 has a quotation mark that is not closed"},
        {head + "1,2,apple,\r3\n", "line 3 has id \"\""},
        {head + "\r\n1,2,apple,3\r1,2,apple,x\n", "line 5 has id \"x\""},
        {head + "1,++2,apple,3\n", "width \"++2\""},
        {head + "1,+-2,apple,3\n", "width \"+-2\""},
        {head + "1,2,apple,+\n", "id \"+\""},
        {"\xFF\xFEh\0,\0", "is in UTF-16. Fix: save it in UTF-8"},
        {"\xFE\xFF", "is in UTF-16"},
        {head + "1,2,apple," + std::string(101, '1') + "\n", "1...\""},
        {head + std::string(troupe::kCsvLongestLine + 1, 'x'), "line 3 is longer than 1048576"},
        {head + std::string(troupe::kCsvLongestLine + 1, ','), "line 3 is longer than 1048576"},
        {head + "\"" + std::string(troupe::kCsvLongestLine + 1, '\n'), "line 3 is longer than"}};
    for (const Wrong& wrong : all) {
      CAPTURE(wrong.complaint);
      CHECK_THROWS_WITH_AS((void)read(wrong.content), doctest::Contains(wrong.complaint),
                           troupe::DataError);
    }
  }

  TEST_CASE("csv: a compressed file that unpacks to too much, or ends early, is refused") {
    const std::string head = "height,width,kind,id\n";
    std::string rows;
    for (int i = 0; i < (1 << 17); ++i) rows += "1,2,apple,3\n";
    std::string bomb;
    for (int i = 0; i < 50; ++i) bomb += rows;  // 75 MiB
    const std::string packed = gzip(head + bomb);
    REQUIRE(packed.size() * 100 < bomb.size());
    CHECK_THROWS_WITH_AS((void)read(packed), doctest::Contains("unpacks to more than 67108864"),
                         troupe::DataError);
    const std::string sound = gzip(head + rows);
    CHECK(read(sound).rows == 1 << 17);
    CHECK_THROWS_WITH_AS((void)read(sound.substr(0, sound.size() - 20)),
                         doctest::Contains("ends early"), troupe::DataError);
    CHECK_THROWS_WITH_AS((void)troupe::read_csv("/no/such.csv", kFruit),
                         doctest::Contains("cannot be opened"), troupe::DataError);
  }

  TEST_CASE("csv: fields that no tensor can be are refused") {
    const std::vector<std::vector<std::vector<CsvColumn>>> wrong = {
        {{}}, {{csv_real("a"), csv_integer("b")}}, {{csv_category("a", {})}}};
    for (const auto& fields : wrong) {
      CHECK_THROWS_AS((void)read("a,b\n1,2\n", fields), troupe::ConfigError);
    }
  }
}

}  // namespace csv_test
