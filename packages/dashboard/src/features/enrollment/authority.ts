import { api } from "../../api/client.ts";
import { fingerprintOfPem } from "./fingerprint.ts";

/** Returns the fingerprint of the server's certificate authority; null without one or without TLS. Rejects if the server does not respond. */
export async function readAuthority(): Promise<string | null> {
  if (window.location.protocol !== "https:") return null;
  const response = await api.request("GET", "/ca.pem", { headers: { accept: "*/*" } });
  return response.ok ? (fingerprintOfPem(await response.text()) ?? null) : null;
}
