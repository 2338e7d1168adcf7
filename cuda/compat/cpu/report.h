// The text of the last failed launch.
#pragma once

#include <string>

#include "launch.h"
#include "records.h"

namespace emu EMU_HIDDEN {

void report_refusal(const LaunchRequest& request, const std::string& reason);
void report_failure(const LaunchRequest& request, const Block& block);

}  // namespace emu
