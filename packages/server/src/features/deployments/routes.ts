import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { Answer, asksDryRun, created, serve } from "../../kernel/serve.ts";
import type { Http } from "../../kernel/http.ts";
import { forbidden, notFound } from "../../kernel/fault.ts";
import { authorityOf } from "../access/index.ts";
import { isSealed, openFile } from "../configs/index.ts";
import { cancelDeployment } from "./cancel/cancel.ts";
import { createConfigDeployment, createDeployment } from "./create/create.ts";
import { retryDeployment } from "./create/from-ended.ts";
import { pauseDeployment, promoteDeployment, resumeDeployment } from "./rollout/pause.ts";
import { planConfigDeployment, planDeployment } from "./create/plan.ts";
import { selectionText } from "./create/selection.ts";
import { explainRobot } from "./explain/explain.ts";
import {
  deploymentToWire,
  listConfigDeployments,
  listDeployments,
  listDeploymentWaves,
  listEvents,
  listTargets,
  requireDeployment,
  showConfigDeployment,
  withRelease,
} from "./read.ts";
import { rollBackDeployment } from "./rollback/rollback.ts";
import { getConfigContent } from "./store/robot-state.ts";
import { isApproved } from "./store/robots.ts";

export function deploymentRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.explainRobot, async (_, { db, caller, params, query }) => ({
    data: await explainRobot(db, plane, caller, params.id, query.deployment_id),
  }));
  serve(http, plane, routes.listDeployments, async (_, { db, caller, query }) => listDeployments(db, caller, query));
  serve(http, plane, routes.createDeployment, async (_, { db, caller, body }) => {
    if (asksDryRun(body)) return new Answer(200, { data: await planDeployment(db, plane, caller, body) });
    const { row, release } = await createDeployment(db, plane, caller, body);
    const { id, tag, kind, app } = release;
    const selection = await selectionText(db, caller.org_id, row);
    return created("/api/deployments", { data: deploymentToWire(row, { id, tag, kind, app }, selection) });
  });
  serve(http, plane, routes.getDeployment, async (_, { db, caller, params }) => {
    const row = await requireDeployment(db, caller.org_id, "release", params.id);
    return { data: await withRelease(db, row) };
  });
  serve(http, plane, routes.listDeploymentEvents, async (_, { db, caller, params, query }) =>
    listEvents(db, caller, "release", params.id, query),
  );
  serve(http, plane, routes.listDeploymentTargets, async (_, { db, caller, params, query }) => listTargets(db, caller, params.id, query));
  serve(http, plane, routes.listDeploymentWaves, async (_, { db, caller, params, query }) =>
    listDeploymentWaves(db, caller, params.id, query),
  );
  serve(http, plane, routes.pauseDeployment, async (_, { db, caller, params }) => ({
    data: await withRelease(db, await pauseDeployment(db, plane, caller.org_id, params.id, caller.actor)),
  }));
  serve(http, plane, routes.resumeDeployment, async (_, { db, caller, params }) => ({
    data: await withRelease(db, await resumeDeployment(db, plane, caller.org_id, params.id, caller.actor)),
  }));
  serve(http, plane, routes.promoteDeployment, async (_, { db, caller, params }) => ({
    data: await withRelease(db, await promoteDeployment(db, plane, caller.org_id, params.id, caller.actor)),
  }));
  serve(http, plane, routes.cancelDeployment, async (_, { db, caller, params, body }) => {
    const options = { mode: body.mode ?? "finish", authority: authorityOf(caller) };
    const row = await cancelDeployment(db, plane, caller.org_id, params.id, caller.actor, options);
    return { data: await withRelease(db, row) };
  });
  serve(http, plane, routes.retryDeployment, async (_, { db, caller, params, body }) => {
    const row = await retryDeployment(db, plane, caller, params.id, body.rollout);
    return created("/api/deployments", { data: await withRelease(db, row) });
  });
  serve(http, plane, routes.rollBackDeployment, async (_, { db, caller, params }) => {
    const { row, is_new } = await rollBackDeployment(db, plane, caller, params.id);
    const data = await withRelease(db, row);
    return is_new ? created("/api/deployments", { data }) : new Answer(202, { data });
  });
}

export function configDeploymentRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listConfigDeployments, async (_, { db, caller, query }) => listConfigDeployments(db, caller, query));
  serve(http, plane, routes.createConfigDeployment, async (_, { db, caller, body }) => {
    if (asksDryRun(body)) return new Answer(200, { data: await planConfigDeployment(db, plane, caller, body) });
    const row = await createConfigDeployment(db, plane, caller, body);
    return created("/api/configs/deployments", { data: await showConfigDeployment(db, row) });
  });
  serve(http, plane, routes.getConfigDeployment, async (_, { db, caller, params }) => ({
    data: await showConfigDeployment(db, await requireDeployment(db, caller.org_id, "config", params.id)),
  }));
  serve(http, plane, routes.listConfigDeploymentEvents, async (_, { db, caller, params, query }) =>
    listEvents(db, caller, "config", params.id, query),
  );
  serve(http, plane, routes.listConfigDeploymentTargets, async (_, { db, caller, params, query }) =>
    listTargets(db, caller, params.id, query, "config"),
  );
  serve(http, plane, routes.listConfigDeploymentWaves, async (_, { db, caller, params, query }) =>
    listDeploymentWaves(db, caller, params.id, query, "config"),
  );
  serve(http, plane, routes.pauseConfigDeployment, async (_, { db, caller, params }) => ({
    data: await showConfigDeployment(db, await pauseDeployment(db, plane, caller.org_id, params.id, caller.actor, "config")),
  }));
  serve(http, plane, routes.resumeConfigDeployment, async (_, { db, caller, params }) => ({
    data: await showConfigDeployment(db, await resumeDeployment(db, plane, caller.org_id, params.id, caller.actor, "config")),
  }));
  serve(http, plane, routes.promoteConfigDeployment, async (_, { db, caller, params }) => ({
    data: await showConfigDeployment(db, await promoteDeployment(db, plane, caller.org_id, params.id, caller.actor, "config")),
  }));
  serve(http, plane, routes.cancelConfigDeployment, async (_, { db, caller, params }) => ({
    data: await showConfigDeployment(db, await cancelDeployment(db, plane, caller.org_id, params.id, caller.actor, { kind: "config" })),
  }));
  serve(http, plane, routes.getAgentConfig, async (_, { db, caller, params }) => {
    const file = await getConfigContent(db, caller.org_id, caller.robot_id, params.namespace);
    if (file === undefined) throw notFound("config of namespace", params.namespace);
    // The file may have been stored for the robot's previous computer, which was approved; its new computer may not be.
    if (isSealed(file.content) && !(await isApproved(db, caller.org_id, caller.robot_id)))
      throw forbidden("the file contains secrets: an admin must approve the robot first");
    // The exact bytes whose digest the robot was sent.
    const { content } = await openFile(db, plane, caller.org_id, file);
    return new Answer<never>(200, content, { "content-type": "application/json; charset=utf-8", etag: `"${file.sha256}"` });
  });
}
