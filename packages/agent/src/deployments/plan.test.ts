import assert from "node:assert/strict";
import { test } from "node:test";
import type { DesiredApp, DesiredRelease } from "@roamfleet/protocol/link";
import { PHASE_TRIES_MAX, plan, type Situation, STAGE_TRIES_MAX, type StepType } from "./plan.ts";
import { emptyState, type Finished, type Phase, type Work } from "./state.ts";

const release = (tag: string, kind = "app_bundle"): DesiredRelease => ({
  id: `rel_${tag}`,
  tag,
  kind,
  artifact_sha256: "0".repeat(64),
  artifact_size: 1,
  image: null,
  manifest: null,
});
const [A, B] = [release("a"), release("b")];

const asks = (wanted: DesiredRelease | null, target_id: string | null = "tgt_1", attempt = 1): DesiredApp => ({
  release: wanted,
  target_id,
  deployment_id: target_id && "dep_1",
  attempt,
  policy: { verify_seconds: 30 },
});
const doing = (phase: Phase, more: Partial<Work> = {}): Work => ({
  target_id: "tgt_1",
  deployment_id: "dep_1",
  attempt: 1,
  release: B,
  verify_seconds: 30,
  phase,
  tries: 0,
  failure: null,
  ...more,
});
const ended = (status: Finished["status"], more: Partial<Finished> = {}): Finished => ({
  target_id: "tgt_1",
  deployment_id: "dep_1",
  attempt: 1,
  release_id: B.id,
  status,
  reason: null,
  message: null,
  reported: true,
  ...more,
});

interface Row {
  when: string;
  state?: Partial<Situation["state"]>;
  desired: Situation["desired"];
  running?: string | null;
  may_start?: boolean;
  may_converge?: boolean;
  may_install?: boolean;
  server_now?: number;
  step: StepType;
}

const NOW = 1_900_000_000_000;
const inWindow = (install_from: number, install_until: number): Situation["desired"] => {
  const desired = asks(B);
  return typeof desired === "string" ? desired : { ...desired, policy: { ...desired.policy, install_from, install_until } };
};

const rows: Row[] = [
  { when: "the install window opens later and nothing is downloaded", desired: inWindow(NOW + 1, NOW + 2), step: "begin" },
  {
    when: "a download is in progress before the install window",
    state: { work: doing("downloading") },
    desired: inWindow(NOW + 1, NOW + 2),
    step: "stage",
  },
  {
    when: "a release is staged before the install window",
    state: { work: doing("staged") },
    desired: inWindow(NOW + 1, NOW + 2),
    step: "await_window",
  },
  {
    when: "a release is staged as the install window opens",
    state: { work: doing("staged") },
    desired: inWindow(NOW, NOW + 1),
    step: "install",
  },
  {
    when: "a release is staged as the install window closes",
    state: { work: doing("staged") },
    desired: inWindow(NOW - 1, NOW),
    step: "await_window",
  },
  {
    when: "the install window closes during installing",
    state: { work: doing("installing") },
    desired: inWindow(NOW - 1, NOW),
    step: "install",
  },
  {
    when: "the robot blocks the install inside the install window",
    state: { work: doing("staged") },
    desired: inWindow(NOW, NOW + 1),
    may_install: false,
    step: "hold",
  },
  { when: "no desired state was received yet", desired: "unknown", step: "idle" },
  { when: "the desired state does not name the app", state: { current: A }, running: A.id, desired: "absent", step: "idle" },
  {
    when: "the robot blocks the install during the download",
    state: { work: doing("downloading") },
    desired: asks(B),
    may_install: false,
    step: "stage",
  },
  {
    when: "the robot blocks the install of a staged release",
    state: { work: doing("staged") },
    desired: asks(B),
    may_install: false,
    step: "hold",
  },
  {
    when: "the robot blocks a staged release that is no longer desired",
    state: { work: doing("staged") },
    desired: "absent",
    may_install: false,
    step: "cancel",
  },
  {
    when: "the robot blocks an install that has begun",
    state: { work: doing("installing") },
    desired: asks(B),
    may_install: false,
    step: "install",
  },
  {
    when: "the robot blocks a rollback that has begun",
    state: { work: doing("rolling_back") },
    desired: asks(B),
    may_install: false,
    step: "roll_back",
  },
  {
    when: "the robot blocks a desired removal",
    state: { current: A },
    running: A.id,
    desired: asks(null),
    may_install: false,
    step: "hold",
  },
  {
    when: "the robot blocks installs and the current release is down",
    state: { current: A },
    desired: "absent",
    may_install: false,
    step: "ensure_running",
  },
  { when: "a target names the app's first release", desired: asks(A), step: "begin" },
  { when: "a target names another release", state: { current: A }, running: A.id, desired: asks(B), step: "begin" },
  { when: "a target names the running release", state: { current: A }, running: A.id, desired: asks(A), step: "confirm" },
  { when: "a target names the current release, which is down", state: { current: A }, may_start: false, desired: asks(A), step: "begin" },
  { when: "the running release is desired without a target", state: { current: A }, running: A.id, desired: asks(A, null), step: "idle" },
  { when: "another release is desired without a target", state: { current: A }, running: A.id, desired: asks(B, null), step: "begin" },
  {
    when: "an install without a target has just failed",
    state: { current: A },
    running: A.id,
    desired: asks(B, null),
    may_converge: false,
    step: "idle",
  },
  {
    when: "the desired release was rolled back on this robot",
    state: { current: A, finished: [ended("rolled_back")] },
    running: A.id,
    desired: asks(B, null),
    step: "idle",
  },
  {
    when: "the robot has rejected the desired release",
    state: { finished: [ended("failed", { reason: "rejected_by_robot" })] },
    desired: asks(B, null),
    step: "idle",
  },
  {
    when: "an earlier download of the desired release failed",
    state: { finished: [ended("failed", { reason: "download_failed" })] },
    desired: asks(B, null),
    step: "begin",
  },
  { when: "the release kind is unknown", desired: asks(release("c", "container_image")), step: "refuse" },
  { when: "the release kind is unknown and no target is named", desired: asks(release("c", "container_image"), null), step: "idle" },
  { when: "the target has ended", state: { finished: [ended("failed")] }, desired: asks(B), step: "idle" },
  {
    when: "the target has ended at a later attempt",
    state: { finished: [ended("failed", { attempt: 3 })] },
    desired: asks(B, "tgt_1", 2),
    step: "idle",
  },
  {
    when: "the target has ended and a newer attempt is desired",
    state: { finished: [ended("failed")] },
    desired: asks(B, "tgt_1", 2),
    step: "begin",
  },
  { when: "removal of the app is desired", state: { current: A }, running: A.id, desired: asks(null, null), step: "begin" },
  { when: "removal is desired and the app is already removed", desired: asks(null, null), step: "idle" },
  { when: "the agent has restarted", state: { current: A }, desired: asks(A, null), step: "ensure_running" },
  { when: "the agent has restarted without a desired state", state: { current: A }, desired: "unknown", step: "ensure_running" },
  {
    when: "the agent was restarted during a download",
    state: { current: A, work: doing("downloading") },
    desired: asks(B),
    step: "ensure_running",
  },
  { when: "starting the release has just failed", state: { current: A }, desired: asks(A, null), may_start: false, step: "idle" },
  { when: "a download is in progress", state: { current: A, work: doing("downloading") }, running: A.id, desired: asks(B), step: "stage" },
  {
    when: "a download is in progress without a desired state since the restart",
    state: { work: doing("downloading") },
    desired: "unknown",
    step: "stage",
  },
  { when: "the target of a download is no longer desired", state: { work: doing("downloading") }, desired: "absent", step: "cancel" },
  { when: "another target is desired during a download", state: { work: doing("downloading") }, desired: asks(A, "tgt_2"), step: "cancel" },
  {
    when: "the download has started too often",
    state: { work: doing("downloading", { tries: STAGE_TRIES_MAX }) },
    desired: asks(B),
    step: "give_up",
  },
  { when: "a release is staged", state: { work: doing("staged") }, desired: asks(B), step: "install" },
  { when: "the target of a staged release is no longer desired", state: { work: doing("staged") }, desired: asks(A, null), step: "cancel" },
  {
    when: "the agent was killed during installing",
    state: { current: A, work: doing("installing", { tries: 1 }) },
    desired: asks(B),
    step: "install",
  },
  {
    when: "a release that is being installed is no longer desired",
    state: { work: doing("installing") },
    desired: "absent",
    step: "install",
  },
  {
    when: "installing has killed the agent too often",
    state: { work: doing("installing", { tries: PHASE_TRIES_MAX }) },
    desired: asks(B),
    step: "roll_back",
  },
  { when: "a release is being verified", state: { current: A, work: doing("verifying") }, running: B.id, desired: asks(B), step: "verify" },
  {
    when: "another target is desired during verification",
    state: { work: doing("verifying") },
    desired: asks(A, "tgt_2"),
    step: "verify",
  },
  {
    when: "verifying has killed the agent too often",
    state: { current: A, work: doing("verifying", { tries: PHASE_TRIES_MAX }) },
    desired: asks(B),
    step: "roll_back",
  },
  { when: "a rollback is in progress", state: { current: A, work: doing("rolling_back") }, desired: asks(B), step: "roll_back" },
  {
    when: "rolling back has killed the agent too often",
    state: { current: A, work: doing("rolling_back", { tries: PHASE_TRIES_MAX }) },
    desired: asks(B),
    step: "give_up",
  },
  {
    when: "a removal is in progress",
    state: { current: A, work: doing("removing", { release: null }) },
    desired: asks(null, null),
    step: "remove",
  },
  {
    when: "removing the app has failed too often",
    state: { current: A, work: doing("removing", { release: null, tries: PHASE_TRIES_MAX }) },
    desired: asks(null, null),
    step: "give_up",
  },
];

for (const {
  when,
  state,
  desired,
  running = null,
  may_start = true,
  may_converge = true,
  may_install = true,
  server_now = NOW,
  step,
} of rows) {
  test(`plans the step "${step}" when ${when}`, () => {
    const situation = {
      state: { ...emptyState("main"), ...state },
      desired,
      kinds: ["app_bundle", "file"],
      running,
      may_start,
      may_converge,
      may_install,
      server_now,
    };
    assert.equal(plan(situation).type, step);
  });
}
