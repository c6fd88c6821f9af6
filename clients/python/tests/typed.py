"""Is checked by mypy in strict mode, and not run: what an editor knows about payloads. Each `type: ignore` must be needed."""

from dataclasses import dataclass

from windlass import AsyncWorker, Client, Job, Worker


@dataclass
class Resize:
    image: int


def resize(job: Job[Resize]) -> int:
    return job.payload.image


async def resize_soon(job: Job[Resize]) -> str:
    return job.payload.image  # type: ignore[return-value]


def rename(job: Job[str]) -> None:
    job.log(job.payload.upper())


def read(value: object) -> Resize:
    return Resize(int(str(value)))


def declare(client: Client, worker: Worker, async_worker: AsyncWorker) -> None:
    worker.handler("resize", payload=Resize)(resize)
    worker.handler("resize", payload=read)(resize)
    worker.handler("resize", payload=Resize)(rename)  # type: ignore[arg-type]
    async_worker.handler("resize", payload=Resize)(resize_soon)
    worker.handler("rename")(rename)
    client.enqueue(7)  # type: ignore[arg-type]
