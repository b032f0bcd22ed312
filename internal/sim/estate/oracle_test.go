package estate

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const internet = "Public Internet (all ranges)"

// grant is one line of the oracle: what one end may open to the other.
type grant struct {
	all  bool
	port int // -1 = all TCP ports
}

var oracleLine = regexp.MustCompile(`^(.+) => (.+) : (All Connections|protocol: TCP(?: dst-ports: (\d+))?)$`)

// readOracle reads collector-sg1.connectivity.txt. Ends are "name[address]" or the internet.
func readOracle(t *testing.T) map[[2]string]grant {
	f, err := os.Open("../../../testdata/aws/collector-sg1.connectivity.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[[2]string]grant{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := oracleLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		g := grant{all: m[3] == "All Connections", port: -1}
		if m[4] != "" {
			if _, err := fmt.Sscan(m[4], &g.port); err != nil {
				t.Fatal(err)
			}
		}
		out[[2]string{m[1], m[2]}] = g
	}
	if len(out) != 13 {
		t.Fatalf("read %d lines of the oracle, expected 13", len(out))
	}
	return out
}

// TestCollectorConnectivity compares every verdict of the collector account with the connections
// that the project which published it worked out: what a line states is allowed, and nothing else
// is.
func TestCollectorConnectivity(t *testing.T) {
	oracle := readOracle(t)
	s, _, err := Load("../../../testdata/aws/collector-sg1.json")
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string][]packet.End{internet: nil}
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "126.0.0.1", "203.0.114.1", "223.255.255.254"} {
		ends[internet] = append(ends[internet], packet.End{Addr: netip.MustParseAddr(a)})
	}
	r := s.Regions[0]
	for _, n := range r.NetworkInterfaces {
		for _, i := range r.Instances {
			if n.Attachment != nil && n.Attachment.InstanceID == i.ID {
				name := fmt.Sprintf("%s[%s]", i.Tags["Name"], n.PrivateIPs[0].Addr)
				// By interface and by address: both ways to name an end must agree.
				ends[name] = []packet.End{{NIC: n.ID}, {Addr: n.PrivateIPs[0].Addr, VPC: n.VPCID}}
			}
		}
	}
	if len(ends) != 6 {
		t.Fatalf("%d ends, expected five machines and the internet", len(ends))
	}
	for pair := range oracle {
		if ends[pair[0]] == nil || ends[pair[1]] == nil {
			t.Fatalf("the oracle speaks of %v, which the dump does not have", pair)
		}
	}
	checked := 0
	for from, sources := range ends {
		for to, targets := range ends {
			if from == to {
				continue
			}
			g, listed := oracle[[2]string{from, to}]
			for _, src := range sources {
				for _, dst := range targets {
					for _, f := range probes(src, dst) {
						v, err := w.Allowed(f)
						if err != nil {
							t.Fatal(err)
						}
						want := listed && (g.all || f.Protocol == 6 && (g.port < 0 || f.Port == g.port))
						if v.Allowed != want {
							t.Errorf("%s => %s, %s: %s; the oracle says %t", from, to, f, v.Reason, want)
						}
						checked++
					}
				}
			}
		}
	}
	t.Logf("%d flows checked", checked)
}

// probes are flows of all kinds between two ends.
func probes(src, dst packet.End) []packet.Flow {
	var out []packet.Flow
	for _, port := range []int{0, 1, 22, 80, 443, 9079, 9080, 9081, 65535} {
		out = append(out, packet.Flow{Src: src, Dst: dst, Protocol: 6, Port: port}, packet.Flow{Src: src, Dst: dst, Protocol: 17, Port: port})
	}
	for _, kind := range []int{0, 3, 8, 255} {
		out = append(out, packet.Flow{Src: src, Dst: dst, Protocol: 1, ICMPType: kind})
	}
	return append(out, packet.Flow{Src: src, Dst: dst, Protocol: 47})
}
