import { routes } from "@roamfleet/protocol/routes";
import packageJson from "../../../package.json" with { type: "json" };
import type { Plane } from "../../context.ts";
import { httpError, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { countNodes } from "./count-nodes.ts";
import { checkReady, isDataDiskFull, reasonsNotReady } from "./ready.ts";

export function operationRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getHealthz, async () => ({ status: "ok" as const }));
  serve(http, plane, routes.getReadyz, async () => {
    if (plane.stopping.aborted) throw httpError(503, "not ready: the server is stopping", { "retry-after": "2" });
    const checks = await checkReady(plane);
    const failed = reasonsNotReady(checks, plane);
    if (failed.length > 0)
      throw httpError(503, `not ready: ${failed.map(([name, state]) => `${name} ${state}`).join(", ")}`, { "retry-after": "2" });
    return { status: "ready" as const, node_id: plane.node.id, checks };
  });
  serve(http, plane, routes.getCertificateAuthority, async ({ tls }) => {
    if (tls?.authority === undefined) throw notFound("certificate authority", "ca.pem");
    return new Answer<never>(200, tls.authority.pem, { "content-type": "application/x-pem-file" });
  });
  plane.metrics.node_info.set({ node_id: plane.node.id, version: packageJson.version }, 1);
  serve(http, plane, routes.getMetrics, async () => {
    await countNodes(plane);
    plane.metrics.disk_full.set((await isDataDiskFull(plane.settings)) ? 1 : 0);
    const { registry } = plane.metrics;
    return new Answer<never>(200, await registry.metrics(), { "content-type": registry.contentType });
  });
}
