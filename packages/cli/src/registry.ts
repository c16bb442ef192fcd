import type { CommandDefinition } from "./command.ts";

/** A command, such as `list` of `rf robots list`. Its definition is loaded on demand, so that `rf` starts fast. */
export interface Verb {
  name: string;
  summary: string;
  load: () => Promise<CommandDefinition>;
}
export interface Noun {
  name: string;
  summary: string;
  verbs: readonly Verb[];
  /** The verb that runs if none is named. */
  default_verb?: string;
}
interface Group {
  heading: string;
  commands: readonly (Verb | Noun)[];
}

/** Returns the commands of a module that exports each command under its name. */
const verbs = <N extends string>(load: () => Promise<Record<NoInfer<N>, CommandDefinition>>, summaries: Record<N, string>): Verb[] =>
  (Object.keys(summaries) as N[]).map((name) => ({ name, summary: summaries[name], load: async () => (await load())[name] }));
/** Defines a noun, such as `robots`, whose commands are all in one module. */
const noun = <N extends string>(name: string, summary: string, ...module: Parameters<typeof verbs<N>>): Noun => ({
  name,
  summary,
  verbs: verbs(...module),
});

export const registry: readonly Group[] = [
  {
    heading: "Deploy",
    commands: [
      ...verbs(() => import("./commands/deploy.ts"), { deploy: "Deploy a release to a robot or a fleet" }),
      noun("deployments", "Show, follow and control deployments", () => import("./commands/deployments.ts"), {
        list: "List deployments",
        show: "Show a deployment and its robots",
        watch: "Follow a deployment until it ends",
        pause: "Pause a deployment",
        resume: "Resume a paused deployment",
        promote: "Start the next wave of a deployment now",
        cancel: "Cancel a deployment",
        rollback: "Roll back a deployment's robots to their previous release",
        retry: "Retry a deployment on the robots that failed",
      }),
      noun("releases", "Push and manage releases", () => import("./commands/releases.ts"), {
        list: "List releases",
        show: "Show a release",
        push: "Create a release and upload its artifact",
        remove: "Remove an unused release",
      }),
      noun("signing-keys", "Manage keys that sign releases", () => import("./commands/signing-keys.ts"), {
        new: "Create a key pair on this machine",
        list: "List the keys that robots trust",
        add: "Trust another key",
        revoke: "Revoke a key",
        require: "Require signatures of releases, or make them optional",
      }),
      {
        name: "configs",
        summary: "Set config values and deploy them",
        verbs: [
          ...verbs(() => import("./commands/configs.ts"), { list: "List config entries", get: "Show the value set at one scope" }),
          ...verbs(() => import("./commands/config-set.ts"), {
            set: "Set a config value, and deploy it if a target is given",
            edit: "Change a value in your editor",
          }),
          ...verbs(() => import("./commands/configs.ts"), {
            unset: "Remove a value",
            effective: "Show a robot's effective values and their state on the robot",
            history: "List every version of a value",
            diff: "Show changes between versions, or pending changes of a robot",
            rollback: "Restore an earlier version of a value",
            schema: "Manage the JSON Schemas of namespaces",
          }),
          ...verbs(() => import("./commands/config-deployments.ts"), {
            deploy: "Deploy config values to a robot, a fleet or selected robots",
            deployments: "List config deployments",
            events: "List the events of a config deployment",
            waves: "Show the waves of a config deployment",
            pause: "Pause a config deployment",
            resume: "Resume a paused config deployment",
            promote: "Start the next wave of a config deployment now",
            cancel: "Cancel a config deployment",
          }),
        ],
      },
    ],
  },
  {
    heading: "Robots",
    commands: [
      {
        name: "robots",
        summary: "Manage robots, their health, logs and history",
        verbs: [
          ...verbs(() => import("./commands/robots.ts"), { list: "List robots", show: "Show a robot" }),
          ...verbs(() => import("./commands/health.ts"), {
            inspect: "Show the latest health snapshot of a robot",
            health: "Show a robot's health over time",
          }),
          { name: "logs", summary: "Show or follow the logs of a robot", load: async () => (await import("./commands/logs.ts")).robotLogs },
          {
            name: "timeline",
            summary: "Show the timeline of a robot",
            load: async () => (await import("./commands/timeline.ts")).robotTimeline,
          },
          ...verbs(() => import("./commands/robots.ts"), {
            rename: "Rename a robot",
            label: "Set or remove labels of robots",
            move: "Move robots to another fleet",
            replace: "Create a key for a robot's replacement computer",
            admit: "Unblock a quarantined robot",
            approve: "Approve a robot to receive secrets",
            remove: "Decommission a robot",
          }),
          ...verbs(() => import("./commands/shell.ts"), { shell: "Open a shell on a robot" }),
          ...verbs(() => import("./commands/sessions.ts"), { sessions: "List a robot's shell sessions, or play a recording" }),
          ...verbs(() => import("./commands/cp.ts"), { cp: "Copy files from or to a robot" }),
          ...verbs(() => import("./commands/camera.ts"), { camera: "Show or save a robot's camera frames" }),
          ...verbs(() => import("./commands/topics.ts"), { topics: "List, print and measure the ROS topics of a robot" }),
          ...verbs(() => import("./commands/forward.ts"), { forward: "Forward local ports to a robot" }),
        ],
      },
      noun("agents", "Show and upgrade the agents of robots", () => import("./commands/agents.ts"), {
        list: "List the versions of agents, and which are outdated",
        upgrade: "Upgrade the agents of a robot or a fleet",
      }),
      ...verbs(() => import("./commands/timeline.ts"), { timeline: "Show the timeline of all robots" }),
      {
        name: "logs",
        summary: "Search the logs of all robots, of a site or of a fleet",
        load: async () => (await import("./commands/logs.ts")).searchedLogs,
      },
      ...verbs(() => import("./commands/report.ts"), { report: "Show what changed, what broke and what is open" }),
      ...verbs(() => import("./commands/explain.ts"), { explain: "Explain why a robot has not installed a release" }),
      {
        name: "metrics",
        summary: "Show metrics of a robot, a fleet or a site",
        verbs: [
          ...verbs(() => import("./commands/metrics.ts"), { show: "Show metrics of a robot; also without the word show" }),
          ...verbs(() => import("./commands/metrics-query.ts"), {
            query: "Show one metric of many robots over time, by group",
            names: "List the names of metrics",
          }),
        ],
        default_verb: "show",
      },
      noun("channels", "Manage channels, through which incidents are reported", () => import("./commands/channels.ts"), {
        list: "List channels",
        show: "Show a channel",
        add: "Add a channel: a webhook, Slack, PagerDuty or email addresses",
        change: "Change, enable or disable a channel",
        test: "Send a test message",
        deliveries: "List the messages to a channel, with their results",
        resend: "Send a message again",
        remove: "Remove a channel and the log of its messages",
      }),
      noun("sites", "Manage sites, which contain fleets", () => import("./commands/sites.ts"), {
        list: "List sites",
        create: "Create a site",
        rename: "Rename a site",
        remove: "Remove an empty site",
      }),
      {
        name: "fleets",
        summary: "Manage fleets, which are groups of robots at a site",
        verbs: [
          ...verbs(() => import("./commands/fleets.ts"), {
            list: "List fleets",
            show: "Show a fleet and its current releases",
            create: "Create a fleet at a site",
            update: "Rename a fleet, or turn auto-update of joining robots on or off",
            remove: "Remove an empty fleet",
          }),
          {
            name: "logs",
            summary: "Show or follow the logs of a fleet's robots",
            load: async () => (await import("./commands/logs.ts")).fleetLogs,
          },
        ],
      },
      noun("keys", "Manage enrollment keys, with which robots join", () => import("./commands/keys.ts"), {
        list: "List enrollment keys",
        new: "Create an enrollment key; it is shown only once",
        revoke: "Revoke an enrollment key",
      }),
    ],
  },
  {
    heading: "Alerts",
    commands: [
      noun("incidents", "Show incidents and work on them", () => import("./commands/incidents.ts"), {
        list: "List incidents",
        show: "Show an incident, its robots and its history",
        ack: "Acknowledge an incident",
        resolve: "Resolve an incident",
        comment: "Add a comment to an incident",
        assign: "Assign an incident to a user",
      }),
      noun("alerts", "Manage the rules that open incidents, and mute them", () => import("./commands/alerts.ts"), {
        list: "List alert rules",
        show: "Show an alert rule",
        create: "Create an alert rule",
        update: "Change an alert rule",
        test: "Show what an alert rule matches now and in the past",
        enable: "Enable an alert rule",
        disable: "Disable an alert rule",
        remove: "Remove an alert rule",
        mutes: "List mutes",
        mute: "Mute incidents for a time",
        unmute: "End a mute",
      }),
    ],
  },
  {
    heading: "Account",
    commands: [
      ...verbs(() => import("./commands/account.ts"), {
        login: "Save a token and the service's address",
        logout: "Delete the saved credentials",
        whoami: "Show the current user and org",
      }),
      {
        name: "org",
        summary: "Show or change your org and its settings",
        verbs: [
          { name: "show", summary: "Show your org", load: async () => (await import("./commands/orgs.ts")).showOwn },
          { name: "set", summary: "Change your org's name or settings", load: async () => (await import("./commands/orgs.ts")).setOwn },
        ],
      },
      noun("users", "Manage users of your org and their roles", () => import("./commands/users.ts"), {
        list: "List users",
        create: "Add a user to the org",
        show: "Show a user",
        update: "Change a user's name or role",
        remove: "Remove a user from the org",
      }),
      noun("tokens", "Manage tokens of your org and its users", () => import("./commands/tokens.ts"), {
        list: "List tokens",
        create: "Create a token; it is shown only once",
        show: "Show a token without its secret",
        revoke: "Revoke a token",
        rotate: "Replace a token's secret; the new secret is shown only once",
      }),
      ...verbs(() => import("./commands/audit.ts"), { audit: "Show the audit log" }),
      noun("profiles", "Manage profiles for several services or accounts (rf help credentials)", () => import("./commands/profiles.ts"), {
        list: "List profiles",
        use: "Select the default profile",
        add: "Add a profile",
        remove: "Remove a profile",
      }),
      noun("settings", "Change the output defaults of rf on this machine (rf help output)", () => import("./commands/settings.ts"), {
        list: "List settings",
        set: "Save a setting",
        unset: "Remove a setting",
      }),
      ...verbs(() => import("./commands/completion.ts"), { completion: "Print a shell completion script" }),
    ],
  },
  {
    heading: "Service",
    commands: [
      ...verbs(() => import("./commands/api.ts"), { api: "Call any API route" }),
      noun("orgs", "Manage orgs as the service's administrator", () => import("./commands/orgs.ts"), {
        request: "Request an organization",
        list: "List orgs",
        show: "Show an org",
        create: "Create an org",
        approve: "Approve an org; its bootstrap token is shown only once",
        reject: "Reject a pending org",
        suspend: "Suspend an org",
        resume: "Resume a suspended org",
      }),
    ],
  },
];
