import type { NewEnrollmentKey } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { Card, Command, EmptyState, LinkButton, QueryState, SecretOnce, Section } from "../../ui/index.ts";
import { installLine, isLoopback, runLine } from "./agent-line.ts";
import { readAuthority } from "./authority.ts";
import { NewRobots } from "./new-robots.tsx";

const QrCode = lazy(async () => ({ default: (await import("./qr-code.tsx")).QrCode }));

/** A key that was made a moment ago: its one showing. */
export function MadeKey({ made }: { made: NewEnrollmentKey }) {
  const authority = useQuery({ queryKey: ["authority"], queryFn: readAuthority, staleTime: Infinity });
  if (made.key === null)
    return (
      <EmptyState title="The key's only showing was lost on the way" actions={<LinkButton to="/enrollment">To the keys</LinkButton>}>
        The key was made, but the first answer did not arrive, and it is not told twice. Revoke it and make another one.
      </EmptyState>
    );
  const { key } = made;
  return (
    <>
      <SecretOnce secret={key}>The enrolment key is shown this once. Whoever has it can enrol a robot into the fleet.</SecretOnce>
      <div className="mt-6">
        <QueryState query={authority}>
          {(ca_fingerprint) => <Lines line={{ server: window.location.origin, key, ca_fingerprint: ca_fingerprint ?? undefined }} />}
        </QueryState>
      </div>
      <NewRobots made={made} />
    </>
  );
}

function Lines({ line }: { line: { server: string; key: string; ca_fingerprint: string | undefined } }) {
  const run = runLine(line);
  return (
    <div className="grid gap-6 sm:grid-cols-[minmax(0,1fr)_14rem]">
      <div className="min-w-0">
        <Section title="To try it, in a terminal of the robot">
          <Command>{run}</Command>
        </Section>
        <Section title="To keep it, at each boot">
          <Command>{installLine(line)}</Command>
        </Section>
        {isLoopback(window.location.hostname) && (
          <Card className="mb-6">
            <p>
              You reach this server as <code className="font-mono">{window.location.host}</code>, which is this machine only. For robots
              elsewhere start it with <code className="font-mono">--listen 0.0.0.0:7600 --tls auto</code> and open this page by its name.
            </p>
          </Card>
        )}
      </div>
      <div className="max-sm:hidden">
        <Suspense fallback={<div className="aspect-square w-full max-w-56 rounded-md bg-active" />}>
          <QrCode text={run} label="The line for the terminal as a QR code" />
        </Suspense>
        <p className="mt-1 max-w-56 text-xs text-muted">The same line, for a phone or a robot's camera.</p>
      </div>
    </div>
  );
}
