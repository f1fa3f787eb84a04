"""The status page of the server, and what it shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from afterglow.serve.metrics import resident_bytes

if TYPE_CHECKING:
    from afterglow.serve.core import ServerCore


def status_data(core: ServerCore) -> dict[str, Any]:
    """Models, rates, latencies and memory."""
    models = []
    for row in core.repository.index():
        served = core.repository.models[row["name"]].served.get(row["version"])
        about: dict[str, Any] = dict(row)
        if served is not None:
            times = served.statistics.percentiles()
            p50, p90, p99 = (None if math.isnan(each) else each * 1e3 for each in times)
            runs = served.statistics.compute.count
            about |= {
                "answered": served.statistics.success.count,
                "failed": served.statistics.fail.count,
                "waiting": served.batcher.waiting,
                "rows_per_run": served.statistics.rows / runs if runs else None,
                "max_batch": served.batcher.limits.max_batch,
                "p50_ms": p50,
                "p90_ms": p90,
                "p99_ms": p99,
                "bytes": served.nbytes,
            }
        models.append(about)
    return {
        "server": core.server_metadata(),
        "ready": core.is_ready,
        "resident_bytes": resident_bytes(),
        "models": models,
    }


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Afterglow</title>
<meta name="viewport" content="width=device-width">
<style>
 body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
        color: #222; background: #fafafa }
 table { border-collapse: collapse; width: 100%; background: #fff }
 th, td { padding: .4rem .7rem; text-align: right; border-bottom: 1px solid #ddd;
          font-variant-numeric: tabular-nums }
 th:first-child, td:first-child, td:nth-child(2), th:nth-child(2) { text-align: left }
 td:not(:nth-child(2)) { white-space: nowrap }
 .READY { color: #17722b } .UNAVAILABLE { color: #a11 } .LOADING { color: #955a00 }
 @media (prefers-color-scheme: dark) {
   body { color: #ddd; background: #181818 } table { background: #202020 }
   th, td { border-color: #383838 } .READY { color: #6c8 } .UNAVAILABLE { color: #f88 } }
</style>
<h1>Afterglow</h1><p id="about">…</p>
<table><thead><tr><th>model<th>state<th>requests/s<th>answered<th>failed<th>waiting
<th>rows a run<th>p50<th>p90<th>p99<th>memory</tr></thead><tbody id="models"></tbody></table>
<script>
 const size = n => n == null ? "" : n > 1e9 ? (n / 1e9).toFixed(2) + " GB"
   : n > 1e6 ? (n / 1e6).toFixed(1) + " MB" : (n / 1e3).toFixed(1) + " kB"
 const ms = n => n == null ? "" : n.toFixed(n < 10 ? 2 : 1) + " ms"
 const before = new Map()
 function cell(row, text, kind) {
   const td = document.createElement("td")
   td.textContent = text ?? ""
   if (kind) td.className = kind
   row.append(td)
 }
 function show(status) {
   document.getElementById("about").textContent =
     `version ${status.server.version}, ${status.ready ? "ready" : "not ready"}, ` +
     `${size(status.resident_bytes)} of memory`
   const rows = document.createDocumentFragment(), now = performance.now()
   for (const m of status.models) {
     const key = m.name + ":" + m.version, last = before.get(key)
     const rate = last && m.answered >= last[0]
       ? (1e3 * (m.answered - last[0]) / (now - last[1])).toFixed(1) : ""
     before.set(key, [m.answered, now])
     const row = document.createElement("tr")
     cell(row, `${m.name} ${m.version}`)
     cell(row, m.reason ? `${m.state}: ${m.reason}` : m.state, m.state)
     for (const text of [rate, m.answered, m.failed, m.waiting, m.rows_per_run?.toFixed(2),
       ms(m.p50_ms), ms(m.p90_ms), ms(m.p99_ms), size(m.bytes)]) cell(row, text)
     rows.append(row)
   }
   document.getElementById("models").replaceChildren(rows)
 }
 async function update() {
   try { show(await (await fetch("status")).json()) }
   catch { document.getElementById("about").textContent = "the server does not answer" }
   setTimeout(update, 2000)
 }
 update()
</script></html>
"""
