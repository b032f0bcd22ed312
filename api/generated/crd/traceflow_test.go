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
