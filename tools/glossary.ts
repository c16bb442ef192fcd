import type { DeploymentStatus, ID_PREFIXES, Role, SECRET_PREFIXES, TargetStatus, WaitingFor } from "@roamfleet/protocol";

/** Definitions by term of the code: a new status, role or kind of id does not compile without a definition. */
export const OBJECTS: Readonly<Record<keyof typeof ID_PREFIXES, string>> = {
  org: "An organization, the tenant. Every object belongs to one org, and no request sees another org's objects.",
  user: "A person. A user may be a member of several orgs, with roles in each.",
  token: "A credential of a user or of an org, with a role. Its secret is shown once.",
  site: "A place with robots, for example a warehouse.",
  fleet: "Robots of one site that normally run the same releases.",
  robot: "A machine with an agent. It belongs to one fleet and has one key pair.",
  release: "An immutable version of software for an app: a tag, a manifest and an artifact.",
  deployment: "The task to bring a release or a config to a robot or a fleet.",
  target: "One robot of a deployment, with its own status and attempts.",
  config: "A value in a namespace of the configuration, for the org, a site, a fleet or a robot.",
  config_deployment: "A deployment of the effective values of a config namespace.",
  enrollment_key: "A key with which new robots join a fleet, limited by uses and time.",
  event: "An entry of a deployment's history or of a robot's timeline.",
  session: "A signed-in browser: a cookie that is linked to a token.",
  audit: "A record of a request that changed something or was refused, with its actor.",
  shell_session: "A shell that a user opened on a robot, with its recording.",
  alert_rule: "A condition on robots or deployments that opens an incident when it is true for a given duration.",
  saved_view: "Named filters, sorting and columns of a page of the dashboard, for one user or shared with the org.",
  alert_mute: "A time in which the incidents of a rule, a fleet, a site or the whole org send no messages.",
  incident: "A problem of one or more robots or deployments that a rule has found. It is open, acknowledged or resolved.",
  channel: "A receiver of messages about incidents: a webhook, Slack, PagerDuty or email addresses.",
  delivery: "A message about an incident to a channel, with the result of its attempts.",
};

export const SECRETS: Readonly<Record<keyof typeof SECRET_PREFIXES, string>> = {
  org_token: "A token of an org, for scripts and services.",
  user_token: "A token of a user.",
  enrollment_key: "An enrollment key.",
  session: "The cookie of a session.",
  csrf: "The value that a page sends with each change, so that another site cannot use its cookie.",
  stream_ticket: "Opens one stream once within 30 s, in a URL instead of a token.",
};

export const ROLE_TERMS: Readonly<Record<Role, string>> = {
  viewer: "Reads everything except secrets and the bytes of artifacts.",
  operator: "Also deploys, sets configs, manages robots and enrollment keys, and opens shells, cameras and topics.",
  admin: "Also deletes objects, sets secrets, approves robots, and manages users, tokens and the org.",
};

export const STATUSES: Readonly<Record<DeploymentStatus | TargetStatus, string>> = {
  scheduled: "A deployment before its start time.",
  pending: "A target whose wave has not opened.",
  queued: "To be dispatched; `waiting_for` names a missing condition.",
  in_progress: "A deployment with at least one dispatched target.",
  paused: "A deployment that dispatches no further targets until it is resumed.",
  dispatched: "The robot's desired state contains the release; the robot has not begun.",
  downloading: "The robot downloads the artifact.",
  staged: "The artifact is on the robot and verified; nothing that runs has changed yet.",
  installing: "The robot stops the previous release and starts the new one. It can no longer be cancelled.",
  verifying: "The new release runs, and its health is checked for `verify_seconds`.",
  rolling_back: "The robot, or each updated robot of the deployment, returns to its previous release.",
  cancelling: "A deployment that was cancelled, until its installing robots finish.",
  applied: "The release runs and is healthy, or the config is on the robot. A deployment: on every robot.",
  failed: "Ended without a possible or necessary rollback. A deployment: more robots failed than its policy allows.",
  rolled_back: "The release failed, and the previous one runs again.",
  cancelled: "Ended without an installation.",
};

export const WAITS: Readonly<Record<WaitingFor, string>> = {
  robot_online: "The robot is offline.",
  slot: "`max_parallel` robots are updating, or `max_unavailable` robots of its group are unavailable.",
  window: "The robot's update window is closed.",
  artifact: "The artifact is not uploaded completely.",
  previous_deployment: "An earlier deployment of the same app is installing on the robot.",
  gate: "The previous wave awaits promotion by a user.",
  robot: "Software on the robot holds the update lock.",
  approval: "The files contain secrets, and an admin has not approved the robot.",
};

/** A term of the architecture; `code` is the exported name that implements it. */
export interface Term {
  term: string;
  meaning: string;
  code?: string;
}

export const TERMS: readonly Term[] = [
  { term: "agent", meaning: "The program `rf-agent` on each robot." },
  { term: "app", meaning: "A named program on a robot. A robot runs several apps, each with a separate current release." },
  { term: "artifact", meaning: "The bytes of a release, stored by SHA-256 once per org." },
  { term: "attempt", meaning: "A dispatch of a target. After a timeout or a failed download it is retried, up to 3 attempts." },
  { term: "bus", meaning: "Messages between servers: NATS, or an event emitter with a single server.", code: "Bus" },
  { term: "clock", meaning: "Time, timers and randomness, passed as an argument so that tests control them.", code: "Clock" },
  { term: "credit", meaning: "Bytes that a sender may still send on a channel of the link." },
  { term: "desired state", meaning: "The releases and configs that a robot should have, sent as a whole." },
  { term: "drain", meaning: "The phase of a stopping server: it finishes requests and closes links." },
  { term: "drift", meaning: "A config file on a robot that differs from the deployed values." },
  { term: "effective values", meaning: "The config of a robot: values of the org, overridden by site, fleet and robot in this order." },
  { term: "epoch", meaning: "The number of a server's run. A link belongs to a node and its epoch." },
  { term: "executor", meaning: "The code of the agent that stages, starts, checks and removes one kind of release.", code: "Executor" },
  { term: "failpoint", meaning: "A named place in the code where a test kills the process.", code: "failpoint" },
  { term: "fan-out", meaning: "Creating a fleet deployment's targets, in chunks of 2,000." },
  { term: "fault", meaning: "An exception with a public message and a private cause, which becomes the error envelope.", code: "Fault" },
  { term: "follow", meaning: "A fleet follows a release: robots that join later get it automatically." },
  { term: "frame", meaning: "The unit of the link: a header of 8 bytes and at most 64 KiB.", code: "FrameType" },
  { term: "generation", meaning: "The version number of a robot's desired state. It only increases." },
  { term: "handler", meaning: "The function of a route, added with `serve`.", code: "serve" },
  { term: "hint", meaning: "A message on the bus that work may exist. It may be lost: a timer finds the work too." },
  { term: "idempotency key", meaning: "A header of a request. A repeat with the same key returns the stored response." },
  { term: "journal", meaning: "The agent's file of steps, written before each side effect, from which it continues after a crash." },
  { term: "lease", meaning: "A server counts as alive while its heartbeat changes; afterwards its robots are offline.", code: "Lease" },
  { term: "link", meaning: "A robot's WebSocket to a server, with channels for control, logs and streams.", code: "Link" },
  { term: "node", meaning: "One server process of several that share a database." },
  { term: "outbox", meaning: "Numbered reports on the robot's disk that the server has not acknowledged." },
  { term: "plane", meaning: "A running server with everything that handlers may use. In tests also several nodes.", code: "Plane" },
  { term: "presence", meaning: "Whether and where a robot is connected: the row `robot.node_id` with the node's epoch." },
  { term: "promise", meaning: "A guarantee of the product with a test that proves it.", code: "provePromise" },
  { term: "promotion", meaning: "A user's permission to open the next wave after a manual gate." },
  { term: "rollout", meaning: "A fleet deployment in waves, with limits on failures and on robots that update at the same time." },
  { term: "scope", meaning: "The org, sites or fleets to which a role of a user or token is limited." },
  { term: "slot", meaning: "A place among the robots that may update, or connect, at the same time." },
  { term: "soak time", meaning: "The time for which a wave must stay healthy before the next one opens." },
  { term: "spool", meaning: "Log records on the robot's disk that the server has not acknowledged." },
  { term: "store", meaning: "The file of a feature that contains its SQL. Only it writes the feature's tables." },
  { term: "stream", meaning: "A live connection of a viewer to a robot: logs, shell, files, camera, topics or a port." },
  { term: "supersede", meaning: "To cancel queued targets because a newer deployment of the same app was dispatched." },
  { term: "swarm", meaning: "Simulated robots in one process, with the agent's own code." },
  { term: "update lock", meaning: "A file with which software on the robot postpones an installation." },
  { term: "wave", meaning: "A part of a rollout: the robots that may update together, before the next part." },
];
