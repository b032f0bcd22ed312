package sharing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"
)

func newTestKube(clk *testclock.FakeClock) *Kube {
	return &Kube{Client: fake.NewClientset(), Namespace: "ns", Group: "replica", ConfigMap: "table", Count: 3, Lease: 16 * time.Second, Clock: clk}
}

// TestTableAsWritten: a table is read as it was written; one of which a line, a word or a digit is
// another tells nothing but its notes.
func TestTableAsWritten(t *testing.T) {
	t.Parallel()
	k := newTestKube(testclock.NewFakeClock(time.Unix(1e9, 0)))
	if got, err := k.Table(t.Context()); err != nil || !got.Unknown {
		t.Fatalf("absent: %+v, %v", got, err)
	}
	if _, err := k.PutTable(t.Context(), Table{Unknown: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Table(t.Context()); err != nil || !got.Unknown {
		t.Fatalf("of nobody: %+v, %v", got, err)
	}
	if err := k.Client.CoreV1().ConfigMaps("ns").Delete(t.Context(), "table", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := Table{Shards: []Shard{{Holder: "a", Term: 3, Before: "b", InOrder: true}, {Term: 1, Before: "a"}, {}, {Holder: "b", Term: 12}}, Notes: map[string]string{"x": "stopped"}}
	if _, err := k.PutTable(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	got, err := k.Table(t.Context())
	if want.Version = got.Version; err != nil || !gocmp.Equal(got, want) {
		t.Fatalf("%v %s", err, gocmp.Diff(want, got))
	}
	written, err := k.Client.CoreV1().ConfigMaps("ns").Get(t.Context(), "table", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(written.Data[shardsKey], "\n")
	for name, data := range map[string]map[string]string{
		"emptied":            nil,
		"no shards":          {shardsKey: ""},
		"cut off":            {shardsKey: strings.Join(lines[:2], "")},
		"cut off in a line":  {shardsKey: written.Data[shardsKey][:len(written.Data[shardsKey])-3]},
		"a line taken out":   {shardsKey: strings.Join(lines[1:], "")},
		"a line put in":      {shardsKey: "- 0 - false\n" + written.Data[shardsKey]},
		"lines in disorder":  {shardsKey: lines[1] + lines[0] + lines[2] + lines[3]},
		"freed by hand":      {shardsKey: strings.Replace(written.Data[shardsKey], "a 3 b", "- 3 b", 1)},
		"a word less":        {shardsKey: strings.Replace(written.Data[shardsKey], "a 3 b", "a b", 1)},
		"a term of letters":  {shardsKey: strings.Replace(written.Data[shardsKey], "a 3 b", "a x b", 1)},
		"its sum as well":    {shardsKey: "a x b true\n", sumKey: sum("a x b true\n")},
		"neither yes nor no": {shardsKey: "a 1 b perhaps\n", sumKey: sum("a 1 b perhaps\n")},
		"of no sum":          {sumKey: ""},
	} {
		cm := &corev1.ConfigMap{ObjectMeta: *written.ObjectMeta.DeepCopy(), Data: maps.Clone(written.Data)}
		maps.Copy(cm.Data, data)
		if data == nil {
			cm.Data = nil
		}
		got := tableOf(cm)
		if !got.Unknown || len(got.Shards) > 0 || data != nil && got.Notes["x"] != "stopped" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDamageStopsNobodyForLong: a member that holds shards stops when the table is damaged, and
// none begins before all must have noticed, and then all is as before. What a process holds whose
// seat was deleted goes to another one after a lease and not before, and that one shares again.
func TestDamageStopsNobodyForLong(t *testing.T) {
	t.Parallel()
	clk := testclock.NewFakeClock(time.Unix(1e9, 0))
	store := newMemory(3)
	a, b := newTestMember(t, store, "a", clk, nil), newTestMember(t, store, "b", clk, nil)
	times := a.Times
	keys := make([]string, 50)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
	}
	until := func(limit time.Duration, what string, done func() bool, members ...*Member) time.Duration {
		t.Helper()
		for from := clk.Now(); ; clk.Step(times.Period) {
			for _, m := range members {
				_ = m.step(t.Context()) // that there is no table is an error, and tried again
			}
			a.expire()
			b.expire()
			for _, key := range keys {
				_, one := a.Holds(key)
				if _, other := b.Holds(key); one && other {
					t.Fatalf("%s: both hold %s", what, key)
				}
			}
			took := clk.Since(from)
			switch {
			case done():
				return took
			case took > limit:
				t.Fatalf("%s: not after %s: a holds %d, b %d", what, took, len(a.holds()), len(b.holds()))
			}
		}
	}
	all := func() bool {
		return len(a.holds())+len(b.holds()) == testShards && len(a.holds()) > 0 && len(b.holds()) > 0
	}
	none := func() bool { return len(a.holds())+len(b.holds()) == 0 }
	until(times.Lease, "at first", all, a, b)
	store.version++
	store.table = Table{Version: fmt.Sprint(store.version), Unknown: true}
	until(0, "both have seen the damage", none, a, b)
	if took := until(2*times.Lease, "after the damage", all, a, b); took < times.Lease-times.Period {
		t.Errorf("shared again after %s, which is less than a lease", took)
	}
	store.version++
	i := slices.IndexFunc(store.slots, func(s Seat) bool { return s.Epoch == "b" })
	store.slots[i] = Seat{Name: store.slots[i].Name, Version: fmt.Sprint(store.version)}
	if took := until(2*times.Lease, "after b's seat was deleted", func() bool { return len(a.holds()) == testShards }, a); took < times.Lease {
		t.Errorf("a took what b held after %s, which is less than a lease", took)
	}
	until(3*times.Lease, "b is there again", all, a, b)
}
