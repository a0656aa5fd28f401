// A Python warning that names the line of the Python program.
#pragma once

#include <string>

namespace hp::torch_adapter {

// Raises what Python raises when the user turned warnings into errors.
void warn_in_python(const std::string& message);

}  // namespace hp::torch_adapter
