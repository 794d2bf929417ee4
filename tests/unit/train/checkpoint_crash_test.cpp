// What a loss of power or a failing call, at any step of saving, leaves behind.
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/silence.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/train/checkpoint_samples.h"
#include "tests/unit/train/memory_file_system.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/train/checkpoint/checkpoint_writer.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using troupe::CheckpointError;
using troupe::CheckpointWriter;

struct Verdict {
  int states = 0;
  int corrupt = 0;    // nothing loads although something must, or the wrong thing
  int lost = 0;       // a checkpoint that save() returned for is gone
  int stuck = 0;      // the next process cannot save
  std::string first;  // the first bad state
};

// Saves steps 0 to 3, keeping two, and looks at every state that a crash at any moment may leave.
Verdict enumerate(MemoryFileSystem::Drop drop) {
  Verdict verdict;
  MemoryFileSystem files;
  files.drop = drop;
  std::int64_t acknowledged = -1;
  std::set<std::string> seen;
  const auto judge = [&](const std::unique_ptr<MemoryFileSystem>& state) {
    if (!seen.insert(troupe::text(acknowledged, "|", state->fingerprint())).second) return;
    ++verdict.states;
    const std::string found = state->fingerprint();
    std::int64_t step = -2;
    try {
      step = newest(*state).value_or(-1);
    } catch (const CheckpointError&) {
    }
    const bool corrupt = step == -2 || step > acknowledged + 1;
    const bool lost = step >= -1 && step < acknowledged;
    bool stuck = false;
    try {
      CheckpointWriter next(*state, sample_owner(), {2});
      save_sample(next, acknowledged + 1);
      stuck = newest(*state) != acknowledged + 1;
    } catch (const troupe::Error&) {
      stuck = true;
    }
    verdict.corrupt += corrupt ? 1 : 0;
    verdict.lost += lost ? 1 : 0;
    verdict.stuck += stuck ? 1 : 0;
    if ((corrupt || lost || stuck) && verdict.first.empty()) verdict.first = found;
  };
  const auto look = [&] { files.crash_states(judge); };
  files.after_change = look;
  {
    CheckpointWriter writer(files, sample_owner(), {2});
    for (std::int64_t step = 0; step < 4; ++step) {
      save_sample(writer, step);
      acknowledged = step;
      look();
    }
  }
  return verdict;
}

bool has(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("checkpoint: a loss of power at any moment leaves the last or the new one, whole") {
    const Silence silence;
    const Verdict verdict = enumerate(MemoryFileSystem::Drop::nothing);
    CAPTURE(verdict.first);
    CHECK(verdict.states > 300);
    CHECK(verdict.corrupt == 0);
    CHECK(verdict.lost == 0);
    CHECK(verdict.stuck == 0);
  }

  TEST_CASE("checkpoint: the enumeration notices a missing sync of files and of directories") {
    const Silence silence;
    CHECK(enumerate(MemoryFileSystem::Drop::file_sync).corrupt > 0);
    CHECK(enumerate(MemoryFileSystem::Drop::directory_sync).lost > 0);
  }

  TEST_CASE("checkpoint: content is synced, then named, then the name is synced") {
    MemoryFileSystem files;
    CheckpointWriter writer(files, sample_owner());
    files.calls.clear();
    save_sample(writer, 5);
    std::vector<std::string> changes;
    for (const std::string& call : files.calls) {
      if (!has(call, "stat ") && !has(call, "read ") && !has(call, "list "))
        changes.push_back(call);
    }
    const std::string dir = "model.ckpt-5.tmp-7";
    CHECK(changes == std::vector<std::string>{
                         "mkdir " + dir,
                         "create " + dir + "/.troupe",
                         "close " + dir + "/.troupe",
                         "fsync-dir " + dir,
                         "create " + dir + "/model.safetensors",
                         "write " + dir + "/model.safetensors",
                         "fsync " + dir + "/model.safetensors",
                         "close " + dir + "/model.safetensors",
                         "create " + dir + "/state.safetensors",
                         "write " + dir + "/state.safetensors",
                         "fsync " + dir + "/state.safetensors",
                         "close " + dir + "/state.safetensors",
                         "create " + dir + "/manifest.json",
                         "write " + dir + "/manifest.json",
                         "fsync " + dir + "/manifest.json",
                         "close " + dir + "/manifest.json",
                         "fsync-dir " + dir,
                         "rename " + dir + " model.ckpt-5",
                         "fsync-dir ",
                         "create .troupe-index.tmp",
                         "write .troupe-index.tmp",
                         "fsync .troupe-index.tmp",
                         "close .troupe-index.tmp",
                         "rename .troupe-index.tmp checkpoint",
                         "fsync-dir ",
                     });
  }

  TEST_CASE(
      "checkpoint: any call may fail for any reason, the last one stays, and the next try works") {
    const Silence silence;
    for (const int error : {ENOSPC, EIO, EDQUOT, EROFS, EMFILE}) {
      CAPTURE(error);
      int failed_saves = 0;
      for (int call = 1;; ++call) {
        CAPTURE(call);
        REQUIRE(call < 1000);
        MemoryFileSystem files;
        CheckpointWriter writer(files, sample_owner(), {2});
        for (std::int64_t step = 0; step < 3; ++step) save_sample(writer, step);
        files.call_count = 0;
        files.fail_at = call;
        files.error_number = error;
        std::string message;
        try {
          save_sample(writer, 3);
        } catch (const CheckpointError& thrown) {
          message = thrown.what();
        }
        const bool reached = files.call_count >= call;
        files.fail_at = 0;
        const auto found = newest(files);
        if (message.empty()) {
          CHECK(found == 3);
        } else {
          ++failed_saves;
          CHECK((found == 2 || found == 3));
          CHECK(has(message, "'/m/"));
          CHECK(has(message, std::string(std::strerror(error))));
          CHECK_FALSE(has(files.fingerprint(), ".tmp-7"));  // nothing half written stays
        }
        save_sample(writer, 3);
        CHECK(newest(files) == 3);
        save_sample(writer, 4);
        CHECK(newest(files) == 4);
        // A deletion that failed was made good.
        for (const char* const old : {"model.ckpt-0{", "model.ckpt-1{", "model.ckpt-2{"}) {
          CHECK_FALSE(has(files.fingerprint(), old));
        }
        if (!reached) break;
      }
      CHECK(failed_saves > 20);
    }
  }
}
