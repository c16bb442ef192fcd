import { useQuery } from "@tanstack/react-query";
import { Card, CopyText, KeyValue, Section } from "../../ui/index.ts";
import { readAuthority } from "../enrollment/index.ts";

/** The address and certificate authority of the server, with links to the API documentation. */
export function ServerSection() {
  const authority = useQuery({ queryKey: ["authority"], queryFn: readAuthority, staleTime: Infinity }).data ?? null;
  const { origin } = window.location;
  return (
    <Section title="Server and API">
      <Card>
        <KeyValue
          items={[
            [
              "Address",
              <CopyText key="address" label="Address">
                {origin}
              </CopyText>,
            ],
            authority !== null && [
              "Certificate authority",
              <CopyText key="authority" label="Fingerprint of its certificate authority">
                {authority}
              </CopyText>,
            ],
            [
              "API",
              <span key="api" className="flex flex-wrap gap-x-3">
                <a className="inline-block min-h-[24px] leading-[24px] text-accent underline" href="/docs">
                  API reference
                </a>
                <a className="inline-block min-h-[24px] leading-[24px] text-accent underline" href="/openapi.json">
                  OpenAPI document
                </a>
              </span>,
            ],
          ]}
        />
      </Card>
    </Section>
  );
}
