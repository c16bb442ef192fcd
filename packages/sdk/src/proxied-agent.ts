import { Agent as HttpAgent, type AgentOptions } from "node:http";
import { Agent as HttpsAgent, globalAgent } from "node:https";

/** An agent for connections to an address, through the proxy that the program has set for Node's own agents (`http.setGlobalProxyFromEnv`). */
export function proxiedAgent(url: string, options: AgentOptions & { ca?: string }): HttpAgent | HttpsAgent {
  const { proxyEnv } = globalAgent.options;
  const proxied = { ...options, ...(proxyEnv === undefined ? {} : { proxyEnv }) };
  return /^(https|wss):/.test(url) ? new HttpsAgent(proxied) : new HttpAgent(proxied);
}
