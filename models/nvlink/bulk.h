// Bulk traffic from one GPU to another, of SMs or a copy engine. A train of packets is one
// reservation: what many packets take is arithmetic, until something else wants the link.
#pragma once

#include <cstdint>

#include "models/nvlink/spec.h"

namespace marrow::nvlink {

/// What so many SMs take to store, or load, so many bytes each in order, 16 B a lane; us.
double stream_store_us(const NvlinkSpec& spec, std::uint64_t sms, std::uint64_t bytes_each);
double stream_load_us(const NvlinkSpec& spec, std::uint64_t sms, std::uint64_t bytes_each);

/// What so many SMs take for so many stores each of which no two share a packet; us.
double scattered_store_us(const NvlinkSpec& spec, std::uint64_t sms, std::uint64_t stores_each,
                          std::uint64_t bytes);

/// One of a row of `copies` alike, by the copy engine; us.
double copy_us(const NvlinkSpec& spec, std::uint64_t bytes, std::uint64_t copies);

/// What a store or a request waits for the link while a copy saturates its direction; ns.
double beside_copy_ns(const NvlinkSpec& spec);

}  // namespace marrow::nvlink
