package forecast

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
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

// TestEndsInWords: a range of which interfaces in sight are told for themselves is called the rest
// of it, however many ends are put together.
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

// TestTheShortSideIsTold: of a direction that was open to everything what is left is told, of a
// block that has holes these are.
func TestTheShortSideIsTold(t *testing.T) {
	before := small()
	after, err := Apply(before, []plan.Step{
		step(cloud.OpRemoveRules, "sg-web", rule(cloud.Egress, all, "0.0.0.0/0")),
		step(
			cloud.OpAddRules,
			"sg-web",
			rule(cloud.Egress, cloud.NewMatch(cloud.UDP, 53, 53), "10.0.0.2/32"),
			rule(cloud.Egress, cloud.NewMatch(cloud.TCP, 5432, 5432), "10.0.0.20/32"),
		),
	})
	if err != nil {
		t.Fatal(err)
	}
	closures, changes := Told(before, after)
	if len(closures) != 1 || len(changes) != 0 {
		t.Fatalf("%+v, and %+v", closures, changes)
	}
	if got, want := closures[0].Text(
		4,
	), "closes everything from web-1, web-2 except udp 53 to 10.0.0.2 and tcp 5432 to db"; got != want &&
		got != "closes everything from web-1, web-2 except tcp 5432 to db and udp 53 to 10.0.0.2" {
		t.Errorf("%q, want %q", got, want)
	}
	// What the other end closes is told for itself.
	after, err = Apply(after, []plan.Step{step(cloud.OpRemoveRules, "sg-db", rule(cloud.Ingress, all, "sg-web"))})
	if err != nil {
		t.Fatal(err)
	}
	if closures, changes = Told(before, after); len(closures) != 1 || len(changes) != 1 || changes[0].To.String() != "db" || changes[0].Packets.Text != "tcp 5432" {
		t.Errorf("%+v, and %+v", closures, changes)
	}
	// A direction that was not open to everything, or opens somewhere, is told as it is.
	if closures, changes = Told(after, before); len(closures) != 0 || len(changes) != len(Reach(after, before)) {
		t.Errorf("%+v, and %+v", closures, changes)
	}
	block := addrset.OfPrefixes(netip.MustParsePrefix("10.1.0.0/16")).Minus(addrset.OfPrefixes(netip.MustParsePrefix("10.1.2.40/32")))
	if got := (End{Addresses: block.Prefixes()}).String(); got != "10.1.0.0/16 except 10.1.2.40" {
		t.Errorf("%q", got)
	}
	if got := (End{Addresses: block.Prefixes()}).Text(100); got != "10.1.0.0/16 except 10.1.2.40" {
		t.Errorf("all: %q", got)
	}
}

// TestExceptionsEnd: a block without its second and third quarter is told; words about what is left
// and words about what is left out once called one another for ever.
func TestExceptionsEnd(t *testing.T) {
	for text, except := range map[string][]string{
		"198.51.100.0/26, 198.51.100.192/26": {"198.51.100.64/26", "198.51.100.128/26"},
		"0.0.0.0/2, 192.0.0.0/2":             {"64.0.0.0/2", "128.0.0.0/2"},
		"anywhere except 10.1.0.5":           {"10.1.0.5/32"},
	} {
		all := addrset.AllIPv4()
		switch text[:4] {
		case "198.":
			all = addrset.OfPrefixes(netip.MustParsePrefix("198.51.100.0/24"))
		case "anyw":
			all = addrset.All()
		}
		for _, e := range except {
			all = all.Minus(addrset.OfPrefixes(netip.MustParsePrefix(e)))
		}
		if got := (End{Addresses: all.Prefixes()}).String(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}
