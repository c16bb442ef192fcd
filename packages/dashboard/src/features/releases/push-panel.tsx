import { ApiError, Unreachable } from "@roamfleet/sdk/browser";
import { Link } from "@tanstack/react-router";
import { Pause, Play, X } from "lucide-react";
import { useEffect, useState } from "react";
import { Button, Card, byteText, durationText, IconButton, LinkButton, Progress, Text } from "../../ui/index.ts";
import { dismissPush, pausePush, type Push, resumePush, usePushes } from "./pushes.ts";
import { rateOf, secondsLeft } from "./rate.ts";

/** Time without progress after which the upload is shown as stalled. */
const QUIET_MS = 3_000;

/** The uploads of this browser tab, or of one release. Renders nothing without uploads. */
export function PushPanel({ release_id }: { release_id?: string }) {
  const pushes = usePushes().filter((push) => release_id === undefined || push.release_id === release_id);
  if (pushes.length === 0) return null;
  return (
    <section aria-label="Uploads" className="mb-4 space-y-2">
      {pushes.map((push) => (
        <PushCard key={push.release_id} push={push} />
      ))}
    </section>
  );
}

function PushCard({ push }: { push: Push }) {
  const { release_id, tag, stage, done_bytes, size } = push;
  return (
    <Card className="!py-3">
      <div className="mb-2 flex min-h-8 items-center justify-between gap-3">
        <Link to="/releases/$id" params={{ id: release_id }} className="min-w-0 font-medium hover:underline">
          <Text line>{tag}</Text>
        </Link>
        <div className="flex shrink-0 items-center gap-1">
          {stage === "done" && (
            <LinkButton to="/deployments/new" search={{ release: release_id }}>
              Deploy
            </LinkButton>
          )}
          {stage === "uploading" && (
            <Button icon={<Pause size={14} aria-hidden />} onClick={() => pausePush(release_id)}>
              Pause
            </Button>
          )}
          {(stage === "paused" || (stage === "failed" && mayPass(push.error))) && (
            <Button icon={<Play size={14} aria-hidden />} onClick={() => resumePush(release_id)}>
              Resume{" "}
            </Button>
          )}
          {stage !== "uploading" && (
            <IconButton label={`Dismiss ${tag.slice(0, 40)}`} icon={<X size={14} aria-hidden />} onClick={() => dismissPush(release_id)} />
          )}
        </div>
      </div>
      <Progress
        label={`Upload of ${tag.slice(0, 80)}`}
        total={size}
        parts={[{ value: done_bytes, tone: stage === "failed" ? "bad" : stage === "done" ? "ok" : "info", label: `of ${size} bytes` }]}
      />
      <p className="mt-1.5 flex flex-wrap gap-x-3 text-xs text-muted tabular-nums">
        <span>
          {byteText(done_bytes)} of {byteText(size)}
        </span>
        <Standing push={push} />
      </p>
      {stage === "failed" && <Failure error={push.error} />}
    </Card>
  );
}

function Standing({ push }: { push: Push }) {
  const { stage, samples, size, began_at_bytes = 0, done_bytes } = push;
  const now = useSeconds(stage === "uploading");
  if (stage === "done") return <span>verified</span>;
  if (stage === "paused") return <span>paused; uploaded data is kept for one day</span>;
  if (stage === "failed") return null;
  const went_on = began_at_bytes > 0 && <span>resumed at {byteText(began_at_bytes)}</span>;
  const last = samples.at(-1);
  if (done_bytes === size && size > 0) return <span>verifying</span>;
  if (last === undefined || now - last.at_ms > QUIET_MS)
    return (
      <>
        {went_on}
        <span className="text-warn">server not responding; retrying automatically</span>
      </>
    );
  const rate = rateOf(samples);
  const left = secondsLeft(samples, size);
  return (
    <>
      {went_on}
      {rate !== undefined && <span>{byteText(rate)}/s</span>}
      {left !== undefined && <span>{durationText(Math.ceil(left))} left</span>}
    </>
  );
}

/** The current time by performance.now(), updated every second while `is_wanted`. */
function useSeconds(is_wanted: boolean): number {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    if (!is_wanted) return undefined;
    setNow(performance.now());
    const timer = setInterval(() => setNow(performance.now()), 1_000);
    return () => clearInterval(timer);
  }, [is_wanted]);
  return now;
}

/** Whether a retry may succeed: after a missing response or a server failure, not after a refusal. */
const mayPass = (error: unknown): boolean => error instanceof Unreachable || (error instanceof ApiError && error.status >= 500);

function Failure({ error }: { error: unknown }) {
  const is_room = error instanceof ApiError && error.status === 413;
  return (
    <div role="alert" className="mt-2 space-y-1 text-bad [overflow-wrap:anywhere]">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {mayPass(error) && <p className="text-muted">Uploaded data is kept for one day. You can resume the upload.</p>}
      {is_room && (
        <p className="text-muted">
          Delete unused releases; their storage is freed one day later. The server's administrator can raise the limit:{" "}
          <code className="font-mono text-xs">roamfleet serve --limit artifact_bytes_max=BYTES</code>
        </p>
      )}
    </div>
  );
}
