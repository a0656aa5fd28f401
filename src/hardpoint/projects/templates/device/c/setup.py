from hardpoint_build.extension import DeviceExtension, setup

setup(ext_modules=[DeviceExtension("mychip.libmychip", ["csrc/runtime.c", "csrc/kernels.c"])])
