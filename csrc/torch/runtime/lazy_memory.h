// Device memory that storages share until one of them is written.
#pragma once

#include <c10/core/StorageImpl.h>

namespace hp::torch_adapter {

// Prepares a storage for c10's copy on write, which needs a DataPtr that is its own context. Writes are watched until
// that memory is freed. False if the memory was not allocated here.
bool prepare_lazy_clone(c10::StorageImpl& storage);

}  // namespace hp::torch_adapter
