import { DEFAULT_BASE_URL } from "./config.ts";
import { EXIT_MEANINGS } from "./exit-codes.ts";
import { ENVIRONMENT, type TopicName } from "./topics.ts";

const rows = (pairs: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join("\n");
};

const CREDENTIALS = `$XDG_CONFIG_HOME/robofleet/credentials.toml, else ~/.config/robofleet/credentials.toml:
a TOML file that only you can read. It may be edited by hand; rf changes single
values of it and keeps comments, order and keys that are not its own.

  token = "rf_user_…"
  base_url = "${DEFAULT_BASE_URL}"

  [profiles.lab]
  token = "rf_user_…"
  base_url = "https://lab.example.org"
  org = "org_…"

\`token\` and \`base_url\` at the top are all that is needed. \`rf login\` writes them
after the service has accepted the token, \`rf logout\` deletes the file. A token
stays valid on the service until it is revoked: rf tokens revoke <id>.

A profile is a table of the credentials file. The top of the file is the profile
\`default\`. What a profile does not hold is taken from the top, but not the token
where the profile has another address: a token goes to the address that it was
saved with. Another one is taken only from --base-url or ROBOFLEET_BASE_URL.

  rf login --profile lab --base-url https://lab.example.org
  rf robots list --profile lab      for this call
  export ROBOFLEET_PROFILE=lab      for this shell
  rf profiles use lab               from now on
  rf profiles use default           the top of the file again

Each value comes from the first that has it: flag, environment variable, profile,
top of the file. A token in ROBOFLEET_TOKEN goes before that of any profile.
`;

const OUTPUT = `  -o table   columns for people (the default)
  -o wide    the same with more columns
  -o json    exactly one JSON document on stdout; --json is the same
  -o yaml    the same document as YAML

\`rf settings set output wide\` keeps one for every later call on this machine.

  --columns id,name   these columns only; a title in small letters, spaces as -
  --no-headers        rows without titles
  --limit N           at most so many rows of a list

Results go to stdout; notes, warnings, errors and progress to stderr. Colours and
moving lines are for terminals, and NO_COLOR turns colours off. On a terminal,
what is longer than the screen is shown in $ROBOFLEET_PAGER, the setting pager,
$PAGER or less; --no-pager prints it.

One record is one line, whatever it is called: characters that would move the
cursor, end the line or turn the direction of text are shown as escapes.
`;

const SCRIPTING = `  rf robots list --json | jq -r '.items[] | select(.status == "offline") | .id'
  id=$(rf sites create Berlin --json | jq -r .data.id)
  rf deploy 1.4.0 --fleet "$fleet" --watch || echo "ended with $?"

With --json stdout holds one document, of an error too:
{"error": {"code": …, "message": …}}; words for people are on stderr. --follow
prints one record a line. A list is followed to its end unless --limit cuts it.

Set ROBOFLEET_TOKEN and ROBOFLEET_BASE_URL, and no file is needed. Without a
terminal nothing is asked: a secret is read from stdin.

An answer 429 or 503 is waited for as its Retry-After says, up to a minute and
three times; a call that got no answer is made again where it cannot happen twice.
\`rf deploy --idempotency-key UUID\` lets a script make its own call again.

See also: rf help exit-codes, rf help output, and rf api for every route
`;

const STATES = `A deployment:
${rows([
  ["scheduled", "held until its time; the robots of the fleet are looked up then"],
  ["queued", "none of its robots has begun"],
  ["in_progress", "robots are at it"],
  ["paused", "no further robot begins"],
  ["rolling_back", "its robots go back to what they had"],
  ["cancelling", "robots that were installing finish"],
])}
and at its end, never to change again:
${rows([
  ["applied", "installed and healthy; failures stayed within the threshold"],
  ["failed", "a robot failed, or more than the threshold allows"],
  ["rolled_back", "no robot has it: those that had it went back"],
  ["cancelled", "called off, expired, superseded, or there was no robot"],
])}

A robot in it: pending (a later wave) → queued (waits for something) → dispatched
→ downloading → staged → installing → verifying → applied. A robot that finds the
new release unhealthy goes back by itself: rolling_back → rolled_back, or failed
when there was nothing to go back to.

\`rf deployments watch <id>\` follows one to its end; the exit code is 8 when that is
not \`applied\`. After a minute in which nothing moved it says what is waited for.
`;

const TEXTS: Record<TopicName, string> = {
  "exit-codes": `Exit codes of rf:\n\n${rows(Object.entries(EXIT_MEANINGS).map(([code, meaning]) => [code.padStart(3), meaning]))}\n`,
  environment: `Environment variables of rf:

${rows(ENVIRONMENT)}

Each value comes from the first that has it: flag, environment variable, profile,
top of the credentials file. Without any address it is ${DEFAULT_BASE_URL}.
An empty variable is one that is not set.
`,
  credentials: CREDENTIALS,
  output: OUTPUT,
  scripting: SCRIPTING,
  "deployment-states": STATES,
};

export const topicText = (name: TopicName): string => TEXTS[name];
