"""Triton on any mounted device with a compiler: kernels are translated to C and compiled by the plug-in.

``hardpoint_triton`` is what Triton itself finds. Here are the steps of a compilation (:mod:`stages`), the translation
(:mod:`kernel`) and the launcher.
"""
