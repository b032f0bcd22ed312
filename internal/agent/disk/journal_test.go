package disk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/disk/disktest"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/seed"
)

func openAndLoad(t *testing.T, dir string) (*disk.Store, *disk.State) {
	t.Helper()
	s, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s, kept
}

// asText is what is kept, to be compared: groups are packed or not, and empty lists are none.
func asText(t *testing.T, k *disk.State) string {
	t.Helper()
	c := *k
	if c.Version = 0; c.Computed == nil {
		c.Computed = &enforcer.Computed{}
	}
	text, err := json.MarshalIndent(&c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), ": null", ": []")
}

// drawKept changes something of what is kept.
func drawKept(random *rand.Rand, last disk.State) disk.State {
	next, computed := last, enforcer.Computed{}
	if last.Computed != nil {
		computed = *last.Computed
	}
	toggle := func(n int) (string, bool) { return fmt.Sprintf("x%d", random.IntN(n)), random.IntN(3) == 0 }
	for range 1 + random.IntN(3) {
		name, gone := toggle(6)
		meta := metav1.ObjectMeta{Name: name, Generation: random.Int64()}
		switch random.IntN(4) {
		case 0:
			computed.Policies = put(computed.Policies, &v1beta2.NetworkPolicy{ObjectMeta: meta}, gone)
		case 1:
			members := []v1beta2.GroupMember{{IPs: []v1beta2.IPAddress{{10, 0, 0, byte(random.IntN(9))}}}}
			computed.AddressGroups = put(computed.AddressGroups, enforcer.NewAddressGroup(&v1beta2.AddressGroup{ObjectMeta: meta, GroupMembers: members}), gone)
		case 2:
			computed.AppliedToGroups = put(computed.AppliedToGroups, &v1beta2.AppliedToGroup{ObjectMeta: meta}, gone)
		default:
			next.Names = map[string][]fqdn.Address{name: {{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(9))})}}}
		}
	}
	next.Key, next.Computed = "vms/web", &computed
	return next
}

// put puts an object into a sorted list, or takes it out.
func put[T interface{ GetName() string }](list []T, x T, gone bool) []T {
	var out []T
	done := gone
	for _, o := range list {
		if o.GetName() == x.GetName() {
			continue
		}
		if !done && o.GetName() > x.GetName() {
			out, done = append(out, x), true
		}
		out = append(out, o)
	}
	if !done {
		out = append(out, x)
	}
	return out
}

// TestRecordedIsThere draws changes and power losses: what Record has said to be on the disk is
// there, as a whole, wherever the file of changes ends, and whatever was written besides.
func TestRecordedIsThere(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.Of(t), 7))
	dir := t.TempDir()
	s, _ := openAndLoad(t, dir)
	var last disk.State
	now := time.Now()
	for step := range 400 {
		before := disktest.Copy(t, dir)
		next := drawKept(random, last)
		revision, err := s.Record(next, nil)
		if err != nil {
			t.Fatal(err)
		}
		if revision < last.Revision {
			t.Fatalf("step %d: revision %d after %d", step, revision, last.Revision)
		}
		next.Revision = revision
		_, got := openAndLoad(t, disktest.Copy(t, dir))
		if d := cmp.Diff(asText(t, &next), asText(t, got)); d != "" {
			t.Fatalf("step %d: on the disk there is something else: %s", step, d)
		}
		tear(t, random, before, dir, &last, &next)
		last = next
		switch random.IntN(8) {
		case 0: // everything is written
			now = now.Add(time.Hour)
			if err := s.Save(now, true); err != nil {
				t.Fatal(err)
			}
		case 1: // the process is killed, and its disk goes on
			dir = disktest.Copy(t, dir)
			s, _ = openAndLoad(t, dir)
		}
	}
}

// tear loses power in the middle of what was written last: there is what was before, or after.
func tear(t *testing.T, random *rand.Rand, before, dir string, last, next *disk.State) {
	t.Helper()
	torn := disktest.Copy(t, dir)
	files, err := filepath.Glob(filepath.Join(torn, "changes-*"))
	if err != nil || len(files) == 0 {
		return
	}
	path := files[len(files)-1]
	from := int64(0)
	if info, err := os.Stat(filepath.Join(before, filepath.Base(path))); err == nil {
		from = info.Size()
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() == from {
		return
	}
	if err := os.Truncate(path, from+random.Int64N(info.Size()-from)); err != nil {
		t.Fatal(err)
	}
	_, got := openAndLoad(t, torn)
	if got == nil {
		got = &disk.State{}
	}
	if text := asText(t, got); text != asText(t, last) && text != asText(t, next) {
		t.Fatalf("after power was lost in the middle of a line there is something else: %s", text)
	}
}

// TestChangesWithoutWhatTheyFollow are not taken for everything.
func TestChangesWithoutWhatTheyFollow(t *testing.T) {
	dir := t.TempDir()
	s, _ := openAndLoad(t, dir)
	random := rand.New(rand.NewPCG(1, 2))
	var last disk.State
	for range 3 {
		last = drawKept(random, last)
		if _, err := s.Record(last, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Save(time.Now(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Record(drawKept(random, last), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	again, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := again.Load(); err == nil || !strings.Contains(err.Error(), "is not") {
		t.Errorf("loaded %+v, %v", kept, err)
	}
}

// TestLargeChangesAreWrittenWhole: what is too large to be written before each change is written as
// a whole, and the next change goes on from there.
func TestLargeChangesAreWrittenWhole(t *testing.T) {
	dir := t.TempDir()
	s, _ := openAndLoad(t, dir)
	large := &v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
	for n := range 20_000 {
		large.GroupMembers = append(large.GroupMembers, v1beta2.GroupMember{IPs: []v1beta2.IPAddress{{10, byte(n >> 16), byte(n >> 8), byte(n)}}})
	}
	k := disk.State{Key: "vms/web", Computed: &enforcer.Computed{AddressGroups: []*enforcer.AddressGroup{enforcer.NewAddressGroup(large)}}}
	revision, err := s.Record(k, nil)
	if err != nil || revision != 1 {
		t.Fatalf("revision %d, %v", revision, err)
	}
	now := time.Now()
	if !s.Due(now) {
		t.Error("it is not to be written soon")
	}
	if err := s.Save(now, false); err != nil {
		t.Fatal(err)
	}
	k.Computed = &enforcer.Computed{AddressGroups: k.Computed.AddressGroups, Policies: []*v1beta2.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p"}}}}
	if revision, err = s.Record(k, nil); err != nil || revision != 2 {
		t.Fatalf("revision %d, %v", revision, err)
	}
	if _, got := openAndLoad(t, dir); got.Revision != 2 || len(got.Computed.Policies) != 1 || len(got.Computed.AddressGroups[0].Object().GroupMembers) != 20_000 {
		t.Errorf("there is revision %d", got.Revision)
	}
}

// TestDiskThatHangs: a disk that does not answer delays a change by a second, and no more.
func TestDiskThatHangs(t *testing.T) {
	s, _ := openAndLoad(t, t.TempDir())
	late := make(chan time.Time, 1)
	late <- time.Time{}
	hold := disk.Hold(s)
	k := disk.State{Key: "vms/web", Computed: &enforcer.Computed{}}
	for want := uint64(1); want < 4; want++ {
		k.ReleasedUntil = time.Unix(int64(want), 0)
		if revision, err := s.Record(k, late); err == nil || revision != want {
			t.Fatalf("revision %d, %v", revision, err)
		}
	}
	hold()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		k.ReleasedUntil = k.ReleasedUntil.Add(time.Second)
		if _, err := s.Record(k, nil); err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(errors.New("it does not write again"))
		}
	}
}
