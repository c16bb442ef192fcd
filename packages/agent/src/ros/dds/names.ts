/** How ROS 2 writes its names on the wire of DDS, and back. */

const TOPIC_PREFIX = "rt/";
const DDS_TYPE = /^([A-Za-z]\w*)::(msg|srv|action)::dds_::(\w+)_$/;

/** `rt/chatter` becomes `/chatter`; undefined for a topic that is not of ROS, such as the requests of a service. */
export function rosTopicOf(dds_topic: string): string | undefined {
  return dds_topic.startsWith(TOPIC_PREFIX) ? dds_topic.slice(TOPIC_PREFIX.length - 1) : undefined;
}

/** `/chatter` becomes `rt/chatter`; the leading slash is optional. */
export function ddsTopicOf(topic: string): string {
  return TOPIC_PREFIX + topic.replace(/^\/+/, "");
}

/** `std_msgs::msg::dds_::String_` becomes `std_msgs/msg/String`; a type of a writer that is not of ROS stays unchanged. */
export function rosTypeOf(dds_type: string): string {
  const parts = DDS_TYPE.exec(dds_type);
  return parts === null ? dds_type : `${parts[1]}/${parts[2]}/${parts[3]}`;
}
