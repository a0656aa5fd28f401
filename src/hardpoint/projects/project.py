"""A project on disk: the work of ``hardpoint build``, ``hardpoint test`` and ``hardpoint wheel``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class NoProject(RuntimeError):
    """No Hardpoint project in the folder or above it."""


@dataclass(frozen=True)
class Project:
    """A folder whose ``pyproject.toml`` has a table ``[tool.hardpoint]``."""

    folder: Path
    #: ``device``: device of the tests. ``plugin``: file of the plug-in, in a device project.
    settings: dict[str, Any]

    @staticmethod
    def find(folder: Path) -> Project:
        """Project that contains the folder."""
        for place in (folder, *folder.parents):
            file = place / "pyproject.toml"
            if file.exists():
                try:
                    settings = tomllib.loads(file.read_text()).get("tool", {}).get("hardpoint")
                except (ValueError, OSError) as error:
                    raise NoProject(f"cannot read {file}: {error}") from None
                if settings is not None:
                    if "plugin" in settings and "device" not in settings:
                        raise NoProject(f"{file}: [tool.hardpoint] names a plugin, but no device")
                    return Project(place, settings)
        raise NoProject(
            f"no pyproject.toml with a table [tool.hardpoint] in {folder} or above it; "
            "create a project with `hardpoint new`"
        )

    @property
    def compiles(self) -> bool:
        """Whether there is something to compile."""
        return (self.folder / "setup.py").exists()

    def build(self) -> None:
        """Compile in place, where ``test`` finds the result."""
        if self.compiles:
            self._run("setup.py", "--quiet", "build_ext", "--inplace")

    def environment(self) -> dict[str, str]:
        """Environment variables to use the project without installing it."""
        variables = dict(os.environ)
        paths = [str(self.folder / "src"), *filter(None, [variables.get("PYTHONPATH")])]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
        if plugin := self.settings.get("plugin"):
            variables["HARDPOINT_PLUGIN_PATH"] = str(self.folder / plugin)
            variables["HARDPOINT_DEVICE"] = str(self.settings["device"])
        elif device := self.settings.get("device"):
            variables.setdefault("HARDPOINT_DEVICE", str(device))
        return variables

    def use_device(self) -> str:
        """Choose the project's device for this process and its children; returns a note for the user.

        The environment has precedence. Raises PluginError if the plug-in is not built.
        """
        device, plugin = self.settings.get("device"), self.settings.get("plugin")
        if not device:
            return ""
        for variable in ("HARDPOINT_DEVICE", "HARDPOINT_PLUGIN_PATH"):
            if chosen := os.environ.get(variable):
                ours = chosen in (device, str(self.folder / str(plugin)))
                return "" if ours else f"device: {variable}={chosen}, not {device} of the project in {self.folder}"
        if plugin and not (self.folder / plugin).exists():
            raise PluginError(f"{self.folder / plugin} is not built yet: run `hardpoint build`")
        os.environ.update(self.environment())
        sys.path.insert(0, str(self.folder / "src"))
        return f"device: {device}, of the project in {self.folder}"

    def test(self, arguments: Sequence[str] = ()) -> int:
        """Build, run the tests, and return pytest's exit status. Raises PluginError if the plug-in is refused."""
        self.build()
        if "device" in self.settings:
            self._load_plugin()
        command = [sys.executable, "-m", "pytest", *(arguments or ["tests"])]
        return subprocess.run(command, cwd=self.folder, env=self.environment()).returncode

    def _load_plugin(self) -> None:
        """Load and mount the plug-in in a child process, since without its device every test would fail."""
        plugin = self.settings.get("plugin", "")
        load = f"load_path({str(self.folder / plugin)!r})" if plugin else "choose()"
        code = (
            "import importlib.util\n"
            "from hardpoint import PluginError, _discovery\n"
            "try:\n"
            f"    plugin = _discovery.{load}\n"
            "    _discovery.mount(plugin)\n"
            "    if importlib.util.find_spec('torch'):\n"
            "        import hardpoint.torch\n"
            "        hardpoint.torch.mount(plugin)\n"
            "    print('\\0name', plugin.name)\n"
            "except PluginError as error:\n"
            "    print('\\0refused', error)\n"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=self.folder, env=self.environment(), capture_output=True, text=True)
        outcome, _, text = done.stdout.partition("\0")[2].strip().partition(" ")
        device = self.settings["device"]
        if outcome == "refused":
            raise PluginError(text)
        if outcome != "name":
            raise PluginError(f"{plugin or device}: loading ended with status {done.returncode}\n{done.stderr.strip()}")
        if plugin and text.splitlines()[0] != device:
            raise PluginError(f"{plugin}: the device is named '{text}', but [tool.hardpoint] has device = \"{device}\"")

    def wheel(self, to: Path) -> Path:
        """Build the wheel with the installed packages, without downloads."""
        before = set(to.glob("*.whl"))
        options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--no-build-isolation"]
        self._run("-m", "pip", "wheel", *options, "--wheel-dir", str(to), ".")
        made = sorted(to.glob("*.whl"), key=lambda p: (p not in before, p.stat().st_mtime_ns))
        return made[-1]

    def _run(self, *arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=self.folder, check=True)
