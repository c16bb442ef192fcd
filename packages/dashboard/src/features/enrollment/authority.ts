import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client.ts";
import { fingerprintOfPem } from "./enrollment-lines.ts";

/** Loads the fingerprint of the server's certificate authority; null without one or without TLS. */
export const useAuthority = () =>
  useQuery({
    queryKey: ["authority"],
    queryFn: async (): Promise<string | null> => {
      if (window.location.protocol !== "https:") return null;
      const response = await api.request("GET", "/ca.pem", { headers: { accept: "*/*" } });
      return response.ok ? (fingerprintOfPem(await response.text()) ?? null) : null;
    },
    staleTime: Infinity,
  });
