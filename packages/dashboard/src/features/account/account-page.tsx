import { useNavigate, useRouter } from "@tanstack/react-router";
import { signOut, useMe } from "../../api/session.ts";
import { Badge, Button, Card, CopyText, KeyValue, PageHeader, Section, Text, notifyError, Time } from "../../ui/index.ts";

/** The signed-in user or token, its expiry and its organizations. */
export function AccountPage() {
  const { actor, token, org, orgs, scopes } = useMe();
  const navigate = useNavigate();
  const router = useRouter();
  const leave = (): void =>
    void signOut().then(async () => {
      await router.invalidate();
      await navigate({ to: "/sign-in" });
    }, notifyError);
  return (
    <div className="max-w-3xl">
      <PageHeader
        title="Account"
        label="Account"
        actions={
          <Button busy={false} onClick={leave}>
            Sign out
          </Button>
        }
      />
      <Section title="Signed in as">
        <Card>
          <KeyValue
            items={{
              Name: <Text>{actor.name ?? token.label ?? token.prefix}</Text>,
              Type: actor.type === "user" ? "user" : "organization token",
              Token: <span className="font-mono">{token.prefix}…</span>,
              "Token expires": token.expires_at === null ? "never" : <Time at={token.expires_at} exact />,
              ID: <CopyText label="ID" text={actor.id} />,
            }}
          />
        </Card>
      </Section>
      <Section title="Organizations">
        <Card>
          <ul className="space-y-2">
            {orgs.map(({ id, name, role }) => (
              <li key={id} className="flex items-center gap-2">
                <Text>{name}</Text>
                <Badge>{role}</Badge>
                {id === org.id && <Badge tone="info">current</Badge>}
              </li>
            ))}
          </ul>
          {scopes.length > 0 && (
            <p className="mt-3 text-muted">
              Your access is limited to {scopes.length === 1 ? "one site or fleet" : `${scopes.length} sites and fleets`}. An admin of the
              organization can change this.
            </p>
          )}
        </Card>
      </Section>
    </div>
  );
}
