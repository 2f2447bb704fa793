"""Names in class files are changed without changing anything else."""

import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from class_file import with_plain_names

HEADER = b"\xca\xfe\xba\xbe\0\0\0\x34"


def utf8(text: str) -> bytes:
    content = text.encode()
    return b"\x01" + struct.pack(">H", len(content)) + content


class PlainNamesTest(unittest.TestCase):
    def test_names_behind_a_long_lose_spaces_and_commas(self) -> None:
        # A long counts as two constants; these eight bytes would be spaces in a name.
        long = b"\x05" + b" " * 8
        pool = struct.pack(">H", 5) + utf8("Test$a, b") + long + utf8("(Ljava/util/List;)V")
        rest = b"code with spaces"
        plain = struct.pack(">H", 5) + utf8("Test$a__b") + long + utf8("(Ljava/util/List;)V")
        self.assertEqual(HEADER + plain + rest, with_plain_names(HEADER + pool + rest))


if __name__ == "__main__":
    unittest.main()
