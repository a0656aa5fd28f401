// Python warnings that point to the line of the Python program.
#pragma once

#include <string>

namespace hp::torch_adapter {

// Issues a UserWarning; acquires the GIL. Throws python_error if the user turned warnings into errors.
void warn_in_python(const std::string& message);

}  // namespace hp::torch_adapter
