package flows

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	client = netip.MustParseAddr("10.0.0.9")
	server = netip.MustParseAddr("10.0.0.12")
)

// request is a record of what a client sends to a server, as the interface of the server sees it.
func request(port uint16) Record {
	return Record{
		Start: noon, End: noon.Add(30 * time.Second), Interface: "eni-0a", Direction: cloud.Ingress, Source: client, Destination: server, SourcePort: 40000,
		DestinationPort: port, Protocol: cloud.TCP, Accepted: true, Packets: 3, Bytes: 180, Begins: BeginsSource, Fresh: true,
	}
}

// answerTo is the record of the answers.
func answerTo(r Record) Record {
	r.Source, r.Destination, r.SourcePort, r.DestinationPort = r.Destination, r.Source, r.DestinationPort, r.SourcePort
	r.Direction, r.Begins, r.Packets, r.Bytes = cloud.Egress, r.Begins.turned(), 2, 5000
	return r
}

func sum(t *testing.T, records ...Record) []Row {
	t.Helper()
	s := NewSummer(func(string) []netip.Addr { return []netip.Addr{server} }, 0)
	for i := range records {
		s.Add(&records[i])
	}
	return s.Take(time.Time{})
}

// blind takes away what a record shows of the end that began.
func blind(r Record) Record { r.Begins, r.Fresh = BeginsUnknown, false; return r }

func TestRequestAndAnswerAreOneConnection(t *testing.T) {
	r := request(443)
	dropped := r
	dropped.Accepted = false
	icmp := blind(r)
	icmp.Protocol, icmp.SourcePort, icmp.DestinationPort = cloud.ICMP, 0, 0
	placeless := blind(r)
	placeless.Direction = ""
	for name, c := range map[string]struct {
		records                           []Record
		direction                         cloud.Direction
		port                              uint16
		accepted, guessed, midway, noBack bool
	}{
		"both":                        {[]Record{r, answerTo(r)}, cloud.Ingress, 443, true, false, false, false},
		"the answer first":            {[]Record{answerTo(r), r}, cloud.Ingress, 443, true, false, false, false},
		"a high port":                 {[]Record{request(60000)}, cloud.Ingress, 60000, true, false, false, true},
		"the answer alone":            {[]Record{answerTo(r)}, cloud.Ingress, 443, true, false, false, false},
		"without flags":               {[]Record{blind(answerTo(r)), blind(r)}, cloud.Ingress, 443, true, true, true, false},
		"dropped":                     {[]Record{dropped}, cloud.Ingress, 443, false, false, false, true},
		"dropped, without flags":      {[]Record{blind(dropped)}, cloud.Ingress, 443, false, false, true, true},
		"ping and answer":             {[]Record{icmp, answerTo(icmp)}, cloud.Ingress, 0, true, true, true, false},
		"the way by addresses":        {[]Record{placeless}, cloud.Ingress, 443, true, true, true, true},
		"a guess that flags overrule": {[]Record{blind(request(60000)), answerTo(request(60000))}, cloud.Ingress, 60000, true, false, false, false},
	} {
		rows := sum(t, c.records...)
		if len(rows) != 1 {
			t.Errorf("%s: %d rows: %+v", name, len(rows), rows)
			continue
		}
		got := rows[0]
		if got.Direction != c.direction || got.Port != c.port || got.Accepted != c.accepted || got.Guessed != c.guessed || got.Midway != c.midway || (got.ReplyBytes == 0) != c.noBack ||
			got.Client != client || got.Server != server || got.Connections != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAnswerDropped: a filter without memory stops what comes back, which is no refusal of the
// connection.
func TestAnswerDropped(t *testing.T) {
	r := request(443)
	back := answerTo(r)
	back.Accepted = false
	rows := sum(t, r, back)
	if len(rows) != 1 || !rows[0].Accepted || !rows[0].ReplyDropped {
		t.Errorf("%+v", rows)
	}
}

// TestOrderAndRepetitionChangeNothing: rows are the same whatever order records come in, and
// whatever comes twice.
func TestOrderAndRepetitionChangeNothing(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 7))
		var records []Record
		for i := range 60 {
			one := request([]uint16{22, 80, 443, 50000}[r.IntN(4)])
			one.SourcePort = uint16(40000 + r.IntN(20))
			one.Start = noon.Add(time.Duration(r.IntN(300)) * time.Second)
			one.End = one.Start.Add(time.Duration(1+r.IntN(59)) * time.Second)
			one.Bytes = uint64(i)
			one.Accepted = r.IntN(4) > 0
			if r.IntN(3) == 0 {
				one = blind(one)
			}
			records = append(records, one)
			if one.Accepted && r.IntN(2) == 0 {
				records = append(records, answerTo(one))
			}
		}
		want := sum(t, records...)
		connections := 0
		for _, row := range want {
			connections += row.Connections
		}
		if connections == 0 {
			t.Fatal("no rows")
		}
		again := append(records[:len(records):len(records)], records[:10]...)
		r.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		if got := sum(t, again...); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d:\n%+v, want\n%+v", seed, got, want)
		}
	}
}

// TestWindowsAreTakenOnce: rows are taken when their window is over, and the end that began a
// connection is remembered.
func TestWindowsAreTakenOnce(t *testing.T) {
	s := NewSummer(func(string) []netip.Addr { return nil }, 2)
	first := request(60000)
	later := blind(answerTo(request(60000)))
	later.Start, later.End = noon.Add(90*time.Second), noon.Add(110*time.Second)
	unknown := blind(request(1))
	unknown.Direction = ""
	more := request(7)
	for _, r := range []Record{first, later, unknown, more} {
		s.Add(&r)
	}
	if c := s.Counts(); c != (Counts{Records: 4, Placeless: 1, Over: 1}) {
		t.Errorf("%+v", c)
	}
	if rows := s.Take(noon.Add(time.Minute)); len(rows) != 1 || rows[0].Minute != noon || rows[0].Midway {
		t.Errorf("%+v", rows)
	}
	rows := s.Take(time.Time{})
	if len(rows) != 1 || rows[0].Port != 60000 || rows[0].Guessed || !rows[0].Midway || rows[0].Client != client || rows[0].ReplyBytes != 5000 {
		t.Errorf("%+v", rows)
	}
	if rows := s.Take(time.Time{}); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}
