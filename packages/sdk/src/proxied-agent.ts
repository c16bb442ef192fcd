import { Agent as HttpAgent, type AgentOptions } from "node:http";
import { Agent as HttpsAgent, globalAgent } from "node:https";

/** Creates an agent that uses the proxy configured for Node's global agents (`http.setGlobalProxyFromEnv`). */
export function proxiedAgent(url: string, options: AgentOptions & { ca?: string }): HttpAgent | HttpsAgent {
  const { proxyEnv } = globalAgent.options;
  const proxied = { ...options, ...(proxyEnv === undefined ? {} : { proxyEnv }) };
  return /^(https|wss):/.test(url) ? new HttpsAgent(proxied) : new HttpAgent(proxied);
}
