"""A ROS 1 master and a publisher in one process, for the topics of the demo's robots: topics.py PORT"""
import math
import sys

import rosmaster.master

port = int(sys.argv[1])
rosmaster.master.Master(port).start()

import rospy  # noqa: E402  its registrations need the master
from sensor_msgs.msg import BatteryState, LaserScan
from std_msgs.msg import String

RANGES = 360

rospy.init_node("demo_robot")
chatter = rospy.Publisher("/chatter", String, queue_size=1)
battery = rospy.Publisher("/battery", BatteryState, queue_size=1)
scan = rospy.Publisher("/scan", LaserScan, queue_size=1)
laser = LaserScan(angle_min=-math.pi, angle_max=math.pi, angle_increment=2 * math.pi / RANGES, scan_time=0.1, range_min=0.1, range_max=12.0)
laser.header.frame_id = "laser"
rate = rospy.Rate(10)
turn = 0
while not rospy.is_shutdown():
    laser.header.stamp = rospy.Time.now()
    laser.ranges = [3.0 + math.sin((degree + 5 * turn) * math.pi / 60) for degree in range(RANGES)]
    scan.publish(laser)
    if turn % 10 == 0:
        chatter.publish("hello %d" % (turn // 10))
        battery.publish(BatteryState(voltage=24.0 + math.sin(turn / 300), percentage=0.8, present=True))
    turn += 1
    rate.sleep()
