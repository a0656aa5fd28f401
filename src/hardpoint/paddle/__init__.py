"""Mount plug-ins on PaddlePaddle, which takes several, each under its own name."""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hardpoint._import_hook import after_import
from hardpoint._runtime import PluginError, package_file

if TYPE_CHECKING:
    from hardpoint._core import Plugin as LoadedPlugin

#: Built-in device types of Paddle.
RESERVED = ("cpu", "gpu", "gpu_pinned", "xpu", "ipu", "custom")

_lock = threading.Lock()
_mounted: list[str] = []


def device_names() -> list[str]:
    """Names of the devices mounted on Paddle."""
    return list(_mounted)


def mount(plugin: LoadedPlugin | None = None) -> str:
    """Mount a plug-in, by default the chosen one, on Paddle and return the device name.

    Importing Paddle mounts the chosen plug-ins automatically. A device mounted later does not become Paddle's default.
    """
    import paddle  # noqa: F401

    from hardpoint import _discovery

    with _lock:
        plugin = plugin if plugin is not None else _discovery.choose()
        if plugin.name not in _mounted:
            _add(plugin, 0).finish_late(plugin.name)
        return plugin.name


def _on_import(address: int) -> None:
    """Mount the chosen plug-ins; Paddle's InitPlugin calls this with the address of its CustomRuntimeParams.

    Paddle expects one device per library: the first plug-in fills that struct, the others are added separately.
    """
    from hardpoint import _discovery

    for plugin in _discovery.choose_all(_report):
        try:
            _add(plugin, 0 if _mounted else address)
        except RuntimeError as error:
            _report(error)


def _add(plugin: LoadedPlugin, address: int) -> Any:
    """Register a plug-in as a Paddle device, in the struct at ``address`` or, if 0, in a new one."""
    from hardpoint import _discovery
    from hardpoint.kernels import specializer
    from hardpoint.paddle import _adapter

    if plugin.name in RESERVED:
        raise PluginError(f"'{plugin.name}' is a built-in device type of Paddle: rename the plug-in")
    adapter = _adapter.load()
    _discovery.mount(plugin)
    specializer.register()
    if address:
        adapter.fill_interface(address, plugin.name)
    else:
        adapter.add_device(plugin.name, str(package_file("../paddle_custom_device/libhardpoint_paddle.so")))
    adapter.register_kernels(plugin.name)
    if not _mounted:
        _mark_backward(adapter)
        adapter.extend_tensor_cast()
        adapter.share_stream_threads()
        # By then, Paddle's tensors have their methods.
        after_import("paddle.framework.random", _extend_paddle)
        after_import("paddle.device.cuda.graphs", _reset_graphs_at_exit)
    _mounted.append(plugin.name)
    return adapter


def _mark_backward(adapter: Any) -> None:
    """Notify the adapter of backward passes, in which it corrects Paddle's sums of sparse gradients."""
    eager = sys.modules["paddle.base.libpaddle"].eager

    def marked(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            adapter.enter_backward()
            try:
                return function(*args, **kwargs)
            finally:
                adapter.leave_backward()

        return run

    for name in ("run_backward", "run_partial_grad"):
        setattr(eager, name, marked(getattr(eager, name)))


def _extend_paddle() -> None:
    from hardpoint.paddle import exchange

    _seed_every_device()
    exchange.install()


def _seed_every_device() -> None:
    """Let ``paddle.seed`` reach the mounted devices in static graph mode, too, which has no current device."""
    paddle, random = sys.modules["paddle"], sys.modules["paddle.framework.random"]
    original = random.seed

    @functools.wraps(original)
    def seed(seed: int) -> Any:
        generator = original(seed)
        core = sys.modules["paddle.base.libpaddle"]
        counts = Counter(device.partition(":")[0] for device in core.get_available_custom_device())
        for name in _mounted:
            for index in range(counts[name]):
                core.default_custom_device_generator(core.CustomPlace(name, index)).manual_seed(int(seed))
        return generator

    random.seed = seed  # type: ignore[attr-defined]
    if getattr(paddle, "seed", None) is original:
        paddle.seed = seed  # type: ignore[attr-defined]


def _reset_graphs_at_exit() -> None:
    """Reset device graphs before Paddle releases the devices: one that is destroyed later ends the process."""
    graphs = sys.modules["paddle.device.cuda.graphs"].CUDAGraph
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    original = graphs.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        alive.add(self)

    def reset() -> None:
        for graph in list(alive):
            if graph._graph is not None:
                graph.reset()

    graphs.__init__ = init
    atexit.register(reset)


def _report(error: Exception) -> None:
    print(f"[hardpoint] no device was mounted on Paddle: {error}", file=sys.stderr)
