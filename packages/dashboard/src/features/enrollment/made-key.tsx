import type { NewEnrollmentKey } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { Card, Command, EmptyState, LinkButton, QueryState, SecretOnce, Section } from "../../ui/index.ts";
import { installLine, isLoopback, runLine } from "./agent-line.ts";
import { readAuthority } from "./authority.ts";
import { NewRobots } from "./new-robots.tsx";

const QrCode = lazy(async () => ({ default: (await import("./qr-code.tsx")).QrCode }));

/** Shows a new key, once, with the commands for the robot and the robots that enroll. */
export function MadeKey({ made }: { made: NewEnrollmentKey }) {
  const authority = useQuery({ queryKey: ["authority"], queryFn: readAuthority, staleTime: Infinity });
  if (made.key === null)
    return (
      <EmptyState title="The key could not be shown" actions={<LinkButton to="/enrollment">Go to enrollment keys</LinkButton>}>
        The key was created, but the response with it was lost, and a key is shown only once. Revoke it and create another one.
      </EmptyState>
    );
  const { key } = made;
  return (
    <>
      <SecretOnce secret={key}>
        Copy the enrollment key now: it is shown only once. Anyone with this key can enroll robots into the fleet.
      </SecretOnce>
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
        <Section title="Try it in a terminal on the robot">
          <Command>{run}</Command>
        </Section>
        <Section title="Install as a service">
          <Command>{installLine(line)}</Command>
        </Section>
        {isLoopback(window.location.hostname) && (
          <Card className="mb-6">
            <p>
              This page uses the address <code className="font-mono">{window.location.host}</code>, which works on this machine only. For
              other robots, start the server with <code className="font-mono">--listen 0.0.0.0:7600 --tls auto</code> and open this page by
              the server's host name.
            </p>
          </Card>
        )}
      </div>
      <div className="max-sm:hidden">
        <Suspense fallback={<div className="aspect-square w-full max-w-56 rounded-md bg-active" />}>
          <QrCode text={run} label="The command as a QR code" />
        </Suspense>
        <p className="mt-1 max-w-56 text-xs text-muted">The same command, for a phone or a robot's camera.</p>
      </div>
    </div>
  );
}
