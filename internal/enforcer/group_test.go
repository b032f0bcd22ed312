package enforcer

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// groupOfPods returns a group with everything in it that a member can have.
func groupOfPods(n int) *v1beta2.AddressGroup {
	g := &v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "u", ResourceVersion: "7"}}
	for i := range n {
		g.GroupMembers = append(g.GroupMembers, v1beta2.GroupMember{
			Pod: &v1beta2.PodReference{Namespace: "n", Name: fmt.Sprintf("p%08d", i)}, IPs: []v1beta2.IPAddress{{10, byte(i >> 16), byte(i >> 8), byte(i)}},
			Ports: []v1beta2.NamedPort{{Name: "http", Port: 80, Protocol: v1beta2.ProtocolTCP}},
		})
	}
	return g
}

// TestPackedGroups are what they were made of, also by way of a file.
func TestPackedGroups(t *testing.T) {
	for _, n := range []int{0, 1, mostPacked, mostPacked + 1} {
		want := groupOfPods(n)
		packed := packedGroup(want)
		if (packed.whole == nil) != (n <= mostPacked) {
			t.Errorf("%d members: packed %t", n, packed.whole == nil)
		}
		text, err := json.Marshal(packed)
		if err != nil {
			t.Fatal(err)
		}
		var read AddressGroup
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		for _, got := range []*AddressGroup{packed, NewAddressGroup(want), &read} {
			if d := cmp.Diff(want, got.Object()); d != "" || got.GetName() != "g" {
				t.Errorf("%d members: %s", n, d)
			}
		}
	}
	if err := json.Unmarshal([]byte(`{"metadata": 1}`), new(AddressGroup)); err == nil {
		t.Error("what is no group is read as one")
	}
}

// TestPackedGroupsAreSmall bounds what 100,000 members in 20,000 groups take: about 6 MB packed,
// and 29 MB otherwise.
func TestPackedGroupsAreSmall(t *testing.T) {
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	kept := make([]*AddressGroup, 20_000)
	for i := range kept {
		kept[i] = packedGroup(groupOfPods(5))
	}
	took := live() - before
	runtime.KeepAlive(kept)
	if took > 14e6 {
		t.Errorf("they take %d bytes", took)
	}
}
