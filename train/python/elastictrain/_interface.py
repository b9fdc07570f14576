"""The C interface by ctypes: structs and the types of every function. The names are those of elastictrain.h."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Optional, Tuple

from . import _paths

OK, INVALID, SESSION, INTERNAL, INTERRUPTED = range(5)


class _Sized(ctypes.Structure):
    """A struct that starts with its own size, as the library expects."""

    def __init__(self, **values: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **values)


class DataOptions(_Sized):
    _fields_ = [("size", c_size_t), ("sample_count", c_uint64), ("epochs", c_uint64), ("seed", c_uint64),
                ("max_steps", c_uint64), ("batch", c_uint32), ("shuffle", c_uint32), ("drop_last", c_uint32),
                ("min_local_samples", c_uint32), ("batches_per_step", c_uint32), ("batch_of_all", c_uint32)]


class Batch(_Sized):
    _fields_ = [("size", c_size_t), ("step", c_uint64), ("epoch", c_uint64), ("samples", POINTER(c_uint64)),
                ("local_samples", c_uint64), ("global_samples", c_uint64), ("first_of_epoch", c_uint32),
                ("reserved", c_uint32)]


class StepMetrics(_Sized):
    _fields_ = [("size", c_size_t), ("loss", c_double)]


class StepReport(_Sized):
    _fields_ = [("size", c_size_t), ("loss", c_double), ("samples", c_uint64), ("gradient_norm", c_double),
                ("slowest_compute_us", c_double)]


class Change(_Sized):
    _fields_ = [("size", c_size_t), ("generation", c_uint64), ("rank", c_uint32), ("world_size", c_uint32),
                ("previous_world_size", c_uint32), ("joined_now", c_uint32), ("reason", c_char_p)]


class Monitors(_Sized):
    _fields_ = [("size", c_size_t), ("has_noise_scale", c_uint32), ("slowest_rank", c_uint32)] + [
        (name, c_double) for name in ("noise_scale", "gradient_norm", "gradient_variance", "slowest_compute_us", "step_us",
                                      "data_wait_us", "compute_us", "communicate_us", "update_us")] + [
        (name, c_uint64) for name in ("bytes_sent", "bytes_received", "bytes_shared")]


class Named(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t)]


class OtherLayout(_Sized):
    _fields_ = [("size", c_size_t), ("manifest", c_void_p), ("manifest_bytes", c_size_t), ("header", c_void_p),
                ("header_bytes", c_size_t), ("data", c_void_p), ("data_bytes", c_size_t), ("state", POINTER(Named)),
                ("state_count", c_size_t), ("refusal", c_char_p), ("samples_used", c_uint64), ("epoch", c_uint64),
                ("cursor", c_uint64), ("returned", POINTER(c_uint64)), ("returned_count", c_size_t), ("early", POINTER(Named)),
                ("early_count", c_size_t), ("attachments", POINTER(Named)), ("attachment_count", c_size_t)]


class SumElsewhere(_Sized):
    _fields_ = [("size", c_size_t), ("step", c_uint64), ("generation", c_uint64), ("bucket", c_uint32), ("rank", c_uint32),
                ("world_size", c_uint32), ("encryption", c_uint32), ("token", c_uint8 * 16), ("scale", c_float),
                ("has_input", c_uint32), ("keeps", c_uint32), ("is_kept", c_uint32), ("wants_norms", c_uint32),
                ("exchange", c_void_p)]


class SumsElsewhere(_Sized):
    _fields_ = [("size", c_size_t), ("failed", c_uint32), ("reserved", c_uint32), ("local_square_sum", c_double),
                ("reduced_square_sum", c_double), ("exchange", c_void_p)]


class PlaneWorld(_Sized):
    _fields_ = [("size", c_size_t), ("generation", c_uint64), ("token", c_uint8 * 16), ("encryption", c_uint32),
                ("index", c_uint32), ("rank", c_uint32), ("world_size", c_uint32), ("endpoints", c_void_p),
                ("time_limit_ms", c_uint64)]


class PlaneSum(_Sized):
    _fields_ = [("size", c_size_t), ("data", c_void_p), ("count", c_size_t), ("step", c_uint64), ("type", c_int),
                ("bucket", c_uint32), ("scale", c_float), ("has_input", c_uint32), ("keeps", c_uint32),
                ("is_kept", c_uint32), ("wants_norms", c_uint32), ("local_square_sum", c_double),
                ("reduced_square_sum", c_double)]


PLANE_ENDPOINT_BYTES = 512
OtherLayoutCallback = ctypes.CFUNCTYPE(None, POINTER(OtherLayout), c_void_p)
ChangeCallback = ctypes.CFUNCTYPE(None, POINTER(Change), c_void_p)
MemoryCopy = ctypes.CFUNCTYPE(c_int, c_uint64, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p)
StartElsewhere = ctypes.CFUNCTYPE(c_int, POINTER(SumElsewhere), c_void_p, c_size_t, c_void_p)
FinishElsewhere = ctypes.CFUNCTYPE(c_int, POINTER(SumsElsewhere), c_void_p, c_size_t, c_void_p)
BeforeStep = ctypes.CFUNCTYPE(None, POINTER(Batch), c_void_p)
AfterStep = ctypes.CFUNCTYPE(None, POINTER(StepReport), c_void_p)

# name -> argument types after the session; each returns a status.
CALLS: Dict[str, Tuple[Any, ...]] = {
    "share_state": (c_char_p, c_void_p, c_size_t),
    "share_model": (c_char_p, c_void_p, c_size_t),
    "share_device_state": (c_char_p, c_void_p, c_size_t),
    "use_device": (POINTER(c_int),),
    "use_stream_order": (),
    "reserve_gradient_copies": (c_size_t, c_void_p, POINTER(c_int)),
    "set_data": (c_void_p,),
    "on_change": (ChangeCallback, c_void_p),
    "on_other_layout": (c_char_p, OtherLayoutCallback, c_void_p),
    "await_start": (POINTER(c_uint64),),
    "start": (POINTER(c_int),),
    "next_batch": (POINTER(Batch), POINTER(c_int)),
    "all_reduce_typed": (c_void_p, c_size_t, c_int),
    "all_reduce_typed_async": (c_void_p, c_size_t, c_int),
    "all_reduce_device_typed": (c_void_p, c_size_t, c_int, c_void_p),
    "all_reduce_device_typed_async": (c_void_p, c_size_t, c_int, c_void_p),
    "wait_all_reduce": (),
    "commit_step": (POINTER(StepMetrics),),
    "last_step": (POINTER(StepReport),),
    "sum": (c_void_p, c_size_t),
    "broadcast": (c_void_p, c_size_t),
    "enable_store": (),
    "save": (c_char_p, c_void_p, c_size_t, c_uint64),
    "request": (c_uint32, c_char_p, c_void_p, c_size_t, POINTER(c_uint64)),
    "get_monitors": (POINTER(Monitors),),
    "measure_gradient_variance": (c_uint64,),
    "report_halves": (c_double, c_double),
    "request_resize": (c_uint32,),
    "request_batch": (c_uint32,),
    "request_learning_rate_factor": (c_double,),
    "request_synchronization": (c_int,),
    "request_topology": (c_char_p,),
    "note": (c_char_p, c_char_p),
    "device_memory": (c_uint64, c_uint64),
    "boundary": (POINTER(c_uint32),),
    "disagree": (c_char_p,),
    "decline": (c_char_p,),
    "attach": (c_char_p, c_char_p, c_size_t),
    "attachment": (c_char_p, c_void_p, POINTER(c_size_t), POINTER(c_int)),
    "board_put": (c_char_p, c_char_p, c_size_t),
    "board_get": (c_char_p, c_uint64, c_void_p, POINTER(c_size_t), POINTER(c_int)),
    "finish": (),
    "end_data": (),
    "phase": (c_char_p,),
    "share_early": (c_char_p, c_void_p, c_size_t),
    "early": (c_char_p, c_void_p, POINTER(c_size_t)),
    "reduce_values": (c_void_p, c_size_t, c_int, c_int),
    "broadcast_from": (c_void_p, c_size_t, c_uint32),
    "broadcast_into": (c_void_p, c_size_t, c_uint32, c_void_p),
    "all_gather": (c_void_p, c_size_t, c_void_p),
    "agree": (c_void_p, c_size_t, POINTER(c_int)),
    "barrier": (),
    "reduce_values_in": (c_uint64, c_void_p, c_size_t, c_int, c_int),
    "all_gather_in": (c_uint64, c_void_p, c_size_t, c_void_p, POINTER(c_uint32)),
    "broadcast_in": (c_uint64, c_void_p, c_size_t, c_uint32),
    "reduce_values_async": (c_char_p, c_void_p, c_size_t, c_int, c_int),
    "broadcast_async": (c_char_p, c_void_p, c_size_t, c_uint32),
    "step_hooks": (BeforeStep, AfterStep, c_void_p),
    "look_ahead": (c_uint32, POINTER(c_uint64), POINTER(c_size_t), POINTER(c_uint64), POINTER(c_uint32)),
    "share_tensor": (c_char_p, c_void_p, c_char_p, POINTER(c_uint64), c_uint32),
    "share_tensor_through": (c_char_p, c_char_p, POINTER(c_uint64), c_uint32, MemoryCopy, MemoryCopy, c_void_p),
    "share_forward_tensor": (c_char_p, c_void_p, c_char_p, POINTER(c_uint64), c_uint32),
    "share_first_tensor": (c_char_p, c_void_p, c_char_p, POINTER(c_uint64), c_uint32, c_uint64),
    "share_local_state": (c_char_p, c_void_p, c_size_t),
    "move_state": (c_char_p, c_void_p),
    "all_reduce_elsewhere_async": (StartElsewhere, FinishElsewhere, c_void_p),
    "step_memory": (c_size_t, POINTER(c_void_p)),
}
NUMBERS = {"rank": c_uint32, "world_size": c_uint32, "local_rank": c_uint32, "generation": c_uint64, "worker_id": c_uint64,
           "committed_step": c_uint64, "half_batch": c_uint64, "learning_rate_factor": c_double, "launched": c_int,
           "outcome_of": c_int, "synchronization_of": c_int}

_loaded: Optional[ctypes.CDLL] = None


def load() -> ctypes.CDLL:
    """The library, loaded once in a process. Raises ImportError where it cannot be found or loaded."""
    global _loaded
    if _loaded is None:
        path = _paths.library()
        try:
            _loaded = _declare(ctypes.CDLL(path))
        except OSError as error:
            raise ImportError(f"{path} cannot be loaded: {error}") from None
    return _loaded


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    library.et_version.restype = c_char_p
    library.et_last_error.restype = c_char_p
    library.et_session_create.argtypes = (POINTER(c_void_p),)
    library.et_session_destroy.argtypes = (c_void_p,)
    library.et_session_destroy.restype = None
    library.et_ignore_notices.argtypes = (c_int64,)
    library.et_ignore_notices.restype = None
    library.et_exchange_all_gather.argtypes = (c_void_p, c_void_p, c_size_t, c_void_p)
    library.et_exchange_is_broken.argtypes = (c_void_p,)
    library.et_plane_open.argtypes = (POINTER(c_void_p),)
    library.et_plane_close.argtypes = (c_void_p,)
    library.et_plane_close.restype = None
    library.et_plane_endpoint.argtypes = (c_void_p, c_void_p)
    library.et_plane_build.argtypes = (c_void_p, POINTER(PlaneWorld))
    library.et_plane_all_reduce.argtypes = (c_void_p, POINTER(PlaneSum))
    library.et_plane_abort.argtypes = (c_void_p, c_uint64)
    for name, types in CALLS.items():
        getattr(library, f"et_{name}").argtypes = (c_void_p, *types)
    for name, result in NUMBERS.items():
        function = getattr(library, f"et_{name}")
        function.argtypes, function.restype = (c_void_p,), result
    return library
