package flowlog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows"
)

// read reads a file and returns what the sink got.
func read(t *testing.T, raw []byte) ([]flows.Record, []flows.Gap, flows.Report, error) {
	t.Helper()
	var records []flows.Record
	var gaps []flows.Gap
	report, err := Read(bytes.NewReader(raw), flows.Sink{
		Record: func(r *flows.Record) error { records = append(records, *r); return nil },
		Gap:    func(g *flows.Gap) error { gaps = append(gaps, *g); return nil },
	})
	return records, gaps, report, err
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	oneDefault = "2 123456789012 eni-0a 10.0.0.9 10.0.0.12 49761 3389 6 20 4249 1418530010 1418530070 REJECT OK\n"
	header     = "version interface-id pkt-srcaddr srcaddr pkt-dstaddr dstaddr srcport dstport protocol tcp-flags flow-direction action start end packets bytes log-status instance-tag\n"
)

// TestText reads lines of every kind, each also compressed.
func TestText(t *testing.T) {
	at := time.Unix(1418530010, 0).UTC()
	whole := flows.Record{
		Start: at, End: at.Add(time.Minute), Interface: "eni-0a", Protocol: cloud.TCP, Packets: 2, Bytes: 84, Accepted: true,
		Source: netip.MustParseAddr("203.0.113.7"), Destination: netip.MustParseAddr("10.0.0.20"), SourcePort: 40000, DestinationPort: 443,
		Direction: cloud.Ingress, Begins: flows.BeginsSource, Fresh: true,
	}
	answer := whole
	answer.Source, answer.Destination, answer.SourcePort, answer.DestinationPort = whole.Destination, whole.Source, 443, 40000
	answer.Direction, answer.Begins = cloud.Egress, flows.BeginsDestination
	for name, c := range map[string]struct {
		text    string
		want    []flows.Record
		gaps    []flows.Gap
		bad     int
		problem string
	}{
		"default without a header": {oneDefault, []flows.Record{{
			Start: at, End: at.Add(time.Minute), Account: "123456789012", Interface: "eni-0a", Protocol: cloud.TCP, Packets: 20, Bytes: 4249,
			Source: netip.MustParseAddr("10.0.0.9"), Destination: netip.MustParseAddr("10.0.0.12"), SourcePort: 49761, DestinationPort: 3389,
		}}, nil, 0, ""},
		"fields in any order, and one of tomorrow": {header +
			"11 eni-0a 203.0.113.7 10.9.9.9 10.0.0.20 10.0.0.12 40000 443 6 3 ingress ACCEPT 1418530010 1418530070 2 84 OK x=y\n" +
			"11 eni-0a 10.0.0.20 10.0.0.12 203.0.113.7 203.0.113.7 443 40000 6 19 egress ACCEPT 1418530010 1418530070 2 84 OK -\n",
			[]flows.Record{whole, answer}, nil, 0, ""},
		"windows without data": {header +
			"11 eni-0a - - - - - - - - - - 1418530010 1418530070 - - NODATA -\n11 eni-0a - - - - - - - - - - 1418530010 1418530070 - - SKIPDATA -\n",
			nil, []flows.Gap{{Interface: "eni-0a", Start: at, End: at.Add(time.Minute)}, {Interface: "eni-0a", Start: at, End: at.Add(time.Minute), Lost: true}}, 0, ""},
		"too few fields":  {"2 123456789012 eni-0a 10.0.0.9\n" + oneDefault, nil, nil, 1, "line 1: 4 fields: want 14"},
		"no address":      {strings.Replace(oneDefault, "10.0.0.9", "10.0.0.999", 1), nil, nil, 1, `line 1: srcaddr: "10.0.0.999": want an IP address`},
		"a port too high": {strings.Replace(oneDefault, "3389", "65536", 1), nil, nil, 1, `line 1: dstport: "65536": want a number of at most 65535`},
		"of the future":   {strings.Replace(oneDefault, "1418530010", "99999999999", 1), nil, nil, 1, `line 1: start: "99999999999": want seconds since 1970`},
		"ends before":     {strings.Replace(oneDefault, "1418530070", "1418530000", 1), nil, nil, 1, `line 1: end: "1418530000": want a time that is not before start`},
		"of two families": {strings.Replace(oneDefault, "10.0.0.9", "2001:db8::1", 1), nil, nil, 1, "line 1: dstaddr: \"10.0.0.12\": want an address of the family of the source"},
		"another action":  {strings.Replace(oneDefault, "REJECT", "MAYBE", 1), nil, nil, 1, `line 1: action: "MAYBE": want ACCEPT or REJECT`},
		"a long line":     {"2 " + strings.Repeat("x", longestLine+5) + "\n", nil, nil, 1, "line 1: longer than 65536 bytes"},
		"many fields":     {header + strings.Repeat("1 ", 5000) + "\n", nil, nil, 1, "line 2: 129 fields: want 18"},
		"cut in a line":   {oneDefault + oneDefault[:40], nil, nil, 1, "line 2: 5 fields: want 14"},
		"nothing":         {"", nil, nil, 0, ""},
		"a header only":   {header, nil, nil, 0, ""},
	} {
		for _, raw := range [][]byte{[]byte(c.text), zipped(t, c.text)} {
			records, gaps, report, err := read(t, raw)
			if err != nil || report.Bad != c.bad || report.Records != len(records) || report.NoData+report.Skipped != len(gaps) {
				t.Errorf("%s: %v, %+v", name, err, report)
			}
			if c.bad > 0 && (len(report.Problems) != 1 || report.Problems[0] != c.problem) {
				t.Errorf("%s: %q, want %q", name, report.Problems, c.problem)
			}
			for i := range c.want {
				if i >= len(records) || records[i] != c.want[i] {
					t.Errorf("%s: record %d:\n%+v, want\n%+v", name, i, records, c.want[i])
				}
			}
			for i := range c.gaps {
				if i >= len(gaps) || gaps[i] != c.gaps[i] {
					t.Errorf("%s: gap %d: %+v, want %+v", name, i, gaps, c.gaps[i])
				}
			}
		}
	}
}

// TestWholeFilesThatTellNothing are refused with what would help.
func TestWholeFilesThatTellNothing(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"a log without what is needed": {[]byte("version interface-id srcaddr start end\n"), "the flow log lacks the fields srcport, dstport, protocol, action, dstaddr. A flow log cannot be changed: make another one with --log-format '${account-id} "},
		"a field twice":                {[]byte("version srcaddr srcaddr\n"), "the field srcaddr stands there twice"},
		"cut gzip":                     {zipped(t, strings.Repeat(oneDefault, 1000))[:60], "unexpected EOF"},
		"gzip of nothing":              {[]byte{0x1f, 0x8b, 1, 2}, "not a whole gzip file"},
		"parquet that is none":         {[]byte("PAR1 and more"), "a broken file of Parquet"},
		"parquet with half a gigabyte": {[]byte("PAR1 nothing PAR1"), "its description has 543649385 bytes, and the file 17"},
		"parquet without what is needed": {parquetOf(t, []struct {
			Version int32 `parquet:"version"`
		}{{5}}), "the flow log lacks the fields"},
	} {
		if _, _, _, err := read(t, c.raw); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	var fields *FieldsError
	if _, _, _, err := read(t, []byte("version interface-id srcaddr start end\n")); !errors.As(err, &fields) || len(fields.Missing) != 5 {
		t.Errorf("%v: want a FieldsError", err)
	}
}

// TestFormatHasAllFields: the format that is recommended has every field.
func TestFormatHasAllFields(t *testing.T) {
	names := strings.Fields(strings.NewReplacer("${", "", "}", "").Replace(Format()))
	cols, err := columnsOf(names)
	if err != nil || len(cols.lacks()) > 0 || len(names) != int(fieldCount)-1 {
		t.Errorf("%v, lacks %v in %v", err, cols.lacks(), names)
	}
	if cols, _ := columnsOf(defaultFormat); len(cols.lacks()) != 3 {
		t.Errorf("the default format lacks %v", cols.lacks())
	}
}

// row is a row as AWS writes it, with some of its fields.
type row struct {
	Version       int32   `parquet:"version"`
	AccountID     *string `parquet:"account_id,optional"`
	InterfaceID   *string `parquet:"interface_id,optional"`
	SrcAddr       *string `parquet:"srcaddr,optional"`
	DstAddr       *string `parquet:"dstaddr,optional"`
	SrcPort       *int32  `parquet:"srcport,optional"`
	DstPort       *int32  `parquet:"dstport,optional"`
	Protocol      *int32  `parquet:"protocol,optional"`
	Packets       *int64  `parquet:"packets,optional"`
	Bytes         *int64  `parquet:"bytes,optional"`
	Start         int64   `parquet:"start"`
	End           int64   `parquet:"end"`
	Action        *string `parquet:"action,optional"`
	LogStatus     string  `parquet:"log_status"`
	TCPFlags      *int32  `parquet:"tcp_flags,optional"`
	FlowDirection *string `parquet:"flow_direction,optional"`
	Unheard       *string `parquet:"unheard_of,optional"`
}

func parquetOf[T any](t *testing.T, rows []T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.Compression(&parquet.Gzip))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ptr[T any](v T) *T { return &v }

// TestParquet reads the same as text.
func TestParquet(t *testing.T) {
	rows := []row{
		{
			Version: 5, AccountID: ptr("123456789012"), InterfaceID: ptr("eni-0a"), SrcAddr: ptr("10.0.0.9"), DstAddr: ptr("2001:db8::1"), SrcPort: ptr[int32](1),
			DstPort: ptr[int32](2), Protocol: ptr[int32](6), Start: 1418530010, End: 1418530070, Action: ptr("ACCEPT"), LogStatus: "OK",
		},
		{Version: 5, InterfaceID: ptr("eni-0a"), Start: 1418530010, End: 1418530070, LogStatus: "NODATA"},
	}
	for range 600 {
		rows = append(rows, row{
			Version: 5, AccountID: ptr("123456789012"), InterfaceID: ptr("eni-0a"), SrcAddr: ptr("10.0.0.9"), DstAddr: ptr("10.0.0.12"), SrcPort: ptr[int32](49761),
			DstPort: ptr[int32](3389), Protocol: ptr[int32](6), Packets: ptr[int64](20), Bytes: ptr[int64](4249), Start: 1418530010, End: 1418530070,
			Action: ptr("REJECT"), LogStatus: "OK", TCPFlags: ptr[int32](2), FlowDirection: ptr("ingress"), Unheard: ptr("x"),
		})
	}
	records, gaps, report, err := read(t, parquetOf(t, rows))
	if err != nil || report.Bad != 1 || report.Records != 600 || len(gaps) != 1 || !strings.HasPrefix(report.Problems[0], "row 1: dstaddr") {
		t.Fatalf("%v, %+v, %v", err, report, gaps)
	}
	text, _, _, err := read(t, []byte(oneDefault))
	if err != nil {
		t.Fatal(err)
	}
	want := text[0]
	want.Direction, want.Begins, want.Fresh = cloud.Ingress, flows.BeginsSource, true
	for i, got := range records {
		if got != want {
			t.Fatalf("row %d: %+v, want %+v", i, got, want)
		}
	}
}

// FuzzRead reads anything without a panic, within bounds, and loses no line in silence.
func FuzzRead(f *testing.F) {
	f.Add([]byte(oneDefault))
	f.Add([]byte(header + "11 eni-0a - - - - - - - - - - 1418530010 1418530070 - - NODATA -\n"))
	f.Add([]byte("PAR1xxxxPAR1"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		seen := 0
		report, err := Read(bytes.NewReader(raw), flows.Sink{
			Record: func(r *flows.Record) error {
				seen++
				if !r.Source.IsValid() || !r.Destination.IsValid() || r.Interface == "" || r.End.Before(r.Start) {
					t.Fatalf("%+v", *r)
				}
				return nil
			},
			Gap: func(*flows.Gap) error { seen++; return nil },
		})
		if seen != report.Records+report.NoData+report.Skipped {
			t.Fatalf("%d seen, %+v, %v", seen, report, err)
		}
	})
}

func BenchmarkText(b *testing.B) {
	raw := []byte(header + strings.Repeat("11 eni-0a 203.0.113.7 10.9.9.9 10.0.0.20 10.0.0.12 40000 443 6 3 ingress ACCEPT 1418530010 1418530070 2 84 OK -\n", 10000))
	b.ReportAllocs()
	for b.Loop() {
		report, err := Read(bytes.NewReader(raw), flows.Sink{Record: func(*flows.Record) error { return nil }})
		if err != nil || report.Records != 10000 {
			b.Fatal(err, report)
		}
	}
	b.ReportMetric(float64(b.N)*10000/b.Elapsed().Seconds(), "records/s")
}
