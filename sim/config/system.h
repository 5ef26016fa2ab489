// A system file's parameters, bound to the models' specifications.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/gpu/spec.h"
#include "models/host/spec.h"
#include "models/nic/spec.h"
#include "models/nvlink/spec.h"
#include "models/pcie/spec.h"
#include "models/wire/spec.h"
#include "sim/config/parameters.h"

namespace marrow::config {

struct SystemSpec {
  /// Every TLP and every packet by itself, not in trains: slower, to check them by.
  bool detail = false;
  /// What a stage's median may be off, 90 %, besides what the parameters' intervals say.
  double stage_error_percent = 0;
  bool has_gpu = false;
  GpuSpec gpu;
  PcieSpec pcie;
  HostSpec host;
  DmaSpec dma;  ///< of the NIC, or of the device in the GPU's place
  // Where the system has NICs (any nic.* parameter given):
  bool has_nic = false;
  double pes = 1;     ///< processing elements: each a GPU with a NIC
  PcieSpec nic_pcie;  ///< the NIC's link; of its fields generation to MPS count
  SwitchSpec pcie_switch;
  NicSpec nic;
  WireSpec wire;
  NvlinkSpec nvlink;
};

/// Every parameter there is: key, range and meaning.
std::span<const Declaration> declarations();

/// Reads a system file and applies `sets` ("key=value", see ParameterSet::set).
ParameterSet load_system(const std::string& path, const std::vector<std::string>& sets = {});

/// The models' plain structs. `parameters` must be complete (ParameterSet::load checks it).
SystemSpec bind(const ParameterSet& parameters);

}  // namespace marrow::config
