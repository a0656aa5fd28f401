"""What builds plug-ins and operators.

Outside of the package ``hardpoint`` on purpose: importing that may mount a device, which is just being built.
"""
