#include "troupe/data/formats/load_files.h"

#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "tests/unit/data/npy_files.h"
#include "troupe/core/error.h"

namespace load_files_test {

using troupe::testing::npy_of;
using troupe::testing::TempDir;
using troupe::testing::write_file;
using troupe::testing::zip;

TEST_SUITE("data") {
  TEST_CASE("load_csv: a tensor per field, of one dimension for one column") {
    const TempDir dir;
    write_file(dir.path() / "t.csv", "x,y,kind,n\n1,2,b,7\n3,4.5,a,8\n5,6,b,9\n");
    const auto data = troupe::load_csv(
        dir.path() / "t.csv", {{troupe::csv_real("y"), troupe::csv_real("x")},
                               {troupe::csv_category("kind", {"a", "b"})},
                               {troupe::csv_category("kind", {"b", "a"}), troupe::csv_integer("n")},
                               {troupe::csv_real("x")}});
    REQUIRE(data->size() == 3);
    const auto batch = data->get(torch::tensor({2, 1}, torch::kInt64));
    REQUIRE(batch.size() == 4);
    CHECK(batch[0].equal(torch::tensor({{6.0F, 5.0F}, {4.5F, 3.0F}})));
    CHECK(batch[1].equal(torch::tensor({1, 0}, torch::kInt64)));
    CHECK(batch[2].equal(torch::tensor({{0, 9}, {1, 8}}, torch::kInt64)));
    CHECK(batch[3].equal(torch::tensor({5.0F, 3.0F})));
    CHECK_THROWS_WITH_AS((void)troupe::load_csv(dir.path() / "t.csv", {{troupe::csv_integer("y")}}),
                         doctest::Contains("t.csv' line 3 has y \"4.5\""), troupe::DataError);
  }

  TEST_CASE("load_npy, load_npz: tensors of the same shape and type, which own their memory") {
    const TempDir dir;
    const std::string floats = npy_of("<f4", "(2, 1)", std::string("\0\0\x80?\0\0\0\xc0", 8));
    write_file(dir.path() / "x.npy", floats);
    const auto x = troupe::load_npy(dir.path() / "x.npy");
    CHECK(x.equal(torch::tensor({{1.0F}, {-2.0F}})));
    write_file(dir.path() / "all.npz",
               zip({{"x.npy", floats},
                    {"b.npy", npy_of("|b1", "(2,)", std::string("\0\1", 2))},
                    {"none.npy", npy_of("<i8", "(0, 3)", "")}}));
    const auto arrays = troupe::load_npz(dir.path() / "all.npz");
    CHECK(arrays.at("x").equal(x));
    CHECK(arrays.at("b").equal(torch::tensor({false, true})));
    CHECK((arrays.at("none").sizes() == at::IntArrayRef({0, 3})));
    CHECK((arrays.at("none").scalar_type() == torch::kInt64));
    const troupe::TensorDataset data({arrays.at("x"), arrays.at("b")});
    CHECK(data.get(torch::tensor({1}, torch::kInt64))[0].item<float>() == -2);
  }
}

}  // namespace load_files_test
