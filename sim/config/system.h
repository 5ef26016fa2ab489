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
  GpuSpec gpu;
  PcieSpec pcie;
  DmaSpec dma;
  HostSpec host;
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
