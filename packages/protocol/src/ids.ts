/** Prefix of each kind of id. An underscore follows it. */
export const ID_PREFIXES = {
  org: "org",
  user: "usr",
  token: "tok",
  site: "site",
  fleet: "fleet",
  robot: "rob",
  release: "rel",
  deployment: "dep",
  target: "tgt",
  config: "cfg",
  config_deployment: "cdep",
  enrollment_key: "key",
  event: "evt",
  session: "sess",
  audit: "aud",
  shell_session: "shl",
  alert_rule: "alr",
  incident: "inc",
  channel: "chn",
  delivery: "dlv",
  alert_mute: "mute",
  saved_view: "view",
} as const;
export type IdKind = keyof typeof ID_PREFIXES;

const ID_BODY = /^[0-9a-z]{26}$/;

/** Returns whether `text` has the form of an id of this kind; the object need not exist. */
export function isId(kind: IdKind, text: string): boolean {
  const prefix = `${ID_PREFIXES[kind]}_`;
  return text.startsWith(prefix) && ID_BODY.test(text.slice(prefix.length));
}

/** Prefixes of secrets. No id has such a prefix, so that secrets and ids are distinguishable in logs and forms. */
export const SECRET_PREFIXES = {
  org_token: "rf_org_",
  user_token: "rf_user_",
  enrollment_key: "rf_enroll_",
  session: "rf_session_",
  csrf: "rf_csrf_",
  stream_ticket: "rf_ticket_",
} as const;
export const SECRET_PATTERN = /\brf_(org|user|enroll|session|csrf|ticket)_[0-9a-f]{64}\b/g;
