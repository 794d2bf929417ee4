// GroupStore: c10d's key-value store over the connections that the group already has. LibTorch's
// own TCPStore would open another port, on all interfaces, to anyone.
//
// There is no server: each worker keeps what it has set, and all exchange what is new at the same
// point, with WorkerGroup::all_gather: when a worker sets a key, or asks for one that is not there.
// That makes all workers meet equally often with both back ends. With Gloo every rank sets the same
// number of keys (its machine, its addresses) before it asks for others'; with NCCL rank 0 sets the
// communicator's id and the others ask for it. A back end that did otherwise would leave a worker
// waiting in an exchange, which the group's deadline ends and names.
// Thread rule: keys are exchanged on the thread that made the store, which is the one that calls
// collectives; on another (a back end's watchdog) the store answers from what it has.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "troupe/distributed/worker_group.h"

namespace troupe::detail {

class GroupStore final : public c10d::Store {
 public:
  explicit GroupStore(WorkerGroup& group)
      : c10d::Store(group.options().collective_timeout),
        group_(&group),
        owner_(std::this_thread::get_id()) {}

  /// Collective: yes.
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  /// Collective: yes, where the key is missing.  Throws: as WorkerGroup::all_gather; c10::Error
  /// if no worker sets it.
  std::vector<std::uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  /// Of what is here now; never exchanges.
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;

  /// Counters and removal need one owner of a key; no rendezvous of Gloo or NCCL uses them.
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  /// Pure virtual in newer LibTorch, absent in older.
  c10::intrusive_ptr<c10d::Store> clone();  // NOLINT: overrides in some versions

  /// The group is about to end: from now on no keys are exchanged.
  void leave_group() { group_ = nullptr; }

 private:
  using Values = std::map<std::string, std::vector<std::uint8_t>>;
  void exchange();

  WorkerGroup* group_;  // null after leave_group(); read by the owner's thread only
  const std::thread::id owner_;
  std::mutex mutex_;
  Values values_;
  Values fresh_;  // set here, not yet told the others
};

}  // namespace troupe::detail
