import type { Release } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useLocation, useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useMemo, useState } from "react";
import { notLoaded, searchQuery, useTyped } from "../../api/object-picker.tsx";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import type { NewDeploymentSearch } from "../../search.ts";
import {
  byteText,
  EmptyState,
  Finder,
  hasFailed,
  isNotFound,
  LinkButton,
  PageHeader,
  Section,
  StatusBadge,
  useOutage,
} from "../../ui/index.ts";
import { DeployBar, DeploySummary, type ReleaseLoad } from "./deploy-summary.tsx";
import { deployCommand, type Draft, EMPTY_DRAFT, errorAt, type Errors, readDraft, type Written } from "./draft.ts";
import { type PlanRequest, PlanView, usePlan } from "./plan-view.tsx";
import { RolloutEditor } from "./rollout-editor.tsx";
import { kindOf, type Target, targetFields, targetOf } from "./target.ts";
import { TargetPicker } from "./target-picker.tsx";

const route = getRouteApi("/app/deployments/new");

/** The form for a new deployment, with a live preview. */
export function NewDeploymentPage() {
  const may_deploy = useMay("operator");
  return (
    <>
      <PageHeader title="Deploy a release" label="Deploy a release" />
      {may_deploy ? (
        <Maker />
      ) : (
        <EmptyState title="You don't have access" actions={<LinkButton to="/deployments">Go to deployments</LinkButton>}>
          Deploying requires the operator role. Ask an admin of your organization.
        </EmptyState>
      )}
    </>
  );
}

declare module "@tanstack/react-router" {
  interface HistoryState {
    /** Robots that were selected in the list of robots. Not in the URL, whose length servers limit. */
    robot_ids?: readonly string[];
    /** Whether the deploy form itself wrote its choice to the URL. */
    is_of_form?: boolean;
  }
}

const NO_ROBOTS: readonly string[] = [];

/** Returns the selected release and target, which are in the URL, and functions that change them. */
function useChosen() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const selected = useLocation({ select: ({ state }) => state.robot_ids });
  const is_of_form = useLocation({ select: ({ state }) => state.is_of_form === true });
  // Keep the selection in state, because the URL is updated asynchronously: a request must not contain the previous selection.
  const [chosen, setChosen] = useState(search);
  const [robot_ids, setRobots] = useState(selected ?? NO_ROBOTS);
  const [kind, setKind] = useState(() => kindOf(search, robot_ids));
  useEffect(() => {
    setChosen(search);
    if (is_of_form) return;
    // A link or the palette opened the form, perhaps again with another target.
    setRobots(selected ?? NO_ROBOTS);
    setKind(kindOf(search, selected ?? NO_ROBOTS));
  }, [search, selected, is_of_form]);
  const set = (part: Partial<NewDeploymentSearch>, robots = robot_ids): void => {
    const next = { ...chosen, ...part };
    setChosen(next);
    setRobots(robots);
    const state = { is_of_form: true, ...(robots.length === 0 ? {} : { robot_ids: robots }) };
    void navigate({ to: "/deployments/new", search: next, state, replace: true });
  };
  return { chosen, robot_ids, kind, setKind, set, clearRobots: () => set({}, NO_ROBOTS) };
}

function Maker() {
  const { chosen, robot_ids, kind, setKind, set, clearRobots } = useChosen();
  const rollout_kind = kind === "robot" ? "robot" : "fleet";
  const [draft, setDraft] = useState<Draft>(EMPTY_DRAFT);
  // The expiry is relative to the last change of the draft, so that an unchanged draft always yields the same request.
  const written = useMemo(() => readDraft(draft, rollout_kind, Date.now()), [draft, rollout_kind]);
  const release = useRelease(chosen.release);
  const target = targetOf(kind, chosen, robot_ids);
  const [is_typing_release, setTypingRelease] = useState(false);
  const [is_typing_target, setTypingTarget] = useState(false);
  const request = is_typing_release || is_typing_target ? undefined : requestOf(release.release?.id, target, written);
  const planned = usePlan(request);
  const errors: Errors = { ...planned.errors, ...written.errors };
  const release_state = is_typing_release ? undefined : release.state;
  const summary = {
    request,
    planned,
    tag: is_typing_release ? undefined : release.release?.tag,
    release_state,
    target: is_typing_target ? undefined : target,
  };
  return (
    <div className="grid gap-x-8 lg:grid-cols-[minmax(0,1fr)_minmax(0,1fr)]">
      <div className="min-w-0">
        <Section title="Release and target">
          <ReleasePicker
            chosen={release}
            onChoose={(tag) => set({ release: tag })}
            onTyping={setTypingRelease}
            error={errorAt(errors, "release")}
          />
          <TargetPicker
            kind={kind}
            onKind={setKind}
            chosen={chosen}
            onChoose={set}
            robot_ids={robot_ids}
            onClearRobots={clearRobots}
            target={target}
            total={planned.is_behind ? undefined : planned.plan?.total}
            onTyping={setTypingTarget}
            error={errorAt(errors, "robot_id", "fleet_id", "target_selector")}
          />
        </Section>
        <RolloutEditor
          draft={draft}
          kind={rollout_kind}
          errors={errors}
          onChange={(change) => setDraft((now) => ({ ...now, ...change }))}
        />
      </div>
      {/* On wide screens the summary stays visible, and a long preview scrolls below it. */}
      <div className="min-w-0 lg:sticky lg:top-0 lg:max-h-[calc(100dvh-2.5rem)] lg:self-start lg:overflow-y-auto">
        <DeploySummary {...summary} command={commandOf(release.release?.tag ?? chosen.release, target, written)} />
        <PlanView planned={planned} missing={request === undefined ? NO_PREVIEW[release_state ?? "loaded"] : undefined} errors={errors} />
      </div>
      <DeployBar {...summary} />
    </div>
  );
}

/** Text in place of the preview while the request is incomplete, by whether the release is loaded. */
const NO_PREVIEW: Record<ReleaseLoad, string> = {
  loaded: "Choose a release and a target to see a preview. Nothing starts until you deploy.",
  loading: "Loading the release…",
  failed: "Not loaded: the release. The preview follows when it is loaded.",
};

/** Returns the request; undefined while the form is incomplete or invalid. */
function requestOf(release: string | undefined, target: Target | undefined, { rollout, scheduled_at, errors }: Written) {
  if (release === undefined || target === undefined || Object.keys(errors).length > 0) return undefined;
  const request: PlanRequest = {
    release,
    ...targetFields(target),
    ...(scheduled_at === undefined ? {} : { scheduled_at }),
    rollout,
  };
  return request;
}

const commandOf = (release: string | undefined, target: Target | undefined, { rollout, scheduled_at, expires_seconds }: Written): string =>
  deployCommand({
    release: release ?? "RELEASE",
    target: target ?? { kind: "fleet", id: "FLEET" },
    rollout,
    scheduled_at,
    expires_seconds,
  });

const ID = /^rel_[0-9a-z]{26}$/;

interface ChosenRelease {
  /** ID or tag of the selected release, from the URL. */
  name: string | undefined;
  release: Release | undefined;
  /** Whether no release has this ID or tag. */
  is_missing: boolean;
  /** Undefined: no release is selected, or it does not exist. */
  state: ReleaseLoad | undefined;
  /** Why the release could not be loaded. */
  error: Error | null;
}

/** Loads a release by its ID or tag. */
function useRelease(name: string | undefined): ChosenRelease {
  const is_id = name !== undefined && ID.test(name);
  const by_id = useQuery({ ...query("getRelease", { params: { id: name ?? "" } }), enabled: is_id });
  const by_tag = useQuery({ ...query("listReleases", { query: { tag: name ?? "", limit: 1 } }), enabled: name !== undefined && !is_id });
  const release = is_id ? by_id.data?.data : by_tag.data?.items[0];
  const loading = is_id ? by_id : by_tag;
  const { isSuccess, error } = loading;
  // Other errors, such as an outage, do not prove that the release is missing.
  const is_missing = release === undefined && (isSuccess || isNotFound(error));
  const unloaded = loading.isError || hasFailed(loading) ? "failed" : "loading";
  const state = name === undefined || is_missing ? undefined : release === undefined ? unloaded : "loaded";
  return { name, release, is_missing, state, error };
}

const FROM: Record<Release["artifact_state"], string> = {
  stored: "",
  awaiting_upload: "The artifact is not uploaded yet: robots wait for the upload.",
  external: "Robots pull the image from its registry.",
};

/** Selects a release by tag. */
function ReleasePicker({
  chosen: { name, release, is_missing, error: failure },
  onChoose,
  onTyping,
  error,
}: {
  chosen: ChosenRelease;
  onChoose: (tag: string) => void;
  onTyping: (is_typing: boolean) => void;
  error: string | undefined;
}) {
  const [text, setText] = useTyped(onTyping);
  const found = useQuery(query("listReleases", { query: searchQuery(useDeferredValue(text.trim())) }));
  // During an outage, the frame of all pages shows the reason.
  const is_outage = useOutage() !== undefined;
  const unread = is_outage ? null : release !== undefined && text === "" ? failure : (failure ?? found.error);
  const missing = is_missing ? `Release ${name ?? ""} does not exist. Choose one from the list or push it first.` : undefined;
  return (
    <Finder
      free
      label="Release"
      chosen={release?.tag ?? name}
      text={text}
      onText={setText}
      found={(found.data?.items ?? []).map(({ tag, app, artifact_state }) => ({
        value: tag,
        label: tag,
        hint: `app ${app}`,
        mark: artifact_state === "awaiting_upload" ? <StatusBadge status={artifact_state} /> : undefined,
      }))}
      onChoose={onChoose}
      // After a failure, the search is repeated.
      is_looking={found.isPending || found.isError}
      failure={notLoaded(found.error ?? found.failureReason)}
      error={missing ?? notLoaded(unread) ?? error}
      note={
        release === undefined
          ? text === "" && found.data?.items.length === 0
            ? "No releases yet. Push one first."
            : "Search by tag."
          : `app ${release.app}, ${release.kind.replaceAll("_", " ")}, ${byteText(release.artifact_size)}${FROM[release.artifact_state] === "" ? "" : `. ${FROM[release.artifact_state]}`}`
      }
    />
  );
}
