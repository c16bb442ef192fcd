/* Publishes as a ROS 2 node does on the wire, with Cyclone DDS: 20 times a second until its standard input ends. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dds/dds.h"
#include "messages.h"

#define IMAGE_BYTES 300000
#define PERIOD_MS 50

static dds_entity_t participant;

/* With KEEP_ALL the writer waits for a slow reader. With KEEP_LAST, the default of ROS 2, a reader that is over ten messages behind loses some. */
static dds_entity_t writer(const dds_topic_descriptor_t *type, const char *name, dds_reliability_kind_t reliability, dds_durability_kind_t durability,
                           dds_history_kind_t history) {
  dds_qos_t *qos = dds_create_qos();
  dds_qset_reliability(qos, reliability, history == DDS_HISTORY_KEEP_ALL ? DDS_SECS(30) : DDS_MSECS(100));
  dds_qset_durability(qos, durability);
  dds_qset_history(qos, history, 10);
  dds_entity_t topic = dds_create_topic(participant, type, name, NULL, NULL);
  dds_entity_t made = dds_create_writer(participant, topic, qos, NULL);
  dds_delete_qos(qos);
  if (topic < 0 || made < 0) {
    fprintf(stderr, "%s: %s\n", name, dds_strretcode(topic < 0 ? topic : made));
    exit(1);
  }
  return made;
}

static void say(dds_entity_t to, const char *format, int number) {
  char text[64];
  snprintf(text, sizeof text, format, number);
  std_msgs_msg_dds__String_ message = {.data = text};
  dds_write(to, &message);
}

static void say_reading(dds_entity_t to) {
  static demo_msgs_msg_dds__Point_ points[2] = {{1.5, -2.5}, {3.0, 4.0}};
  static char *words[2] = {"one", "zwei \xc3\xa4"};
  demo_msgs_msg_dds__Reading_ message = {
      .fine = true, .level = 'x', .small = -7, .large = 9007199254740993LL, .huge = 18446744073709551615ULL, .nothing = NAN, .ranges = {0.5f, INFINITY, -INFINITY}};
  message.points._buffer = points;
  message.points._length = message.points._maximum = 2;
  message.words._buffer = words;
  message.words._length = message.words._maximum = 2;
  dds_write(to, &message);
}

static void say_nodes(dds_entity_t to) {
  static rmw_dds_common_msg_dds__NodeEntitiesInfo_ nodes[2];
  nodes[0].node_namespace = "/";
  nodes[0].node_name = "talker";
  nodes[1].node_namespace = "/camera";
  nodes[1].node_name = "driver";
  rmw_dds_common_msg_dds__ParticipantEntitiesInfo_ message;
  memset(&message, 0, sizeof message);
  message.node_entities_info_seq._buffer = nodes;
  message.node_entities_info_seq._length = message.node_entities_info_seq._maximum = 2;
  dds_write(to, &message);
}

static void say_image(dds_entity_t to, int number) {
  static uint8_t data[IMAGE_BYTES];
  for (int i = 0; i < IMAGE_BYTES; i++) data[i] = (uint8_t)(i * 7 + number);
  sensor_msgs_msg_dds__CompressedImage_ message;
  memset(&message, 0, sizeof message);
  message.header.stamp.sec = number;
  message.header.stamp.nanosec = 5;
  message.header.frame_id = "camera";
  message.format = "jpeg";
  message.data._buffer = data;
  message.data._length = message.data._maximum = IMAGE_BYTES;
  dds_write(to, &message);
}

int main(void) {
  participant = dds_create_participant(DDS_DOMAIN_DEFAULT, NULL, NULL);
  if (participant < 0) return 1;
  const dds_reliability_kind_t reliable = DDS_RELIABILITY_RELIABLE, best_effort = DDS_RELIABILITY_BEST_EFFORT;
  const dds_topic_descriptor_t *string = &std_msgs_msg_dds__String__desc, *image = &sensor_msgs_msg_dds__CompressedImage__desc;
  dds_entity_t chatter = writer(string, "rt/chatter", reliable, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_ALL);
  dds_entity_t hasty = writer(string, "rt/hasty", best_effort, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_LAST);
  dds_entity_t twice[2] = {writer(string, "rt/twice", reliable, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_ALL), writer(string, "rt/twice", best_effort, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_LAST)};
  dds_entity_t latched = writer(string, "rt/latched", reliable, DDS_DURABILITY_TRANSIENT_LOCAL, DDS_HISTORY_KEEP_LAST);
  dds_entity_t images[2] = {writer(image, "rt/image", reliable, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_LAST), writer(image, "rt/image_hasty", best_effort, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_LAST)};
  dds_entity_t reading = writer(&demo_msgs_msg_dds__Reading__desc, "rt/reading", reliable, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_LAST);
  dds_entity_t secret = writer(&demo_msgs_msg_dds__Secret__desc, "rt/secret", reliable, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_LAST);
  dds_entity_t leaving = writer(string, "rt/leaving", reliable, DDS_DURABILITY_VOLATILE, DDS_HISTORY_KEEP_LAST);
  dds_entity_t nodes = writer(&rmw_dds_common_msg_dds__ParticipantEntitiesInfo__desc, "ros_discovery_info", reliable, DDS_DURABILITY_TRANSIENT_LOCAL, DDS_HISTORY_KEEP_LAST);
  say(latched, "kept", 0);
  say_nodes(nodes);
  printf("ready\n");
  fflush(stdout);
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (int number = 1;; number++) {
    if (poll(&input, 1, PERIOD_MS) > 0) {
      char order[16];
      /* A line on standard input removes one publisher; the end of input removes all. */
      if (fgets(order, sizeof order, stdin) == NULL) break;
      dds_delete(leaving);
    }
    say(chatter, "hello %d", number);
    say(hasty, "hasty %d", number);
    say(twice[0], "first %d", number);
    say(twice[1], "second %d", number);
    say_reading(reading);
    demo_msgs_msg_dds__Secret_ hidden = {number, 2};
    dds_write(secret, &hidden);
    if (number % 4 == 0) for (int i = 0; i < 2; i++) say_image(images[i], number);
  }
  dds_delete(participant);
  return 0;
}
