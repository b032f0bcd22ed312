package forecast

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// TestPacketsInWords: what is little is named, what is much is told by what it lacks.
func TestPacketsInWords(t *testing.T) {
	service := func(protocol, from, to int) flow.Service {
		return flow.Service{Protocol: protocol, From: uint16(from), To: uint16(to)}
	}
	others := service(cloud.AnyProtocol, 0, lastPort)
	udp, sctp, gre := service(cloud.UDP, 0, lastPort), service(cloud.SCTP, 0, lastPort), service(47, 0, lastPort)
	low, mysql, high := service(cloud.TCP, 0, 3305), service(cloud.TCP, 3306, 3306), service(cloud.TCP, 3307, lastPort)
	possible := []flow.Service{low, mysql, high, udp, gre, sctp, others}
	for want, in := range map[string][]flow.Service{
		"tcp 3306": {mysql},
		"tcp 3306, and all protocols but tcp, udp, gre, sctp": {mysql, others},
		"tcp 3306, and all protocols but tcp":                 {mysql, udp, gre, sctp, others},
		"everything but tcp 3306":                             {low, high, udp, gre, sctp, others},
		"everything but tcp 3306, udp":                        {low, high, gre, sctp, others},
		"all protocols but tcp":                               {udp, gre, sctp, others},
		"everything":                                          possible,
		"tcp 0-3305, gre, sctp":                               {low, sctp, gre},
	} {
		if got := packetsOf(in, possible); got.Text != want {
			t.Errorf("got %q, want %q", got.Text, want)
		}
	}
}

// TestEndsInWords: a range of which interfaces in sight are told for themselves is called the rest of it, however many ends are put together.
func TestEndsInWords(t *testing.T) {
	end := func(holes addrset.Set, ranges ...string) End {
		var all []netip.Prefix
		for _, r := range ranges {
			all = append(all, netip.MustParsePrefix(r))
		}
		return End{Addresses: all, Rest: !holes.Empty(), holes: holes}
	}
	known := addrset.Of(netip.MustParseAddr("10.1.2.3"))
	for want, e := range map[string]End{
		"10.1.0.0/16":                           end(addrset.Set{}, "10.1.0.0/16"),
		"the rest of 10.1.0.0/16":               end(known, "10.1.0.0/16"),
		"192.0.2.0/24, the rest of 10.1.0.0/16": end(known, "10.1.0.0/16", "192.0.2.0/24"),
		"198.51.100.7, the rest of 10.1.0.0/16": end(addrset.Set{}, "198.51.100.7/32").and(end(known, "10.1.0.0/16")),
		"anywhere":                              end(addrset.Set{}, "0.0.0.0/0", "::/0"),
		"anywhere else":                         end(known, "0.0.0.0/0", "::/0"),
		"10.0.0.0/16 and 2 more":                end(addrset.Set{}, "10.0.0.0/16", "10.2.0.0/16", "10.4.0.0/16"),
	} {
		if got := e.Text(1); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
