// What every message of a NIC passes, sent or received: one after the other, in turn where both
// wait.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <systemc>

#include "models/common/time.h"
#include "models/nic/spec.h"
#include "models/wire/message.h"

namespace marrow::nic {

class MessageEngine : public sc_core::sc_module {
 public:
  /// An entry that has been read.
  struct Turn {
    std::uint32_t queue = 0;
    std::uint64_t index = 0;
    bool ends_fetch = false;  ///< the last that its read has brought
  };

  MessageEngine(sc_core::sc_module_name name, const NicSpec& spec);
  /// send: its turn has come. receive: the same; returns when the next one may be taken, at the
  /// earliest.
  void connect(std::function<void(const Turn&, Ps at_ps)> send,
               std::function<Ps(const wire::Message&, Ps at_ps)> receive);
  void reset();

  /// at_ps: from when on it waits; not before now, nor before that of an earlier one.
  void send(const Turn& turn, Ps at_ps);
  /// Waits from now on.
  void receive(const wire::Message& message);
  /// Marks the last entry given to send() as the last of its read; false: nothing waits.
  bool end_fetch();

 private:
  struct Waiting {
    Ps at_ps;
    Turn turn;
  };
  void serve();

  const Ps send_interval_ps_, receive_interval_ps_;
  std::function<void(const Turn&, Ps)> send_;
  std::function<Ps(const wire::Message&, Ps)> receive_;
  std::deque<Waiting> sends_;
  std::deque<wire::Message> receives_;
  Ps free_ps_ = 0;           ///< of the engine
  Ps receives_from_ps_ = 0;  ///< the next received one may begin
  bool sent_last_ = false;
  bool serving_ = false;
  sc_core::sc_event wake_;
};

}  // namespace marrow::nic
