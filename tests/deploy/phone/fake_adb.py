"""adb that answers from a file: each answer has a pattern of the words that it is an answer to.

FAKE_ADB names a folder with session.json, {"answers": [{"words", "out", "error", "code", "hang"}]};
the words of each call are appended to calls.txt there. The first answer that matches counts, and a
call without one fails. `hang` are seconds after the output.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

folder = Path(os.environ["FAKE_ADB"])
words = " ".join(sys.argv[1:])
with (folder / "calls.txt").open("a") as calls:
    calls.write(f"{words}\n")
for answer in json.loads((folder / "session.json").read_text())["answers"]:
    if re.search(answer["words"], words):
        sys.stdout.write(answer.get("out", ""))
        sys.stdout.flush()
        sys.stderr.write(answer.get("error", ""))
        sys.stderr.flush()
        time.sleep(answer.get("hang", 0))
        sys.exit(answer.get("code", 0))
sys.exit(f"fake adb has no answer to: {words}")
