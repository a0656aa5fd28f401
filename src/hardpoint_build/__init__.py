"""Build support for plug-ins and operators.

Not part of the package ``hardpoint``, whose import may mount the device that is being built.
"""
