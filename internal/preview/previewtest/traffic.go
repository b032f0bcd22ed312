package previewtest

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/aws/flowlog"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	simlog "github.com/nephele-io/nephele/internal/sim/flowlog"
)

// Traffic draws connections between the ends of a shop, and what the interfaces see of them.
func (s *Shop) Traffic(t testing.TB, r *rand.Rand, n int, at time.Time) []simlog.Line {
	t.Helper()
	ends := s.Sites()
	var out []simlog.Line
	for i := range n {
		from, to := ends[r.IntN(len(ends))], ends[r.IntN(len(ends))]
		switch {
		case from.Endpoint == nil && to.Endpoint == nil, from.NIC != "" && from.NIC == to.NIC:
			continue
		case from.Endpoint != nil && from.Endpoint.Public, to.Endpoint != nil && to.Endpoint.Public:
			continue // a flow log has the private addresses of its own interface
		}
		service := [][2]int{{6, 22}, {6, 80}, {6, 101}, {6, 5432}, {17, 53}, {17, 54}, {1, 0}}[r.IntN(7)]
		c := simlog.Connection{
			Flow:       packet.Flow{Src: from.End, Dst: to.End, Protocol: service[0], Port: service[1]},
			SourcePort: 32768 + i%20000, Start: at.Add(time.Duration(r.IntN(7200)) * time.Second), Packets: 1 + r.IntN(20), Bytes: 40 + r.IntN(9000),
		}
		if c.Protocol == 1 {
			c.SourcePort, c.ICMPType = 0, 8
		}
		if c.Src.NIC == "" {
			c.Src.VPC = s.Network(to.NIC)
		}
		if c.Dst.NIC == "" {
			c.Dst.VPC = s.Network(from.NIC)
		}
		seen, err := simlog.Seen(s.Server.World(), c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, seen...)
	}
	return out
}

// Rows reads what was delivered.
func (s *Shop) Rows(t testing.TB, files map[string][]byte) ([]flows.Row, flows.Counts, flows.Report) {
	t.Helper()
	addresses := map[string][]netip.Addr{}
	for i := range s.Snapshot.Interfaces {
		addresses[s.Snapshot.Interfaces[i].ID] = s.Snapshot.Interfaces[i].PrivateIPs
	}
	sum := flows.NewSummer(func(name string) []netip.Addr { return addresses[name] }, 0)
	var total flows.Report
	for name, raw := range files {
		report, err := flowlog.Read(strings.NewReader(string(raw)), flows.Sink{
			Record: func(r *flows.Record) error { sum.Add(r); return nil },
			Gap:    func(*flows.Gap) error { return nil },
		})
		if err != nil || report.Bad > 0 {
			t.Fatalf("%s: %v, %+v", name, err, report)
		}
		total.Records, total.Skipped, total.NoData = total.Records+report.Records, total.Skipped+report.Skipped, total.NoData+report.NoData
	}
	return sum.Take(time.Time{}), sum.Counts(), total
}

// Observed computes anew from what the simulated cloud holds now.
func (s *Shop) Observed(t testing.TB) *preview.Computation {
	t.Helper()
	s.In.Objects.Observed = nil
	c, err := s.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Snapshot = s.In.Objects.Observed[0].Snapshots[0]
	return c
}
