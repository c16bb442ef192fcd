import { randomBytes } from "node:crypto";
import { hostOf, httpRequestText, REQUEST_NONCE_BYTES, robotAuthorization } from "@roamfleet/protocol/link";
import type { Fetcher } from "../contract.ts";
import type { RobotKey } from "../identity/identity.ts";
import type { RobotTime } from "../robot-time.ts";
import type { HttpClient } from "./request.ts";

/** Sends signed GETs to the server. Each signature covers server, connection, path and time, and is valid for one request. */
export function signedFetcher(options: { server: string; robot_id: string; key: RobotKey; time: RobotTime; http: HttpClient }): Fetcher {
  const { server, robot_id, key, time, http } = options;
  const host = hostOf(server);
  return {
    get: (path, { range_start, if_range, signal }) => {
      const range: Record<string, string> = range_start
        ? { range: `bytes=${range_start}-`, ...(if_range ? { "if-range": if_range } : {}) }
        : {};
      return http({
        method: "GET",
        url: server + path,
        headers: { "accept-encoding": "identity", ...range },
        bound_headers: (channel) => {
          const nonce = randomBytes(REQUEST_NONCE_BYTES).toString("base64url");
          const request = { host, channel, method: "GET", path, at: time.serverTime(), nonce };
          return { authorization: robotAuthorization(robot_id, request, key.sign(httpRequestText(robot_id, request))) };
        },
        signal,
      });
    },
  };
}
