"""Examples of PrivateUse1 tutorials, in C++ and Python, on a device that Hardpoint mounted."""

from __future__ import annotations

import types

import pytest
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

// ---- A schema of one's own, with kernels for the CPU and the device

static int device_calls = 0;

at::Tensor scaled_add_cpu(const at::Tensor& a, const at::Tensor& b, double scale) { return a + b * scale; }

at::Tensor scaled_add_device(const at::Tensor& a, const at::Tensor& b, double scale) {
  const c10::DeviceGuard guard(a.device());
  ++device_calls;
  at::Tensor out = at::empty(a.sizes(), a.options());
  at::add_out(out, a, b, scale);
  return out;
}

class ScaledAdd : public torch::autograd::Function<ScaledAdd> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& a, const at::Tensor& b,
                            double scale) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->saved_data["scale"] = scale;
    static auto op = torch::Dispatcher::singleton()
                         .findSchemaOrThrow("hptutorial::scaled_add", "")
                         .typed<at::Tensor(const at::Tensor&, const at::Tensor&, double)>();
    return op.call(a, b, scale);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {grads[0], grads[0] * context->saved_data["scale"].toDouble(), at::Tensor()};
  }
};

at::Tensor scaled_add_autograd(const at::Tensor& a, const at::Tensor& b, double scale) {
  return ScaledAdd::apply(a, b, scale);
}

// ---- Autocast of the custom operator

at::Tensor project_any(const at::Tensor& x, const at::Tensor& weight) { return at::mm(x, weight); }

at::Tensor project_autocast(const at::Tensor& x, const at::Tensor& weight) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const auto dtype = at::autocast::get_autocast_dtype(at::kPrivateUse1);
  static auto op = torch::Dispatcher::singleton()
                       .findSchemaOrThrow("hptutorial::project", "")
                       .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(at::autocast::cached_cast(dtype, x, at::kPrivateUse1),
                 at::autocast::cached_cast(dtype, weight, at::kPrivateUse1));
}

// ---- Operators that write, and that take a generator

at::Tensor& halve_cpu(at::Tensor& x) { return x.div_(2); }

at::Tensor noise_device(const at::Tensor& like, std::optional<at::Generator> generator) {
  return at::empty_like(like).uniform_(0, 1, generator);
}

// ---- A kernel of the device for an operator of torch itself

at::Tensor special_i0e(const at::Tensor& x) { return x + 100; }

TORCH_LIBRARY(hptutorial, m) {
  m.def("scaled_add(Tensor a, Tensor b, float scale=1.0) -> Tensor");
  m.def("project(Tensor x, Tensor weight) -> Tensor");
  m.def("halve_(Tensor(a!) x) -> Tensor(a!)");
  m.def("noise(Tensor like, Generator? generator=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(hptutorial, CPU, m) {
  m.impl("scaled_add", &scaled_add_cpu);
  m.impl("project", &project_any);
  m.impl("halve_", &halve_cpu);
}
TORCH_LIBRARY_IMPL(hptutorial, PrivateUse1, m) {
  m.impl("scaled_add", &scaled_add_device);
  m.impl("project", &project_any);
  m.impl("noise", &noise_device);
}
TORCH_LIBRARY_IMPL(hptutorial, AutogradPrivateUse1, m) { m.impl("scaled_add", &scaled_add_autograd); }
TORCH_LIBRARY_IMPL(hptutorial, AutocastPrivateUse1, m) { m.impl("project", &project_autocast); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("special_i0e", &special_i0e); }

// ---- Backend metadata

struct Layout : c10::BackendMeta {
  explicit Layout(int64_t version) : version(version) {}
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return c10::make_intrusive<Layout>(version);
  }
  int64_t version;
};

int64_t get_version(const at::Tensor& x) {
  auto* meta = dynamic_cast<Layout*>(x.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr ? meta->version : -1;
}
void set_version(const at::Tensor& x, int64_t version) {
  x.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Layout>(version));
}
void save_metadata(const at::Tensor& x, std::unordered_map<std::string, bool>& into) {
  if (get_version(x) >= 0) into["odd"] = get_version(x) % 2 == 1;
}
void load_metadata(const at::Tensor& x, std::unordered_map<std::string, bool>& from) {
  if (from.count("odd") != 0) set_version(x, from["odd"] ? 1 : 2);
}
void register_metadata() {
  torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &save_metadata, &load_metadata);
}

// ---- Guards, streams and events

std::vector<int64_t> guards() {
  c10::impl::VirtualGuardImpl impl(at::kPrivateUse1);
  std::vector<int64_t> seen{impl.deviceCount(), impl.getDevice().index()};
  {
    const c10::DeviceGuard guard(c10::Device(at::kPrivateUse1, 1));
    seen.push_back(impl.getDevice().index());
    seen.push_back(at::empty({1}, at::device(at::kPrivateUse1)).get_device());
    const c10::OptionalDeviceGuard inner(c10::Device(at::kPrivateUse1, 0));
    seen.push_back(impl.getDevice().index());
  }
  seen.push_back(impl.getDevice().index());
  return seen;
}

std::vector<int64_t> streams() {
  const c10::Device device(at::kPrivateUse1, 0);
  c10::impl::VirtualGuardImpl impl(at::kPrivateUse1);
  const c10::Stream side = impl.getStreamFromGlobalPool(device, false);
  std::vector<int64_t> seen{impl.getStream(device).id()};
  at::Tensor x = at::zeros({1 << 20}, at::device(device));
  c10::Event before(at::kPrivateUse1), after(at::kPrivateUse1);
  before.record(impl.getStream(device));
  at::Tensor y;
  {
    const c10::StreamGuard guard(side);
    before.block(side);
    seen.push_back(impl.getStream(device) == side);
    y = x + 3;
    after.record(side);
  }
  after.block(impl.getStream(device));
  seen.push_back(impl.getStream(device).id());
  seen.push_back((y + 1)[-1].item<int64_t>());
  after.synchronize();
  seen.push_back(after.query());
  return seen;
}

uint64_t default_seed(int64_t index) {
  const c10::Device device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(index));
  return at::globalContext().defaultGenerator(device).current_seed();
}

int64_t calls() { return device_calls; }
"""

FUNCTIONS = ["register_metadata", "get_version", "set_version", "guards", "streams", "default_seed", "calls"]


@pytest.fixture(scope="module")
def extension(tmp_path_factory) -> types.ModuleType:
    return load_inline(
        "hardpoint_tutorial",
        cpp_sources=SOURCE,
        functions=FUNCTIONS,
        extra_cflags=["-O0", "-g0"],
        build_directory=str(tmp_path_factory.mktemp("tutorial")),
    )


ops = torch.ops.hptutorial


# ---- C++


@pytest.mark.slow
@pytest.mark.parametrize("device", ["sim:0", "sim:1"])
def test_custom_schema(extension, device):
    a, b = torch.arange(3.0), torch.ones(3)
    before = extension.calls()
    made = ops.scaled_add(a.to(device), b.to(device), 2.0)
    assert made.device == torch.device(device)
    assert made.tolist() == ops.scaled_add(a, b, 2.0).tolist() == [2, 3, 4]
    assert extension.calls() == before + 1
    assert torch.sim.current_device() == 0


@pytest.mark.slow
def test_autograd_function(extension):
    a, b = (torch.ones(3, device="sim", requires_grad=True) for _ in range(2))
    made = ops.scaled_add(a, b, 4.0)
    assert "ScaledAdd" in made.grad_fn.name()
    made.sum().backward()
    assert a.grad.tolist() == [1, 1, 1]
    assert b.grad.tolist() == [4, 4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_of_a_custom_operator(extension, dtype):
    x, weight = torch.ones(2, 3, device="sim"), torch.ones(3, 2, device="sim")
    assert ops.project(x, weight).dtype == torch.float32
    with torch.autocast("sim", dtype=dtype):
        made = ops.project(x, weight)
        assert made.dtype == dtype
        assert made.tolist() == [[3, 3], [3, 3]]


@pytest.mark.slow
def test_custom_operator_without_a_device_kernel_takes_the_cpu_tier(extension, counted):
    x = torch.arange(4.0, device="sim")
    assert ops.halve_(x[2:]).tolist() == [1, 1.5]
    assert x.tolist() == [0, 1, 1, 1.5]
    assert counted()["hptutorial::halve_"] == {"cpu": 1}


@pytest.mark.slow
def test_kernel_for_an_operator_of_torch(extension):
    assert torch.special.i0e(torch.zeros(2, device="sim")).tolist() == [100, 100]
    assert torch.special.i0e(torch.zeros(2)).tolist() == pytest.approx([1, 1])


@pytest.mark.slow
def test_generator_in_cpp(extension):
    torch.manual_seed(1234)
    assert extension.default_seed(0) == extension.default_seed(1) == 1234
    generator = torch.Generator(device="sim").manual_seed(6)
    like = torch.empty(5, device="sim")
    first = ops.noise(like, generator).tolist()
    assert ops.noise(like, generator.manual_seed(6)).tolist() == first
    torch.manual_seed(6)
    assert ops.noise(like).tolist() == first


@pytest.mark.slow
def test_guards_in_cpp(extension):
    assert extension.guards() == [2, 0, 1, 1, 0, 0]


@pytest.mark.slow
def test_streams_in_cpp(extension):
    assert extension.streams() == [0, 1, 0, 4, 1]


@pytest.mark.slow
def test_backend_metadata_in_cpp(extension, run_python, tmp_path):
    """In a separate process: torch accepts one registration per process."""
    program = f"""
import importlib.util, sys
import torch
spec = importlib.util.spec_from_file_location("hardpoint_tutorial", {extension.__file__!r})
extension = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)
extension.register_metadata()
path = {str(tmp_path / "tensors.pt")!r}
"""
    run_python(
        program
        + """
x = torch.arange(3.0, device="sim")
assert extension.get_version(x) == -1
extension.set_version(x, 7)
assert extension.get_version(x) == 7
torch.save([x, torch.ones(1, device="sim")], path)
loaded = torch.load(path, weights_only=True)
assert [extension.get_version(t) for t in loaded] == [1, -1]
assert loaded[0].tolist() == [0, 1, 2]
"""
    )
    run_python(program + "assert [extension.get_version(t) for t in torch.load(path, weights_only=True)] == [1, -1]")


# ---- Python


def test_renaming_to_another_name_is_refused():
    with pytest.raises(RuntimeError, match="sim"):
        torch.utils.rename_privateuse1_backend("other")
    torch.utils.rename_privateuse1_backend("sim")
    assert torch.ones(1, device="sim").item() == 1


def test_device_module_is_registered_once():
    with pytest.raises(RuntimeError, match="already been registered"):
        torch._register_device_module("sim", types.ModuleType("other"))


def test_methods_are_generated_once():
    with pytest.raises(RuntimeError, match="already"):
        torch.utils.generate_methods_for_privateuse1_backend()


def test_privateuseone_still_means_the_device():
    """The name in older scripts."""
    assert torch.device("privateuseone:1") == torch.device("sim:1")
    assert torch.ones(2, device="privateuseone").device == torch.device("sim:0")


def test_python_kernel_through_torch_library():
    with torch.library._scoped_library("hptutorialpy", "DEF") as library:
        library.define("plus(Tensor x, int n) -> Tensor")
        library.impl("plus", lambda x, n: x + n, "CPU")
        library.impl("plus", lambda x, n: x + 10 * n, "PrivateUse1")
        assert torch.ops.hptutorialpy.plus(torch.zeros(1), 2).tolist() == [2]
        assert torch.ops.hptutorialpy.plus(torch.zeros(1, device="sim"), 2).tolist() == [20]


def test_dispatch_keys():
    x = torch.ones(2, device="sim")
    keys = torch._C._dispatch_keys(x)
    assert keys.has(torch._C.DispatchKey.PrivateUse1)
    assert keys.has(torch._C.DispatchKey.AutogradPrivateUse1)
    assert x.is_privateuseone if hasattr(x, "is_privateuseone") else x.is_sim
