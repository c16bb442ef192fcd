/** A guarantee of Roamfleet with its number and the description of its proof. The proof itself supplies the figures. */
export interface PromiseRow {
  number: number;
  promise: string;
  proof: string;
}

export const PROMISES: readonly PromiseRow[] = [
  {
    number: 1,
    promise: "One tenant never sees or touches what belongs to another",
    proof: "every route and stream with every id of another org; the application's checks and row-level security each alone",
  },
  { number: 2, promise: "A role can do what its table says, and no more", proof: "role × route × in or out of scope, cell by cell" },
  {
    number: 3,
    promise: "No secret is stored where it could be read",
    proof: "search of the database, the logs and the data directory for every secret issued",
  },
  {
    number: 4,
    promise: "A revoked token is refused, and its open streams end",
    proof: "tokens revoked, expired and demoted while streams are open, on one server",
  },
  {
    number: 5,
    promise: "An enrollment key admits no more robots than it allows",
    proof: "500 concurrent robots with a key for 10, while the server is killed",
  },
  {
    number: 6,
    promise: "The open administration mode cannot leak off the machine",
    proof: "every combination of address, TLS, proxy and token at start",
  },
  { number: 7, promise: "Tokens of streams do not leak", proof: "search of all logs; foreign origins refused" },
  {
    number: 8,
    promise: "Slow clients do not affect other clients",
    proof: "thousands of half-open sockets while API requests are measured",
  },
  {
    number: 9,
    promise: "Hostile bodies are refused cheaply",
    proof: "oversize, deep, poisoned and compressed bodies against a real server",
  },
  { number: 10, promise: "Archives stay in their folder", proof: "archives with paths, links, devices and names that try to leave it" },
  {
    number: 11,
    promise: "Only the right bytes run",
    proof:
      "random bit flips, truncations and extensions of an artifact; one of 4 GiB pushed and installed while rf, server and agent are killed, with every transferred byte counted",
  },
  {
    number: 12,
    promise: "With signed releases: no downgrade, replay, freeze, or other robot's manifest",
    proof:
      "random attacks by an attacker who controls the server, without the makers' keys; then on the real agent, whose events name the check",
  },
  { number: 13, promise: "A robot's identity is its own", proof: "a copied state directory and replayed challenges" },
  {
    number: 14,
    promise: "Every shell is accounted for",
    proof: "kill -9 of server and agent in turn while shells are open, and their output compared with their recordings",
  },
  {
    number: 15,
    promise: "Text is text, wherever it is shown",
    proof:
      "code, control characters and very long words in every field of users and robots, on every page in Chromium; a POST from another site",
  },
  {
    number: 16,
    promise: "An acknowledged write survives",
    proof: "kill -9 of server and PostgreSQL under writes, against the client's ledger",
  },
  { number: 17, promise: "An idempotent request happens once", proof: "many concurrent copies of a request, while the server is killed" },
  {
    number: 18,
    promise: "A scheduled deployment starts once and on time",
    proof:
      "deployments due within a minute, on one server that is killed meanwhile, and on three nodes that are killed in turn; also with clocks five minutes off",
  },
  { number: 19, promise: "A deployment always ends", proof: "kill -9 at every failpoint of server and agent, and torn files" },
  {
    number: 20,
    promise: "The link may lose, repeat and reorder messages, and every process may be killed at any moment",
    proof:
      "random schedules by seed, with the rules checked after every step: pure decisions, the server's own code on PostgreSQL, and planted faults",
  },
  {
    number: 21,
    promise: "A disconnected robot keeps working",
    proof:
      "24 virtual hours without a connection, with a real workload, full log spool and outbox, and a waiting release and configs; then a reconnect",
  },
  { number: 22, promise: "The database may restart", proof: "PostgreSQL killed and stopped under load, of one server and of three nodes" },
  {
    number: 23,
    promise: "All robots may reconnect at the same time",
    proof: "15,000 robots over TLS whose links are all cut, and whose server is killed, during API requests",
  },
  {
    number: 24,
    promise: "It runs for months",
    proof:
      "all streams of a robot watched, opened and closed: 15 minutes of real processes, and a simulated day; heap and descriptors after garbage collection",
  },
  {
    number: 25,
    promise: "A bad release stops itself",
    proof: "1,000 robots of a swarm of which 15% fail, in waves, while the server is killed",
  },
  {
    number: 26,
    promise: "The OpenAPI document describes the server exactly",
    proof: "every response to generated requests compared with the served document",
  },
  {
    number: 27,
    promise: "A hostile robot harms only itself",
    proof:
      "frames of every type, flag, channel, size and content in great numbers, and floods of records, apps, topics and reports; measured are the server's memory, and another tenant's API and logs",
  },
  {
    number: 28,
    promise: "One tenant cannot exhaust another",
    proof:
      "an org at all of its limits (uploads of zero bytes, flooding robots, requests of many tokens, streams of events, silent sockets, deployments, enrollments) while another org works",
  },
  {
    number: 29,
    promise: "Signed means signed",
    proof:
      "a hostile server and an operator's token against a real agent that requires signatures: releases, artifacts, signing keys, configs, shells, files, tunnels and the local socket; its processes, files and trusted keys compared after each attack",
  },
  {
    number: 30,
    promise: "Scope holds over time",
    proof:
      "moves, demotions, removals and revocations between the creation of every kind of deployment, rollback and enrollment key and their claim, half of them while the robots reconnect",
  },
  {
    number: 31,
    promise: "Order and retention do not depend on clocks",
    proof:
      "order: pairs of deployments created by three servers with clocks an hour apart and by servers that boot in 1970, of which the newer one wins; retention: starts of a server whose clock is ten years off, ahead and behind, of which none deletes what is not old enough",
  },
  {
    number: 32,
    promise: "No sample of a metric is lost, and each is stored once",
    proof:
      "1,000 robots of a swarm with 50 series each for 10 minutes, while all links are cut and the server is killed; every value is decoded and compared",
  },
];
