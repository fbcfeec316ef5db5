// SPDX-License-Identifier: Apache-2.0
#include "server/server_state.h"

#include <vector>

#include "server/connection.h"

namespace lockstep::server {

std::shared_ptr<const Backing> ServerState::backing() const {
  const std::lock_guard lock(mutex_);
  return backing_;
}

void ServerState::set_backing(std::shared_ptr<const Backing> backing) {
  const std::lock_guard lock(mutex_);
  backing_ = std::move(backing);
}

void ServerState::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.emplace(connection.get(), connection);
}

void ServerState::remove(Connection* connection) {
  bool empty = false;
  {
    const std::lock_guard lock(mutex_);
    connections_.erase(connection);
    empty = connections_.empty();
  }
  if (empty && when_empty) when_empty();
}

void ServerState::for_each(const std::function<void(Connection&)>& action) {
  std::vector<std::shared_ptr<Connection>> connections;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : connections_) {
      if (auto connection = weak.lock()) connections.push_back(std::move(connection));
    }
  }
  for (const auto& connection : connections) action(*connection);
}

size_t ServerState::num_connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

}  // namespace lockstep::server
