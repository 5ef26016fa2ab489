// The two ends of a chain of models: who asks, and the memory at the far end.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/observer.h"

namespace marrow {

/// Issues accesses at given times and notes when each is answered.
class Requester : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<Requester> out{"out"};

  struct Request {
    tlm::tlm_generic_payload payload;
    Access access;
    std::array<std::uint8_t, 64> bytes{};
    Ps answered_ps = -1;
    ~Request() { payload.clear_extension(&access); }
  };

  explicit Requester(sc_core::sc_module_name name, std::uint32_t sm = 0)
      : sc_module(name), sm_(sm) {
    out.register_nb_transport_bw(this, &Requester::nb_transport_bw);
  }

  Request& prepare(AccessKind kind, std::uint64_t address, std::uint64_t value = 0,
                   std::uint32_t bytes = 8) {
    requests_.push_back(std::make_unique<Request>());
    Request& request = *requests_.back();
    request.access.kind = kind;
    request.access.sm = sm_;
    request.access.value = value;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&value), 8, request.bytes.data());
    request.payload.set_extension(&request.access);
    request.payload.set_data_ptr(request.bytes.data());
    request.payload.set_address(address);
    request.payload.set_data_length(bytes);
    request.payload.set_streaming_width(bytes);
    request.payload.set_command(kind == AccessKind::kStore ? tlm::TLM_WRITE_COMMAND
                                                           : tlm::TLM_READ_COMMAND);
    return request;
  }
  /// The delay that the way annotated, after now.
  Ps issue(Request& request, Ps at_ps) {
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    auto delay = sc_core::sc_time::from_value(static_cast<std::uint64_t>(at_ps - now_ps()));
    out->nb_transport_fw(request.payload, phase, delay);
    return static_cast<Ps>(delay.value());
  }
  Request& issue(AccessKind kind, std::uint64_t address, Ps at_ps, std::uint64_t value = 0) {
    Request& request = prepare(kind, address, value);
    issue(request, at_ps);
    return request;
  }
  /// The round trip that b_transport annotates.
  Ps at_once(AccessKind kind, std::uint64_t address, std::uint64_t value = 0) {
    Request& request = prepare(kind, address, value);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    out->b_transport(request.payload, delay);
    return static_cast<Ps>(delay.value());
  }

 private:
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                     sc_core::sc_time& delay) {
    for (auto& request : requests_)
      if (&request->payload == &payload)
        request->answered_ps = now_ps() + static_cast<Ps>(delay.value());
    return tlm::TLM_COMPLETED;
  }

  std::uint32_t sm_;
  std::vector<std::unique_ptr<Request>> requests_;
};

/// Takes what comes, notes when, and answers everything but stores after a fixed time.
class FarEnd : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<FarEnd> in{"in"};

  struct Arrival {
    AccessKind kind;
    std::uint64_t address;
    Ps at_ps;
  };

  FarEnd(sc_core::sc_module_name name, Ps answer_ps)
      : sc_module(name),
        answer_ps_(answer_ps),
        pending_("pending", [this](tlm::tlm_generic_payload*& payload, Ps) {
          tlm::tlm_phase phase = tlm::BEGIN_RESP;
          sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
          in->nb_transport_bw(*payload, phase, delay);
        }) {
    in.register_nb_transport_fw(this, &FarEnd::nb_transport_fw);
  }
  const std::vector<Arrival>& arrivals() const { return arrivals_; }

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                     sc_core::sc_time& delay) {
    const Access& access = *payload.get_extension<Access>();
    const Ps at_ps = now_ps() + static_cast<Ps>(delay.value());
    arrivals_.push_back({access.kind, payload.get_address(), at_ps});
    if (access.kind == AccessKind::kStore) return tlm::TLM_COMPLETED;
    pending_.push(at_ps + answer_ps_, &payload);
    delay += sc_core::sc_time::from_value(static_cast<std::uint64_t>(answer_ps_));
    return tlm::TLM_ACCEPTED;
  }

  Ps answer_ps_;
  DelayLine<tlm::tlm_generic_payload*> pending_;
  std::vector<Arrival> arrivals_;
};

/// What a block has counted.
template <class Block>
double counted(const Block& block, std::string_view where, std::string_view counter) {
  struct Sink : CounterSink {
    std::string_view where, counter;
    double value = 0;
    void add(std::string_view b, std::string_view c, double v, std::string_view) override {
      if (b == where && c == counter) value += v;
    }
  } sink;
  sink.where = where;
  sink.counter = counter;
  block.report(sink);
  return sink.value;
}

}  // namespace marrow
