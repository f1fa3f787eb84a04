"""The checks through Triton's clients."""

from __future__ import annotations

import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from benchmarks.serve_conformance.subject import VALUE, Subject


def with_triton_http(subject: Subject) -> None:
    """The same through tritonclient, with tensors as bytes and as JSON."""
    client = http_client.InferenceServerClient(subject.url.removeprefix("http://"))
    subject.check("tritonclient http: live", lambda: (client.is_server_live(), "live"))
    for binary in (True, False):
        name = "bytes" if binary else "JSON"

        def infer(binary: bool = binary) -> tuple[bool, str]:
            given = http_client.InferInput("x", VALUE.shape, "FP32")
            given.set_data_from_numpy(VALUE, binary_data=binary)
            wanted = http_client.InferRequestedOutput("y", binary_data=binary)
            found = client.infer(subject.model, [given], outputs=[wanted]).as_numpy("y")
            return bool((found == 2 * VALUE).all()), str(found.tolist())

        subject.check(f"tritonclient http: infer, {name}", infer)
    subject.check(
        "tritonclient http: metadata",
        lambda: (client.get_model_metadata(subject.model)["name"] == subject.model, "name"),
    )
    client.close()


def with_triton_grpc(subject: Subject) -> None:
    """The same over gRPC."""
    if subject.grpc is None:
        return
    client = grpc_client.InferenceServerClient(subject.grpc)

    def infer() -> tuple[bool, str]:
        given = grpc_client.InferInput("x", VALUE.shape, "FP32")
        given.set_data_from_numpy(VALUE)
        found = client.infer(subject.model, [given]).as_numpy("y")
        return bool((found == 2 * VALUE).all()), str(found.tolist())

    def unknown() -> tuple[bool, str]:
        given = grpc_client.InferInput("x", VALUE.shape, "FP32")
        given.set_data_from_numpy(VALUE)
        try:
            client.infer("there-is-none", [given])
        except grpc_client.InferenceServerException as error:
            return error.status() == "StatusCode.NOT_FOUND", str(error.status())
        return False, "it was answered"

    subject.check("tritonclient grpc: live", lambda: (client.is_server_live(), "live"))
    subject.check(
        "tritonclient grpc: ready", lambda: (client.is_model_ready(subject.model), "ready")
    )
    subject.check("tritonclient grpc: infer", infer)
    subject.check("tritonclient grpc: unknown model", unknown)
    client.close()
