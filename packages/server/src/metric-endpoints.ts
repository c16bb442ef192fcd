import { readSecret, SettingsError } from "./secret-settings.ts";

/** An HTTP service of the operator. The URL may contain a user and a password. */
export interface MetricEndpoint {
  url: string;
  /** Sent as `Authorization: Bearer`. */
  token: string | undefined;
}

export interface MetricEndpoints {
  /** Receives all samples by Prometheus remote write. */
  write: MetricEndpoint | undefined;
  /** Base URL of a Prometheus-compatible API that has these samples. */
  read: MetricEndpoint | undefined;
}

/** Reads the endpoints for samples of robots. Error messages do not contain URLs, because they may contain passwords. */
export const readMetricEndpoints = (env: NodeJS.ProcessEnv): MetricEndpoints => ({
  write: readEndpoint("ROAMFLEET_METRICS_REMOTE_WRITE", env),
  read: readEndpoint("ROAMFLEET_METRICS", env),
});

function readEndpoint(prefix: string, env: NodeJS.ProcessEnv): MetricEndpoint | undefined {
  const url = readSecret(`${prefix}_URL`, env);
  const token = readSecret(`${prefix}_TOKEN`, env);
  if (url === undefined && token === undefined) return undefined;
  if (url === undefined) throw new SettingsError(`${prefix}_TOKEN is set without ${prefix}_URL`);
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) throw new SettingsError(`${prefix}_URL: expected http://… or https://…`);
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new SettingsError(`${prefix}_TOKEN contains characters that HTTP forbids`);
  if (token !== undefined && (parsed.username !== "" || parsed.password !== ""))
    throw new SettingsError(`${prefix}_TOKEN and a user in ${prefix}_URL are both set: set only one of them`);
  return { url, token };
}
