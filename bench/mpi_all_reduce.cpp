// One rank of an MPI library's all-reduce, to compare with: mpirun starts it for
// bench/all_reduce.py, and it takes the requests of bench_all_reduce. Between requests it sleeps in
// a read, since a rank that waits inside of MPI keeps its core busy.
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/control.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace {

using Clock = std::chrono::steady_clock;

void sum(std::vector<float>& values, std::size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

void check(std::vector<float>& values, std::size_t count, int rank, int ranks) {
  const auto value = [](std::size_t index, int of) {
    return static_cast<float>((index * 31 + static_cast<std::size_t>(of) * 17) % 1009) / 1013.0F;
  };
  for (std::size_t i = 0; i < count; ++i) values[i] = value(i, rank);
  sum(values, count);
  for (std::size_t i = 0; i < count; ++i) {
    double expected = 0;
    for (int of = 0; of < ranks; ++of) expected += value(i, of);
    if (std::fabs(values[i] - expected) <= 1e-6 * ranks) continue;
    throw troupe::InternalError(
        troupe::text("MPI all-reduce: value ", i, " is ", values[i], ", not ", expected, "."),
        "measure nothing before this is right.");
  }
  std::fill(values.begin(), values.end(), 0.0F);
}

double time(std::vector<float>& values, std::size_t count, std::int64_t repetitions) {
  MPI_Barrier(MPI_COMM_WORLD);
  for (std::int64_t i = 0; i < 1 + repetitions / 10; ++i) sum(values, count);
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < repetitions; ++i) sum(values, count);
  return std::chrono::duration<double>(Clock::now() - start).count() /
         static_cast<double>(repetitions);
}

void serve(int rank, int ranks) {
  troupe::bench::Control control;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(library, &length);
  const std::string version(library, static_cast<std::size_t>(length));
  control.answer({{"rank", rank}, {"library", version.substr(0, version.find(','))}});
  std::vector<float> values;
  for (auto words = control.next(); words.front() != "end"; words = control.next()) {
    const std::size_t count = std::stoull(words.at(2)) / sizeof(float);
    values.resize(std::max(values.size(), count));
    if (words.front() == "check") {
      check(values, count, rank, ranks);
      control.answer({{"digest", ""}});
    } else {
      control.answer({{"seconds", time(values, count, std::stoll(words.at(3)))}});
    }
  }
  control.answer(troupe::bench::farewell());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = troupe::run_main([] {
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    serve(rank, ranks);
  });
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);  // others may wait inside of MPI
  MPI_Finalize();
  return code;
}
