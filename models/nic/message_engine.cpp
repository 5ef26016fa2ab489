#include "models/nic/message_engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/common/delay_line.h"

namespace marrow::nic {

MessageEngine::MessageEngine(sc_core::sc_module_name name, const NicSpec& spec)
    : sc_module(name),
      send_interval_ps_(ps_from_ns(spec.message_interval_ns)),
      receive_interval_ps_(ps_from_ns(spec.receive_interval_ns)) {
  SC_HAS_PROCESS(MessageEngine);
  SC_METHOD(serve);
  sensitive << wake_;
  dont_initialize();
}

void MessageEngine::connect(std::function<void(const Turn&, Ps)> send,
                            std::function<Ps(const wire::Message&, Ps)> receive) {
  send_ = std::move(send);
  receive_ = std::move(receive);
}

void MessageEngine::reset() {
  sends_.clear();
  receives_.clear();
  free_ps_ = receives_from_ps_ = 0;
}

void MessageEngine::send(const Turn& turn, Ps at_ps) {
  sends_.push_back({at_ps, turn});
  if (sends_.size() == 1) serve();
}

void MessageEngine::receive(const wire::Message& message) {
  receives_.push_back(message);
  if (receives_.size() == 1) serve();
}

bool MessageEngine::end_fetch() {
  if (sends_.empty()) return false;
  sends_.back().turn.ends_fetch = true;
  return true;
}

void MessageEngine::serve() {
  // What a turn brings about may ask for the next one.
  if (std::exchange(serving_, true)) return;
  const Ps now = now_ps();
  constexpr Ps kNever = std::numeric_limits<Ps>::max();
  Ps next_ps = kNever;
  for (;;) {
    const Ps send_ps = sends_.empty() ? kNever : std::max(sends_.front().at_ps, free_ps_);
    const Ps receive_ps = receives_.empty() ? kNever : std::max(receives_from_ps_, free_ps_);
    next_ps = std::min(send_ps, receive_ps);
    if (next_ps > now) break;
    sent_last_ = send_ps <= now && (receive_ps > now || !sent_last_);
    if (sent_last_) {
      const Turn turn = sends_.front().turn;
      sends_.pop_front();
      free_ps_ = now + send_interval_ps_;
      send_(turn, now);
    } else {
      const wire::Message message = receives_.front();
      receives_.pop_front();
      free_ps_ = now + receive_interval_ps_;
      receives_from_ps_ = receive_(message, now);
    }
  }
  serving_ = false;
  if (next_ps != kNever)
    wake_.notify(sc_core::sc_time::from_value(static_cast<std::uint64_t>(next_ps - now)));
}

}  // namespace marrow::nic
