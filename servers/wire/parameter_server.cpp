#include "servers/wire/parameter_server.h"

#include <utility>

#include "servers/wire/server_process.h"

namespace troupe {

class ParameterServer::Impl final : public ServerProcess {
 public:
  using ServerProcess::ServerProcess;
};

ParameterServer::ParameterServer(Cluster cluster, GroupOptions options, Staleness pace,
                                 ServedModel model, ParameterStore& store)
    : impl_(std::make_unique<Impl>(std::move(cluster), options, pace, std::move(model), store)) {}
ParameterServer::~ParameterServer() = default;

void ParameterServer::run(const JoinTerms& terms) { impl_->run(terms); }

}  // namespace troupe
