import type { Clock } from "@roamfleet/clock";
import type { Http } from "./kernel/http.ts";

/** Requests under way may finish for this long when the server stops. */
const STOP_TIMEOUT_MS = 10_000;

/**
 * Says that the server stops and goes on serving for as long as whoever sends requests here takes to notice: `/readyz` is 503,
 * and each answer is the last one of its connection.
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

/** Stops listening, lets requests under way finish, and cuts what is left after a while. */
export async function stopHttp(http: Http, clock: Clock): Promise<void> {
  http.server.closeIdleConnections();
  const cut = clock.setTimer(STOP_TIMEOUT_MS, () => http.server.closeAllConnections());
  await http.app.close();
  cut.cancel();
}
