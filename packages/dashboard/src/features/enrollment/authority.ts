import { api } from "../../api/client.ts";
import { fingerprintOfPem } from "./fingerprint.ts";

/** Fingerprint of the server's own authority; null when it has none, or speaks no TLS. Rejects when it does not answer. */
export async function readAuthority(): Promise<string | null> {
  if (window.location.protocol !== "https:") return null;
  const response = await api.request("GET", "/ca.pem", { headers: { accept: "*/*" } });
  return response.ok ? (fingerprintOfPem(await response.text()) ?? null) : null;
}
