package collect

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

const owner = "111122223333"

// bucket is a Storage in memory, with pages of some names.
type bucket struct {
	files  map[string]stored
	sorted []string
	opened map[string]int
	// away makes reading end before its end, so often for each file.
	away map[string]int
	down error
}

type stored struct {
	content []byte
	at      time.Time
}

func (b *bucket) Objects(_ context.Context, at cloud.Bucket, prefix, after string) (out []cloud.StoredObject, next string, err error) {
	if b.down != nil || at.Name != "logs" {
		return nil, "", cmp.Or(b.down, errors.New("no such bucket"))
	}
	if len(b.sorted) != len(b.files) {
		b.sorted = slices.Sorted(maps.Keys(b.files))
	}
	from, _ := slices.BinarySearch(b.sorted, max(prefix, after))
	for _, name := range b.sorted[from:] {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		if name == after {
			continue
		}
		if len(out) == 100 {
			return out, out[99].Name, nil
		}
		f := b.files[name]
		out = append(out, cloud.StoredObject{Name: name, Size: int64(len(f.content)), Changed: f.at, Tag: fmt.Sprint(len(f.content))})
	}
	return out, "", nil
}

func (b *bucket) Object(_ context.Context, _ cloud.Bucket, name string) (io.ReadCloser, error) {
	b.opened[name]++
	content := b.files[name].content
	if b.away[name] > 0 {
		b.away[name]--
		return io.NopCloser(io.MultiReader(bytes.NewReader(content[:len(content)/2]), broken{})), nil
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// file is one with connections of a minute, from ports of the client on.
func file(account string, minute time.Time, first, n int) []byte {
	var raw bytes.Buffer
	z := gzip.NewWriter(&raw)
	fmt.Fprintln(z, "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status")
	for i := range n {
		fmt.Fprintf(z, "2 %s eni-1 192.0.2.7 10.0.0.1 %d 443 6 2 100 %d %d ACCEPT OK\n", account, first+i, minute.Unix(), minute.Add(time.Minute).Unix())
	}
	_ = z.Close()
	return raw.Bytes()
}

func name(region string, at time.Time, n int) string {
	return fmt.Sprintf("corp/AWSLogs/%s/vpcflowlogs/%s/%s/%s_vpcflowlogs_%s_fl-0a_%s_%08x.log.gz", owner, region, at.Format("2006/01/02"), owner, region, at.Format("20060102T1504Z"), n)
}

func place() Place {
	return Place{Bucket: cloud.Bucket{Name: "logs"}, Prefix: "corp/", Owner: owner, Regions: []string{"eu-west-1", "us-east-1"}}
}

func own(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.0.0.1")} }

// TestRounds writes files of every kind as time goes on, among them broken ones, files of other
// writers, late ones and ones of the future, restarts now and then with what was kept, and wants
// every connection of a good file counted once.
func TestRounds(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := &bucket{files: map[string]stored{}, opened: map[string]int{}, away: map[string]int{}}
		c := New(place(), nil, own, noon)
		now, want, got, number := noon, 0, 0, 0
		var counted, wanted Counts
		take := func() {
			rows, err := c.Round(t.Context(), b, now)
			var away *fetchError
			if err != nil && !errors.As(err, &away) {
				t.Fatal(err)
			}
			for _, x := range rows {
				got += x.Connections
			}
		}
		restart := func() {
			n := c.Counts()
			counted.Foreign, counted.Odd, counted.Broken, counted.Files = counted.Foreign+n.Foreign, counted.Odd+n.Odd, counted.Broken+n.Broken, counted.Files+n.Files
			state, err := c.State()
			if err != nil {
				t.Fatal(err)
			}
			c = New(place(), state, own, now)
		}
		for range 60 {
			now = now.Add(time.Duration(r.IntN(300)) * time.Second)
			for range r.IntN(6) {
				number++
				minute, n := now.Add(-time.Duration(r.IntN(60))*time.Minute).Truncate(time.Minute), 1+r.IntN(30)
				at := name([]string{"eu-west-1", "us-east-1", "ap-south-1"}[r.IntN(3)], now, number)
				content, good := file(owner, minute, 1024+number*40, n), !strings.Contains(at, "ap-south-1")
				switch r.IntN(8) {
				case 0:
					content = slices.Concat(content[:10], []byte("nothing of gzip"))
					good = false
					if !strings.Contains(at, "ap-south-1") {
						wanted.Broken++
					}
				case 1:
					content = file("999999999999", minute, 1024, n)
					good = false
					if !strings.Contains(at, "ap-south-1") {
						wanted.Foreign += int64(n)
					}
				case 2:
					content = file(owner, now.Add(time.Hour), 1024, n)
					good = false
					if !strings.Contains(at, "ap-south-1") {
						wanted.Odd += int64(n)
					}
				case 3:
					at, good = strings.Replace(at, ".log.gz", ".txt", 1), false
				case 4:
					b.away[at] = 1 + r.IntN(2)
				}
				b.files[at] = stored{content, now}
				if good {
					want += n
				}
			}
			take()
			if r.IntN(10) == 0 { // when all is taken
				for range maxTries {
					now = now.Add(settled + time.Minute)
					take()
				}
				restart()
			}
		}
		for range maxTries {
			now = now.Add(settled + time.Minute)
			take()
		}
		restart()
		if got != want || counted.Broken != wanted.Broken || counted.Foreign != wanted.Foreign || counted.Odd != wanted.Odd {
			t.Errorf("seed %d: %d connections, want %d; %+v, want %+v", seed, got, want, counted, wanted)
		}
		for at, n := range b.opened {
			if n > maxTries {
				t.Errorf("%s is read %d times", at, n)
			}
		}
		clear(b.opened)
		if take(); len(b.opened) > 0 {
			t.Error("after a restart files are read again")
		}
	}
}

// TestManyFiles: a bucket with 10,000 files is read in rounds that have an end; a reader that
// begins anew reads what was written not long before, and nothing twice.
func TestManyFiles(t *testing.T) {
	b := &bucket{files: map[string]stored{}, opened: map[string]int{}, away: map[string]int{}}
	content := file(owner, noon.Add(-time.Hour), 1024, 1)
	for i := range 10_000 {
		at := noon.Add(-time.Duration(i%1200) * time.Minute)
		b.files[name("eu-west-1", at, i)] = stored{content, at}
	}
	fresh := 0
	for _, f := range b.files {
		if !f.at.Before(noon.Add(-catchUp)) {
			fresh++
		}
	}
	c := New(place(), nil, own, noon)
	for range 3 {
		if _, err := c.Round(t.Context(), b, noon); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.opened) != fresh || c.Counts().Waiting != 0 {
		t.Errorf("%d files are read, want the %d of the last half hour", len(b.opened), fresh)
	}
	former := map[string]map[string]time.Time{"read": {}}
	for name, f := range b.files {
		former["read"][formerMark(&cloud.StoredObject{Name: name, Tag: fmt.Sprint(len(f.content))})] = f.at
	}
	if state, err := json.Marshal(former); err != nil {
		t.Fatal(err)
	} else if c := New(place(), state, own, noon); !c.known {
		t.Error("what a former release has read is not known")
	} else if _, err := c.Round(t.Context(), b, noon); err != nil || c.Counts().Files != 0 {
		t.Errorf("%d files are read that a former release has read, %v", c.Counts().Files, err)
	}
	known := New(place(), []byte(`{"read":{}}`), own, noon)
	rounds := 0
	for len(b.opened) < len(b.files) && rounds < 100 {
		rounds++
		if _, err := known.Round(t.Context(), b, noon); err != nil {
			t.Fatal(err)
		}
	}
	if rounds != 10_000/maxFiles {
		t.Errorf("%d rounds, want %d files in each", rounds, maxFiles)
	}
	b.down = errors.New("access denied")
	if _, err := known.Round(t.Context(), b, noon); err == nil {
		t.Error("a bucket that cannot be listed is no error")
	}
	for _, bad := range []string{"", "{", `{"read":null}`, `[]`} {
		if New(place(), []byte(bad), own, noon).known {
			t.Errorf("%q is taken for what was read", bad)
		}
	}
}

func (b *bucket) Folders(_ context.Context, _ cloud.Bucket, prefix string) (out []string, err error) {
	for name := range b.files {
		rest, below := strings.CutPrefix(name, prefix)
		if folder, _, more := strings.Cut(rest, "/"); below && more {
			out = append(out, prefix+folder+"/")
		}
	}
	slices.Sort(out)
	return slices.Compact(out), b.down
}

// hourly is a file of Azure with a connection in each of so many minutes of an hour, whole or as it
// is while it is written.
func hourly(hour time.Time, minutes int, whole bool) []byte {
	var b strings.Builder
	b.WriteString(`{"records":[`)
	for m := range minutes {
		at := hour.Add(time.Duration(m) * time.Minute)
		if m > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"time":%q,"flowLogVersion":4,"macAddress":"0022480A0B0C","flowRecords":{"flows":[{"aclID":"a","flowGroups":[{"rule":"r","flowTuples":["%d,192.0.2.7,10.0.0.1,%d,443,6,I,B,NX,0,0,0,0","bad"]}]}]}}`,
			at.Format(time.RFC3339), at.UnixMilli(), 2000+m)
	}
	if whole {
		b.WriteString("]}")
	}
	return []byte(b.String())
}

// TestGrowingFiles reads files of Azure that grow by the minute, over restarts: every connection
// counts once, and so does every bad line; files of other subscriptions are not read.
func TestGrowingFiles(t *testing.T) {
	b := &bucket{files: map[string]stored{}, opened: map[string]int{}, away: map[string]int{}}
	p := Place{Bucket: cloud.Bucket{Name: "logs"}, Owner: "ab12-cd34", Azure: true}
	c := New(p, nil, own, noon)
	got, bad := 0, int64(0)
	at := func(subscription string, hour time.Time) string {
		return "flowLogResourceID=/" + subscription + "_NETWORKWATCHERRG/NETWORKWATCHER_EASTUS_VNET/" + hour.Format("y=2006/m=01/d=02/h=15/") + "m=00/macAddress=0022480A0B0C/PT1H.json"
	}
	const minutes = 150
	for m := range minutes + 10 {
		now := noon.Add(time.Duration(m) * time.Minute)
		if m < minutes {
			hour := now.Truncate(time.Hour)
			for _, subscription := range []string{"AB12-CD34", "FFFF-0000"} {
				name := at(subscription, hour)
				b.files[name] = stored{hourly(hour, int(now.Sub(hour)/time.Minute)+1, m%3 > 0), now}
			}
			b.sorted = nil
		}
		rows, err := c.Round(t.Context(), b, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			got += r.Connections
		}
		if m%40 == 39 {
			state, err := c.State()
			if err != nil {
				t.Fatal(err)
			}
			if m == 39 { // a former release has written it
				text := string(state)
				for name := range b.files {
					o := cloud.StoredObject{Name: name}
					text = strings.ReplaceAll(text, mark(&o), formerMark(&o))
				}
				if text == string(state) {
					t.Fatalf("%s names no file", state)
				}
				state = []byte(text)
			}
			for _, r := range c.Rest() {
				got += r.Connections
			}
			bad += c.Counts().Bad
			c = New(p, state, own, now)
		}
	}
	bad += c.Counts().Bad
	if got != minutes || bad != minutes {
		t.Errorf("%d connections and %d bad lines, want %d of both", got, bad, minutes)
	}
	for name := range b.opened {
		if strings.Contains(name, "FFFF") {
			t.Errorf("%s is somebody else's", name)
		}
	}
}

// TestFailedListing: files of Azure are looked for in all hours until those were listed and read
// once, and one that is dated ahead is forgotten like others.
func TestFailedListing(t *testing.T) {
	old := noon.Add(-10 * time.Hour)
	name := "flowLogResourceID=/AB12_NW/VNET/" + old.Format("y=2006/m=01/d=02/h=15/") + "m=00/macAddress=0022480A0B0C/PT1H.json"
	b := &bucket{files: map[string]stored{name: {hourly(old, 5, true), noon.Add(1000 * time.Hour)}}, opened: map[string]int{}, away: map[string]int{name: 1}}
	c := New(Place{Bucket: cloud.Bucket{Name: "away"}, Owner: "ab12", Azure: true}, []byte(`{"read":{}}`), own, noon)
	if _, err := c.Round(t.Context(), b, noon); err == nil {
		t.Fatal("a bucket that cannot be listed is no error")
	}
	c.Place.Bucket.Name = "logs"
	for range 2 { // the first time it is not read to its end
		_, _ = c.Round(t.Context(), b, noon)
	}
	if c.Counts().Records != 5 {
		t.Errorf("%+v", c.Counts())
	}
	b.files = nil
	if _, err := c.Round(t.Context(), b, noon.Add(window+2*time.Hour)); err != nil || len(c.state.Read)+len(c.state.Taken)+len(c.tries) > 0 {
		t.Errorf("%+v %v, %v", c.state, c.tries, err)
	}
}

// skewed is a bucket whose cloud has another clock than ours, which its answers show.
type skewed struct {
	*bucket
	by    time.Duration
	shown time.Duration
}

func (s *skewed) Ahead() time.Duration { return s.shown }

func (s *skewed) Objects(ctx context.Context, at cloud.Bucket, prefix, after string) ([]cloud.StoredObject, string, error) {
	s.shown = s.by
	return s.bucket.Objects(ctx, at, prefix, after)
}

// TestClockIsOff has a clock that is hours off that of the cloud, over a change of the day and a
// restart: every connection is told, once, in time, and with the time of our clock.
func TestClockIsOff(t *testing.T) {
	for _, by := range []time.Duration{-2 * time.Hour, 2 * time.Hour, 26 * time.Hour} {
		b := &skewed{bucket: &bucket{files: map[string]stored{}, opened: map[string]int{}, away: map[string]int{}}, by: by}
		c, want, got := New(place(), nil, own, noon), 0, 0
		now := noon
		round := func() {
			t.Helper()
			rows, err := c.Round(t.Context(), b, now)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				if got += r.Connections; r.Minute.After(now) || now.Sub(r.Minute) > 20*time.Minute {
					t.Errorf("by %s: at %s connections of %s are told", by, now, r.Minute)
				}
			}
		}
		for i := range 300 { // which is 15 hours
			theirs := now.Add(by)
			b.files[name("eu-west-1", theirs, i)] = stored{file(owner, theirs.Add(-5*time.Minute).Truncate(time.Minute), 1024+i*10, 7), theirs}
			want += 7
			round()
			if i == 150 {
				state, err := c.State()
				if err != nil {
					t.Fatal(err)
				}
				c = New(place(), state, own, now)
			}
			now = now.Add(3 * time.Minute)
		}
		for range 4 {
			round()
			now = now.Add(3 * time.Minute)
		}
		if n := c.Counts(); got != want || n.Odd != 0 || c.Ahead() != by {
			t.Errorf("by %s: %d connections, want %d; %+v, %s ahead", by, got, want, n, c.Ahead())
		}
	}
}

// TestBucketOfAllKinds reads 10,000 files, most of which are not as they should be: every good one
// is told once, and everything else is counted as what it is.
func TestBucketOfAllKinds(t *testing.T) {
	b := &bucket{files: map[string]stored{}, opened: map[string]int{}, away: map[string]int{}}
	minute := noon.Add(-20 * time.Minute)
	others, future, past := file("999999999999", minute, 1024, 3), file(owner, noon.Add(2*time.Hour), 1024, 3), file(owner, noon.Add(-30*time.Hour), 1024, 3)
	var want Counts
	connections := 0
	for i := range 10_000 {
		at, good, content := name("eu-west-1", minute, i), 0, []byte(nil)
		whole := func() []byte { return file(owner, minute, 1024+i%50_000, 3) }
		changed := noon.Add(-time.Duration(i%600) * time.Second)
		var files, broken, foreign, odd, bad int64 = 1, 0, 0, 0, 0
		switch i % 10 {
		case 0:
			content, broken = []byte("\x1f\x8bno gzip"), 1
		case 1: // still being written, or cut
			content, broken = whole(), 1
			content = content[:len(content)-12]
		case 2:
			content, foreign = others, 3
		case 3:
			content, odd = future, 3
		case 4:
			content, odd = past, 3
		case 5:
			at, files = strings.Replace(at, "_vpcflowlogs_", "_elasticloadbalancing_", 1), 0
		case 6:
			at, content, broken = strings.Replace(at, ".log.gz", ".parquet", 1), []byte("PAR1 nothing PAR1"), 1
		case 7: // a line that is none among good ones
			var raw bytes.Buffer
			z := gzip.NewWriter(&raw)
			fmt.Fprintf(z, "2 %s eni-1 192.0.2.7 10.0.0.1 %d 443 6 2 100 %d %d ACCEPT OK\n2 x\n", owner, 1024+i%50_000, minute.Unix(), minute.Add(time.Minute).Unix())
			_ = z.Close()
			content, bad, good = raw.Bytes(), 1, 1
		case 8: // of the day after, by its name, and by the clock of the cloud
			at, changed, files = name("eu-west-1", noon.Add(13*time.Hour), i), noon.Add(13*time.Hour), 0
		default:
			content, good = whole(), 3
		}
		b.files[at] = stored{content, changed}
		want.Files, want.Broken, want.Foreign, want.Odd, want.Bad = want.Files+files, want.Broken+broken, want.Foreign+foreign, want.Odd+odd, want.Bad+bad
		connections += good
	}
	c := New(place(), []byte(`{"read":{}}`), own, noon)
	got := 0
	for round := 0; round == 0 || c.Counts().Waiting > 0; round++ {
		rows, err := c.Round(t.Context(), b, noon)
		if err != nil || round > 20 {
			t.Fatal(round, err)
		}
		for _, r := range rows {
			got += r.Connections
		}
	}
	for _, r := range c.Rest() {
		got += r.Connections
	}
	if n := c.Counts(); n.Files != want.Files || n.Broken != want.Broken || n.Foreign != want.Foreign || n.Odd != want.Odd || n.Bad != want.Bad || got < connections || got > connections+3*1000 { // half a file may hold whole lines
		t.Errorf("%d connections of %d; %+v, want %+v", got, connections, n, want)
	}
	for at, n := range b.opened {
		if n != 1 {
			t.Errorf("%s is read %d times", at, n)
		}
	}
}
