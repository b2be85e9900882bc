#!/usr/bin/env python3
"""`without.py NUMBER PROGRAM [ARGUMENT..]`: runs a program on which the system call of that number fails with ENOSYS, as on
a kernel that does not have it.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ENOSYS = 0x7FFF0000, 0x00050000 | 38

number, program = int(sys.argv[1]), sys.argv[2:]
steps = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ENOSYS), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
chosen = Filter(len(steps), ctypes.cast(code, ctypes.c_void_p))
for arguments in [
    (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(chosen), 0, 0),
]:
    if libc.prctl(*arguments) != 0:
        sys.exit(f"the filter is refused: {os.strerror(ctypes.get_errno())}")
os.execv(program[0], program)
