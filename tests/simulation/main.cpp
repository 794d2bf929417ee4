// simulate: tells stories, one per seed, and says which of them went wrong.
//
//   simulate [--seeds N] [--first S] [--seconds N] [--jobs N]   S, S + 1, ...
//   simulate --seed S                                           one of them, aloud
//
// Each seed has a process of its own, so none depends on those before it. One in a hundred, and
// each that went wrong, is told twice, and both must be the same to the last event; the second time
// memory lies elsewhere.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "tests/simulation/elastic_plan.h"
#include "tests/simulation/elastic_story.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/served_plan.h"
#include "tests/simulation/served_story.h"
#include "tests/simulation/story.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

constexpr std::uint64_t kTwiceEvery = 100;
constexpr unsigned kRealSeconds = 60;  // a story that takes longer does not end
constexpr int kUsage = 2;
// What the table counts: the troubles of a plan, and elastic groups and jobs with parameter
// servers, whatever befalls them.
constexpr int kElastic = kTroubles;
constexpr int kServed = kTroubles + 1;
constexpr int kKinds = kTroubles + 2;

/// What a process tells of its story, in memory that it shares with who started it.
struct Report {
  bool is_told;
  bool has_struck;
  int kind;
  int rounds;
  int joined;
  bool all_succeeded;
  std::uint64_t digest;
  Time lasted;
  std::array<char, 2048> violation;
};

struct Options {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1'000;
  double seconds = 0;  // 0: as long as it takes
  bool is_one = false;
  bool must_fail = false;  // a planted bug: the first violation is success
  long jobs = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
};

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr,
               "simulate: %s Fix: simulate [--seeds N] [--first S] [--seconds N] "
               "[--jobs N] [--planted] or simulate --seed S.\n",
               what.c_str());
  std::exit(kUsage);
}

std::uint64_t number_of(const std::string& flag, const char* value) {
  char* end = nullptr;
  errno = 0;
  const std::uint64_t number = value == nullptr ? 0 : std::strtoull(value, &end, 10);
  if (value == nullptr || *value == '\0' || *value == '-' || *end != '\0' || errno != 0) {
    refuse(flag + " needs a whole number.");
  }
  return number;
}

Options options_of(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string flag = words[i];
    if (flag == "--planted") {
      options.must_fail = true;
      continue;
    }
    const std::uint64_t number = number_of(flag, i + 1 < count ? words[i + 1] : nullptr);
    ++i;
    if (flag == "--seeds") {
      options.seeds = number;
    } else if (flag == "--first") {
      options.first = number;
    } else if (flag == "--seconds") {
      options.seconds = static_cast<double>(number);
      options.seeds = std::uint64_t{1} << 62U;
    } else if (flag == "--jobs") {
      options.jobs = std::max(1L, static_cast<long>(number));
    } else if (flag == "--seed") {
      options.first = number;
      options.seeds = 1;
      options.is_one = true;
    } else {
      refuse("there is no " + flag + ".");
    }
  }
  return options;
}

std::string describe(std::uint64_t seed) {
  if (is_served(seed)) return draw_served_plan(seed).describe();
  return is_elastic(seed) ? draw_elastic_plan(seed).describe() : draw_plan(seed).describe();
}

void tell_into(Report& report, std::uint64_t seed, bool again, bool aloud) {
  ::alarm(kRealSeconds);
  configure_log(aloud ? LogLevel::debug : LogLevel::error, "");
  const int nowhere = aloud ? -1 : ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
  if (again) {
    // What follows lies elsewhere: an order that comes from addresses would be another one.
    static std::array<std::vector<char>, 200> elsewhere;
    for (std::size_t i = 0; i < elsewhere.size(); ++i) elsewhere[i].resize(40 + i * 37);
    for (std::size_t i = 0; i < elsewhere.size(); i += 2) elsewhere[i] = {};
  }
  const Plan plan = draw_plan(seed);
  const ElasticPlan elastic_plan = draw_elastic_plan(seed);
  const ServedPlan served_plan = draw_served_plan(seed);
  const Verdict verdict = is_served(seed)    ? tell(served_plan, aloud)
                          : is_elastic(seed) ? tell(elastic_plan, aloud)
                                             : tell(plan, aloud);
  report.kind = is_served(seed)    ? kServed
                : is_elastic(seed) ? kElastic
                                   : static_cast<int>(plan.trouble);
  report.rounds = verdict.rounds;
  report.joined = verdict.joined;
  report.has_struck = verdict.has_struck;
  report.digest = verdict.digest;
  report.all_succeeded = verdict.all_succeeded;
  report.lasted = verdict.lasted;
  std::snprintf(report.violation.data(), report.violation.size(), "%s", verdict.violation.c_str());
  report.is_told = true;
}

/// One process at work on a seed.
struct Teller {
  pid_t process = 0;  // 0: none
  std::uint64_t seed = 0;
  bool again = false;
  std::uint64_t digest = 0;  // of the first time
  Report* report = nullptr;
};

class Simulation {
 public:
  explicit Simulation(const Options& options) : options_(options) {
    tellers_.resize(static_cast<std::size_t>(options.jobs));
    void* const memory = ::mmap(nullptr, sizeof(Report) * tellers_.size(), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    for (std::size_t i = 0; i < tellers_.size(); ++i) {
      tellers_[i].report = static_cast<Report*>(memory) + i;
    }
  }

  int run() {
    for (Teller& teller : tellers_) begin_next(teller);
    while (is_at_work()) {
      int status = 0;
      const pid_t ended = ::waitpid(-1, &status, 0);
      if (ended < 0 && errno == EINTR) continue;
      const auto teller = std::find_if(tellers_.begin(), tellers_.end(),
                                       [ended](const Teller& t) { return t.process == ended; });
      if (teller == tellers_.end()) break;
      teller->process = 0;
      take(*teller, status);
    }
    return summarize();
  }

 private:
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  [[nodiscard]] bool is_at_work() const {
    return std::any_of(tellers_.begin(), tellers_.end(),
                       [](const Teller& teller) { return teller.process != 0; });
  }

  void begin_next(Teller& teller) {
    const bool enough = begun_ == options_.seeds ||
                        (options_.seconds > 0 && elapsed() >= options_.seconds) ||
                        (options_.must_fail && violations_ > 0) || violations_ >= kMostViolations;
    if (enough) return;
    teller.seed = options_.first + begun_++;
    teller.again = false;
    begin(teller);
  }

  void begin(Teller& teller) {
    *teller.report = {};
    std::fflush(nullptr);
    teller.process = ::fork();
    if (teller.process < 0) throw std::bad_alloc();
    if (teller.process > 0) return;
    tell_into(*teller.report, teller.seed, teller.again, options_.is_one && !teller.again);
    std::fflush(nullptr);
    ::_exit(0);
  }

  void take(Teller& teller, int status) {
    const Report& report = *teller.report;
    if (!report.is_told) {
      const bool is_late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
      note_violation(teller.seed, is_late ? text("it does not end in ", kRealSeconds, " s")
                                  : WIFSIGNALED(status) ? text("signal ", WTERMSIG(status), ", ",
                                                               ::strsignal(WTERMSIG(status)))
                                                        : text("exit code ", WEXITSTATUS(status)));
    } else if (report.violation[0] != '\0' && !teller.again) {
      note_violation(teller.seed, report.violation.data());
    } else if (teller.again && report.digest != teller.digest) {
      ++unfaithful_;
      note_violation(teller.seed, "told again, it is another story");
    }
    if (!teller.again) {
      ++told_;
      Count& count = counts_[static_cast<std::size_t>(report.kind)];
      ++count.told;
      count.struck += report.has_struck ? 1 : 0;
      count.succeeded += report.all_succeeded ? 1 : 0;
      rounds_ += report.rounds;
      joined_ += report.joined;
      lasted_ += static_cast<double>(report.lasted) / kSecond;
    } else {
      ++told_twice_;
    }
    const bool tell_again =
        !teller.again && report.is_told &&
        (options_.is_one || teller.seed % kTwiceEvery == 0 || report.violation[0] != '\0');
    if (!tell_again) return begin_next(teller);
    teller.again = true;
    teller.digest = report.digest;
    begin(teller);
  }

  void note_violation(std::uint64_t seed, const std::string& what) {
    ++violations_;
    std::printf("seed %llu: %s\n    %s\n    replay: ./dev simulate --seed %llu\n",
                static_cast<unsigned long long>(seed), what.c_str(), describe(seed).c_str(),
                static_cast<unsigned long long>(seed));
    std::fflush(stdout);
  }

  int summarize() const {
    if (options_.is_one)
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(options_.first),
                  describe(options_.first).c_str());
    const bool is_table = told_ > 1 && !options_.must_fail;
    if (is_table) std::printf("%-15s %7s %7s %7s\n", "trouble", "seeds", "struck", "success");
    for (int i = 0; is_table && i < kKinds; ++i) {
      const Count& count = counts_[static_cast<std::size_t>(i)];
      const char* const name = i == kElastic  ? "elastic"
                               : i == kServed ? "served"
                                              : name_of(static_cast<Trouble>(i));
      std::printf("%-15s %7d %7d %7d\n", name, count.told, count.struck, count.succeeded);
    }
    if (is_table) std::printf("elastic groups: %d rounds, %d joined\n", rounds_, joined_);
    std::printf(
        "%llu seeds, %llu violations; %llu told twice; %.0f s of their time in %.1f s, "
        "%.0f seeds/s\n",
        static_cast<unsigned long long>(told_), static_cast<unsigned long long>(violations_),
        static_cast<unsigned long long>(told_twice_), lasted_, elapsed(),
        static_cast<double>(told_) / elapsed());
    const bool as_wanted = options_.must_fail == (violations_ > 0) && unfaithful_ == 0;
    if (options_.must_fail && !as_wanted) std::printf("the planted bug was not found\n");
    return as_wanted ? EXIT_SUCCESS : EXIT_FAILURE;
  }

  static constexpr std::uint64_t kMostViolations = 60;
  const Options options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<Teller> tellers_;
  std::uint64_t begun_ = 0;
  std::uint64_t told_ = 0;
  std::uint64_t told_twice_ = 0;
  struct Count {
    int told = 0;
    int struck = 0;
    int succeeded = 0;  // groups that ended as if nothing had been
  };
  std::array<Count, kKinds> counts_{};
  int rounds_ = 0;
  int joined_ = 0;
  std::uint64_t violations_ = 0;
  std::uint64_t unfaithful_ = 0;  // that were another story when they were told again
  double lasted_ = 0;             // of the worlds' own time
};

}  // namespace
}  // namespace troupe::simulation

int main(int count, char** words) {
  return troupe::simulation::Simulation(troupe::simulation::options_of(count, words)).run();
}
