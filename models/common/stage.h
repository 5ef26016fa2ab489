// The one vocabulary of a message's journey. Every table, trace, file and document uses it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace marrow {

/// Stages in the order in which a message passes them. A name with a dot is a sub-step: the
/// sub-steps of a stage add up to it. Stages of one message tile its end-to-end time.
enum class Stage : std::uint8_t {
  kKernelEnd,         ///< host-initiated path: kernel's end reaches the host's memory
  kHostNotice,        ///< the host thread notices
  kStaging,           ///< payload copied to where the NIC reads it, or its memory registered
  kEnqueue,           ///< proxy path: descriptor put into the proxy's ring
  kLookup,            ///< queue pick, lkey, rkey
  kSlot,              ///< reservation of a work-queue slot, back-pressure included
  kWqe,               ///< work queue entry stored
  kOrderFence,        ///< order.fence: the entry made visible before it is announced
  kOrderPublish,      ///< order.publish: published in reservation order
  kOrderLock,         ///< order.lock: the queue's lock and its producer index
  kDoorbellRecord,    ///< doorbell.record: doorbell record stored (or the first of two doorbells)
  kDoorbellRegister,  ///< doorbell.register: the (last) doorbell store issued
  kProxyNotice,       ///< until a CPU proxy has seen the descriptor or doorbell word
  kProxyPost,         ///< until the proxy's doorbell store leaves for the NIC
  kMmio,              ///< posted write travels to where it is polled or decoded. For an entry that
                      ///< another lane announces it starts at the own lane's last step.
  kNicSchedule,       ///< doorbell arrived until this entry's turn
  kWqeFetch,          ///< entry read by the consumer
  kTranslate,         ///< address translation and connection context
  kPayloadFetch,      ///< payload gathered until its first packet may leave
  kTransmit,          ///< until the last byte has left the port
  kWire,              ///< cable and switches, last byte
  kReceive,           ///< receive pipeline of the far NIC
  kPayloadWrite,      ///< payload placed in far memory
  kAck,               ///< acknowledgement back at the initiator's NIC
  kCqeWrite,          ///< completion written, until visible where it is polled
  kProxyComplete,     ///< a CPU proxy sees the completion and passes it on to where lanes poll
  kPoll,              ///< completion visible until the initiator has seen it
  kVisible,           ///< far side: the waiting SM sees data and flag
  kLaunch,            ///< the next kernel starts
  kCount
};

constexpr std::size_t kStageCount = static_cast<std::size_t>(Stage::kCount);

constexpr std::array<std::string_view, kStageCount> kStageNames = {
    "kernel_end",    "host_notice",     "staging",
    "enqueue",       "lookup",          "slot",
    "wqe",           "order.fence",     "order.publish",
    "order.lock",    "doorbell.record", "doorbell.register",
    "proxy_notice",  "proxy_post",      "mmio",
    "nic_schedule",  "wqe_fetch",       "translate",
    "payload_fetch", "transmit",        "wire",
    "receive",       "payload_write",   "ack",
    "cqe_write",     "proxy_complete",  "poll",
    "visible",       "launch"};

constexpr std::string_view name(Stage s) { return kStageNames[static_cast<std::size_t>(s)]; }

/// The stage of that name, or nothing.
constexpr std::optional<Stage> stage_named(std::string_view n) {
  for (std::size_t i = 0; i < kStageCount; ++i)
    if (kStageNames[i] == n) return static_cast<Stage>(i);
  return std::nullopt;
}

/// True for the stages that the issuing lane itself walks through, up to its last doorbell store.
constexpr bool is_issue_stage(Stage s) { return s <= Stage::kDoorbellRegister; }

}  // namespace marrow
