package cloud

import "strconv"

// protocolNames are the IP protocols that people know by a name rather than by their IANA number.
var protocolNames = map[int]string{
	AnyProtocol: "all", ICMP: "icmp", 2: "igmp", 4: "ip-in-ip", TCP: "tcp", UDP: "udp", 41: "ipv6-in-ip", 47: "gre", 50: "esp", 51: "ah",
	ICMPv6: "icmpv6", 88: "eigrp", 89: "ospf", 97: "etherip", 103: "pim", 112: "vrrp", 115: "l2tp", SCTP: "sctp", 136: "udp-lite", 137: "mpls-in-ip",
}

// ProtocolName is what people call an IP protocol, for example "tcp"; "protocol 200" for one that
// has no common name, "all" for AnyProtocol.
func ProtocolName(number int) string {
	if name, ok := protocolNames[number]; ok {
		return name
	}
	return "protocol " + strconv.Itoa(number)
}
