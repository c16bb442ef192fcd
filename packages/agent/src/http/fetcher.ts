import { randomBytes } from "node:crypto";
import { hostOf, httpRequestText, REQUEST_NONCE_BYTES, ROBOT_SIGNATURE_SCHEME } from "@robofleet/protocol/link";
import type { Fetcher } from "../contract.ts";
import type { RobotKey } from "../identity/identity.ts";
import type { RobotTime } from "../robot-time.ts";
import type { HttpClient } from "./request.ts";

/** GETs from the server in the robot's name: each request is signed for its server, path and time, and counts once. */
export function signedFetcher(options: { server: string; robot_id: string; key: RobotKey; time: RobotTime; http: HttpClient }): Fetcher {
  const { server, robot_id, key, time, http } = options;
  const host = hostOf(server);
  return {
    get: (path, { range_start, if_range, signal }) => {
      const at = time.serverTime();
      const nonce = randomBytes(REQUEST_NONCE_BYTES).toString("base64url");
      const signature = key.sign(httpRequestText(robot_id, { host, method: "GET", path, at, nonce }));
      const range: Record<string, string> = range_start
        ? { range: `bytes=${range_start}-`, ...(if_range ? { "if-range": if_range } : {}) }
        : {};
      return http({
        method: "GET",
        url: server + path,
        headers: {
          authorization: `${ROBOT_SIGNATURE_SCHEME} ${robot_id}:${at}:${nonce}:${signature}`,
          "accept-encoding": "identity",
          ...range,
        },
        signal,
      });
    },
  };
}
