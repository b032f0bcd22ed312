package flowlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/flows"
)

// TestSamples reads the samples of OpenTelemetry's collector, and a Parquet file of another writer,
// and wants what that collector is expected to make of them.
func TestSamples(t *testing.T) {
	say := func(r *flows.Record) string {
		verdict := "accepted"
		if !r.Accepted {
			verdict = "rejected"
		}
		return fmt.Sprintf("%s %s %s %s:%d > %s:%d/%d %d packets %d bytes %d-%d %s begins=%d", r.Account, r.Region, r.Interface, r.Source, r.SourcePort, r.Destination, r.DestinationPort,
			r.Protocol, r.Packets, r.Bytes, r.Start.Unix(), r.End.Unix(), verdict, r.Begins)
	}
	for name, want := range map[string]struct {
		records []string
		gaps    []string
		bad     string
		missing string
		lacks   int
	}{
		"no-data.log": {gaps: []string{"eni-0eb1e4178af74336c 1742570089 lost=false"}, lacks: 3},
		"multi.log": {records: []string{
			"123456789010  eni-1235b8ca123456789 172.31.16.139:20641 > 172.31.16.21:22/6 20 packets 4249 bytes 1418530010-1418530070 accepted begins=0",
			"123456789010  eni-1235b8ca123456789 172.31.9.69:49761 > 172.31.9.12:3389/6 20 packets 4249 bytes 1418530010-1418530070 rejected begins=0",
		}, lacks: 3},
		"ecs.log": {records: []string{
			"123456789012  eni-0abc1234def567890 10.0.1.100:49152 > 10.0.2.200:22/6 15 packets 3500 bytes 1700000000-1700000060 accepted begins=0",
		}, lacks: 3},
		"too-few-fields.log":  {bad: "line 2: 13 fields: want 14", lacks: 3},
		"too-many-fields.log": {bad: "line 2: 15 fields: want 14", lacks: 3},
		// A flow log of a transit gateway has no interface of its own and no verdict.
		"transit-gateway.log": {missing: "interface-id, action"},
		"duckdb.parquet": {records: []string{
			"123456789012 us-east-1 eni-0abc1234def567890 203.0.113.50:49152 > 10.0.2.200:22/6 15 packets 3500 bytes 1700000000-1700000060 accepted begins=1",
			"123456789012 us-east-1 eni-0abc1234def567890 10.0.1.100:55000 > 10.0.3.53:53/17 2 packets 140 bytes 1700000010-1700000070 rejected begins=0",
			"123456789012 us-east-1 eni-0fff9999aaaa8888b 203.0.113.50:443 > 192.168.2.100:60000/6 100 packets 50000 bytes 1700000020-1700000080 accepted begins=2",
		}, gaps: []string{"eni-0fff9999aaaa8888b 1700000030 lost=false"}, lacks: 1},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", "opentelemetry", name))
		if err != nil {
			t.Fatal(err)
		}
		records, gaps, report, err := read(t, raw)
		var fields *FieldsError
		if errors.As(err, &fields) != (want.missing != "") || fields != nil && strings.Join(fields.Missing, ", ") != want.missing || fields == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got, gotGaps []string
		for i := range records {
			got = append(got, say(&records[i]))
		}
		for _, g := range gaps {
			gotGaps = append(gotGaps, fmt.Sprintf("%s %d lost=%t", g.Interface, g.Start.Unix(), g.Lost))
		}
		if fmt.Sprint(got) != fmt.Sprint(want.records) || fmt.Sprint(gotGaps) != fmt.Sprint(want.gaps) || len(report.Lacks) != want.lacks {
			t.Errorf("%s: lacks %d\n%s\n%s", name, len(report.Lacks), strings.Join(got, "\n"), gotGaps)
		}
		if want.bad != "" && (report.Bad != 1 || report.Problems[0] != want.bad) {
			t.Errorf("%s: %+v", name, report)
		}
	}
}
