import { routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { httpError, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { checkReady } from "./ready.ts";

export function operationRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getHealthz, async () => ({ status: "ok" as const }));
  serve(http, plane, routes.getReadyz, async () => {
    const checks = await checkReady(plane);
    const failed = Object.entries(checks).filter(([, state]) => state !== "ok");
    if (failed.length > 0)
      throw httpError(503, `not ready: ${failed.map(([name, state]) => `${name} ${state}`).join(", ")}`, { "retry-after": "2" });
    return { status: "ready" as const, checks };
  });
  serve(http, plane, routes.getCertificateAuthority, async ({ tls }) => {
    if (tls?.authority === undefined) throw notFound("certificate authority", "ca.pem");
    return new Answer<never>(200, tls.authority.pem, { "content-type": "application/x-pem-file" });
  });
  serve(
    http,
    plane,
    routes.getMetrics,
    async ({ metrics }) => new Answer<never>(200, await metrics.registry.metrics(), { "content-type": metrics.registry.contentType }),
  );
}
