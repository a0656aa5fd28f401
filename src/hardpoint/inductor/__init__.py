"""``torch.compile(model)`` on a mounted device: what Inductor must know of it.

Inductor generates Triton kernels, and :mod:`hardpoint.triton` compiles them. :mod:`hooks` registers the device when a
program first uses ``torch.compile``: importing Inductor takes seconds.
"""
