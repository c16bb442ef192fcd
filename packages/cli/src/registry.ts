import type { Define } from "./command.ts";

/** A command's name and summary, and where the rest of it is: loaded when it is called, so that `rf` starts fast. */
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
      noun("deployments", "See, follow and cancel deployments", [
        verb("list", "List deployments", () => import("./commands/deployments/list.ts")),
        verb("show", "Show a deployment and its robots", () => import("./commands/deployments/show.ts")),
        verb("watch", "Follow a deployment to its end", () => import("./commands/deployments/watch.ts")),
        verb("pause", "Pause a deployment", async () => (await import("./commands/deployments/steps.ts")).pause),
        verb("resume", "Go on with a paused deployment", async () => (await import("./commands/deployments/steps.ts")).resume),
        verb("promote", "Open the next wave of a deployment now", async () => (await import("./commands/deployments/steps.ts")).promote),
        verb("cancel", "Cancel a deployment", () => import("./commands/deployments/cancel.ts")),
        verb("rollback", "Bring a deployment's robots back to what they ran before", () => import("./commands/deployments/rollback.ts")),
        verb("retry", "Deploy again to the robots that failed", () => import("./commands/deployments/retry.ts")),
      ]),
      noun("releases", "Push and see releases", [
        verb("list", "List releases", () => import("./commands/releases/list.ts")),
        verb("show", "Show a release", () => import("./commands/releases/show.ts")),
        verb("push", "Create a release and upload its artifact", () => import("./commands/releases/push.ts")),
        verb("remove", "Remove a release that no robot needs", () => import("./commands/releases/remove.ts")),
      ]),
      noun("signing-keys", "Keys that releases are signed with", [
        verb("new", "Make a key pair, on this machine", () => import("./commands/signing-keys/new.ts")),
        verb("list", "List the keys that robots trust", () => import("./commands/signing-keys/list.ts")),
        verb("add", "Trust another key", () => import("./commands/signing-keys/add.ts")),
        verb("revoke", "Trust a key no more", () => import("./commands/signing-keys/revoke.ts")),
        verb("require", "Say whether releases must be signed", () => import("./commands/signing-keys/require.ts")),
      ]),
      noun("configs", "Set config values and deploy them", [
        verb("list", "List config entries", () => import("./commands/configs/list.ts")),
        verb("get", "Show the value that is set at one scope", () => import("./commands/configs/get.ts")),
        verb("set", "Set a config value, and deploy it when a target is given", () => import("./commands/configs/set.ts")),
        verb("edit", "Change a value in your editor", () => import("./commands/configs/edit.ts")),
        verb("unset", "Remove a value", () => import("./commands/configs/unset.ts")),
        verb("effective", "Show what counts for a robot, and what it has", () => import("./commands/configs/effective.ts")),
        verb("history", "List every version of a value", () => import("./commands/configs/history.ts")),
        verb("diff", "Show what changed between versions, or would change on a robot", () => import("./commands/configs/diff.ts")),
        verb("rollback", "Set the value of an earlier version again", () => import("./commands/configs/rollback.ts")),
        verb("schema", "Say what the values of a namespace must look like", () => import("./commands/configs/schema.ts")),
        verb("deploy", "Bring values to a robot or a fleet", () => import("./commands/configs/deploy.ts")),
        verb("deployments", "List config deployments", () => import("./commands/configs/deployments.ts")),
        verb("events", "List the events of a config deployment", () => import("./commands/configs/events.ts")),
        verb("cancel", "Cancel a config deployment", () => import("./commands/configs/cancel.ts")),
      ]),
    ],
  },
  {
    heading: "Robots",
    commands: [
      noun("robots", "See robots, their health, logs and history", [
        verb("list", "List robots", () => import("./commands/robots/list.ts")),
        verb("show", "Show a robot", () => import("./commands/robots/show.ts")),
        verb("inspect", "Show the latest health snapshot of a robot", () => import("./commands/robots/inspect.ts")),
        verb("health", "Show how a robot was over time", () => import("./commands/robots/health.ts")),
        verb("logs", "Show or follow the logs of a robot", () => import("./commands/robots/logs.ts")),
        verb("timeline", "Show what happened to a robot", () => import("./commands/robots/timeline.ts")),
        verb("rename", "Give a robot another name", () => import("./commands/robots/rename.ts")),
        verb("label", "Set or remove labels of robots", () => import("./commands/robots/label.ts")),
        verb("move", "Move robots to another fleet", () => import("./commands/robots/move.ts")),
        verb("replace", "Create a key for the new computer of a robot", () => import("./commands/robots/replace.ts")),
        verb("admit", "Let a robot in again that was held", () => import("./commands/robots/admit.ts")),
        verb("approve", "Approve a robot, so that it gets secrets", () => import("./commands/robots/approve.ts")),
        verb("remove", "Decommission a robot", () => import("./commands/robots/remove.ts")),
        verb("shell", "Open a shell on a robot", () => import("./commands/robots/shell.ts")),
        verb("sessions", "List the shells of a robot, or play one", () => import("./commands/robots/sessions.ts")),
        verb("cp", "Copy files from a robot or to it", () => import("./commands/robots/cp.ts")),
        verb("camera", "See what a robot's camera sees", () => import("./commands/robots/camera.ts")),
        verb("topics", "List, print and measure the ROS topics of a robot", () => import("./commands/robots/topics.ts")),
        verb("forward", "Make services of a robot reachable on this machine", () => import("./commands/robots/forward.ts")),
      ]),
      verb("timeline", "Show what happened to all robots", () => import("./commands/timeline.ts")),
      noun("sites", "Places where fleets are", [
        verb("list", "List sites", () => import("./commands/sites/list.ts")),
        verb("create", "Create a site", () => import("./commands/sites/create.ts")),
        verb("rename", "Give a site another name", () => import("./commands/sites/rename.ts")),
        verb("remove", "Remove an empty site", () => import("./commands/sites/remove.ts")),
      ]),
      noun("fleets", "Groups of robots at a site", [
        verb("list", "List fleets", () => import("./commands/fleets/list.ts")),
        verb("show", "Show a fleet and what it has", () => import("./commands/fleets/show.ts")),
        verb("create", "Create a fleet at a site", () => import("./commands/fleets/create.ts")),
        verb("update", "Rename a fleet, switch following on or off", () => import("./commands/fleets/update.ts")),
        verb("remove", "Remove an empty fleet", () => import("./commands/fleets/remove.ts")),
        verb("logs", "Show the latest logs of a fleet's robots", () => import("./commands/fleets/logs.ts")),
      ]),
      noun("keys", "Enrolment keys, with which robots join", [
        verb("list", "List enrolment keys", () => import("./commands/keys/list.ts")),
        verb("new", "Create an enrolment key; it is shown once", () => import("./commands/keys/new.ts")),
        verb("revoke", "Revoke an enrolment key", () => import("./commands/keys/revoke.ts")),
      ]),
    ],
  },
  {
    heading: "Account",
    commands: [
      verb("login", "Save a token and the address of the service", () => import("./commands/login.ts")),
      verb("logout", "Delete the saved credentials", () => import("./commands/logout.ts")),
      verb("whoami", "Show who you are", () => import("./commands/whoami.ts")),
      noun("org", "Your org and its settings", [
        verb("show", "Show your org", () => import("./commands/org/show.ts")),
        verb("set", "Change its name or settings", () => import("./commands/org/set.ts")),
      ]),
      noun("users", "People in your org, and their roles", [
        verb("list", "List users", () => import("./commands/users/list.ts")),
        verb("create", "Let somebody into the org", () => import("./commands/users/create.ts")),
        verb("show", "Show a user", () => import("./commands/users/show.ts")),
        verb("update", "Change a user's name or role", () => import("./commands/users/update.ts")),
        verb("remove", "Take a user out of the org", () => import("./commands/users/remove.ts")),
      ]),
      noun("tokens", "Tokens of your org and its users", [
        verb("list", "List tokens", () => import("./commands/tokens/list.ts")),
        verb("create", "Make a token; it is shown once", () => import("./commands/tokens/create.ts")),
        verb("show", "Show a token, but for its secret", () => import("./commands/tokens/show.ts")),
        verb("revoke", "Revoke a token", () => import("./commands/tokens/revoke.ts")),
        verb("rotate", "Give a token a new secret; it is shown once", () => import("./commands/tokens/rotate.ts")),
      ]),
      verb("audit", "Show who changed what", () => import("./commands/audit.ts")),
      noun("profiles", "Several services or accounts on one machine (rf help credentials)", [
        verb("list", "List profiles", () => import("./commands/profiles/list.ts")),
        verb("use", "Use a profile from now on", () => import("./commands/profiles/use.ts")),
        verb("add", "Add a profile", () => import("./commands/profiles/add.ts")),
        verb("remove", "Remove a profile", () => import("./commands/profiles/remove.ts")),
      ]),
      noun("settings", "How rf prints on this machine (rf help output)", [
        verb("list", "List settings", () => import("./commands/settings/list.ts")),
        verb("set", "Keep a setting", () => import("./commands/settings/set.ts")),
        verb("unset", "Forget a setting", () => import("./commands/settings/unset.ts")),
      ]),
      verb("completion", "Print the completion of a shell", () => import("./commands/completion.ts")),
    ],
  },
  {
    heading: "Service",
    commands: [
      verb("api", "Call any route of the service", () => import("./commands/api.ts")),
      noun("orgs", "Orgs of the service, for its administrator", [
        verb("request", "Ask for an org of your own", () => import("./commands/orgs/request.ts")),
        verb("list", "List orgs", () => import("./commands/orgs/list.ts")),
        verb("show", "Show an org", () => import("./commands/orgs/show.ts")),
        verb("create", "Create an org", () => import("./commands/orgs/create.ts")),
        verb("approve", "Approve an org; its bootstrap token is shown once", () => import("./commands/orgs/approve.ts")),
        verb("reject", "Reject an org that is pending", () => import("./commands/orgs/reject.ts")),
        verb("suspend", "Suspend an org", () => import("./commands/orgs/suspend.ts")),
        verb("resume", "Let a suspended org back in", () => import("./commands/orgs/resume.ts")),
      ]),
    ],
  },
];
