// MPI by way of the system's library: for clusters whose network it knows best.
// Compiled where the library was found (cmake/engines.cmake).
#include <mpi.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/strategies/engines/engine.h"
#include "troupe/strategies/engines/engine_wait.h"

namespace troupe::detail {
namespace {

constexpr const char* kName = "mpi";
// MPI counts in int.
constexpr std::int64_t kMaxCount = std::int64_t{1} << 30;

std::string message_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> message{};
  int length = 0;
  MPI_Error_string(code, message.data(), &length);
  return {message.data(), static_cast<std::size_t>(length)};
}

/// Once per process, unless the program has done it itself. Returns whether finalising is ours,
/// too.
bool initialise() {
  int done = 0;
  MPI_Finalized(&done);
  if (done != 0) {
    throw ConfigError("MPI has been finalised in this process, and cannot start again.",
                      "use one group per process with --communication mpi.");
  }
  MPI_Initialized(&done);
  if (done != 0) return false;
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) {
    throw ConfigError("this MPI library does not allow programs with several threads.",
                      "use another one, or --communication native.");
  }
  return true;
}

class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(WorkerGroup& group) : group_(group), finalises_(initialise()) {
    // Without this MPI ends the process at the first error; ours are exceptions with a reason.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != group.rank() || size != group.world_size()) {
      throw ConfigError(
          text("MPI sees rank ", rank, " of ", size, ", the group has ", group.task(group.rank()),
               " as rank ", group.rank(), " of ", group.world_size(), "."),
          "start all workers by one mpirun (mpirun -np N PROGRAM), without --cluster "
          "or --task, or use --communication native.");
    }
  }

  void all_reduce(const at::Tensor& flat, const Summand& summand) override {
    if (group_.world_size() == 1) return;
    const at::Tensor host = flat.to(torch::kCPU);
    const MPI_Datatype type = host.scalar_type() == torch::kFloat64 ? MPI_DOUBLE : MPI_FLOAT;
    auto* const bytes = static_cast<char*>(host.data_ptr());
    const EngineWait wait(group_, kName, summand.what, host.nbytes());
    for (std::int64_t at = 0; at < host.numel(); at += kMaxCount) {
      const auto count = static_cast<int>(std::min(kMaxCount, host.numel() - at));
      MPI_Request request = MPI_REQUEST_NULL;
      const int code =
          MPI_Iallreduce(MPI_IN_PLACE, bytes + at * static_cast<std::int64_t>(host.itemsize()),
                         count, type, MPI_SUM, MPI_COMM_WORLD, &request);
      if (code != MPI_SUCCESS) wait.failed(message_of(code));
      // MPI writes into these values until the request is done, and there is no way to call it off.
      in_use_ = host;
      finish(request, wait);
      in_use_.reset();
    }
    if (!host.is_same(flat)) flat.copy_(host);
  }

  void close() override {
    // All are here: finalising, which has no deadline of its own, waits for nobody.
    const EngineWait wait(group_, kName, "the end", 0);
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    if (code != MPI_SUCCESS) wait.failed(message_of(code));
    finish(request, wait);
    if (finalises_) MPI_Finalize();
  }

  ~MpiEngine() override {
    if (in_use_.defined()) (void)in_use_.unsafeReleaseTensorImpl();
  }

 private:
  static void finish(MPI_Request request, const EngineWait& wait) {
    int code = MPI_SUCCESS;
    wait.until(
        [&] {
          int done = 0;
          code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
          return done != 0 || code != MPI_SUCCESS;
        },
        Pause::brief);
    if (code != MPI_SUCCESS) wait.failed(message_of(code));
  }

  WorkerGroup& group_;
  const bool finalises_;
  at::Tensor in_use_;  // what MPI may still write into; never freed after a failure
};

}  // namespace

std::unique_ptr<Engine> make_mpi_engine(WorkerGroup& group) {
  return std::make_unique<MpiEngine>(group);
}

}  // namespace troupe::detail
