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
\`default\`. Missing values are inherited from the top level, except the token
if the profile has another address: a token is sent only to the address that it was
saved with. --base-url and ROAMFLEET_BASE_URL override the address.

  rf login --profile lab --base-url https://lab.example.org
  rf robots list --profile lab      for this call
  export ROAMFLEET_PROFILE=lab      for this shell
  rf profiles use lab               as the default
  rf profiles use default           back to the default profile

Each value comes from the first source that has it: flag, environment variable, profile,
top level. A token in ROAMFLEET_TOKEN overrides that of any profile.
`;

const OUTPUT = `  -o table   human-readable columns (the default)
  -o wide    the same with more columns
  -o json    exactly one JSON document on stdout; --json is the same
  -o yaml    the same document as YAML

\`rf settings set output wide\` saves a default for this machine.

  --columns id,name   only these columns; titles in lower case, with - for spaces
  --no-headers        no header row
  --limit N           at most this many rows of a list

Results go to stdout; notes, warnings, errors and progress to stderr. Colors and
progress bars need a terminal, and NO_COLOR disables colors. On a terminal,
output longer than the screen is shown in $ROAMFLEET_PAGER, the setting pager,
$PAGER or less; --no-pager disables that.

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

Responses with status 429 or 503 are retried after their Retry-After, up to a minute and
three times; a call without a response is retried if it cannot take effect twice.
\`rf deploy --idempotency-key UUID\` lets a script retry its own call safely.

See also: rf help exit-codes, rf help output, and rf api for every route
`;

const STATES = `A deployment:
${rows([
  ["scheduled", "waits for its start time; a fleet's robots are selected then"],
  ["queued", "no robot has started"],
  ["in_progress", "robots are updating"],
  ["paused", "no further robots start"],
  ["rolling_back", "its robots are rolling back to their previous release"],
  ["cancelling", "robots that have begun to install complete it"],
])}
A deployment that has ended (final):
${rows([
  ["applied", "installed and healthy; failures stayed within the threshold"],
  ["failed", "a robot failed, or more robots than the threshold allows"],
  ["rolled_back", "no robot runs it: updated robots rolled back"],
  ["cancelled", "cancelled by a user, expired, superseded, or without robots"],
])}

A robot of a deployment: pending (a later wave) → queued (waits for a condition) → dispatched
→ downloading → staged → installing → verifying → applied. A robot on which the
new release is unhealthy rolls back automatically: rolling_back → rolled_back, or
failed if there is no previous release.

\`rf deployments watch <id>\` follows a deployment to its end; the exit code is 8 unless
it is \`applied\`. After a minute without a change it prints the reason.
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
