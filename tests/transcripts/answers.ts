import { paths, type RouteName } from "@roamfleet/protocol/paths";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

/** The route whose response a command prints with --json; null for documents of rf itself. */
export const JSON_ANSWERS: Readonly<Record<string, RouteName | null>> = {
  deploy: "createDeployment",
  "deployments list": "listDeployments",
  "deployments show": "getDeployment",
  "deployments watch": "getDeployment",
  "deployments pause": "pauseDeployment",
  "deployments resume": "resumeDeployment",
  "deployments promote": "promoteDeployment",
  "deployments cancel": "cancelDeployment",
  "deployments rollback": "rollBackDeployment",
  "deployments retry": "retryDeployment",
  "releases list": "listReleases",
  "releases show": "getRelease",
  "releases push": "getRelease",
  "releases remove": "deleteRelease",
  "signing-keys new": null,
  "signing-keys list": "getSigningKeys",
  "signing-keys add": "changeSigningKeys",
  "signing-keys revoke": "changeSigningKeys",
  "signing-keys require": "changeSigningKeys",
  "configs list": "listConfigs",
  "configs get": "getConfig",
  "configs set": "setConfig",
  "configs edit": "setConfig",
  "configs unset": "deleteConfig",
  "configs effective": "getRobotConfig",
  "configs history": "listConfigHistory",
  "configs diff": "diffRobotConfig",
  "configs rollback": "rollBackConfig",
  "configs schema": "listConfigSchemas",
  "configs deploy": "createConfigDeployment",
  "configs waves": "listConfigDeploymentWaves",
  "configs pause": "pauseConfigDeployment",
  "configs resume": "resumeConfigDeployment",
  "configs promote": "promoteConfigDeployment",
  "configs cancel": "cancelConfigDeployment",
  "configs deployments": "listConfigDeployments",
  "configs events": "listConfigDeploymentEvents",
  "channels list": "listChannels",
  "channels show": "getChannel",
  "channels add": "createChannel",
  "channels change": "updateChannel",
  "channels test": "testChannel",
  "channels deliveries": "listDeliveries",
  "channels resend": "resendDelivery",
  "channels remove": "deleteChannel",
  "robots list": "listRobots",
  "robots show": "getRobot",
  "robots inspect": "getRobotHealth",
  "robots health": "getRobotHealthHistory",
  "robots logs": "listRobotLogs",
  "robots timeline": "listRobotTimeline",
  "robots rename": "updateRobot",
  "robots label": "bulkUpdateRobots",
  "robots move": "bulkUpdateRobots",
  "robots replace": "replaceRobot",
  "robots admit": "releaseHold",
  "robots approve": "approveRobot",
  "robots remove": "deleteRobot",
  "incidents list": "listIncidents",
  "incidents show": "getIncident",
  "incidents ack": "acknowledgeIncident",
  "incidents resolve": "resolveIncident",
  "incidents comment": "commentIncident",
  "incidents assign": "assignIncident",
  "alerts list": "listAlertRules",
  "alerts show": "getAlertRule",
  "alerts create": "createAlertRule",
  "alerts update": "updateAlertRule",
  "alerts test": "testAlertRule",
  "alerts enable": "updateAlertRule",
  "alerts disable": "updateAlertRule",
  "alerts remove": "deleteAlertRule",
  "alerts mutes": "listAlertMutes",
  "alerts mute": "createAlertMute",
  "alerts unmute": "deleteAlertMute",
  timeline: "listTimeline",
  logs: "searchLogs",
  report: "getReport",
  explain: "explainRobot",
  "metrics show": "getRobotMetrics",
  "metrics query": "queryMetrics",
  "metrics names": "listMetrics",
  "robots shell": null,
  "robots sessions": "listShellSessions",
  "robots cp": null,
  "robots forward": null,
  "robots topics": null,
  "robots camera": null,
  "agents list": null,
  "agents upgrade": null,
  "sites list": "listSites",
  "sites create": "createSite",
  "sites rename": "updateSite",
  "sites remove": "deleteSite",
  "fleets list": "listFleets",
  "fleets show": "getFleet",
  "fleets update": "updateFleet",
  "fleets create": "createFleet",
  "fleets remove": "deleteFleet",
  "fleets logs": "listFleetLogs",
  "keys list": "listEnrollmentKeys",
  "keys new": "createEnrollmentKey",
  "keys revoke": "revokeEnrollmentKey",
  login: null,
  logout: null,
  whoami: "getMe",
  "org show": "getOrg",
  "org set": "updateOrg",
  "users list": "listUsers",
  "users create": "createUser",
  "users show": "getUser",
  "users update": "updateUser",
  "users remove": "deleteUser",
  "tokens list": "listTokens",
  "tokens create": "createToken",
  "tokens show": "getToken",
  "tokens revoke": "revokeToken",
  "tokens rotate": "rotateToken",
  audit: "listAudit",
  "profiles list": null,
  "profiles use": null,
  "profiles add": null,
  "profiles remove": null,
  "settings list": null,
  "settings set": null,
  "settings unset": null,
  completion: null,
  api: null,
  "orgs request": "requestOrg",
  "orgs list": "listOrgs",
  "orgs show": "getAnyOrg",
  "orgs create": "createOrg",
  "orgs approve": "approveOrg",
  "orgs reject": "rejectOrg",
  "orgs suspend": "suspendOrg",
  "orgs resume": "resumeOrg",
};

interface OpenapiDocument {
  paths: Record<string, Record<string, { responses: Record<string, unknown> }>>;
}

/** Checks documents against the responses in the OpenAPI document. */
export class Answers {
  readonly #document: OpenapiDocument;
  readonly #ajv = new Ajv2020({ strict: false });

  constructor(document: OpenapiDocument) {
    this.#document = document;
    formats.default(this.#ajv);
    this.#ajv.addSchema(document, "openapi");
  }

  /** Describes a document in words. Throws if it is neither the route's response nor, after a failure, an error. */
  describe(route: RouteName | null, document: unknown, failed: boolean): string {
    // After a failed deployment the command fails, but prints the deployment.
    if (failed && !isObjectWith("data", document)) return `(JSON: error ${envelopeCode(document)})`;
    if (route === null) return `(JSON: ${Object.keys(document as object).join(", ")})`;
    const [method, path] = paths[route];
    const { responses } = this.#document.paths[path]![method.toLowerCase()]!;
    const statuses = Object.keys(responses).filter((status) => status.startsWith("2"));
    const problems = statuses.map((status) => {
      const parts = ["paths", path, method.toLowerCase(), "responses", status, "content", "application/json", "schema"];
      const pointer = parts.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/");
      const validate = this.#ajv.compile({ $ref: `openapi#/${pointer}` });
      return validate(document) ? undefined : this.#ajv.errorsText(validate.errors);
    });
    if (!problems.includes(undefined))
      throw new Error(`${route} answers no ${JSON.stringify(document).slice(0, 500)}: ${problems.join("; ")}`);
    return `(JSON: as ${method} ${path} answers)`;
  }
}

function envelopeCode(document: unknown): string {
  const { error, ...more } = document as { error?: { code?: unknown; message?: unknown } };
  if (typeof error?.code === "string" && typeof error.message === "string" && Object.keys(more).length === 0) return error.code;
  throw new Error(`this is no error: ${JSON.stringify(document)}`);
}

const isObjectWith = (name: string, value: unknown): boolean => typeof value === "object" && value !== null && name in value;
