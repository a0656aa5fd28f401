from hardpoint_build.extension import DeviceExtension, setup

setup(
    ext_modules=[DeviceExtension("myops.libmyops", ["csrc/cpu.cpp"])],
    package_data={"myops": ["device.c"]},
    install_requires=["hardpoint"],
)
