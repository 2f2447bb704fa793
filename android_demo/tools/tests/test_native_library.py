"""Names of native functions are those that the virtual machine looks for."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from native_library import _JNI, jni_name

# As `readelf --dyn-syms -W` prints them: a method, one that begins with "_", and an overloaded one.
SYMBOLS = """
   20: 00000000000038d0     8 FUNC    GLOBAL DEFAULT   10 Java_com_sun_jna_Native_sizeof
   31: 0000000000003b00     8 FUNC    GLOBAL DEFAULT   10 Java_com_sun_jna_Native__1getPointer
   40: 0000000000003c00     8 FUNC    GLOBAL DEFAULT   10 Java_a_B_read__Lcom_Pointer_2JJ_3BII
   41: 000000000009fd50     8 FUNC    GLOBAL DEFAULT   16 Java_org_lite_Wrapper_run@@VERS_1.0
"""


class JniNamesTest(unittest.TestCase):
    def test_functions_are_found_by_the_names_of_their_methods(self) -> None:
        methods = [
            ("com/sun/jna/Native", "sizeof"),
            ("com/sun/jna/Native", "_getPointer"),
            ("a/B", "read"),
            ("org/lite/Wrapper", "run"),
        ]
        self.assertEqual([jni_name(*method) for method in methods], _JNI.findall(SYMBOLS))


if __name__ == "__main__":
    unittest.main()
