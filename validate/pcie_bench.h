// pcie-bench (SIGCOMM 2018) played on a system: what its device would measure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/pcie/dma_engine.h"
#include "sim/config/system.h"

namespace marrow::validate {

enum class PcieTest : std::uint8_t {
  kLatCmdRd,    ///< a command's read, without the DMA engine
  kLatCmdWrRd,  ///< a command's write, then a read behind it
  kLatDmaRd,    ///< descriptor handed over until the data have been read
  kLatDmaWrRd,  ///< a write until it has been sent, then a read
  kBwDmaRd,
  kBwDmaWr,
  kBwDmaRw  ///< reads and writes in turn; bandwidth of each direction
};

/// By pcie-bench's name, for example "LAT_DMA_RD"; empty if there is none such.
std::optional<PcieTest> pcie_test(const std::string& name);

struct PcieBenchCase {
  PcieTest test = PcieTest::kLatDmaRd;
  std::uint64_t size_bytes = 64;      ///< 1 to 4096
  std::uint64_t window_bytes = 8192;  ///< host memory accessed, at least size_bytes in whole lines
  bool remote = false;                ///< memory on the other socket
};

/// Nanoseconds for latencies, Gb/s of payload for bandwidths.
double predict_pcie_bench(const config::SystemSpec& system, const PcieBenchCase& what,
                          pcie::DmaEngine::Detail detail = pcie::DmaEngine::Detail::kTrains);

}  // namespace marrow::validate
