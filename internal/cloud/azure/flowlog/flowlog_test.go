package flowlog

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows"
)

// file is a file with some tuples of one rule.
func file(tuples ...string) string {
	return `{"records": [{"time": "2026-03-01T12:00:00Z", "flowLogVersion": 4, "flowLogGUID": "x", "macAddress": "00224871C205", "category": "FlowLogFlowEvent",
		"flowRecords": {"flows": [{"aclID": "acl-1", "flowGroups": [{"rule": "UserRule_web", "flowTuples": ["` + strings.Join(tuples, `", "`) + `"]}]}]}}]}`
}

const (
	begun   = "1772366400599,10.0.0.6,192.0.2.180,23956,443,6,O,B,NX,0,0,0,0"
	ended   = "1772366410100,10.0.0.6,192.0.2.180,23956,443,6,O,E,NX,3,767,2,1580"
	denied  = "1772366400599,198.51.100.7,10.0.0.6,40000,3389,6,I,D,NX,0,0,0,0"
	another = "1772366400599,2001:db8::1,2001:db8::2,40000,53,17,I,C,X,1,2,3,4"
)

func read(text string) ([]flows.Record, flows.Report, error) {
	var out []flows.Record
	report, err := Read(strings.NewReader(text), flows.Sink{Record: func(r *flows.Record) error { out = append(out, *r); return nil }})
	return out, report, err
}

func TestTuples(t *testing.T) {
	at := time.UnixMilli(1772366400599).UTC()
	records, report, err := read(file(begun, ended, denied, another))
	if err != nil || report.Records != 4 || report.Bad != 0 {
		t.Fatalf("%v, %+v", err, report)
	}
	first := flows.Record{
		Start: at, End: at, Interface: "00:22:48:71:c2:05", Direction: cloud.Egress, Source: netip.MustParseAddr("10.0.0.6"), Destination: netip.MustParseAddr("192.0.2.180"),
		SourcePort: 23956, DestinationPort: 443, Protocol: cloud.TCP, Begins: flows.BeginsSource, Fresh: true, Accepted: true, Rule: "UserRule_web", ACL: "acl-1",
	}
	if records[0] != first {
		t.Errorf("%+v, want\n%+v", records[0], first)
	}
	if r := records[1]; r.Packets != 3 || r.Bytes != 767 || r.ReplyPackets != 2 || r.ReplyBytes != 1580 || r.Fresh {
		t.Errorf("%+v", r)
	}
	if r := records[2]; r.Accepted || r.Direction != cloud.Ingress || !r.Fresh || r.Refused != "" {
		t.Errorf("%+v", r)
	}
	if r := records[3]; r.Protocol != cloud.UDP || r.Fresh || !r.Source.Is6() {
		t.Errorf("%+v", r)
	}
	refused, _, _ := read(file(strings.Replace(denied, "NX,", "NX_NOT_ACCEPTED,", 1)))
	if len(refused) != 1 || refused[0].Refused != "NX_NOT_ACCEPTED" {
		t.Errorf("%+v", refused)
	}
}

// TestBadTuples: a bad one costs itself only, and is told with its place.
func TestBadTuples(t *testing.T) {
	for name, c := range map[string]struct{ tuple, want string }{
		"too few fields": {"1772366400599,10.0.0.6", "record 1, rule UserRule_web, tuple 2: 2 fields: want 13"},
		"no time":        {strings.Replace(begun, "1772366400599", "1772366400", 1), `time: "1772366400": want milliseconds since 1970`},
		"no address":     {strings.Replace(begun, "10.0.0.6", "10.0.0", 1), `source: "10.0.0": want an IP address`},
		"two families":   {strings.Replace(begun, "10.0.0.6", "::1", 1), "want an address of the family of the source"},
		"no port":        {strings.Replace(begun, ",443,", ",99999,", 1), `destination port: "99999": want a number of at most 65535`},
		"no direction":   {strings.Replace(begun, ",O,", ",X,", 1), `direction: "X": want I or O`},
		"no state":       {strings.Replace(begun, ",B,", ",Z,", 1), `state: "Z": want B, C, E or D`},
		"a long one":     {strings.Repeat("1", 1000), "longer than 512 bytes"},
	} {
		records, report, err := read(file(begun, c.tuple, ended))
		if err != nil || len(records) != 2 || report.Bad != 1 || !strings.Contains(report.Problems[0], c.want) {
			t.Errorf("%s: %v, %d records, %+v; want %q", name, err, len(records), report, c.want)
		}
	}
}

func TestBadFiles(t *testing.T) {
	whole := file(begun, ended)
	for name, c := range map[string]struct {
		text, want string
		records    int
	}{
		"no log":            {`{"Reservations": []}`, `want {"records": [...]}`, 0},
		"no JSON":           {"records", `want {"records": [...]}`, 0},
		"nothing":           {"", ErrUnfinished.Error(), 0},
		"being written":     {strings.TrimSuffix(whole, "]}"), ErrUnfinished.Error(), 2},
		"cut":               {strings.TrimSuffix(whole, "]}") + "," + whole[13:60], ErrUnfinished.Error(), 2},
		"a bad second one":  {strings.TrimSuffix(whole, "]}") + `,{"flowLogVersion": "x"}]}`, "record 2: ", 2},
		"another version":   {strings.Replace(whole, `"flowLogVersion": 4`, `"flowLogVersion": 2`, 1), "", 0},
		"a strange address": {strings.Replace(whole, "00224871C205", "nothing", 1), "", 0},
	} {
		records, report, err := read(c.text)
		if len(records) != c.records || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && report.Bad != 1 {
			t.Errorf("%s: %v, %d records, %+v; want %q and %d", name, err, len(records), report, c.want, c.records)
		}
	}
	stop := errors.New("stop")
	if _, err := Read(strings.NewReader(whole), flows.Sink{Record: func(*flows.Record) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("%v, want the error of the sink", err)
	}
}

// FuzzRead reads anything without a panic, and hands on whole records only.
func FuzzRead(f *testing.F) {
	f.Add(file(begun, ended, denied, another))
	f.Add(`{"records": [`)
	f.Fuzz(func(t *testing.T, text string) {
		records, report, _ := read(text)
		if len(records) != report.Records {
			t.Fatalf("%d, %+v", len(records), report)
		}
		for _, r := range records {
			if !r.Source.IsValid() || !r.Destination.IsValid() || len(r.Interface) != 17 || r.Direction == "" {
				t.Fatalf("%+v", r)
			}
		}
	})
}
