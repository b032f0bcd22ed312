package crd_test

import "testing"

func TestTraceflows(t *testing.T) {
	const from = "source: {namespace: shop, pod: web}, "
	runSpecCases(t, "crd.antrea.io/v1beta1", "Traceflow", []specCase{
		{"a Pod to a Pod", "{" + from + "destination: {namespace: shop, pod: db}}", ""},
		{"to a Service by TCP", "{" + from + "destination: {namespace: shop, service: db}, packet: {ipHeader: {protocol: 6}, transportHeader: {tcp: {srcPort: 10000, dstPort: 80, flags: 2}}}, timeout: 10}", ""},
		{"to an address of IPv6", "{" + from + `destination: {ip: "2001:db8::1"}, packet: {ipv6Header: {nextHeader: 58}, transportHeader: {icmp: {id: 7}}}}`, ""},
		{"live traffic of a Pod", "{" + from + "liveTraffic: true, droppedOnly: true}", ""},
		{"live traffic from an address", "{source: {ip: 192.0.2.1}, destination: {namespace: shop, pod: db}, liveTraffic: true}", ""},
		{"no source", "{destination: {namespace: shop, pod: db}}", "source.pod"},
		{"sent from an address", "{source: {ip: 192.0.2.1}, destination: {namespace: shop, pod: db}}", "source.pod"},
		{"no destination", "{" + from + "liveTraffic: false}", "destination: want"},
		{"two sources", "{source: {namespace: shop, pod: web, ip: 192.0.2.1}, destination: {ip: 192.0.2.2}}", "pod or ip"},
		{"two destinations", "{" + from + "destination: {namespace: shop, pod: db, ip: 192.0.2.2}}", "one of pod, service and ip"},
		{"a Pod without its Namespace", "{source: {pod: web}, destination: {ip: 192.0.2.2}}", "needs its namespace"},
		{"live traffic of nobody", "{source: {ip: 192.0.2.1}, destination: {ip: 192.0.2.2}, liveTraffic: true}", "want a Pod"},
		{"droppedOnly of what is sent", "{" + from + "destination: {ip: 192.0.2.2}, droppedOnly: true}", "is for live traffic"},
		{"no address", "{" + from + "destination: {ip: web.example}}", "want an IPv4 or IPv6 address"},
		{"two transports", "{" + from + "destination: {ip: 192.0.2.2}, packet: {transportHeader: {tcp: {dstPort: 1}, udp: {dstPort: 1}}}}", "one of icmp, udp and tcp"},
		{"two families", "{" + from + "destination: {ip: 192.0.2.2}, packet: {ipHeader: {}, ipv6Header: {}}}", "not both"},
		{"a port", "{" + from + "destination: {ip: 192.0.2.2}, packet: {transportHeader: {tcp: {dstPort: 65536}}}}", "65535"},
		{"a protocol", "{" + from + "destination: {ip: 192.0.2.2}, packet: {ipHeader: {protocol: 132}}}", "protocol"},
		{"a timeout", "{" + from + "destination: {ip: 192.0.2.2}, timeout: 301}", "300"},
	})
}

func TestPacketCaptures(t *testing.T) {
	const first = "captureConfig: {firstN: {number: 5}}, "
	runSpecCases(t, "crd.antrea.io/v1alpha1", "PacketCapture", []specCase{
		{"a Pod to a Pod", "{" + first + "timeout: 60, source: {pod: {name: web, namespace: shop}}, destination: {pod: {name: db}}, direction: Both, packet: {ipFamily: IPv4, protocol: TCP, transportHeader: {tcp: {dstPort: 8080}}}}", ""},
		{"a Pod to an address", "{" + first + "source: {pod: {name: web}}, destination: {ip: 192.0.2.1}, packet: {protocol: 17}}", ""},
		{"no number", "{captureConfig: {}, source: {pod: {name: web}}}", "firstN"},
		{"too many", "{captureConfig: {firstN: {number: 10001}}, source: {pod: {name: web}}}", "10000"},
		{"no Pod", "{" + first + "source: {ip: 192.0.2.1}, destination: {ip: 192.0.2.2}}", "want a Pod"},
		{"two sources", "{" + first + "source: {pod: {name: web}, ip: 192.0.2.1}}", "not both"},
		{"a point without a Pod", "{" + first + "source: {pod: {name: web}}, capturePoint: Destination}", "capturePoint"},
		{"a server of files", "{" + first + "source: {pod: {name: web}}, fileServer: {url: 'sftp://192.0.2.1'}}", "the file stays on the Node"},
		{"flags of TCP", "{" + first + "source: {pod: {name: web}}, packet: {transportHeader: {tcp: {flags: [{value: 2}]}}}}", "flags of TCP"},
		{"a protocol", "{" + first + "source: {pod: {name: web}}, packet: {protocol: IP}}", "protocol: want"},
		{"a number of a protocol", "{" + first + "source: {pod: {name: web}}, packet: {protocol: 256}}", "protocol: want"},
		{"a timeout", "{" + first + "source: {pod: {name: web}}, timeout: 301}", "300"},
	})
}

func TestNodeLatencyMonitors(t *testing.T) {
	s := newServer(t)
	for name, want := range map[string]string{"default": "", "other": "called default"} {
		o := withSpec(t, "crd.antrea.io/v1alpha1", "NodeLatencyMonitor", "{pingIntervalSeconds: 10}")
		o.SetName(name)
		_, err := s.create(o)
		check(t, err, want)
	}
	o := withSpec(t, "crd.antrea.io/v1alpha1", "NodeLatencyMonitor", "{pingIntervalSeconds: 0}")
	o.SetName("default")
	_, err := s.create(o)
	check(t, err, "pingIntervalSeconds")
}
