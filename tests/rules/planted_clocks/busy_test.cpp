// What clocks.py has to find; compiled by nobody.
TEST_CASE("join: a worker joins") {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(run("sleep 0.3; echo saved"));
  CHECK(run("until [ -e file ]; do sleep 0.01; done; sleep 1000"));
  CHECK(Steady::now() - begin < std::chrono::seconds(2));
}
TEST_CASE("join: a worker joins within 2 s") {
  CHECK(Steady::now() - begin < std::chrono::seconds(2));
  CHECK(run_process({"true"}, {}, std::chrono::seconds(10)).exit_code == 0);
}
