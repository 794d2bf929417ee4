// Credentials: how a process proves that it belongs to the job, and what a connection is for.
//
// Every connection begins with a proof, before a byte of it is parsed as anything else: by TLS 1.3
// with a key derived from the secret where it is encrypted, else by an exchange of HMACs
// (distributed/net/proof.h). Nothing is negotiated: both ends know from the cluster which it is.
// docs/wire.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/core/secret.h"

namespace troupe {

/// What a connection is for. The numbers are the protocol.
enum class Purpose : std::uint8_t {
  control = 1,  // worker to chief
  link = 2,     // worker to worker: data
  serving = 3,  // worker to parameter server
  agent = 4,    // launcher to launcher
};
inline constexpr Purpose kLastPurpose = Purpose::agent;

/// One connection, as both its ends know it; part of the proof.
struct Identity {
  Purpose purpose = Purpose::control;
  std::uint64_t generation = 0;  // the client's
  std::string client;            // the task that connects: "worker/1"
  std::string server;            // the task that is to answer: "worker/0"
};
/// Bytes of a task's name at most: a proof has a fixed size.
inline constexpr std::size_t kMaxTaskBytes = 40;

/// A process's own half.
struct Credentials {
  std::shared_ptr<const Secret> secret;  // not null
  bool encrypt = false;                  // TLS on every TCP connection of the job
  std::string task;
  std::uint64_t generation = 0;
};

}  // namespace troupe
