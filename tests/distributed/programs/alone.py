"""The weights that the net of elastic.py has when one process trains it with all the data."""

from __future__ import annotations

import sys

import torch
from nets import alone

torch.save(alone("digits", lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))[1], sys.argv[1])
