package archive

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/flows/live"
)

var begun = time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)

// draw draws entries of some minutes: few workloads talk much, as in a cluster.
func draw(r *rand.Rand, n int, minutes int) []*live.Entry {
	zipf := rand.NewZipf(r, 1.2, 4, 299)
	owner := func(i uint64) (live.Owner, netip.Addr) {
		return live.Owner{Kind: "Pod", Namespace: fmt.Sprintf("team-%d", i%20), Name: fmt.Sprintf("app-%d-7d9f8b6c5-x%dz", i, i), Enforcer: fmt.Sprintf("worker-%d", i%50)}, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
	}
	out := make([]*live.Entry, n)
	for i := range out {
		start := begun.Add(time.Duration(i*minutes/n) * time.Minute)
		c, s := zipf.Uint64(), zipf.Uint64()
		e := &live.Entry{Start: start, First: start.Add(time.Duration(r.IntN(60000)) * time.Millisecond), Direction: "Through", Protocol: 6, Port: uint16(80 + s%40), Verdict: "Allow", Connections: int64(1 + r.IntN(20))}
		e.Last = e.First.Add(time.Duration(r.IntN(60000)) * time.Millisecond)
		e.ClientOwner, e.Client = owner(c)
		e.ServerOwner, e.Server = owner(s)
		e.Enforcer = e.ServerOwner.Enforcer
		e.Cause = analysis.TrafficCause{Cause: "Policy", Type: "AntreaNetworkPolicy", Namespace: e.ServerOwner.Namespace, Name: fmt.Sprintf("p%d", s), UID: fmt.Sprintf("0000-%d", s), Direction: "In", Rule: "r", Index: int32(s % 3)}
		if c%3 == 0 {
			e.Before = analysis.TrafficCause{Cause: "Policy", Type: "AntreaNetworkPolicy", Namespace: e.ClientOwner.Namespace, Name: fmt.Sprintf("p%d", c), UID: fmt.Sprintf("0000-%d", c), Direction: "Out", Rule: "r", Index: int32(c % 3)}
		}
		if s%5 == 0 {
			e.Asked, e.AskedOwner = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, byte(s)}), 80), live.Owner{Kind: "Service", Namespace: e.ServerOwner.Namespace, Name: "svc"}
		}
		if s%17 == 0 {
			e.Verdict, e.Differs = "Drop", ""
		}
		e.Bytes, e.ReplyBytes = int64(r.IntN(1<<20)), int64(r.IntN(1<<22))
		out[i] = e
	}
	return out
}

func all(t *testing.T, a *Archive, since, until time.Time) []*live.Entry {
	t.Helper()
	var out []*live.Entry
	if _, err := a.Scan(since, until, func(e *live.Entry) bool { out = append(out, e); return true }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRoundTrip writes entries, reads them with another Archive, and reads parts of the time.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	dir := t.TempDir()
	a, err := Open(filepath.Join(dir, "flows"), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := draw(rand.New(rand.NewPCG(seed, 1)), 3000, 10)
	for i := range 2 { // in two files, of which one is written twice by different processes
		from := begun.Add(time.Duration(5*i) * time.Minute)
		part := slices.DeleteFunc(slices.Clone(want), func(e *live.Entry) bool { return e.Start.Before(from) || !e.Start.Before(from.Add(5*time.Minute)) })
		for _, half := range [][]*live.Entry{part[:len(part)/2], part[len(part)/2:]} {
			if err := a.Write(half, from, from.Add(5*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b, err := Open(filepath.Join(dir, "flows"), 0)
	if err != nil {
		t.Fatal(err)
	}
	compare := func(got, want []*live.Entry) {
		t.Helper()
		texts := func(list []*live.Entry) []string {
			var out []string
			for _, e := range list {
				out = append(out, fmt.Sprintf("%+v", *e))
			}
			slices.Sort(out)
			return out
		}
		if !reflect.DeepEqual(texts(got), texts(want)) {
			t.Errorf("%d entries came back of %d, or others", len(got), len(want))
		}
	}
	compare(all(t, b, begun, begun.Add(time.Hour)), want)
	// What rules decided is the same from sums and from rows, whatever part is asked for.
	for _, from := range []time.Time{begun, begun.Add(3 * time.Minute), begun.Add(5 * time.Minute)} {
		got, wanted := map[live.RuleKey]live.Hit{}, map[live.RuleKey]live.Hit{}
		add := func(to map[live.RuleKey]live.Hit, e *live.Entry) {
			for _, c := range []live.Cause{e.Cause, e.Before} {
				k := live.RuleKey{Type: c.Type, Namespace: c.Namespace, Name: c.Name + " for " + e.ClientOwner.Namespace + e.ServerOwner.Namespace + e.Differs, Direction: c.Direction, Rule: c.Rule, Index: c.Index}
				if c.Cause == "Policy" && e.Connections > 0 {
					x := to[k]
					x.Connections += e.Connections
					if at := e.Last.Truncate(time.Millisecond); at.After(x.Last) {
						x.Last = at
					}
					to[k] = x
				}
			}
		}
		read := 0
		if _, err := b.ScanDecided(from, begun.Add(time.Hour), func(e *live.Entry) bool { read++; add(got, e); return true }); err != nil {
			t.Fatal(err)
		}
		for _, e := range want {
			if !e.Start.Before(from) {
				add(wanted, e)
			}
		}
		if !maps.Equal(got, wanted) {
			t.Errorf("since %s: %d rules have decided, want %d, or others", from, len(got), len(wanted))
		}
		if read == len(want) {
			t.Error("all rows are read")
		}
	}
	from, until := begun.Add(3*time.Minute), begun.Add(7*time.Minute)
	compare(all(t, b, from, until), slices.DeleteFunc(slices.Clone(want), func(e *live.Entry) bool { return e.Start.Before(from) || !e.Start.Before(until) }))
	if s := b.Stats(); s.Files != 4 || s.Unread != 0 {
		t.Errorf("%+v", s)
	}
	n := 0
	if _, err := b.Scan(begun, until, func(*live.Entry) bool { n++; return n < 10 }); err != nil || n != 10 {
		t.Errorf("%d entries after the last one that is wanted: %v", n, err)
	}
}

// TestFilesOfFormerVersions reads a file that lacks the columns that were added later.
func TestFilesOfFormerVersions(t *testing.T) {
	a, err := Open(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	type former struct {
		Minute     int64  `parquet:"minute,timestamp(millisecond),delta"`
		Client     string `parquet:"client,dict"`
		Server     string `parquet:"server,dict"`
		Cause      string `parquet:"cause,dict"`
		PolicyName string `parquet:"policy_name,dict"`
	}
	var raw bytes.Buffer
	w := parquet.NewGenericWriter[former](&raw)
	if _, err := w.Write([]former{{begun.UnixMilli(), "10.0.0.1", "10.0.0.2", "Policy", "p"}}); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.dir, fmt.Sprintf("flows-%s-%s-0.parquet", begun.Format(layout), begun.Add(time.Minute).Format(layout))), raw.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got := all(t, a, begun, begun.Add(time.Minute))
	if len(got) != 1 || got[0].Client.String() != "10.0.0.1" || got[0].Cause != (analysis.TrafficCause{Cause: "Policy", Name: "p"}) || got[0].Before != (analysis.TrafficCause{}) {
		t.Errorf("%+v", got)
	}
	n := 0
	if _, err := a.ScanDecided(begun, begun.Add(time.Minute), func(e *live.Entry) bool {
		if n++; e.Cause.Name != "p" || e.Before.Cause != "" {
			t.Errorf("%+v", e)
		}
		return true
	}); err != nil || n != 1 {
		t.Error(n, err)
	}
}

// TestSizeAtRest measures what an entry takes, and bounds the folder.
func TestSizeAtRest(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	entries := draw(rand.New(rand.NewPCG(1, 1)), 50_000, 10)
	slices.SortFunc(entries, func(a, b *live.Entry) int {
		return strings.Compare(a.Enforcer+a.Server.String()+a.Client.String(), b.Enforcer+b.Server.String()+b.Client.String())
	})
	if err := a.Write(entries, begun, begun.Add(10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	size := a.Stats().Bytes
	t.Logf("%.1f bytes an entry", float64(size)/float64(len(entries)))
	if size > 20*int64(len(entries)) {
		t.Errorf("%d entries take %d bytes", len(entries), size)
	}
	a.most = 3*size + size/2
	for i := 1; i < 6; i++ {
		if err := a.Write(entries, begun.Add(time.Duration(i)*10*time.Minute), begun.Add(time.Duration(i+1)*10*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := a.files()
	if err != nil || len(files) != 3 || !files[2].from.Equal(begun.Add(30*time.Minute)) || a.Stats().Forgotten != 3 || a.Stats().Bytes > a.most {
		t.Errorf("%d files, %+v, %v", len(files), a.Stats(), err)
	}
}

// TestBrokenFiles reads a folder with what crashes, disks and other people leave in it.
func TestBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	entries := draw(rand.New(rand.NewPCG(2, 1)), 100, 1)
	if err := a.Write(entries, begun, begun.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	files, _ := a.files()
	good, err := os.ReadFile(files[0].path)
	if err != nil {
		t.Fatal(err)
	}
	var other bytes.Buffer
	type foreign struct{ A, B string }
	w := parquet.NewGenericWriter[foreign](&other)
	if _, err := w.Write([]foreign{{"a", "b"}}); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	later := begun.Add(time.Minute)
	name := func(n int) string {
		return filepath.Join(dir, fmt.Sprintf("flows-%s-%s-%d.parquet", later.Format(layout), later.Add(time.Minute).Format(layout), n))
	}
	broken := [][]byte{nil, []byte("PAR1"), good[:len(good)/2], slices.Concat(good[:40], bytes.Repeat([]byte{0xff}, 400), good[440:]), other.Bytes()}
	for i, raw := range broken {
		if err := os.WriteFile(name(i), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, left := range []string{filepath.Base(name(9)) + ".part", "notes.txt", "flows-yesterday.parquet"} {
		if err := os.WriteFile(filepath.Join(dir, left), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := all(t, b, begun, begun.Add(time.Hour)); len(got) != len(entries) {
		t.Errorf("%d entries of %d beside broken files", len(got), len(entries))
	}
	if s := b.Stats(); s.Unread < len(broken)-1 {
		t.Errorf("%+v", s)
	}
	for left, want := range map[string]bool{filepath.Base(name(9)) + ".part": false, "notes.txt": true, "flows-yesterday.parquet": true} {
		if _, err := os.Stat(filepath.Join(dir, left)); (err == nil) != want {
			t.Errorf("%s is there: %t", left, err == nil)
		}
	}
	if _, err := Open(filepath.Join(dir, "notes.txt"), 0); err == nil || !strings.Contains(err.Error(), "flows on disk") {
		t.Errorf("a file in the place of the folder: %v", err)
	}
	if _, err := b.Scan(begun, begun.Add(time.Hour), func(*live.Entry) bool { return true }); err != nil {
		t.Error(err)
	}
}

// source has an entry in each minute.
type source struct{ asked [][2]time.Time }

func (s *source) Minutes(since, until time.Time) (out []*live.Entry) {
	s.asked = append(s.asked, [2]time.Time{since, until})
	for m := since; m.Before(until); m = m.Add(time.Minute) {
		a := netip.MustParseAddr("10.0.0.1")
		out = append(out, &live.Entry{Start: m, First: m, Last: m, Client: a, Server: a, Connections: 1})
	}
	return out
}

// TestKeep runs for hours with a disk that fails in between: every minute is kept once.
func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flows")
	a, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := begun.Add(7*time.Minute + 20*time.Second)
	k := keeper{archive: a, source: &source{}, written: now.Truncate(time.Minute)}
	away, failed := filepath.Join(filepath.Dir(dir), "away"), 0
	for i := range 120 {
		switch i {
		case 40:
			if err := os.Rename(dir, away); err != nil {
				t.Fatal(err)
			}
		case 60:
			if err := os.Rename(away, dir); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Minute)
		if k.step(now) != nil {
			failed++
		}
	}
	if err := k.end(now); err != nil || failed == 0 {
		t.Errorf("%d steps failed, and the end with %v", failed, err)
	}
	counts := map[time.Time]int{}
	for _, e := range all(t, a, begun, begun.Add(24*time.Hour)) {
		counts[e.Start]++
	}
	from, until := begun.Add(7*time.Minute), begun.Add(128*time.Minute)
	for m := from; m.Before(until); m = m.Add(time.Minute) {
		if counts[m] != 1 {
			t.Errorf("minute %s is kept %d times", m.Format(time.TimeOnly), counts[m])
		}
	}
	if len(counts) != int(until.Sub(from)/time.Minute) {
		t.Errorf("%d minutes", len(counts))
	}
}

// TestLate keeps what comes after its time was written, in files of its own, and tells until when
// all is written.
func TestLate(t *testing.T) {
	a, err := Open(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	entries := draw(rand.New(rand.NewPCG(5, 1)), 200, 40)
	if err := a.Late(entries); err != nil {
		t.Fatal(err)
	}
	if err := a.Late(nil); err != nil {
		t.Fatal(err)
	}
	if got := all(t, a, begun, begun.Add(time.Hour)); len(got) != len(entries) || a.Stats().Files != 4 {
		t.Errorf("%d entries in %d files, want %d in 4", len(got), a.Stats().Files, len(entries))
	}
	k := keeper{archive: a, source: nothing{}, written: begun}
	if err := k.step(begun.Add(30 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	a.Hold(func(written time.Time) {
		if !written.Equal(begun.Add(10 * time.Minute)) {
			t.Errorf("written until %s", written)
		}
	})
}

// nothing is a Source that has seen nothing.
type nothing struct{}

func (nothing) Minutes(time.Time, time.Time) []*live.Entry { return nil }

// BenchmarkScanDecided reads what rules have decided of a file of 50,000 entries, and all of it.
func BenchmarkScanDecided(b *testing.B) {
	a, err := Open(b.TempDir(), 0)
	if err != nil {
		b.Fatal(err)
	}
	entries := draw(rand.New(rand.NewPCG(1, 1)), 50_000, 10)
	if err := a.Write(entries, begun, begun.Add(10*time.Minute)); err != nil {
		b.Fatal(err)
	}
	for name, scan := range map[string]func(time.Time, time.Time, func(*live.Entry) bool) (time.Time, error){"decided": a.ScanDecided, "all": a.Scan} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := scan(begun, begun.Add(time.Hour), func(*live.Entry) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(entries)), "ns/entry")
		})
	}
}
