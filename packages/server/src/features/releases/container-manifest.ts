import { ContainerManifest, type ContainerMount } from "@roamfleet/protocol/container-manifest";
import { badRequest } from "../../kernel/fault.ts";
import { fieldValidator } from "../../kernel/validate.ts";

const validate = fieldValidator("manifest", ContainerManifest);

const wrong = (path: string, why: string): Error => badRequest(`field manifest.${path} ${why}`);

/** Checks a container manifest before its release is created. Throws 400 with the path of the invalid field. */
export function checkContainerManifest(value: Record<string, unknown>): void {
  const manifest = validate(value) as ContainerManifest;
  checkPorts(manifest);
  for (const [at, mount] of (manifest.mounts ?? []).entries()) checkMount(mount, `mounts.${at}`);
  requireDistinct(
    "mounts",
    (manifest.mounts ?? []).map(({ target }) => target.replace(/\/+$/, "")),
    "target",
  );
  requireDistinct(
    "devices",
    (manifest.devices ?? []).map(({ host, container }) => container ?? host),
    "device in the container",
  );
  if (manifest.restart?.max_retries !== undefined && manifest.restart.policy !== "on_failure")
    throw wrong("restart.max_retries", "can only be used with the policy on_failure");
  for (const [name, limit] of Object.entries(manifest.ulimits ?? {})) {
    if (limit.hard !== -1 && (limit.soft === -1 || limit.soft > limit.hard)) throw wrong(`ulimits.${name}.soft`, "must not be above hard");
  }
  checkHealth(manifest);
}

function checkPorts({ ports = [], host_network, replace }: ContainerManifest): void {
  if (host_network === true && ports.length > 0)
    throw wrong("ports", "cannot be used with host_network: the container uses the robot's ports");
  const bound = ports.filter(({ host }) => host !== undefined);
  if (replace === "beside" && bound.length > 0)
    throw wrong("replace", 'must not be "beside" if a port of the robot is fixed: two containers cannot use that port at the same time');
  requireDistinct(
    "ports",
    bound.map(({ host, host_address, protocol }) => `${host_address ?? ""}:${host}/${protocol ?? "tcp"}`),
    "port of the robot",
  );
}

function requireDistinct(path: string, names: readonly string[], what: string): void {
  const at = names.findIndex((name, index) => names.indexOf(name) < index);
  if (at !== -1) throw wrong(`${path}.${at}`, `has the same ${what} as ${path}.${names.indexOf(names[at] ?? "")}`);
}

function checkMount({ type, source, size_bytes }: ContainerMount, path: string): void {
  if (type === "bind" && source?.startsWith("/") !== true) throw wrong(`${path}.source`, "must be an absolute path for a bind mount");
  if (type === "volume" && source?.startsWith("/") === true) throw wrong(`${path}.source`, "must be the name of a volume, not a path");
  if (type === "tmpfs" && source !== undefined) throw wrong(`${path}.source`, "cannot be used with a tmpfs");
  if (type !== "tmpfs" && size_bytes !== undefined) throw wrong(`${path}.size_bytes`, "can only be used with a tmpfs");
}

function checkHealth({ health }: ContainerManifest): void {
  const { http, log } = health ?? {};
  if (http !== undefined) {
    const { url, port, path } = http;
    if ((url === undefined) === (port === undefined)) throw wrong("health.http", "must have exactly one of url, port");
    if (url !== undefined && path !== undefined) throw wrong("health.http.path", "can only be used with port; include it in url");
    if (url !== undefined && !URL.canParse(url)) throw wrong("health.http.url", "must be an http or https address");
  }
  if (log !== undefined && !isPattern(log.pattern)) throw wrong("health.log.pattern", "must be a regular expression");
}

function isPattern(pattern: string): boolean {
  try {
    return new RegExp(pattern) instanceof RegExp;
  } catch {
    return false;
  }
}
