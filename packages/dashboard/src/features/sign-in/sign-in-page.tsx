import { ApiError } from "@roamfleet/sdk/browser";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api } from "../../api/client.ts";
import { changeOrg, readSession, signIn } from "../../api/session.ts";
import { Button, Command, PageHeader, TextInput, TextLine } from "../../ui/index.ts";

const route = getRouteApi("/sign-in");

interface Choice {
  id: string;
  name: string;
  role: string;
}

/** Exchanges a token for a session. Users of several organizations select one. */
export function SignInPage() {
  const { next } = route.useSearch();
  const router = useRouter();
  const [orgs, setOrgs] = useState<readonly Choice[]>();
  const enter = async (): Promise<void> => {
    await router.invalidate();
    router.history.push(next ?? "/");
  };
  const signing_in = useMutation({
    mutationFn: async (token: string) => {
      await signIn(token);
      return (await readSession())?.me.orgs ?? [];
    },
    onSuccess: (found) => (found.length > 1 ? setOrgs(found) : void enter()),
  });
  return (
    <main className="flex min-h-full flex-col items-center justify-center gap-4 bg-sunken p-4">
      <div className="w-full max-w-md rounded-lg border border-line bg-raised p-6 shadow-raised">
        <div className="mb-4 flex items-center gap-3">
          <img src="/icon.svg" alt="" width={32} height={32} />
          <PageHeaderTitle title={orgs === undefined ? "Sign in to Roamfleet" : "Choose an organization"} />
        </div>
        {orgs === undefined ? (
          <TokenForm onToken={(token) => signing_in.mutate(token)} busy={signing_in.isPending} error={signing_in.error} />
        ) : (
          <OrgList orgs={orgs} onChoose={(id) => void changeOrg(id).then(enter)} />
        )}
      </div>
      {orgs === undefined && <NoOrgYet />}
    </main>
  );
}

const PageHeaderTitle = ({ title }: { title: string }) => (
  <div className="[&>header]:mb-0">
    <PageHeader title={title} label={title} />
  </div>
);

function TokenForm({ onToken, busy, error }: { onToken: (token: string) => void; busy: boolean; error: Error | null }) {
  const [token, setToken] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (token.trim() !== "") onToken(token.trim());
  };
  return (
    <form onSubmit={submit}>
      <TextInput
        label="Token"
        type="password"
        autoComplete="current-password"
        autoFocus
        spellCheck={false}
        placeholder="rf_user_… or rf_org_…"
        value={token}
        onValue={setToken}
        hint="Used once, to start a session. This browser does not store the token."
        error={error === null ? undefined : why(error)}
      />
      <Button look="primary" type="submit" className="w-full" busy={busy}>
        Sign in
      </Button>
    </form>
  );
}

function why(error: Error): string {
  if (!(error instanceof ApiError)) return error.message;
  if (error.status === 401)
    return "This token is unknown, expired or revoked. Check that you pasted all of it, or ask an admin for a new token.";
  return error.message;
}

function OrgList({ orgs, onChoose }: { orgs: readonly Choice[]; onChoose: (id: string) => void }) {
  return (
    <ul className="space-y-1">
      {orgs.map(({ id, name, role }) => (
        <li key={id}>
          <button
            type="button"
            onClick={() => onChoose(id)}
            className="flex w-full items-center justify-between gap-3 rounded-md border border-line p-3 text-left hover:bg-hover"
          >
            <TextLine className="font-medium">{name}</TextLine>
            <span className="text-muted">{role}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Help for a new server on which no token exists. */
function NoOrgYet() {
  const [is_asking, setAsking] = useState(false);
  return (
    <details
      className="w-full max-w-md rounded-lg border border-line bg-raised p-4"
      onToggle={(event) => setAsking(event.currentTarget.open)}
    >
      <summary className="font-medium">No token yet?</summary>
      <div className="mt-3 space-y-3 text-muted">
        <p>
          Ask an admin of your organization to create a token under Users and tokens. If there is no organization yet, the server's
          administrator creates one and receives its first token:
        </p>
        <Command>{"rf orgs create NAME\nrf orgs approve ID"}</Command>
        <p>
          The administrator can also use the{" "}
          <a className="text-accent underline" href="/admin">
            admin page
          </a>
          . To request an organization, fill in this form:
        </p>
        {is_asking && <OrgRequest />}
      </div>
    </details>
  );
}

function OrgRequest() {
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const asking = useMutation({ mutationFn: () => api.requestOrg({ body: { name, email } }) });
  if (asking.isSuccess) return <p role="status">Request sent. You get access when the server's administrator approves it.</p>;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        asking.mutate();
      }}
    >
      <TextInput label="Organization name" required value={name} onValue={setName} />
      <TextInput label="Your email" type="email" required value={email} onValue={setEmail} error={asking.error?.message} />
      <Button type="submit" busy={asking.isPending}>
        Request an organization
      </Button>
    </form>
  );
}
