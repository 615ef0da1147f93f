"""Processes that a file's rights hold for, whoever runs the tests: root may write what is read-only."""

import ctypes
import os

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
VERSION_3 = 0x20080522
LIBC = ctypes.CDLL(None, use_errno=True)


def obey_rights() -> None:
    """Give that right up, now and in the program that is about to start: `Popen(..., preexec_fn=obey_rights)`."""
    if os.geteuid() == 0:
        _call("prctl", PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
        about = (ctypes.c_uint32 * 2)(VERSION_3, 0)
        sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; and the same of the rights beyond 31
        _call("capget", about, sets)
        for k in range(3):
            sets[k] &= ~(1 << CAP_DAC_OVERRIDE)
        _call("capset", about, sets)


def _call(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)
