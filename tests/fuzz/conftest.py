"""The tests import the fuzzer as its command does, from its own folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
