import type { Clock } from "@roamfleet/clock";
import type { Http } from "./kernel/http.ts";

/** Limit for running requests when the server stops. */
const STOP_TIMEOUT_MS = 10_000;

/**
 * Announces the shutdown, and continues to serve until load balancers have noticed: `/readyz` returns 503, and each response closes its
 * connection.
 */
export async function announceStop(
  http: Http,
  { clock, stopping, drain_seconds }: { clock: Clock; stopping: AbortController; drain_seconds: number },
): Promise<void> {
  http.server.prependListener("request", (_request, response) => {
    response.shouldKeepAlive = false;
  });
  stopping.abort();
  if (drain_seconds > 0) await clock.sleep(drain_seconds * 1_000);
}

/** Stops listening, waits for running requests, and closes the remaining connections after STOP_TIMEOUT_MS. */
export async function stopHttp(http: Http, clock: Clock): Promise<void> {
  http.server.closeIdleConnections();
  const cut = clock.setTimer(STOP_TIMEOUT_MS, () => http.server.closeAllConnections());
  await http.app.close();
  cut.cancel();
}
