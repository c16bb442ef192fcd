import { DEFAULT_BASE_URL } from "./config.ts";
import { EXIT_MEANINGS } from "./exit-codes.ts";
import { ENVIRONMENT, type TopicName } from "./topics.ts";

const rows = (pairs: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join("\n");
};

const CREDENTIALS = `$XDG_CONFIG_HOME/roamfleet/credentials.toml, else ~/.config/roamfleet/credentials.toml:
a TOML file that only you can read. You may edit it by hand: rf changes single
values and preserves comments, order and unknown keys.

  token = "rf_user_…"
  base_url = "${DEFAULT_BASE_URL}"

  [profiles.lab]
  token = "rf_user_…"
  base_url = "https://lab.example.org"
  org = "org_…"

Only \`token\` and \`base_url\` at the top level are required. \`rf login\` writes them
after the service has accepted the token, \`rf logout\` deletes the file. A token
stays valid on the service until it is revoked: rf tokens revoke <id>.

A profile is a table of the credentials file. The file's top level is the profile
\`default\`. A profile inherits missing values from the top level; it inherits the
token only if the address is the same, because a token is sent only to the address
for which it was saved. --base-url and ROAMFLEET_BASE_URL override the address.

  rf login --profile lab --base-url https://lab.example.org
  rf robots list --profile lab      for this call
  export ROAMFLEET_PROFILE=lab      for this shell
  rf profiles use lab               as the default
  rf profiles use default           back to the default profile

Each value comes from the first source that has it: flag, environment variable, profile,
top level. A token in ROAMFLEET_TOKEN overrides the token of any profile.
`;

const OUTPUT = `  -o table   human-readable columns (the default)
  -o wide    like table, with more columns
  -o json    exactly one JSON document on stdout; --json is the same
  -o yaml    the same document as YAML

\`rf settings set output wide\` saves a default for this machine.

  --columns id,name   only these columns, named by their lower-case titles with - for spaces
  --no-headers        no header row
  --limit N           at most this many rows of a list

Results go to stdout; notes, warnings, errors and progress to stderr. Colors and
progress bars need a terminal, and NO_COLOR disables colors. On a terminal,
output longer than the screen is shown in $ROAMFLEET_PAGER, the setting pager,
$PAGER or less; --no-pager disables the pager.

One record is always one line: characters in names that would move the
cursor, end the line or change the text direction are shown as escapes.
`;

const SCRIPTING = `  rf robots list --json | jq -r '.items[] | select(.status == "offline") | .id'
  id=$(rf sites create Berlin --json | jq -r .data.id)
  rf deploy 1.4.0 --fleet "$fleet" --watch || echo "ended with $?"

With --json stdout contains exactly one document, also for an error:
{"error": {"code": …, "message": …}}; messages are on stderr. --follow
prints one record per line. A list contains all pages unless --limit is given.

With ROAMFLEET_TOKEN and ROAMFLEET_BASE_URL no file is needed. Without a
terminal there are no prompts: a secret is read from stdin.

rf retries a call up to three times after status 429. If the call cannot take effect
twice, rf also retries it after status 503 or if no response arrives. rf waits for the
time in Retry-After; if that exceeds a minute, rf does not retry.
\`rf deploy --idempotency-key UUID\` lets a script retry its own call safely.

See also: rf help exit-codes, rf help output, and rf api for every route
`;

const STATES = `A deployment:
${rows([
  ["scheduled", "waiting for the start time, at which the fleet's robots are selected"],
  ["queued", "no robot has started"],
  ["in_progress", "robots are updating"],
  ["paused", "robots that are updating finish; no further robots start"],
  ["rolling_back", "its robots are rolling back to their previous release"],
  ["cancelling", "robots that have begun to install finish; all others stop"],
])}
A deployment that has ended (final):
${rows([
  ["applied", "installed and healthy; failures stayed within the threshold"],
  ["failed", "more robots failed than the failure threshold allows (default: no failures)"],
  ["rolled_back", "no robot runs the release: all updated robots rolled back"],
  ["cancelled", "cancelled by a user, expired, replaced by a newer deployment, or without robots"],
])}

A robot of a deployment: pending (a later wave) → queued (waits for a condition) → dispatched
→ downloading → staged → installing → verifying → applied. A robot on which the
new release is unhealthy rolls back automatically: rolling_back → rolled_back, or
failed if there is no previous release.

\`rf deployments watch <id>\` follows a deployment until it ends; the exit code is 8 unless
the final status is \`applied\`. If nothing changes for a minute, rf prints the reason.
`;

const TEXTS: Record<TopicName, string> = {
  "exit-codes": `Exit codes of rf:\n\n${rows(Object.entries(EXIT_MEANINGS).map(([code, meaning]) => [code.padStart(3), meaning]))}\n`,
  environment: `Environment variables of rf:

${rows(ENVIRONMENT)}

Each value comes from the first source that has it: flag, environment variable, profile,
top level of the credentials file. The default address is ${DEFAULT_BASE_URL}.
An empty variable counts as unset.
`,
  credentials: CREDENTIALS,
  output: OUTPUT,
  scripting: SCRIPTING,
  "deployment-states": STATES,
};

export const topicText = (name: TopicName): string => TEXTS[name];
