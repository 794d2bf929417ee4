#include "troupe/cli/cluster/machine_list.h"

#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"

namespace machine_list_test {

namespace {

std::vector<std::string> expanded(const std::string& list) {
  return troupe::expand_machine_list(list, "SLURM_JOB_NODELIST");
}

using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("machine_list: names, choices, ranges, zeros, several brackets") {
    CHECK(expanded("gnode10") == Names{"gnode10"});
    CHECK(expanded("a,b-1,c") == Names{"a", "b-1", "c"});
    CHECK(expanded("gnode[10,20,25-27]") ==
          Names{"gnode10", "gnode20", "gnode25", "gnode26", "gnode27"});
    CHECK(expanded("n[08-10]") == Names{"n08", "n09", "n10"});
    CHECK(expanded("n[098-101]") == Names{"n098", "n099", "n100", "n101"});
    CHECK(expanded("login,n[1-2],x") == Names{"login", "n1", "n2", "x"});
    CHECK(expanded("r[1-2]n[3,4]") == Names{"r1n3", "r1n4", "r2n3", "r2n4"});
    CHECK(expanded("n[1-2]-ib.cluster") == Names{"n1-ib.cluster", "n2-ib.cluster"});
    CHECK(expanded("n[7-7]") == Names{"n7"});
    CHECK(expanded("n[0-65535]").size() == 65'536);
  }

  TEST_CASE("machine_list: what is not one is refused by the variable's name") {
    for (const char* list : {"",
                             "a,",
                             ",a",
                             "a,,b",
                             "n[",
                             "n]",
                             "n[1",
                             "n[[1]]",
                             "n[]",
                             "n[1,]",
                             "n[a]",
                             "n[1-]",
                             "n[-1]",
                             "n[3-1]",
                             "n[1-2-3]",
                             "n[1 -2]",
                             "n[0-65536]",
                             "n[1-4294967295]",
                             "n[1-999]m[1-999]",
                             "n[1-99999999999999999999]"}) {
      CAPTURE(list);
      const std::string message = troupe::testing::message_of([&] { (void)expanded(list); });
      CHECK(troupe::testing::contains(message, "SLURM_JOB_NODELIST is"));
    }
  }

  TEST_CASE("machine_list: a short list takes neither much memory nor much of the stack") {
    std::string brackets;
    for (int i = 0; i < 40'000; ++i) brackets += "[1]";
    for (const std::string& list : {brackets, "n[0-65535]" + std::string(254, 'x')}) {
      const std::string message = troupe::testing::message_of([&] { (void)expanded(list); });
      CHECK(troupe::testing::contains(message, "SLURM_JOB_NODELIST is"));
    }
    CHECK(expanded("n[1][2][3][4][5][6][7][8],n[1]") == Names{"n12345678", "n1"});
    CHECK(expanded(std::string(252, 'x') + "[7]").front().size() == 253);
  }

  TEST_CASE("machine_list: tasks on each machine, and none where the list does not say") {
    using troupe::tasks_on_machine;
    CHECK(tasks_on_machine("4", 0) == 4);
    for (std::int64_t machine = 0; machine < 3; ++machine) {
      CHECK(tasks_on_machine("2(x3),1", machine) == 2);
    }
    CHECK(tasks_on_machine("2(x3),1", 3) == 1);
    CHECK(tasks_on_machine("1(x9223372036854775807)", 5) == 1);
    for (const char* none : {"2(x3),1", "", ",", "x", "2(x3", "2(x)", "(x5)", "2(x-1)", "0(x9)",
                             "99999999999999999999", "2(x99999999999999999999)"}) {
      CAPTURE(none);
      CHECK_FALSE(tasks_on_machine(none, 4));
    }
    CHECK_FALSE(tasks_on_machine("2", -1));
  }
}

}  // namespace machine_list_test
