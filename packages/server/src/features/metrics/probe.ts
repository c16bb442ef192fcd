import type { Clock } from "@roamfleet/clock";
import type { MetricEndpoint } from "../../metric-endpoints.ts";
import { exchange } from "./http-exchange.ts";
import { encodeWriteRequest, WRITE_HEADERS } from "./remote-write/write-request.ts";

const RESPONSE_BYTES_MAX = 65_536;

interface ProbeContext {
  clock: Pick<Clock, "setTimer">;
  timeout_ms: number;
  signal: AbortSignal;
}

/** Sends a request without samples to a receiver of remote write. Returns the status of the response, or throws why there is none. */
export const probeWrite = async (context: ProbeContext, endpoint: MetricEndpoint): Promise<number> =>
  (await exchange(context, endpoint, { ...sized(context), headers: WRITE_HEADERS, body: encodeWriteRequest([]) })).status;

/** Sends a query that needs no samples to a Prometheus-compatible API. Returns the status of the response, or throws why there is none. */
export const probeRead = async (context: ProbeContext, endpoint: MetricEndpoint): Promise<number> =>
  (
    await exchange(context, endpoint, {
      ...sized(context),
      path: "/api/v1/query",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: "query=vector(1)",
    })
  ).status;

const sized = ({ timeout_ms }: ProbeContext) => ({ timeout_ms, response_bytes_max: RESPONSE_BYTES_MAX });
