import { Type } from "typebox";
import { CHANNEL_KINDS, DELIVERY_KINDS, DELIVERY_STATUSES, SEVERITIES } from "../states.ts";
import { Count, DataOf, defineRoutes, Email, Entity, Id, ListOf, Name, type Of, page, stamps, Time } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

/** Maximum routes and recipients of a channel. */
const ROUTES_MAX = 50;
const RECIPIENTS_MAX = 20;

const ChannelRoute = Entity("ChannelRoute", {
  severities: Maybe(Type.Array(OneOf(SEVERITIES), { minItems: 1, maxItems: SEVERITIES.length, description: "Default: all" })),
  site_id: Maybe(Type.String({ description: "Only incidents of this site. Default: all" })),
  fleet_id: Maybe(Type.String({ description: "Only incidents of this fleet. Default: all" })),
});
export type ChannelRoute = Of<typeof ChannelRoute>;
const ChannelRoutes = Type.Array(ChannelRoute, {
  maxItems: ROUTES_MAX,
  description: "The incidents that the channel reports: those that match a route. Empty: all",
});

export const Channel = Entity("Channel", {
  id: Id,
  name: Type.String(),
  kind: OneOf(CHANNEL_KINDS),
  destination: Type.String({ description: "The host of the URL, or the email addresses" }),
  routes: ChannelRoutes,
  disabled_at: Nullable(Time),
  ...stamps,
});
export type Channel = Of<typeof Channel>;

const NewChannel = Entity("NewChannel", {
  ...Channel.properties,
  signing_secret: Nullable(Type.String({ description: "webhook: the key of its signatures, shown only once" })),
});
export type NewChannel = Of<typeof NewChannel>;

export const Delivery = Entity("Delivery", {
  id: Type.String({ description: "The webhook-id, the same for each attempt" }),
  channel_id: Id,
  incident_id: Nullable(Id),
  kind: OneOf(DELIVERY_KINDS),
  status: OneOf(DELIVERY_STATUSES),
  attempts: Count,
  detail: Nullable(Type.String({ description: "The result of the last attempt" })),
  next_attempt_at: Nullable(Time),
  ...stamps,
});
export type Delivery = Of<typeof Delivery>;

const target = {
  url: Maybe(
    Type.String({
      minLength: 1,
      maxLength: 2_000,
      description: "webhook, slack: the URL, which is stored encrypted and never returned. pagerduty: another endpoint than the default",
    }),
  ),
  routing_key: Maybe(
    Type.String({ pattern: "^[A-Za-z0-9]{1,64}$", description: "pagerduty: the integration key, stored encrypted and never returned" }),
  ),
  recipients: Maybe(Type.Array(Email, { minItems: 1, maxItems: RECIPIENTS_MAX, description: "email: the addresses" })),
};

export const channelRoutes = defineRoutes("Alerts", {
  listChannels: {
    summary: "List the channels of alerts",
    query: Shape({ ...page }),
    responses: { 200: ListOf(Channel) },
  },
  createChannel: {
    summary: "Create a channel of alerts; returns the signing secret of a webhook once",
    body: Shape({ name: Name, kind: OneOf(CHANNEL_KINDS), ...target, routes: Maybe(ChannelRoutes) }),
    responses: { 201: DataOf(NewChannel) },
    secret_fields: ["signing_secret"],
    secret_body: true,
    errors: [404, 409, 503],
  },
  getChannel: {
    summary: "Get a channel of alerts",
    responses: { 200: DataOf(Channel) },
  },
  updateChannel: {
    summary: "Change, enable or disable a channel of alerts",
    body: Shape({ name: Maybe(Name), ...target, routes: Maybe(ChannelRoutes), enabled: Maybe(Type.Boolean()) }),
    responses: { 200: DataOf(Channel) },
    errors: [409, 503],
  },
  deleteChannel: {
    summary: "Delete a channel of alerts with its deliveries",
    responses: { 200: DataOf(Channel) },
  },
  testChannel: {
    summary: "Send a test message to a channel of alerts",
    responses: { 200: DataOf(Delivery) },
    errors: [409],
  },
  listDeliveries: {
    summary: "List the messages to a channel of alerts, newest first",
    query: Shape({ ...page, status: Maybe(OneOf(DELIVERY_STATUSES)) }),
    responses: { 200: ListOf(Delivery) },
  },
  resendDelivery: {
    summary: "Send a message again, with the same id",
    responses: { 200: DataOf(Delivery) },
    errors: [409],
  },
});
