from hardpoint_build.extension import DeviceExtension, TorchExtension, setup, torch_requirement

setup(
    ext_modules=[
        DeviceExtension("myops.libmyops", ["csrc/cpu.cpp"]),
        TorchExtension("myops._C", ["csrc/torch_ops.cpp"]),
    ],
    package_data={"myops": ["device.c"]},
    install_requires=["hardpoint", torch_requirement()],
)
