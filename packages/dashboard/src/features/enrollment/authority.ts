import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client.ts";
import { fingerprintOfPem } from "./enrollment-lines.ts";

/** Loads the fingerprint of the server's certificate authority; null without one or without TLS. */
export const useAuthority = () =>
  useQuery({
    queryKey: ["authority"],
    // Without TLS, send no request. A function that returned null would count as a response of the server, and hide an outage.
    ...(window.location.protocol === "https:" ? {} : { enabled: false, initialData: null }),
    queryFn: async (): Promise<string | null> => {
      const response = await api.request("GET", "/ca.pem", { headers: { accept: "*/*" } });
      return response.ok ? (fingerprintOfPem(await response.text()) ?? null) : null;
    },
    staleTime: Infinity,
  });
