"""Triton on any mounted device with a compiler.

``hardpoint_triton`` is what Triton itself finds. :mod:`generators` chooses how kernels are compiled: by a translation
to C or OpenCL C and the plug-in's compiler (:mod:`portable`, :mod:`stages`, :mod:`kernel`), by Triton's own compiler
for NVIDIA (:mod:`nvidia`), or by a vendor's (:mod:`vendor`).
"""
