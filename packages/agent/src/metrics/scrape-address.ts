import type { ScrapeAddress } from "../config-file/robot-config.ts";

/** Path of metrics, unless another one is set. */
export const METRICS_PATH_DEFAULT = "/metrics";

/** Returns the address of an http URL. */
export const httpAddress = ({ hostname, port, host, pathname, search }: URL): ScrapeAddress => ({
  instance: host,
  host: hostname.replace(/^\[|\]$/g, ""),
  port: port === "" ? 80 : Number(port),
  path: pathname === "/" ? METRICS_PATH_DEFAULT : `${pathname}${search}`,
});
