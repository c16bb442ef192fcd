import type { Settings } from "../../config.ts";
import { Networks } from "../../kernel/networks.ts";
import type { Check } from "../context.ts";
import { ok, problem, type Seen, skipped, warning } from "../finding.ts";

/** A shorter prefix than these is more than an organization's network. */
const WIDE_BITS = { ipv4: 8, ipv6: 32 } as const;
const TOKEN_CHARACTERS_MIN = 24;
const TOKEN_DIFFERENT_MIN = 8;
const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/;

export const proxiesCheck: Check = {
  name: "proxies",
  check: ({ settings, wrong_parts }) => (wrong_parts.has("proxies") ? [skipped("see settings")] : judgeProxies(settings)),
};

export function judgeProxies({ behind_proxy, listen }: Pick<Settings, "behind_proxy" | "listen">): Seen[] {
  if (behind_proxy.length === 0) return [ok("none: clients connect directly")];
  const proxies = new Networks(behind_proxy);
  if (LOOPBACK.test(listen.host) && !proxies.has("127.0.0.1") && !proxies.has("::1"))
    return [
      problem(
        `the server only listens on this machine (${listen.host}), and --behind-proxy only accepts other machines`,
        "add 127.0.0.1 to --behind-proxy if the proxy is on this machine; otherwise listen on an address that the proxy can reach",
      ),
    ];
  const wide = behind_proxy.filter((network) => {
    const bits = network.split("/")[1];
    return bits !== undefined && Number(bits) < (network.includes(":") ? WIDE_BITS.ipv6 : WIDE_BITS.ipv4);
  });
  if (wide.length > 0)
    return [
      warning(
        `${wide.join(", ")} is more than a network of your own`,
        "give only the addresses of the proxy: clients at these addresses can forge any client address",
      ),
    ];
  return [ok(behind_proxy.join(", "))];
}

export const adminTokenCheck: Check = {
  name: "admin token",
  check: ({ settings, wrong_parts }) => [wrong_parts.has("admin token") ? skipped("see settings") : judgeAdminToken(settings)],
};

export function judgeAdminToken({ admin_token, behind_proxy, listen }: Pick<Settings, "admin_token" | "behind_proxy" | "listen">): Seen {
  const make = "SERVICE_ADMIN_TOKEN=$(openssl rand -hex 32)";
  if (admin_token === undefined) {
    if (behind_proxy.length > 0) return warning("not set: behind a proxy the admin routes and /metrics refuse all requests", make);
    if (LOOPBACK.test(listen.host)) return ok("not set: admin routes are open to every user of this machine");
    return warning("not set: admin routes are open to every user of this machine", make);
  }
  if (admin_token.length < TOKEN_CHARACTERS_MIN || new Set(admin_token).size < TOKEN_DIFFERENT_MIN)
    return warning("set, but short enough to be guessed", make);
  return ok("set");
}
