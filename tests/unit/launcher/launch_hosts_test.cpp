#include "launcher/launch_hosts.h"

#include "core/error.h"
#include "launcher/launch_agent.h"
#include "launcher/launch_host_list.h"
#include "launcher/launch_ssh.h"
#include "tests/support/run_process.h"
#include "tests/support/test_prelude.h"

namespace launch_hosts_test {

namespace {

using troupe::ConfigError;
using troupe::HostSlots;

std::string shown(const std::vector<HostSlots>& hosts) {
  std::string all;
  for (const HostSlots& host : hosts) all += host.name + "=" + std::to_string(host.workers) + " ";
  return all;
}

std::string refusal(const std::string& contents) {
  try {
    (void)troupe::parse_host_file(contents, "hosts");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("hosts: names, numbers and their sums") {
    CHECK(shown(troupe::parse_host_list("a:2,b,me@c:3,[fd00::1]:4,a")) ==
          "a=3 b=1 me@c=3 fd00::1=4 ");
    CHECK(troupe::address_of({"me@c", 1}) == "c");
    CHECK(troupe::address_of({"c", 1}) == "c");
    for (const char* wrong :
         {"", "a,,b", "a:0", "a:x", "a:1025", "a:2:3", "a b", "-oProxyCommand=x", "[fd00::1",
          "[fd00::1]2", "a;b", "a$b", "me@", "a\nb"}) {
      CAPTURE(wrong);
      CHECK_THROWS_AS((void)troupe::parse_host_list(wrong), ConfigError);
    }
  }

  TEST_CASE("hosts: a file of Open MPI or DeepSpeed, errors by line") {
    CHECK(shown(troupe::parse_host_file("# all\n\nworker-1 slots=4\n  worker-2   slots=2 "
                                        "max_slots=8 # half\nworker-3\r\n",
                                        "hosts")) == "worker-1=4 worker-2=2 worker-3=1 ");
    CHECK(refusal("a slots=2\nb slots=none\n").find("hosts, line 2: ") == 0);
    CHECK(refusal("a\n\n-F slots=2\n").find("hosts, line 3 ") == 0);
    CHECK(refusal("a slots 2\n").find("hosts, line 1: \"slots\"") == 0);
    CHECK(refusal("# none\n").find("hosts names no host") == 0);
  }

  TEST_CASE("ssh: every word reaches the program as it is") {
    const std::vector<std::string> words = {
        "it's", "a b", "$HOME `id` $(id)", "\"q\"", "two\nlines", "back\\", "", "!*?[a]~;&|<>#"};
    std::string script = "printf '%s|'";
    for (const std::string& word : words) script += " " + troupe::quote_for_shell(word);
    std::string expected;
    for (const std::string& word : words) expected += word + "|";
    CHECK(troupe::testing::run_process({"/bin/sh", "-c", script}).out == expected);

    // As the remote user's shell gets it: one argument, which names a shell of its own.
    std::vector<std::string> arguments = {"%s|"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const std::string command = troupe::remote_command("/", "printf", arguments);
    CHECK(troupe::testing::run_process({"/bin/sh", "-c", command}).out == expected);
    CHECK(troupe::testing::run_process(
              {"/bin/sh", "-c", troupe::remote_command("/no/such", "true", {})})
              .exit_code == troupe::kNoDirectory);
    CHECK(
        troupe::testing::run_process({"/bin/sh", "-c", troupe::remote_command("/", "/no/such", {})})
            .exit_code == troupe::kNoProgram);
  }

  TEST_CASE("ssh: the user's options come before ours") {
    const auto words = troupe::split_words("ssh  -p 2222 -i 'a b'\\ c \"d'e\"", "--ssh");
    CHECK(words == std::vector<std::string>{"ssh", "-p", "2222", "-i", "a b c", "d'e"});
    CHECK_THROWS_AS((void)troupe::split_words("ssh 'x", "--ssh"), ConfigError);
    CHECK_THROWS_AS((void)troupe::split_words("  ", "--ssh"), ConfigError);
    const auto command = troupe::ssh_command(words, "b", "true");
    CHECK(command[5] == "d'e");
    CHECK(command[6] == "-T");
    CHECK(command[command.size() - 2] == "b");
    CHECK(command.back() == "true");
  }

  TEST_CASE("agents: their arguments, their variables, and what they are told") {
    troupe::LaunchOptions options;
    options.remote.hosts = {{"a", 2}, {"b", 3}};
    options.max_restarts = 4;
    options.min_workers = 5;
    options.regroup_limit = std::chrono::seconds(7);
    options.command = {"train", "--x", "a b"};
    const auto words = troupe::agent_arguments(options, 1);
    const auto again = troupe::parse_launch_options({words.begin() + 1, words.end()});
    CHECK(again.node.is_agent);
    CHECK(again.node.nodes == 2);
    CHECK(again.node.node == 1);
    CHECK(again.workers == 3);
    CHECK(again.max_restarts == 4);
    CHECK(again.min_workers == 5);
    CHECK(again.regroup_limit == std::chrono::seconds(7));
    CHECK(again.command == options.command);

    const troupe::Environment own = {
        {"TROUPE_BATCH_SIZE", "8"},      {"TROUPE_RANK", "1"}, {"TROUPE_SECRET_FILE", "f"},
        {"TROUPE_SECRET_FD", "7"},       {"HOME", "/h"},       {"DATA", "d"},
        {"OPENBLAS_CORETYPE", "Haswell"}};
    CHECK(troupe::exported(own, {"DATA"}) == troupe::Environment{{"TROUPE_BATCH_SIZE", "8"},
                                                                 {"DATA", "d"},
                                                                 {"OPENBLAS_CORETYPE", "Haswell"}});
    CHECK_THROWS_AS((void)troupe::exported(own, {"NONE"}), ConfigError);

    troupe::AgentStart start;
    start.secret = std::make_shared<troupe::Secret>(std::vector<std::byte>(32, std::byte{0xa7}));
    start.rendezvous = {"10.0.0.1", 41999};
    start.environment = {{"A", "two\nlines"}};
    const std::string line = encode(start);
    CHECK(line.find('\n') == line.size() - 1);
    const auto read = troupe::decode_agent_start(line);
    REQUIRE(read);
    CHECK(read->secret->bytes()[31] == std::byte{0xa7});
    CHECK(read->rendezvous.port == 41999);
    CHECK(read->environment == start.environment);
    for (const char* wrong : {"", "{}", "[]", "{\"secret\":\"ab\",\"host\":\"\",\"port\":0}",
                              "{\"secret\":1,\"host\":\"\",\"port\":0,\"environment\":{}}"})
      CHECK_FALSE(troupe::decode_agent_start(wrong));
    CHECK(troupe::decode_agent_order(encode(troupe::AgentOrder{15}))->signal == 15);
    CHECK(troupe::decode_agent_order(encode(troupe::AgentOrder{}))->signal == 0);
    CHECK_FALSE(troupe::decode_agent_order("{\"signal\":9}"));
    const auto greeting = troupe::decode_agent_greeting("troupe-agent 1.2 10.0.0.1:5");
    REQUIRE(greeting);
    CHECK(greeting->version == "1.2");
    CHECK(greeting->rendezvous == "10.0.0.1:5");
    CHECK_FALSE(troupe::decode_agent_greeting("troupe: 2 workers"));
  }

  TEST_CASE("troupe run: what several machines and restarts exclude, and what they need") {
    const auto why = [](std::vector<std::string> words,
                        const troupe::Environment& environment = {}) {
      words.insert(words.end(), {"--", "train"});
      try {
        (void)troupe::parse_launch_options(words, environment);
      } catch (const ConfigError& error) {
        return std::string(error.what());
      }
      return std::string("accepted");
    };
    const auto has = [](const std::string& whole, const char* part) {
      return whole.find(part) != std::string::npos;
    };
    CHECK(has(why({"--workers", "2", "--max-restarts", "3"}), "add --model-dir DIR"));
    CHECK(why({"--workers", "2", "--max-restarts", "3"}, {{"TROUPE_MODEL_DIR", "d"}}) ==
          "accepted");
    CHECK_NOTHROW((void)troupe::parse_launch_options(
        {"--workers", "2", "--max-restarts", "3", "--", "train", "--model_dir=d"}));
    CHECK(has(why({"--workers", "2", "--ps", "1", "--max-restarts", "3"}), "--restart-workers"));
    CHECK(has(why({"--workers", "2", "--nodes", "2", "--node", "2"}), "from 0 on"));
    CHECK(has(why({"--workers", "2", "--nodes", "2"}), "--rendezvous"));
    CHECK(has(why({"--workers", "2", "--nodes", "2", "--rendezvous", "a:1"}), "troupe secret"));
    CHECK(why({"--workers", "2", "--nodes", "2", "--rendezvous", "a:1"},
              {{"TROUPE_SECRET_FILE", "f"}}) == "accepted");
    CHECK(has(why({"--workers", "2", "--nodes", "2", "--ps", "1"}), "cluster file"));
    CHECK(has(why({"--hosts", "a:2", "--ps", "1"}), "cluster file"));
    CHECK(has(why({"--hosts", "a:2", "--workers", "1"}), "--workers and --hosts"));
    CHECK(has(why({"--hosts", "a:2", "--node", "1"}), "each host is a node"));
    CHECK(has(why({"--hosts", "a:2", "--hostfile", "f"}), "keep one of the two"));
    CHECK(has(why({"--workers", "2", "--ssh", "ssh -p 1"}), "without --hosts"));
    CHECK(why({"--hosts", "a:2,b:2"}) == "accepted");
  }

  TEST_CASE("troupe run: elastic groups are without servers, and large enough") {
    const auto why = [](std::vector<std::string> words) {
      words.insert(words.end(), {"--", "train", "--model-dir", "d"});
      try {
        const troupe::LaunchOptions options = troupe::parse_launch_options(words);
        return std::to_string(options.min_workers) + " " +
               std::to_string(options.regroup_limit.count());
      } catch (const ConfigError& error) {
        return std::string(error.what());
      }
    };
    const auto has = [](const std::string& whole, const char* part) {
      return whole.find(part) != std::string::npos;
    };
    CHECK(why({"--workers", "4"}) == "0 60000");
    CHECK(why({"--workers", "4", "--min-workers", "4", "--evaluator"}) == "4 60000");
    CHECK(why({"--workers", "4", "--min-workers", "1", "--regroup-secs", "7", "--max-restarts",
               "2"}) == "1 7000");
    CHECK(has(why({"--workers", "4", "--min-workers", "5"}), "at least as many"));
    CHECK(has(why({"--workers", "4", "--min-workers", "0"}), "--min-workers"));
    CHECK(has(why({"--workers", "4", "--regroup-secs", "7"}), "without --min-workers"));
    CHECK(has(why({"--workers", "4", "--min-workers", "2", "--ps", "1"}), "--restart-workers"));
    CHECK(why({"--hosts", "a:2,b:2", "--min-workers", "4"}) == "4 60000");
    CHECK(has(why({"--hosts", "a:2,b:2", "--min-workers", "5"}), "there are 4 workers"));
    // How many the others have only node 0 learns.
    CHECK(why({"--workers", "2", "--nodes", "2", "--rendezvous", "a:1", "--secret-file", "f",
               "--min-workers", "3"}) == "3 60000");
  }
}

}  // namespace launch_hosts_test
