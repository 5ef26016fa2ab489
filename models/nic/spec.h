// A NIC's parameters.
#pragma once

namespace marrow {

struct NicSpec {
  double doorbell_ns = 0;          ///< register write decoded, queue pair made active
  double fetch_entries = 0;        ///< 64 B entries fetched by one read at most
  double fetches = 0;              ///< entry fetches under way at once
  double turn_fetches = 1;         ///< of one queue in a row, where others wait
  double decode_ns = 0;            ///< entry at the NIC until it is understood
  double message_interval_ns = 0;  ///< between messages, all queue pairs
  double queue_interval_ns = 0;    ///< between messages of one queue pair
  double translate_ns = 0;         ///< address and connection, all cached
  double miss_ns = 0;              ///< more for a context or translation fetched from host memory
  double contexts = 0;             ///< connection contexts cached
  double context_fetches = 1;      ///< of received requests: fetches of contexts under way at once
  double translations = 0;         ///< address translations cached
  double page_bytes = 0;           ///< memory that one translation covers
  double transmit_ns = 0;          ///< payload ready until the packet's head is at the port
  double receive_ns = 0;           ///< packet's end at the port until its write may leave
  double receive_interval_ns = 0;  ///< between messages received
  double ack_ns = 0;               ///< write issued until the acknowledgement is at the port
  double ack_receive_ns = 0;       ///< acknowledgement at the port until the entry is complete
  double cqe_ns = 0;               ///< entry complete until its CQE leaves for memory
  double dc_connect_ns = 0;        ///< a DC initiator turning to a destination
  double ack_timeout_us = 0;       ///< until a queue sends again
  double retries = 0;              ///< before it gives up
};

}  // namespace marrow
