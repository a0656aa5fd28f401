#include "dispatch/call.h"

#include <mutex>
#include <unordered_map>

namespace hp::paddle_adapter {
namespace {

std::unordered_map<std::string, Mapping>& mappings() {
  static auto* table = new std::unordered_map<std::string, Mapping>;
  return *table;
}

std::vector<std::pair<std::string, Signature>>& known_signatures() {
  static auto* list = new std::vector<std::pair<std::string, Signature>>;
  return *list;
}

}  // namespace

SignatureRegistration::SignatureRegistration(const char* phi_name, Signature signature) {
  known_signatures().emplace_back(phi_name, std::move(signature));
}

const std::vector<std::pair<std::string, Signature>>& signatures() { return known_signatures(); }

MappingRegistration::MappingRegistration(const char* phi_name, Mapping mapping) {
  mappings().emplace(phi_name, mapping);
}

const Mapping* find_mapping(const std::string& phi_name) {
  const auto found = mappings().find(phi_name);
  return found == mappings().end() ? nullptr : &found->second;
}

const OpBinding& BindingCache::create(Runtime& runtime, const std::string& framework_name,
                                      const std::string& standard) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  const OpBinding* binding = find(runtime);
  if (binding == nullptr) {
    binding = new OpBinding(runtime, framework_name, standard);
    bindings_[runtime.slot].store(binding, std::memory_order_release);
  }
  return *binding;
}

const OpBinding& PhiKernel::make_binding(Runtime& runtime) const {
  return bindings_.create(runtime, op->name,
                          mapping != nullptr && mapping->standard != nullptr ? mapping->standard : name);
}

double Call::real(int i) const {
  switch (kernel.attributes[i]) {
    case phi::AttributeType::FLOAT32:
      return attr<float>(i);
    case phi::AttributeType::FLOAT64:
      return attr<double>(i);
    case phi::AttributeType::SCALAR:
      return attr<phi::Scalar>(i).to<double>();
    default:
      return static_cast<double>(integer(i));
  }
}

int64_t Call::integer(int i) const {
  switch (kernel.attributes[i]) {
    case phi::AttributeType::BOOL:
      return attr<bool>(i);
    case phi::AttributeType::INT32:
      return attr<int>(i);
    case phi::AttributeType::INT64:
      return attr<int64_t>(i);
    case phi::AttributeType::SCALAR:
      return attr<phi::Scalar>(i).to<int64_t>();
    case phi::AttributeType::FLOAT32:
      return static_cast<int64_t>(attr<float>(i));
    case phi::AttributeType::FLOAT64:
      return static_cast<int64_t>(attr<double>(i));
    default:
      throw Error(HP_INVALID_ARGUMENT, kernel.op->name + ": attribute " + std::to_string(i) + " is not a number");
  }
}

std::vector<int64_t> Call::integers(int i) const {
  switch (kernel.attributes[i]) {
    case phi::AttributeType::INT_ARRAY:
      return attr<phi::IntArray>(i).GetData();
    case phi::AttributeType::INT64S:
      return attr<std::vector<int64_t>>(i);
    case phi::AttributeType::INT32S: {
      const auto& list = attr<std::vector<int>>(i);
      return {list.begin(), list.end()};
    }
    default:
      return {integer(i)};
  }
}

phi::Attribute Call::attribute(int i) const {
  using Type = phi::AttributeType;
  switch (kernel.attributes[i]) {
    case Type::BOOL:
      return attr<bool>(i);
    case Type::INT32:
      return attr<int>(i);
    case Type::INT64:
      return attr<int64_t>(i);
    case Type::FLOAT32:
      return attr<float>(i);
    case Type::FLOAT64:
      return attr<double>(i);
    case Type::STRING:
      return attr<std::string>(i);
    case Type::BOOLS:
      return attr<std::vector<bool>>(i);
    case Type::INT32S:
      return attr<std::vector<int>>(i);
    case Type::INT64S:
      return attr<std::vector<int64_t>>(i);
    case Type::FLOAT32S:
      return attr<std::vector<float>>(i);
    case Type::FLOAT64S:
      return attr<std::vector<double>>(i);
    case Type::STRINGS:
      return attr<std::vector<std::string>>(i);
    case Type::SCALAR:
      return attr<phi::Scalar>(i);
    case Type::SCALARS:
      return attr<std::vector<phi::Scalar>>(i);
    case Type::INT_ARRAY:
      return attr<phi::IntArray>(i);
    case Type::DATA_TYPE:
      return attr<phi::DataType>(i);
    case Type::DATA_LAYOUT:
      return attr<phi::DataLayout>(i);
    case Type::PLACE:
      return attr<phi::Place>(i);
    case Type::UNDEFINED:
      break;
  }
  throw Error(HP_INVALID_ARGUMENT, kernel.op->name + ": attribute " + std::to_string(i) + " has an undefined type");
}

bool Call::is_input(const DenseTensor& tensor) const {
  for (int i = 0; i < num_inputs(); ++i) {
    for (const DenseTensor* input : inputs(i)) {
      if (input == &tensor) return true;
    }
  }
  return false;
}

bool Call::inputs_ready() const {
  for (int i = 0; i < num_inputs(); ++i) {
    for (const DenseTensor* tensor : inputs(i)) {
      if (tensor == nullptr || tensor->numel() == 0) continue;
      if (!tensor->initialized() || !on_device(*tensor) || to_core(tensor->dtype()) == DType::kNone ||
          !tensor->meta().is_contiguous()) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace hp::paddle_adapter
