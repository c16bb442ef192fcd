import type { Define } from "./command.ts";

/** A command's name and summary, and how to load it: commands are loaded on demand so that `rf` starts fast. */
export interface Verb {
  name: string;
  summary: string;
  load: () => Promise<{ define: Define }>;
}
export interface Noun {
  name: string;
  summary: string;
  verbs: readonly Verb[];
}
export interface Group {
  heading: string;
  commands: readonly (Verb | Noun)[];
}

const verb = (name: string, summary: string, load: Verb["load"]): Verb => ({ name, summary, load });
const noun = (name: string, summary: string, verbs: readonly Verb[]): Noun => ({ name, summary, verbs });

export const registry: readonly Group[] = [
  {
    heading: "Deploy",
    commands: [
      verb("deploy", "Deploy a release to a robot or a fleet", () => import("./commands/deploy.ts")),
      noun("deployments", "Show, follow and control deployments", [
        verb("list", "List deployments", () => import("./commands/deployments/list.ts")),
        verb("show", "Show a deployment and its robots", () => import("./commands/deployments/show.ts")),
        verb("watch", "Follow a deployment to its end", () => import("./commands/deployments/watch.ts")),
        verb("pause", "Pause a deployment", async () => (await import("./commands/deployments/steps.ts")).pause),
        verb("resume", "Resume a paused deployment", async () => (await import("./commands/deployments/steps.ts")).resume),
        verb("promote", "Start the next wave of a deployment now", async () => (await import("./commands/deployments/steps.ts")).promote),
        verb("cancel", "Cancel a deployment", () => import("./commands/deployments/cancel.ts")),
        verb("rollback", "Roll back a deployment's robots to their previous release", () => import("./commands/deployments/rollback.ts")),
        verb("retry", "Retry a deployment on the robots that failed", () => import("./commands/deployments/retry.ts")),
      ]),
      noun("releases", "Push and manage releases", [
        verb("list", "List releases", () => import("./commands/releases/list.ts")),
        verb("show", "Show a release", () => import("./commands/releases/show.ts")),
        verb("push", "Create a release and upload its artifact", () => import("./commands/releases/push.ts")),
        verb("remove", "Remove an unused release", () => import("./commands/releases/remove.ts")),
      ]),
      noun("signing-keys", "Manage keys that sign releases", [
        verb("new", "Create a key pair on this machine", () => import("./commands/signing-keys/new.ts")),
        verb("list", "List the keys that robots trust", () => import("./commands/signing-keys/list.ts")),
        verb("add", "Trust another key", () => import("./commands/signing-keys/add.ts")),
        verb("revoke", "Revoke a key", () => import("./commands/signing-keys/revoke.ts")),
        verb("require", "Require signed releases, or not", () => import("./commands/signing-keys/require.ts")),
      ]),
      noun("configs", "Set config values and deploy them", [
        verb("list", "List config entries", () => import("./commands/configs/list.ts")),
        verb("get", "Show the value set at one scope", () => import("./commands/configs/get.ts")),
        verb("set", "Set a config value, and deploy it if a target is given", () => import("./commands/configs/set.ts")),
        verb("edit", "Change a value in your editor", () => import("./commands/configs/edit.ts")),
        verb("unset", "Remove a value", () => import("./commands/configs/unset.ts")),
        verb("effective", "Show a robot's effective values and their state on the robot", () => import("./commands/configs/effective.ts")),
        verb("history", "List every version of a value", () => import("./commands/configs/history.ts")),
        verb("diff", "Show changes between versions, or pending changes of a robot", () => import("./commands/configs/diff.ts")),
        verb("rollback", "Restore an earlier version of a value", () => import("./commands/configs/rollback.ts")),
        verb("schema", "Manage the JSON Schemas of namespaces", () => import("./commands/configs/schema.ts")),
        verb("deploy", "Deploy config values to a robot or a fleet", () => import("./commands/configs/deploy.ts")),
        verb("deployments", "List config deployments", () => import("./commands/configs/deployments.ts")),
        verb("events", "List the events of a config deployment", () => import("./commands/configs/events.ts")),
        verb("cancel", "Cancel a config deployment", () => import("./commands/configs/cancel.ts")),
      ]),
    ],
  },
  {
    heading: "Robots",
    commands: [
      noun("robots", "Manage robots, their health, logs and history", [
        verb("list", "List robots", () => import("./commands/robots/list.ts")),
        verb("show", "Show a robot", () => import("./commands/robots/show.ts")),
        verb("inspect", "Show the latest health snapshot of a robot", () => import("./commands/robots/inspect.ts")),
        verb("health", "Show a robot's health over time", () => import("./commands/robots/health.ts")),
        verb("logs", "Show or follow the logs of a robot", () => import("./commands/robots/logs.ts")),
        verb("timeline", "Show what happened to a robot", () => import("./commands/robots/timeline.ts")),
        verb("rename", "Rename a robot", () => import("./commands/robots/rename.ts")),
        verb("label", "Set or remove labels of robots", () => import("./commands/robots/label.ts")),
        verb("move", "Move robots to another fleet", () => import("./commands/robots/move.ts")),
        verb("replace", "Create a key for a robot's replacement computer", () => import("./commands/robots/replace.ts")),
        verb("admit", "Unblock a quarantined robot", () => import("./commands/robots/admit.ts")),
        verb("approve", "Approve a robot to receive secrets", () => import("./commands/robots/approve.ts")),
        verb("remove", "Decommission a robot", () => import("./commands/robots/remove.ts")),
        verb("shell", "Open a shell on a robot", () => import("./commands/robots/shell.ts")),
        verb("sessions", "List a robot's shell sessions, or play a recording", () => import("./commands/robots/sessions.ts")),
        verb("cp", "Copy files from or to a robot", () => import("./commands/robots/cp.ts")),
        verb("camera", "Show or save a robot's camera frames", () => import("./commands/robots/camera.ts")),
        verb("topics", "List, print and measure the ROS topics of a robot", () => import("./commands/robots/topics.ts")),
        verb("forward", "Forward local ports to a robot", () => import("./commands/robots/forward.ts")),
      ]),
      verb("timeline", "Show what happened to all robots", () => import("./commands/timeline.ts")),
      noun("sites", "Manage sites, which contain fleets", [
        verb("list", "List sites", () => import("./commands/sites/list.ts")),
        verb("create", "Create a site", () => import("./commands/sites/create.ts")),
        verb("rename", "Rename a site", () => import("./commands/sites/rename.ts")),
        verb("remove", "Remove an empty site", () => import("./commands/sites/remove.ts")),
      ]),
      noun("fleets", "Manage fleets, which are groups of robots at a site", [
        verb("list", "List fleets", () => import("./commands/fleets/list.ts")),
        verb("show", "Show a fleet and its current releases", () => import("./commands/fleets/show.ts")),
        verb("create", "Create a fleet at a site", () => import("./commands/fleets/create.ts")),
        verb("update", "Rename a fleet, or turn auto-update of joining robots on or off", () => import("./commands/fleets/update.ts")),
        verb("remove", "Remove an empty fleet", () => import("./commands/fleets/remove.ts")),
        verb("logs", "Show or follow the logs of a fleet's robots", () => import("./commands/fleets/logs.ts")),
      ]),
      noun("keys", "Manage enrollment keys, with which robots join", [
        verb("list", "List enrollment keys", () => import("./commands/keys/list.ts")),
        verb("new", "Create an enrollment key; it is shown only once", () => import("./commands/keys/new.ts")),
        verb("revoke", "Revoke an enrollment key", () => import("./commands/keys/revoke.ts")),
      ]),
    ],
  },
  {
    heading: "Account",
    commands: [
      verb("login", "Save a token and the service's address", () => import("./commands/login.ts")),
      verb("logout", "Delete the saved credentials", () => import("./commands/logout.ts")),
      verb("whoami", "Show the current user and org", () => import("./commands/whoami.ts")),
      noun("org", "Show or change your org and its settings", [
        verb("show", "Show your org", () => import("./commands/org/show.ts")),
        verb("set", "Change your org's name or settings", () => import("./commands/org/set.ts")),
      ]),
      noun("users", "Manage users of your org and their roles", [
        verb("list", "List users", () => import("./commands/users/list.ts")),
        verb("create", "Add a user to the org", () => import("./commands/users/create.ts")),
        verb("show", "Show a user", () => import("./commands/users/show.ts")),
        verb("update", "Change a user's name or role", () => import("./commands/users/update.ts")),
        verb("remove", "Remove a user from the org", () => import("./commands/users/remove.ts")),
      ]),
      noun("tokens", "Manage tokens of your org and its users", [
        verb("list", "List tokens", () => import("./commands/tokens/list.ts")),
        verb("create", "Create a token; it is shown only once", () => import("./commands/tokens/create.ts")),
        verb("show", "Show a token without its secret", () => import("./commands/tokens/show.ts")),
        verb("revoke", "Revoke a token", () => import("./commands/tokens/revoke.ts")),
        verb("rotate", "Replace a token's secret; it is shown only once", () => import("./commands/tokens/rotate.ts")),
      ]),
      verb("audit", "Show the audit log", () => import("./commands/audit.ts")),
      noun("profiles", "Manage profiles for several services or accounts (rf help credentials)", [
        verb("list", "List profiles", () => import("./commands/profiles/list.ts")),
        verb("use", "Select the default profile", () => import("./commands/profiles/use.ts")),
        verb("add", "Add a profile", () => import("./commands/profiles/add.ts")),
        verb("remove", "Remove a profile", () => import("./commands/profiles/remove.ts")),
      ]),
      noun("settings", "Change the output defaults of rf on this machine (rf help output)", [
        verb("list", "List settings", () => import("./commands/settings/list.ts")),
        verb("set", "Save a setting", () => import("./commands/settings/set.ts")),
        verb("unset", "Remove a setting", () => import("./commands/settings/unset.ts")),
      ]),
      verb("completion", "Print a shell completion script", () => import("./commands/completion.ts")),
    ],
  },
  {
    heading: "Service",
    commands: [
      verb("api", "Call any API route", () => import("./commands/api.ts")),
      noun("orgs", "Manage orgs as the service's administrator", [
        verb("request", "Request an organization", () => import("./commands/orgs/request.ts")),
        verb("list", "List orgs", () => import("./commands/orgs/list.ts")),
        verb("show", "Show an org", () => import("./commands/orgs/show.ts")),
        verb("create", "Create an org", () => import("./commands/orgs/create.ts")),
        verb("approve", "Approve an org; its bootstrap token is shown only once", () => import("./commands/orgs/approve.ts")),
        verb("reject", "Reject a pending org", () => import("./commands/orgs/reject.ts")),
        verb("suspend", "Suspend an org", () => import("./commands/orgs/suspend.ts")),
        verb("resume", "Resume a suspended org", () => import("./commands/orgs/resume.ts")),
      ]),
    ],
  },
];
