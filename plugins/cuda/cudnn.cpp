#include "cudnn.h"

#include "dynamic_library.h"
#include "host.h"

namespace nv {

const Cudnn& cudnn() {
  static const Cudnn& opened = *[] {
    auto* d = new Cudnn{};
    const Symbol symbols[] = {{"cudnnCreate", reinterpret_cast<void**>(&d->create)},
                              {"cudnnSetStream", reinterpret_cast<void**>(&d->set_stream)},
                              {"cudnnBackendCreateDescriptor", reinterpret_cast<void**>(&d->descriptor_create)},
                              {"cudnnBackendDestroyDescriptor", reinterpret_cast<void**>(&d->descriptor_destroy)},
                              {"cudnnBackendSetAttribute", reinterpret_cast<void**>(&d->descriptor_set)},
                              {"cudnnBackendGetAttribute", reinterpret_cast<void**>(&d->descriptor_get)},
                              {"cudnnBackendFinalize", reinterpret_cast<void**>(&d->descriptor_finalize)},
                              {"cudnnBackendExecute", reinterpret_cast<void**>(&d->execute)},
                              {"cudnnCreateTensorDescriptor", reinterpret_cast<void**>(&d->tensor_create)},
                              {"cudnnSetTensorNdDescriptor", reinterpret_cast<void**>(&d->tensor_set)},
                              {"cudnnAddTensor", reinterpret_cast<void**>(&d->add)},
                              {nullptr, nullptr}};
    static const char* const names[] = {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", nullptr};
    d->found = open_library(names, symbols, &d->reason);
    if (!d->found)
      host->log(HP_LOG_INFO,
                ("nv: convolutions fall back to portable kernels: cuDNN cannot be opened: " + d->reason).c_str());
    return d;
  }();
  return opened;
}

}  // namespace nv
