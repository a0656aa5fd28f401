"""``torch.compile(model)`` on a mounted device: its registration with Inductor.

Inductor generates Triton kernels, and :mod:`hardpoint.triton` compiles them. :mod:`hooks` registers the device when a
program first uses ``torch.compile``: importing Inductor takes seconds.
"""
