import { probeRead, probeWrite } from "../../features/metrics/index.ts";
import type { MetricEndpoint } from "../../metric-endpoints.ts";
import { type Check, ok, problem, type Seen, shownUrl, skipped, warning } from "../finding.ts";

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

export const metricsCheck: Check = {
  name: "metrics",
  async check({ settings: { metric_endpoints: { write, read } = { write: undefined, read: undefined } }, ...context }) {
    if (write === undefined && read === undefined) return [skipped("no Prometheus is set: samples of robots stay in the database")];
    const examined = async (variable: string, endpoint: MetricEndpoint | undefined, probe: typeof probeWrite): Promise<Seen[]> =>
      endpoint === undefined ? [] : evaluateEndpoint(variable, endpoint, await probe(context, endpoint).catch((error: Error) => error));
    return [
      ...(await examined("ROAMFLEET_METRICS_REMOTE_WRITE_URL", write, probeWrite)),
      ...(await examined("ROAMFLEET_METRICS_URL", read, probeRead)),
    ];
  },
};

/** `answer` is the status of the response, or the reason why there is none. */
export function evaluateEndpoint(variable: string, { url, token }: MetricEndpoint, answer: number | Error): Seen[] {
  const shown = shownUrl(url);
  if (answer instanceof Error) return [problem(`${shown}: ${answer.message}`, `check ${variable}, and that the service runs`)];
  if (answer === 401 || answer === 403)
    return [problem(`${shown} refuses the credentials (status ${answer})`, `correct the user and password in ${variable}, or the token`)];
  if (answer === 404)
    return [problem(`${shown} does not exist`, `correct the path in ${variable}; Prometheus needs --web.enable-remote-write-receiver`)];
  if (answer >= 300) return [problem(`${shown} responded with status ${answer}`, `check ${variable}; redirects are not followed`)];
  const { protocol, hostname, username } = new URL(url);
  if (protocol === "http:" && (token !== undefined || username !== "") && !LOOPBACK.test(hostname))
    return [warning(`credentials are sent to ${shown} unencrypted`, "use https://, unless the network is private")];
  return [ok(`${shown} answers`)];
}
